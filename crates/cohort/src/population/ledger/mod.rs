//! The sufficient statistics of every user with rewards: Σzzᵀ, z = (x, 1, y).
//!
//! | file | question it answers |
//! | --- | --- |
//! | `index` | which slot has a user? |
//! | `rows` | where are the rewards of users who have few? |
//! | `sums` | how are rows added up, for one user and for eight? |
//! | `learning` | what does a reward change? |
//! | `changing` | what else changes: who is there, what is forgotten? |
//! | `reading` | how are sums read, eight users at a time? |
//! | `saved` | how is all of it written and read? |
//! | `pieces` | how do copies share memory? |
//! | `histogram` | how many users have how many rewards? |
//!
//! Ids are names: a user takes memory from its first reward on, whatever its id. Users have slots,
//! numbered in the order of first rewards. A user is rows (x, y) as long as these are fewer numbers
//! than its packed sums, and from then on packed sums in a lane of a block of eight users.
//!
//! Packed sums are the lower triangle of Σzzᵀ row by row: with D = d + 1 first the packed gram
//! matrix of (x, 1), whose last row is Σx and n, then the D numbers Σxy and Σy, then Σy². Rewards
//! count from the first one that was ever seen, so that rewards around a million keep their digits.
//!
//! A copy shares all numbers with what it was copied from until one of the two learns, and then
//! only what is written to is copied: a refit or a snapshot works on a copy while decisions go on.

mod changing;
mod histogram;
mod index;
mod learning;
mod reading;
mod rows;
mod saved;
mod sums;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use self::index::{NONE, SlotIndex};
use self::learning::PendingRound;
use self::rows::{RowPool, RowRing};
use super::lanes::{F64x8, LANES};
use crate::algebra::packed_len;
use crate::pieces::Pieces;

pub use histogram::Histogram;
pub use rows::Rows;

/// The statistics of all users who have rewards.
#[derive(Clone, Debug)]
pub struct Ledger {
    dim: usize,
    /// The factor by which earlier rewards are discounted at each new one; 1 keeps all.
    memory: f64,
    origin: Option<f64>,
    rewards: f64,
    answered: usize,
    /// By slot.
    ids: Pieces<usize>,
    homes: Pieces<Home>,
    counts: Pieces<f64>,
    /// Slots before this one, as many as can be, are those of the users of the same number, unless they
    /// are gone, and are not in the index.
    straight: usize,
    /// Free slots of removed users; a new user gets the first.
    free_slots: BTreeSet<u32>,
    index: SlotIndex,
    rows: RowPool,
    blocks: Pieces<F64x8>,
    /// The slot of every lane of the blocks that is taken: there are no free ones before the last.
    owners: Pieces<u32>,
    histogram: Histogram,
    /// Users below this have packed sums.
    in_rounds: usize,
    /// Rounds that are not yet added to the sums.
    waiting: Vec<Arc<PendingRound>>,
}

/// Where the numbers of a slot are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Home {
    /// The user was removed.
    Gone,
    /// Rows of its own.
    Rows(RowRing),
    /// A lane of the blocks, counted over all of them.
    Packed(u32),
}

/// The discount factor of a half-life, counted in a user's own rewards; 1 without a half-life.
pub fn memory_of(half_life: Option<f64>) -> f64 {
    half_life.map_or(1.0, |rewards| 0.5_f64.powf(1.0 / rewards))
}

impl Ledger {
    /// Empty. `memory` is the factor by which earlier rewards are discounted at each new one: see
    /// [`memory_of`].
    pub fn new(dim: usize, memory: f64) -> Self {
        Self {
            dim,
            memory,
            origin: None,
            rewards: 0.0,
            answered: 0,
            ids: Pieces::new(1),
            homes: Pieces::new(1),
            counts: Pieces::new(1),
            straight: 0,
            free_slots: BTreeSet::new(),
            index: SlotIndex::new(),
            rows: RowPool::new(dim),
            blocks: Pieces::new(packed_len(dim + 2)),
            owners: Pieces::new(1),
            histogram: Histogram::default(),
            in_rounds: 0,
            waiting: Vec::new(),
        }
    }

