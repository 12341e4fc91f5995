//! How sums are read: of one user, of eight, of all.

use rayon::prelude::*;

use super::sums::{RowTile, TILE, add_one};
use super::{F64x8, Home, LANES, Ledger, Rows};
use crate::algebra::packed_len;
use crate::population::Moments;
use crate::population::lanes::ZERO;

/// All users eight at a time: those with packed sums as they lie in memory, then those with rows
/// in the order of their slots. Blocks can be worked on in parallel.
#[derive(Clone, Debug)]
pub struct SumBlocks<'a> {
    ledger: &'a Ledger,
    /// Slots that have rows.
    rows: Vec<usize>,
}

/// The statistics of eight users.
#[derive(Clone, Copy, Debug)]
pub struct SumBlock<'a> {
    dim: usize,
    /// The slot of each lane; the numbers of a lane without one are zeros.
    pub slots: [Option<u32>; LANES],
    /// The packed sums.
    pub numbers: &'a [F64x8],
}

impl<'a> SumBlock<'a> {
    /// Σ(x, 1)(x, 1)ᵀ, packed.
    pub fn gram(&self) -> &'a [F64x8] {
        &self.numbers[..packed_len(self.dim + 1)]
    }

    /// n.
    pub fn count(&self) -> &'a F64x8 {
        &self.numbers[packed_len(self.dim + 1) - 1]
    }

    /// Σ(x, 1)y.
    pub fn moment(&self) -> &'a [F64x8] {
        &self.numbers[packed_len(self.dim + 1)..][..self.dim + 1]
    }

    /// Σy².
    pub fn squares(&self) -> &'a F64x8 {
        &self.numbers[self.numbers.len() - 1]
    }
}

impl SumBlocks<'_> {
    /// How many blocks there are.
    pub fn blocks(&self) -> usize {
        self.ledger.blocks.len() + self.rows.len().div_ceil(LANES)
    }

    /// One of the blocks; `scratch` is used where users have rows.
    pub fn block<'b>(&'b self, at: usize, scratch: &'b mut Vec<F64x8>) -> SumBlock<'b> {
        let (ledger, packed) = (self.ledger, self.ledger.blocks.len());
        if at < packed {
            let (slots, numbers) = (ledger.owners_of(at), ledger.blocks.get(at));
            return SumBlock { dim: ledger.dim, slots, numbers };
        }
        let rest = &self.rows[(at - packed) * LANES..];
        let group = &rest[..rest.len().min(LANES)];
        scratch.resize(ledger.packed_len(), ZERO);
        ledger.gather(group, scratch);
        let slots = std::array::from_fn(|lane| group.get(lane).map(|slot| *slot as u32));
        SumBlock { dim: ledger.dim, slots, numbers: scratch }
    }
}

impl SumBlocks<'_> {
    /// The statistics of one of the blocks.
    pub fn moments(&self, at: usize) -> Moments {
        let mut scratch = Vec::new();
        let numbers = self.block(at, &mut scratch).numbers.to_vec();
        Moments::new(self.ledger.dim, numbers).with_root()
    }
}

impl Ledger {
    /// All users eight at a time. Settle first.
    pub fn walk(&self) -> SumBlocks<'_> {
        debug_assert!(self.waiting.is_empty(), "rounds wait to be settled");
        let has_rows = |(slot, home): (usize, &Home)| matches!(home, Home::Rows(_)).then_some(slot);
        let rows = self.homes.pieces().flatten().enumerate().filter_map(has_rows).collect();
        SumBlocks { ledger: self, rows }
    }

    /// The statistics of up to eight slots. Settle first.
    pub fn moments(&self, slots: &[usize]) -> Moments {
        let mut numbers = vec![ZERO; self.packed_len()];
        self.gather(slots, &mut numbers);
        Moments::new(self.dim, numbers).with_root()
    }

    /// The statistics of some slots, eight at a time. Settle first.
    pub fn moments_of(&self, slots: &[usize]) -> Vec<Moments> {
        slots.par_chunks(LANES).map(|slots| self.moments(slots)).collect()
    }

    /// The rewards of a slot one by one, where they are kept.
    pub fn rows(&self, slot: usize) -> Option<Rows<'_>> {
        match self.homes.value(slot) {
            Home::Rows(circle) => Some(self.rows.of(circle, self.memory)),
            Home::Gone | Home::Packed(_) => None,
        }
    }

    /// The packed sums of up to eight slots, a lane each; zeros in lanes without a slot and in
    /// those of users that were removed. Settle first.
    pub fn gather(&self, slots: &[usize], out: &mut [F64x8]) {
        assert!(slots.len() <= LANES && out.len() == self.packed_len(), "eight slots, packed sums");
        debug_assert!(self.waiting.is_empty(), "rounds wait to be settled");
        out.fill(ZERO);
        self.expand(slots, out);
        for (lane, slot) in slots.iter().enumerate() {
            if let Home::Packed(place) = self.homes.value(*slot) {
                let (block, from) = Self::lane_of(place);
                for (out, sums) in out.iter_mut().zip(self.blocks.get(block)) {
                    out[lane] = sums[from];
                }
            }
        }
    }

    /// Adds the rows of slots that have rows.
    fn expand(&self, slots: &[usize], out: &mut [F64x8]) {
        let mut rows: Vec<(usize, Rows)> = (slots.iter().enumerate())
            .filter_map(|(lane, slot)| Some((lane, self.rows(*slot)?)))
            .collect();
        let most = rows.iter().map(|(_, rows)| rows.len()).max().unwrap_or(0);
        if most == 0 {
            return;
        }
        let weighted = self.rows.is_weighted();
        let mut tile = RowTile::new(self.dim + 2, weighted);
        for _ in (0..most).step_by(TILE) {
            tile.clear();
            for (lane, rows) in &mut rows {
                for (row, (x, y, weight)) in rows.take(TILE).enumerate() {
                    tile.put(row, *lane, x, y, if weighted { 1.0 } else { self.memory });
                    if weighted {
                        tile.weigh(row, *lane, weight);
                    }
                }
            }
            tile.add_to(out);
        }
    }

    /// The packed sums of one slot; zeros where the user was removed. Settle first.
    pub fn packed_of(&self, slot: usize, out: &mut [f64]) {
        assert_eq!(out.len(), self.packed_len(), "packed sums");
        out.fill(0.0);
        match self.homes.value(slot) {
            Home::Gone => {}
            Home::Packed(place) => {
                let (block, lane) = Self::lane_of(place);
                for (out, sums) in out.iter_mut().zip(self.blocks.get(block)) {
                    *out = sums[lane];
                }
            }
            Home::Rows(circle) => {
                let (mut left, mut right) = (vec![1.0; self.dim + 2], vec![1.0; self.dim + 2]);
                let keep = if self.rows.is_weighted() { 1.0 } else { self.memory };
                for (x, y, weight) in self.rows.of(circle, self.memory) {
                    let weight = if self.rows.is_weighted() { weight } else { 1.0 };
                    right[..self.dim].copy_from_slice(x);
                    right[self.dim + 1] = y;
                    for (left, right) in left.iter_mut().zip(&right) {
                        *left = weight * right;
                    }
                    add_one(out, &left, &right, keep);
                }
            }
        }
    }
}
