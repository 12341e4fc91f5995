//! Changes of the set of users: new slots, removal, forgetting, renaming.

use std::sync::Arc;

use super::{Home, LANES, Ledger, NONE, RowRing};
use crate::algebra::packed_len;
use crate::population::lanes::ZERO;
use crate::population::shared::shift;
use crate::simd::flat_mut;

impl Ledger {
    /// A slot for a new user: a free one if there is any. It has no storage yet.
    pub(super) fn new_slot(&mut self, user: usize) -> usize {
        let slot = if user < self.straight {
            user
        } else if let Some(slot) = self.free_slots.pop_first() {
            self.index.insert(user, slot, |slot| self.ids.value(slot as usize));
            slot as usize
        } else {
            return self.push_slot(user);
        };
        self.ids.set(slot, user);
        self.answered += 1;
        slot
    }

    /// One more slot.
    pub(super) fn push_slot(&mut self, user: usize) -> usize {
        let slot = self.ids.len();
        let name = u32::try_from(slot).ok().filter(|name| *name != NONE);
        let name = name.expect("less than 2^32 users");
        // Straight as long as every slot has been; after that users are in the index.
        if slot == user && slot == self.straight {
            self.straight += 1;
        } else {
            self.index.insert(user, name, |slot| self.ids.value(slot as usize));
        }
        self.ids.push(&[user]);
        self.homes.push(&[Home::Gone]);
        self.counts.push(&[0.0]);
        self.answered += 1;
        slot
    }

    /// A lane for a slot: the next.
    pub(super) fn take_lane(&mut self, slot: usize) -> u32 {
        let place = self.owners.len();
        if place.is_multiple_of(LANES) {
            self.blocks.push(&vec![ZERO; self.packed_len()]);
        }
        self.owners.push(&[slot as u32]);
        place as u32
    }

    /// Gives up a lane. The last one takes its place, so that users who go take their memory with them.
    fn leave_lane(&mut self, place: u32) {
        let last = (self.owners.len() - 1) as u32;
        if place != last {
            let ((block, lane), slot) = (Self::lane_of(last), self.owners.value(last as usize));
            let packed: Vec<f64> = self.blocks.get(block).iter().map(|sums| sums[lane]).collect();
            self.write_lane(place, &packed);
            self.homes.set(slot as usize, Home::Packed(place));
        }
        self.owners.swap_remove(place as usize);
        match (last as usize).is_multiple_of(LANES) {
            true => self.blocks.pop(),
            false => self.write_lane(last, &vec![0.0; self.packed_len()]),
        }
    }

    /// Removes rows of a user.
    pub(super) fn leave_rows(&mut self, circle: RowRing) {
        let Self { rows, homes, .. } = self;
        rows.release(circle, |slot, [from, to]| {
            if let Home::Rows(other) = &mut homes.get_mut(slot as usize)[0]
                && other.last == from
            {
                other.last = to;
            }
        });
    }

    /// Writes the packed sums of one user.
    pub(super) fn write_lane(&mut self, place: u32, packed: &[f64]) {
        let (block, lane) = Self::lane_of(place);
        for (sums, number) in self.blocks.get_mut(block).iter_mut().zip(packed) {
            sums[lane] = *number;
        }
    }

    /// Writes a user's count.
    pub(super) fn set_count(&mut self, slot: usize, count: f64) {
        self.histogram.shift(1, self.counts.value(slot), count);
        self.counts.set(slot, count);
    }

    /// Forgets a user and frees its slot; if the user comes back, it is new.
    pub fn remove(&mut self, user: usize) {
        self.settle();
        let Some(slot) = self.slot_of(user) else { return };
        match self.homes.value(slot) {
            Home::Gone => {}
            Home::Rows(circle) => self.leave_rows(circle),
            Home::Packed(place) => self.leave_lane(place),
        }
        self.leave(slot, user);
    }

