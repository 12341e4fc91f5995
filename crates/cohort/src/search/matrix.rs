//! Items as vectors in f32, sixteen side by side, which come, change and go.

use std::sync::atomic::{AtomicI32, Ordering};

use rayon::prelude::*;

use super::ScoreForm;
use super::prepared::PreparedForm;
use super::screen::{Match, Screen};
use crate::simd::{F32x16, LANES_F32, run};

/// Numbers that are worth a second thread.
const NUMBERS_PER_TASK: usize = 1 << 18;

/// Lengths that differ by less, as a part of the longest, are the same: vectors that were made to have length 1 have it
/// but for rounding.
const SAME_LENGTH: f64 = 1e-12;

/// The lengths of no items.
const EMPTY: (f64, f64) = (f64::INFINITY, 0.0);

/// Whether lengths from the one to the other are the same.
fn is_narrow((least, most): (f64, f64)) -> bool {
    most - least <= SAME_LENGTH * most
}

/// Items by slot: numbers from 0 that the caller assigns.
#[derive(Clone, Debug)]
pub struct ItemMatrix {
    dim: usize,
    /// Blocks of sixteen slots: their lengths, then coordinate by coordinate.
    lanes: Vec<F32x16>,
    /// The length of each slot's item: the order of items while a policy has learned nothing.
    lengths: Vec<f64>,
    /// One bit per slot: whether it has an item.
    present: Vec<u64>,
    items: usize,
}

impl ItemMatrix {
    /// Of items with `dim` features.
    ///
    /// # Panics
    /// If `dim` is 0.
    pub fn new(dim: usize) -> Self {
        assert!(dim > 0, "items have a feature or more");
        Self { dim, lanes: Vec::new(), lengths: Vec::new(), present: Vec::new(), items: 0 }
    }

    /// d.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.items
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// One bit per slot, 64 per word: whether it has an item.
    pub fn present(&self) -> &[u64] {
        &self.present
    }

    /// Puts an item into a slot, in the place of what was there.
    ///
    /// # Panics
    /// If it has not `dim` features.
    pub fn set(&mut self, slot: usize, x: &[f64]) {
        assert_eq!(x.len(), self.dim, "features of an item");
        let (block, lane, stride) = (slot / LANES_F32, slot % LANES_F32, self.dim + 1);
        if self.lanes.len() < (block + 1) * stride {
            self.lanes.resize((block + 1) * stride, F32x16::splat(0.0));
        }
        if self.present.len() <= slot / 64 {
            self.present.resize(slot / 64 + 1, 0);
        }
        let lanes = &mut self.lanes[block * stride..][..stride];
        let length = x.iter().map(|value| value * value).sum::<f64>().sqrt();
        lanes[0].0[lane] = (length * (1.0 + 1e-6)) as f32;
        if self.lengths.len() <= slot {
            self.lengths.resize(slot + 1, 0.0);
        }
        self.lengths[slot] = length;
        for (lanes, value) in lanes[1..].iter_mut().zip(x) {
            lanes.0[lane] = *value as f32;
        }
        let (word, bit) = (&mut self.present[slot / 64], 1 << (slot % 64));
        self.items += usize::from(*word & bit == 0);
        *word |= bit;
    }

    /// Removes the item of a slot, if it has one.
    pub fn remove(&mut self, slot: usize) {
        if let Some(word) = self.present.get_mut(slot / 64) {
            self.items -= usize::from(*word & (1 << (slot % 64)) != 0);
            *word &= !(1 << (slot % 64));
        }
    }

    /// Whether all items have the same score up to rounding, as far as that can be decided without
    /// scoring each: a policy that knows nothing yet looks only at how long items are. Among those
    /// in `wanted`, where it is given.
    pub fn all_alike(&self, form: &ScoreForm, wanted: Option<&[u64]>) -> bool {
        if form.is_flat() {
            return true;
        }
        let wanted = |at: usize| wanted.map_or(!0, |wanted| wanted.get(at).copied().unwrap_or(0));
        form.is_radial() && is_narrow(self.widen(EMPTY, wanted))
    }

    /// The same of all items of several matrices.
    pub fn are_alike(matrices: &[Self], form: &ScoreForm) -> bool {
        let all = || matrices.iter().fold(EMPTY, |range, one| one.widen(range, |_| !0));
        form.is_flat() || (form.is_radial() && is_narrow(all()))
    }

