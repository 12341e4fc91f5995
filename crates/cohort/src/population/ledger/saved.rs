//! How the ledger is written and read: rows as rows, packed sums as packed sums, every number with
//! the same bits, and every slot and lane where it was, so that a loaded ledger continues bit by
//! bit. (Free lanes, which earlier versions left, are closed up.)
//!
//! ```text
//! d | memory, rewards, origin | seen? weighted? | slots
//!   of every slot:  id | 0 gone, MAX packed, n rows | n times (x, y) | weighted: n weights, count
//! lanes
//!   of every block: 8 owners | the sums of 8 users if all lanes have one, else of each that has
//! ```

use std::io::{self, Read, Write};

use super::{F64x8, Home, LANES, Ledger, NONE};
use crate::algebra::packed_len;
use crate::population::lanes::ZERO;
use crate::simd::{flat, flat_mut};
use crate::{Error, saved};

/// What stands for packed sums where the number of rows is expected.
const PACKED: u32 = u32::MAX;

impl Ledger {
    /// Writes everything.
    pub fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        if !self.waiting.is_empty() {
            let mut settled = self.clone();
            settled.settle();
            return settled.save(out);
        }
        saved::write_count(out, self.dim)?;
        saved::write_numbers(out, &[self.memory, self.rewards, self.origin()])?;
        saved::write_count(out, usize::from(self.origin.is_some()))?;
        saved::write_count(out, usize::from(self.rows.is_weighted()))?;
        saved::write_count(out, self.slots())?;
        for slot in 0..self.slots() {
            self.save_slot(slot, out)?;
        }
        saved::write_count(out, self.owners.len())?;
        (0..self.blocks.len()).try_for_each(|block| self.save_block(block, out))
    }

    fn save_slot(&self, slot: usize, out: &mut dyn Write) -> io::Result<()> {
        saved::write_count(out, self.user_of(slot))?;
        let circle = match self.homes.value(slot) {
            Home::Gone => return write_u32(out, 0),
            Home::Packed(_) => return write_u32(out, PACKED),
            Home::Rows(circle) => circle,
        };
        write_u32(out, circle.rows)?;
        for (x, y, _) in self.rows.of(circle, self.memory) {
            saved::write_numbers(out, x)?;
            saved::write_numbers(out, &[y])?;
        }
        if self.rows.is_weighted() {
            for (_, _, weight) in self.rows.of(circle, self.memory) {
                saved::write_numbers(out, &[weight])?;
            }
            saved::write_numbers(out, &[self.count(slot)])?;
        }
        Ok(())
    }

    fn save_block(&self, block: usize, out: &mut dyn Write) -> io::Result<()> {
        let (owners, sums) = (self.owners_of(block), self.blocks.get(block));
        owners.iter().try_for_each(|owner| write_u32(out, owner.unwrap_or(NONE)))?;
        if owners.iter().all(Option::is_some) {
            return saved::write_numbers(out, flat(sums));
        }
        for lane in (0..LANES).filter(|lane| owners[*lane].is_some()) {
            let numbers: Vec<f64> = sums.iter().map(|sums| sums[lane]).collect();
            saved::write_numbers(out, &numbers)?;
        }
        Ok(())
    }

    /// Refuses another dimension and another memory: sums of one are none of the other.
    pub fn expect_like(&self, found: &Self, what: &'static str) -> Result<(), Error> {
        saved::check_equal(what, "dimension", found.dim, self.dim)?;
        saved::check_equal(what, "memory (of half_life)", found.memory, self.memory)
    }

    /// The ledger that was saved; it must be of the same dimension and memory as this one.
    pub fn load(&self, from: &mut dyn Read, what: &'static str) -> Result<Self, Error> {
        let dim = saved::read_count(from, what)?;
        let mut numbers = [0.0; 3];
        saved::read_numbers(from, what, &mut numbers)?;
        let [memory, rewards, origin] = numbers;
        saved::check_equal(what, "dimension", dim, self.dim)?;
        let mut ledger = Self { rewards, ..Self::new(dim, memory) };
        self.expect_like(&ledger, what)?;
        ledger.origin = (saved::read_count(from, what)? != 0).then_some(origin);
        if saved::read_count(from, what)? != 0 {
            ledger.rows.keep_weights(std::iter::empty(), memory);
        }
        for slot in 0..saved::read_count(from, what)? {
            ledger.load_slot(slot, from, what)?;
        }
        let lanes = saved::read_count(from, what)?;
        for first in (0..lanes).step_by(LANES) {
            ledger.load_block(LANES.min(lanes - first), from, what)?;
        }
        let lost = ledger.homes.pieces().flatten().any(|home| *home == Home::Packed(NONE));
        saved::check_equal(what, "users without their sums", lost, false)?;
        Ok(ledger)
    }

    fn load_slot(
        &mut self,
        slot: usize,
        from: &mut dyn Read,
        what: &'static str,
    ) -> Result<(), Error> {
        let user = saved::read_count(from, what)?;
        let rows = read_u32(from, what)?;
        if rows == 0 {
            self.new_gone_slot();
            return Ok(());
        }
        saved::check_equal(
            what,
            "a user that is there twice",
            self.slot_of(user).is_some(),
            false,
        )?;
        saved::check_equal(what, "slots", slot < NONE as usize, true)?;
        self.push_slot(user);
        if rows == PACKED {
            self.homes.set(slot, Home::Packed(NONE));
            return Ok(());
        }
        let fit = rows as usize <= self.most_rows();
        saved::check_equal(what, "rows that are fewer numbers than sums", fit, true)?;
        let (mut row, mut circle) = (vec![0.0; self.dim + 1], None);
        for _ in 0..rows {
            saved::read_numbers(from, what, &mut row)?;
            circle = Some(self.rows.append(slot, circle, &row[..self.dim], row[self.dim]));
        }
        let Some(circle) = circle else { return Ok(()) };
        self.homes.set(slot, Home::Rows(circle));
        let mut count = super::learning::count_after(0.0, self.memory, rows as usize);
        if self.rows.is_weighted() {
            let mut weights = vec![0.0; rows as usize + 1];
            saved::read_numbers(from, what, &mut weights)?;
            count = weights[rows as usize];
            self.rows.set_weights(circle, &weights);
        }
        self.load_count(slot, count, what)
    }

    fn load_count(&mut self, slot: usize, count: f64, what: &'static str) -> Result<(), Error> {
        saved::check_equal(what, "rewards of a user that are not negative", count >= 0.0, true)?;
        self.set_count(slot, count);
        Ok(())
    }

    fn load_block(
        &mut self,
        lanes: usize,
        from: &mut dyn Read,
        what: &'static str,
    ) -> Result<(), Error> {
        let mut owners = [NONE; LANES];
        for owner in &mut owners {
            *owner = read_u32(from, what)?;
        }
        let expected = |owner: &u32| {
            *owner == NONE
                || (*owner as usize) < self.slots()
                    && self.homes.value(*owner as usize) == Home::Packed(NONE)
        };
        let fit = owners.iter().all(expected) && owners[lanes..].iter().all(|o| *o == NONE);
        saved::check_equal(what, "blocks of users that have sums", fit, true)?;
        let mut sums = vec![ZERO; self.packed_len()];
        let there = (0..LANES).filter(|lane| owners[*lane] != NONE);
        if there.clone().count() == LANES {
            saved::read_numbers(from, what, flat_mut(&mut sums))?;
        } else {
            let mut numbers = vec![0.0; self.packed_len()];
            for lane in there {
                saved::read_numbers(from, what, &mut numbers)?;
                for (sums, number) in sums.iter_mut().zip(&numbers) {
                    sums[lane] = *number;
                }
            }
        }
        self.take_block(&owners[..lanes], &sums, what)
    }

    /// One more block. Earlier versions left lanes of users who went free; here the next user takes such a lane.
    fn take_block(
        &mut self,
        owners: &[u32],
        sums: &[F64x8],
        what: &'static str,
    ) -> Result<(), Error> {
        let is_whole = owners.len() == LANES && owners.iter().all(|owner| *owner != NONE);
        let is_aligned = is_whole && self.owners.len().is_multiple_of(LANES);
        if is_aligned {
            self.blocks.push(sums);
        }
        for (lane, owner) in owners.iter().enumerate().filter(|(_, owner)| **owner != NONE) {
            let slot = *owner as usize;
            let new = self.homes.value(slot) == Home::Packed(NONE);
            saved::check_equal(what, "sums of a user that are there twice", !new, false)?;
            let place = if is_aligned {
                self.owners.push(&[*owner]);
                self.owners.len() as u32 - 1
            } else {
                let place = self.take_lane(slot);
                let packed: Vec<f64> = sums.iter().map(|sums| sums[lane]).collect();
                self.write_lane(place, &packed);
                place
            };
            self.homes.set(slot, Home::Packed(place));
            self.load_count(slot, sums[packed_len(self.dim + 1) - 1][lane], what)?;
        }
        Ok(())
    }

    /// A slot whose user was removed.
    fn new_gone_slot(&mut self) {
        if self.straight == self.slots() {
            self.straight += 1;
        } else {
            self.free_slots.insert(self.slots() as u32);
        }
        self.ids.push(&[usize::MAX]);
        self.homes.push(&[Home::Gone]);
        self.counts.push(&[0.0]);
    }

    /// The ledger in the layout before this one: sums of (x, y, 1) of all users 0, 1, 2, …, counted
    /// from 0. Users without rewards are left out.
    pub fn load_old(&self, from: &mut dyn Read, what: &'static str) -> Result<Self, Error> {
        let dim = saved::read_count(from, what)?;
        let mut numbers = [0.0; 2];
        saved::read_numbers(from, what, &mut numbers)?;
        let [memory, rewards] = numbers;
        saved::check_equal(what, "dimension", dim, self.dim)?;
        let mut ledger = Self { rewards, ..Self::new(dim, memory) };
        self.expect_like(&ledger, what)?;
        ledger.origin = (rewards > 0.0).then_some(0.0);
        let users = saved::read_count(from, what)?;
        let mut old = vec![ZERO; ledger.packed_len()];
        for first in (0..users).step_by(LANES) {
            saved::read_numbers(from, what, flat_mut(&mut old))?;
            for lane in 0..LANES.min(users - first) {
                let packed = reorder(dim, &old, lane);
                let count = packed[packed_len(dim + 1) - 1];
                if count == 0.0 {
                    continue;
                }
                let slot = ledger.new_slot(first + lane);
                let place = ledger.take_lane(slot);
                ledger.write_lane(place, &packed);
                ledger.homes.set(slot, Home::Packed(place));
                ledger.load_count(slot, count, what)?;
            }
        }
        Ok(ledger)
    }
}

/// Packed sums of (x, 1, y) from those of (x, y, 1).
fn reorder(dim: usize, old: &[F64x8], lane: usize) -> Vec<f64> {
    let of = |at: usize| old[at][lane];
    let (y, one) = (packed_len(dim), packed_len(dim + 1));
    (0..y) // V
        .chain(one..one + dim) // Σx
        .chain([one + dim + 1]) // n
        .chain(y..y + dim) // b
        .chain([one + dim, y + dim]) // Σy, Σy²
        .map(of)
        .collect()
}

fn write_u32(out: &mut dyn Write, value: u32) -> io::Result<()> {
    out.write_all(&value.to_le_bytes())
}

fn read_u32(from: &mut dyn Read, what: &'static str) -> Result<u32, Error> {
    saved::read_array(from, what).map(u32::from_le_bytes)
}