    /// Gives a user another id, which must be unused.
    pub fn rename(&mut self, user: usize, name: usize) {
        self.remove(name);
        let Some(slot) = self.slot_of(user) else { return };
        let (home, count) = (self.homes.value(slot), self.count(slot));
        self.leave(slot, user);
        let slot = self.new_slot(name);
        self.homes.set(slot, home);
        match home {
            Home::Gone => {}
            Home::Rows(circle) => self.rows.give_to(circle, slot),
            Home::Packed(place) => self.owners.set(place as usize, slot as u32),
        }
        self.set_count(slot, count);
    }

    /// Rewards are those of the users there are.
    pub fn count_own(&mut self) {
        self.rewards = self.counts.pieces().flatten().sum();
    }

    /// Takes in the users of another ledger, which is settled, under other numbers; those who have none, or one that
    /// somebody has, are left out. Settle first.
    pub fn take_in(&mut self, other: &Self, mut number: impl FnMut(usize) -> Option<usize>) {
        if other.answered > 0 {
            self.begin_at(other.origin());
        }
        self.rewards += other.rewards;
        let by = other.origin() - self.origin();
        let mut sums = vec![0.0; self.packed_len()];
        for slot in (0..other.slots()).filter(|slot| other.homes.value(*slot) != Home::Gone) {
            let Some(user) = number(other.user_of(slot)) else { continue };
            if self.slot_of(user).is_some() {
                continue;
            }
            other.packed_of(slot, &mut sums);
            shift(&mut sums, by, self.dim);
            let slot = self.new_slot(user);
            let place = self.take_lane(slot);
            self.write_lane(place, &sums);
            self.homes.set(slot, Home::Packed(place));
            let count = sums[packed_len(self.dim + 1) - 1];
            self.set_count(slot, count);
        }
    }

    /// Frees a slot.
    fn leave(&mut self, slot: usize, user: usize) {
        let is_straight = slot < self.straight;
        if !is_straight {
            self.index.remove(user, |slot| self.ids.value(slot as usize));
        }
        self.set_count(slot, 0.0);
        self.homes.set(slot, Home::Gone);
        self.ids.set(slot, usize::MAX);
        self.answered -= 1;
        self.in_rounds = self.in_rounds.min(user);
        if !is_straight {
            self.free_slots.insert(slot as u32);
            self.straighten();
        }
    }

    /// As many slots as can be are found without the index: which they are follows from the slots alone, so
    /// that a ledger that was saved and read goes on as this one does.
    fn straighten(&mut self) {
        while self.straight < self.slots() {
            let slot = self.straight;
            if self.homes.value(slot) == Home::Gone {
                self.free_slots.remove(&(slot as u32));
            } else if self.ids.value(slot) == slot {
                self.index.remove(slot, |slot| self.ids.value(slot as usize));
            } else {
                return;
            }
            self.straight += 1;
        }
    }

    /// Multiplies all statistics of all users.
    pub fn scale(&mut self, factor: f64) {
        self.settle();
        if factor == 1.0 {
            return;
        }
        self.keep_weights();
        let circles: Vec<_> = self.circles().collect();
        for circle in circles {
            self.rows.weigh(circle, factor);
        }
        for block in self.blocks.pieces_mut() {
            for number in flat_mut(&mut Arc::make_mut(block)[..]) {
                *number *= factor;
            }
        }
        for slot in 0..self.counts.len() {
            let count = self.counts.value(slot);
            self.set_count(slot, factor * count);
        }
    }

    /// Another memory from now on. What was seen so far keeps the weight that it has, and loses it
    /// at the new rate.
    pub fn set_memory(&mut self, memory: f64) {
        self.settle();
        if memory != self.memory {
            self.keep_weights();
            self.memory = memory;
        }
    }

    /// Weights no longer follow from ages, where there are rows.
    fn keep_weights(&mut self) {
        let circles: Vec<_> = self.circles().collect();
        if !circles.is_empty() {
            self.rows.keep_weights(circles.into_iter(), self.memory);
        }
    }
}
