//! What a reward changes. A user that answers alone is rows as long as these are few; users that
//! answer in rounds have packed sums from the beginning, since all of them will be.
//!
//! Rounds wait and are written down several at a time, so that a user's sums are brought from
//! memory once for all of them.

use std::borrow::Cow;
use std::sync::Arc;

use rayon::prelude::*;

use super::sums::{RowTile, TILE, add_to_lane};
use super::{F64x8, Home, LANES, Ledger, NONE};
use crate::{Arm, Contexts};

/// Rounds that wait at most.
const MOST_WAITING: usize = 24;

/// One reward for each of the users 0, 1, 2, ….
#[derive(Debug)]
pub struct PendingRound {
    contexts: Vec<f64>,
    arms: Vec<u32>,
    /// Relative to the origin.
    rewards: Vec<f64>,
}

impl PendingRound {
    /// How many users answered.
    pub fn users(&self) -> usize {
        self.rewards.len()
    }

    /// Bytes taken.
    pub fn memory_bytes(&self) -> usize {
        8 * (self.contexts.capacity() + self.rewards.capacity()) + 4 * self.arms.capacity()
    }
}

/// n after more rewards.
pub fn count_after(count: f64, memory: f64, rewards: usize) -> f64 {
    (0..rewards).fold(count, |count, _| memory * count + 1.0)
}

/// Adds rounds to the sums of eight users, of whom `users` says the ids.
fn write_down(
    rounds: &[Arc<PendingRound>],
    users: &[Option<usize>; LANES],
    dim: usize,
    memory: f64,
    tile: &mut RowTile,
    sums: &mut [F64x8],
) {
    for rounds in rounds.chunks(TILE) {
        tile.clear();
        for (row, round) in rounds.iter().enumerate() {
            for (lane, user) in users.iter().enumerate() {
                if let Some(user) = user.filter(|user| *user < round.users()) {
                    let x = &round.contexts[round.arms[user] as usize * dim..][..dim];
                    tile.put(row, lane, x, round.rewards[user], memory);
                }
            }
        }
        tile.add_to(sums);
    }
}

