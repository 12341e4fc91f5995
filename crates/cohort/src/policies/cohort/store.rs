//! The posteriors of users in one store, which keeps what each way of serving them needs.
//!
//! | users | what is stored |
//! | --- | --- |
//! | served in rounds | every posterior, updated by every reward ([`Posteriors`]) |
//! | one at a time, with rewards since the last refit | the updated posterior, of as many users as fit into [`UPDATED_BYTES`] |
//! | one at a time, others | a cache: the posterior follows from statistics and population |

use super::belief_cache::BeliefCache;
use super::posteriors::Posteriors;
use crate::population::Belief;

/// Memory for updated posteriors, and for cached ones.
const UPDATED_BYTES: usize = 32 << 20;
const CACHED_BYTES: usize = 8 << 20;

/// The store.
pub(super) struct Store {
    /// Users that are served in rounds; `None` until the first round.
    pub rounds: Option<Posteriors>,
    /// Users that come one at a time, by ledger slot: posteriors that rewards have updated …
    pub updated: BeliefCache,
    /// … and those that follow from statistics and population.
    cached: BeliefCache,
}

impl Store {
    /// Without users, in R^d.
    pub fn new(dim: usize) -> Self {
        Self {
            rounds: None,
            updated: BeliefCache::new(dim, UPDATED_BYTES),
            cached: BeliefCache::new(dim, CACHED_BYTES),
        }
    }

    /// The posteriors of rounds, if this user is served in rounds.
    pub fn in_rounds(&self, user: usize) -> Option<&Posteriors> {
        self.rounds.as_ref().filter(|posteriors| user < posteriors.users())
    }

    /// The number of users that are served in rounds.
    pub fn users_in_rounds(&self) -> usize {
        self.rounds.as_ref().map_or(0, Posteriors::users)
    }

    /// The belief about a user that comes one at a time; `infer` computes it if it is not stored.
    pub fn get_or_infer(&mut self, slot: usize, infer: impl FnOnce() -> Belief) -> Option<&Belief> {
        if self.updated.get(slot).is_some() {
            return self.updated.get(slot);
        }
        Some(self.cached.get_or(slot, infer))
    }

    /// The same, to be updated by a reward.
    pub fn updated_or_infer(&mut self, slot: usize, infer: impl FnOnce() -> Belief) -> &mut Belief {
        let cached = self.cached.take(slot);
        self.updated.get_or(slot, || cached.unwrap_or_else(infer))
    }

    /// Removes what is stored of a user that comes one at a time.
    pub fn remove(&mut self, slot: usize) {
        self.updated.take(slot);
        self.cached.take(slot);
    }

    /// Removes what is stored of all users that come one at a time.
    pub fn clear_online(&mut self) {
        self.updated.clear();
        self.cached.clear();
    }

    /// Replaces everything by saved posteriors.
    pub fn restore(&mut self, updated: BeliefCache, rounds: Option<Posteriors>) {
        (self.updated, self.rounds) = (updated, rounds);
        self.cached.clear();
    }
}