    /// The smallest and the largest length of these and of items that are wanted, until they are not the same.
    fn widen(&self, range: (f64, f64), wanted: impl Fn(usize) -> u64) -> (f64, f64) {
        let (mut least, mut most) = range;
        for (at, word) in self.present.iter().enumerate() {
            let mut bits = word & wanted(at);
            while bits != 0 {
                let length = self.lengths[64 * at + bits.trailing_zeros() as usize];
                (least, most) = (least.min(length), most.max(length));
                bits &= bits - 1;
            }
            if !is_narrow((least, most)) {
                break;
            }
        }
        (least, most)
    }

    /// The vector of a slot's item, as it is kept.
    pub fn copy(&self, slot: usize, x: &mut [f64]) {
        let (block, lane, stride) = (slot / LANES_F32, slot % LANES_F32, self.dim + 1);
        let lanes = self.lanes.iter().skip(block * stride + 1);
        for (value, lanes) in x.iter_mut().zip(lanes) {
            *value = f64::from(lanes.0[lane]);
        }
    }

    /// Slots that may be among the `k` with the largest scores: all that are, all that equal the k-th, and a
    /// few more. Among those in `wanted` (one bit a slot, as in [`ItemMatrix::present`]), where it is given;
    /// `shifts` are added to the scores, one for each slot, where they are given. In the order of slots.
    pub fn best(
        &self,
        form: &ScoreForm,
        k: usize,
        wanted: Option<&[u64]>,
        shifts: Option<&[f32]>,
    ) -> Vec<u32> {
        let parts = form.parts();
        let found = parts.iter().flat_map(|form| self.best_of_one(form, k, wanted, shifts));
        let mut slots: Vec<u32> = found.collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// [`ItemMatrix::best`] of a form in which nothing was drawn, in any order.
    fn best_of_one(
        &self,
        form: &ScoreForm,
        k: usize,
        wanted: Option<&[u64]>,
        shifts: Option<&[f32]>,
    ) -> Vec<u32> {
        let largest = shifts.into_iter().flatten().fold(0.0f32, |most, one| most.max(one.abs()));
        let prepared = PreparedForm::new(form, f64::from(largest));
        let stride = self.dim + 1;
        let blocks = self.lanes.len() / stride;
        // Whole words of bits for each task.
        let per_task = (NUMBERS_PER_TASK / (stride * LANES_F32)).max(1).next_multiple_of(4);
        let threshold = Threshold::new();
        let screen = |first: usize| {
            run(Screen {
                lanes: &self.lanes[first * stride..],
                first,
                blocks: per_task.min(blocks - first),
                dim: self.dim,
                present: &self.present,
                wanted,
                shifts,
                prepared: &prepared,
                k: k.max(1),
                threshold: &threshold,
            })
        };
        let firsts: Vec<usize> = (0..blocks).step_by(per_task).collect();
        // The first task alone: what it finds spares the others work.
        let mut found = firsts.first().map(|first| screen(*first)).unwrap_or_default();
        let rest: Vec<Vec<Match>> = match firsts.get(1..) {
            Some(rest) if rest.len() > 2 => rest.par_iter().map(|at| screen(*at)).collect(),
            Some(rest) => rest.iter().map(|first| screen(*first)).collect(),
            None => Vec::new(),
        };
        found.extend(rest.into_iter().flatten());
        let certain = self.certain(&mut found, k.max(1));
        // NaN cannot be ruled out as the best.
        let may_be = |one: &&Match| one.upper >= certain || one.upper.is_nan();
        found.iter().filter(may_be).map(|one| one.slot).collect()
    }

    /// What the k-th best score certainly is not below, by all that was found.
    fn certain(&self, found: &mut [Match], k: usize) -> f32 {
        if found.len() < k {
            return f32::NEG_INFINITY;
        }
        let mut lower: Vec<f32> = found.iter().map(|one| one.lower).collect();
        let (_, least, _) = lower.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a));
        *least
    }
}

/// What the k-th best score certainly is not below, by what any thread has found so far.
pub(super) struct Threshold(AtomicI32);

impl Threshold {
    fn new() -> Self {
        Self(AtomicI32::new(ordered(f32::NEG_INFINITY)))
    }

    pub fn get(&self) -> f32 {
        from_ordered(self.0.load(Ordering::Relaxed))
    }

    pub fn raise(&self, to: f32) {
        if !to.is_nan() {
            self.0.fetch_max(ordered(to), Ordering::Relaxed);
        }
    }
}

/// Numbers in the order of f32.
fn ordered(value: f32) -> i32 {
    let bits = value.to_bits().cast_signed();
    if bits < 0 { bits ^ i32::MAX } else { bits }
}

fn from_ordered(bits: i32) -> f32 {
    f32::from_bits(if bits < 0 { bits ^ i32::MAX } else { bits }.cast_unsigned())
}