    /// d, without the constant.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// How many numbers the packed sums of a user are.
    pub fn packed_len(&self) -> usize {
        packed_len(self.dim + 2)
    }

    /// The factor by which earlier rewards are discounted at each new one.
    pub fn memory(&self) -> f64 {
        self.memory
    }

    /// The origin of rewards: the first one ever seen, 0 before that.
    pub fn origin(&self) -> f64 {
        self.origin.unwrap_or(0.0)
    }

    /// The number of rewards of all users.
    pub fn rewards(&self) -> f64 {
        self.rewards
    }

    /// The number of users with rewards.
    pub fn answered(&self) -> usize {
        self.answered
    }

    /// The number of slots, those of removed users included.
    pub fn slots(&self) -> usize {
        self.ids.len()
    }

    /// The slot of a user who has rewards.
    pub fn slot_of(&self, user: usize) -> Option<usize> {
        if user < self.straight && self.homes.value(user) != Home::Gone {
            return Some(user);
        }
        self.index.find(user, |slot| self.ids.value(slot as usize)).map(|slot| slot as usize)
    }

    /// The user of a slot; `usize::MAX` where it was removed.
    pub fn user_of(&self, slot: usize) -> usize {
        self.ids.value(slot)
    }

    /// n of a slot, decayed where rewards are; 0 where the user was removed. Settle first.
    pub fn count(&self, slot: usize) -> f64 {
        self.counts.value(slot)
    }

    /// n of all slots in their order, many at a time. Settle first.
    pub fn counts(&self) -> impl Iterator<Item = &[f64]> {
        self.counts.pieces()
    }

    /// n of a user, pending rounds included; 0 if it has no rewards.
    pub fn rewards_of(&self, user: usize) -> f64 {
        let Some(slot) = self.slot_of(user) else { return 0.0 };
        let waiting = self.waiting.iter().filter(|round| user < round.users()).count();
        learning::count_after(self.count(slot), self.memory, waiting)
    }

    /// n of the user that has the `rank`-th most rewards, or of the last one: exact for whole counts, to one
    /// part in 256 for decayed ones. Rounds that wait do not count.
    pub fn count_of_rank(&self, rank: usize) -> f64 {
        self.histogram.of_rank(rank)
    }

    /// The mean of n over the users with at least `least` rewards, to the same accuracy; every
    /// pending round counts as one reward of each.
    pub fn mean_count_from(&self, least: f64) -> f64 {
        let (users, total) = self.histogram.from(least);
        total / users.max(1) as f64 + self.waiting.len() as f64
    }

    /// How many users have how many rewards. Rounds that wait do not count.
    pub fn histogram(&self) -> &Histogram {
        &self.histogram
    }

    /// What rewards count from, where none was seen yet.
    pub fn begin_at(&mut self, origin: f64) {
        self.origin.get_or_insert(origin);
    }

    /// Bytes taken, with those that the allocator and the index take; shared ones count in full.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.ids.memory_bytes()
            + self.homes.memory_bytes()
            + self.counts.memory_bytes()
            + self.index.memory_bytes()
            + self.rows.memory_bytes()
            + self.blocks.memory_bytes()
            + self.owners.memory_bytes()
            + 8 * self.free_slots.len()
            + self.histogram.memory_bytes()
            + self.waiting.iter().map(|round| round.memory_bytes()).sum::<usize>()
    }

    /// Most rows of a user: as long as they are less than its packed sums.
    fn most_rows(&self) -> usize {
        (self.packed_len() - 1) / (self.dim + 1)
    }

    /// The block and the lane there.
    fn lane_of(place: u32) -> (usize, usize) {
        (place as usize / LANES, place as usize % LANES)
    }

    fn circles(&self) -> impl Iterator<Item = RowRing> {
        self.homes.pieces().flatten().filter_map(|home| match home {
            Home::Rows(circle) => Some(*circle),
            _ => None,
        })
    }

    /// The slots of a block.
    fn owners_of(&self, block: usize) -> [Option<u32>; LANES] {
        std::array::from_fn(|lane| {
            let place = block * LANES + lane;
            let owner = if place < self.owners.len() { self.owners.value(place) } else { NONE };
            (owner != NONE).then_some(owner)
        })
    }
}