impl Ledger {
    /// One reward for each of the users 0, 1, 2, …: `rewards[i]` for `arms[i]`. It counts at once,
    /// but is in the sums only when they are settled.
    pub fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        let Some(first) = rewards.first() else { return };
        let origin = *self.origin.get_or_insert(*first);
        self.rewards += rewards.len() as f64;
        self.admit(rewards.len());
        self.waiting.push(Arc::new(PendingRound {
            contexts: contexts.iter().flatten().copied().collect(),
            arms: arms.iter().map(|arm| *arm as u32).collect(),
            rewards: rewards.iter().map(|reward| reward - origin).collect(),
        }));
        if self.waiting.len() == MOST_WAITING {
            self.settle();
        }
    }

    /// Packed sums for all users below a number.
    fn admit(&mut self, users: usize) {
        for user in self.in_rounds..users {
            match self.slot_of(user) {
                Some(slot) => self.promote(slot),
                None => {
                    let slot = self.new_slot(user);
                    let place = self.take_lane(slot);
                    self.homes.set(slot, Home::Packed(place));
                }
            }
        }
        self.in_rounds = self.in_rounds.max(users);
    }

    /// Adds pending rounds to the sums; required before statistics are read.
    pub fn settle(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let rounds = std::mem::take(&mut self.waiting);
        let longest = rounds.iter().map(|round| round.users()).max().unwrap_or(0);
        let (dim, memory, stride) = (self.dim, self.memory, self.packed_len());
        let (ids, owners, per_piece) = (&self.ids, &self.owners, self.blocks.per_piece());
        let user_of = |place: usize| {
            let slot = Some(place).filter(|place| *place < owners.len()).map(|at| owners.value(at));
            slot.filter(|slot| *slot != NONE).map(|slot| ids.value(slot as usize))
        };
        self.blocks.pieces_mut().into_par_iter().enumerate().for_each_init(
            || RowTile::new(dim + 2, false),
            |tile, (piece, blocks)| {
                for at in 0..blocks.len() / stride {
                    let first = (piece * per_piece + at) * LANES;
                    let users = std::array::from_fn(|lane| user_of(first + lane));
                    // Without rewards nothing is copied.
                    if users.iter().flatten().any(|user| *user < longest) {
                        let sums = &mut Arc::make_mut(blocks)[at * stride..][..stride];
                        write_down(&rounds, &users, dim, memory, tile, sums);
                    }
                }
            },
        );
        self.count_rounds(&rounds, longest);
    }

    /// This ledger, or a copy without pending rounds: for read-only callers.
    pub fn settled(&self) -> Cow<'_, Self> {
        if self.waiting.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut settled = self.clone();
        settled.settle();
        Cow::Owned(settled)
    }

    /// Rewards of rounds in the counts.
    fn count_rounds(&mut self, rounds: &[Arc<PendingRound>], longest: usize) {
        let shortest = rounds.iter().map(|round| round.users()).min().unwrap_or(0);
        // Slots in a row with the same count change the histogram together.
        let (mut run, mut before, mut after) = (0, 0.0, 0.0);
        for (ids, counts) in self.ids.pieces().zip(self.counts.pieces_mut()) {
            if ids.iter().all(|user| *user >= longest) {
                continue;
            }
            for (user, count) in ids.iter().zip(Arc::make_mut(counts)) {
                let rewards = if *user < shortest {
                    rounds.len()
                } else {
                    rounds.iter().filter(|round| *user < round.users()).count()
                };
                let old = *count;
                *count = count_after(old, self.memory, rewards);
                if (old, *count) != (before, after) {
                    self.histogram.shift(run, before, after);
                    (run, before, after) = (0, old, *count);
                }
                run += 1;
            }
        }
        self.histogram.shift(run, before, after);
    }

    /// One reward for one user.
    pub fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        assert_eq!(context.len(), self.dim, "dimension of a context");
        self.settle();
        let y = reward - *self.origin.get_or_insert(reward);
        self.rewards += 1.0;
        let slot = self.slot_of(user).unwrap_or_else(|| self.new_slot(user));
        let home = self.homes.value(slot);
        let circle = if let Home::Rows(circle) = home { Some(circle) } else { None };
        let rows = circle.map_or(0, |circle| circle.rows as usize);
        if home == Home::Gone || circle.is_some() && rows < self.most_rows() {
            if let Some(circle) = circle {
                self.rows.weigh(circle, self.memory);
            }
            self.homes.set(slot, Home::Rows(self.rows.append(slot, circle, context, y)));
        } else {
            self.promote(slot);
            self.add_to_packed(slot, context, y);
        }
        let count = self.count(slot);
        self.set_count(slot, count_after(count, self.memory, 1));
    }

    fn add_to_packed(&mut self, slot: usize, x: &[f64], y: f64) {
        let Home::Packed(place) = self.homes.value(slot) else { return };
        let (block, lane) = Self::lane_of(place);
        let z: Vec<f64> = x.iter().copied().chain([1.0, y]).collect();
        add_to_lane(self.blocks.get_mut(block), lane, &z, self.memory);
    }

    /// Packed sums instead of rows.
    fn promote(&mut self, slot: usize) {
        let Home::Rows(circle) = self.homes.value(slot) else { return };
        let mut packed = vec![0.0; self.packed_len()];
        self.packed_of(slot, &mut packed);
        let place = self.take_lane(slot);
        self.write_lane(place, &packed);
        self.leave_rows(circle);
        self.homes.set(slot, Home::Packed(place));
        // The same, but for rounding where weights are kept row by row.
        self.set_count(slot, packed[super::packed_len(self.dim + 1) - 1]);
    }
}
