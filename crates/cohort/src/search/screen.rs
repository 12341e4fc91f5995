//! Sixteen items looked at together, as far as it takes to see that none of them is among the best.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::matrix::Threshold;
use super::prepared::{CHUNK, Prepared};
use crate::simd::{F32x16, Kernel, LANES_F32, Simd};

/// An item that may be among the best, and what its score is between.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub slot: u32,
    pub lower: f32,
    pub upper: f32,
}

/// The blocks from `first` on.
pub(super) struct Screen<'a> {
    pub lanes: &'a [F32x16],
    pub first: usize,
    pub blocks: usize,
    pub dim: usize,
    pub present: &'a [u64],
    pub wanted: Option<&'a [u64]>,
    pub shifts: Option<&'a [f32]>,
    pub prepared: &'a Prepared,
    pub k: usize,
    pub threshold: &'a Threshold,
}

/// The k largest of many numbers.
struct Largest {
    k: usize,
    heap: BinaryHeap<Reverse<Ordered>>,
}

#[derive(PartialEq)]
struct Ordered(f32);

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Largest {
    /// One more; the k-th largest, where there are so many.
    fn add(&mut self, value: f32) -> Option<f32> {
        if self.heap.len() == self.k {
            if self.heap.peek().is_some_and(|Reverse(least)| least.0 >= value) {
                return None;
            }
            self.heap.pop();
        }
        self.heap.push(Reverse(Ordered(value)));
        let least = self.heap.peek().map(|Reverse(least)| least.0);
        least.filter(|_| self.heap.len() == self.k)
    }
}

fn bits(words: &[u64], block: usize) -> u16 {
    const PER_WORD: usize = 64 / LANES_F32;
    let word = words.get(block / PER_WORD).copied().unwrap_or(0);
    (word >> (LANES_F32 * (block % PER_WORD))) as u16
}

impl Kernel for Screen<'_> {
    type Output = Vec<Found>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Vec<Found> {
        let mut found = Vec::new();
        let mut largest = Largest { k: self.k, heap: BinaryHeap::new() };
        let Self { dim, prepared, .. } = self;
        let blocks = self.lanes.chunks_exact(dim + 1).take(self.blocks);
        for (block, lanes) in (self.first..).zip(blocks) {
            let mut wanted = bits(self.present, block);
            if let Some(words) = self.wanted {
                wanted &= bits(words, block);
            }
            if wanted == 0 {
                continue;
            }
            let mut shift = F32x16::splat(0.0);
            if let Some(shifts) = self.shifts {
                let from = shifts.get(block * LANES_F32..).unwrap_or_default();
                shift.0.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            }
            let (norm, lanes) = lanes.split_at(1);
            let norm_w = simd.load_f32(&norm[0]);
            let linear = linear_part(simd, &prepared.mean, lanes);
            let linear = simd.add_f32(linear, simd.load_f32(&shift));
            // Nothing of the bonus is known but how large it can be.
            let widest = prepared.rest[0].sqrt() + prepared.slack;
            let bound = simd.mul_add_f32(norm_w, simd.splat_f32(widest), linear);
            let limit = self.threshold.get() - prepared.slack_any;
            let mut mask = wanted & simd.not_above_f32(simd.splat_f32(limit), bound);
            if mask == 0 {
                continue;
            }
            let mut sum = F32x16::splat(0.0);
            simd.store_f32(linear, &mut sum);
            let (mut upper, mut lower) = (sum, sum);
            let (mut squares, mut tail) = (F32x16::splat(0.0), F32x16::splat(0.0));
            for lane in 0..LANES_F32 {
                tail.0[lane] = norm[0].0[lane] * norm[0].0[lane] * prepared.tail_growth;
            }
            let mut limit = limit;
            for (at, factor) in prepared.factor.iter().enumerate() {
                let pivots = &prepared.pivots[at * CHUNK..];
                add_rows(simd, factor, pivots, lanes, &mut squares, &mut tail);
                let rest = prepared.rest[at + 1];
                for lane in 0..LANES_F32 {
                    let (square, slack) =
                        (squares.0[lane], prepared.slack * norm[0].0[lane] + prepared.slack_any);
                    let most = square + rest * tail.0[lane].max(0.0);
                    upper.0[lane] = sum.0[lane] + most.sqrt() + slack;
                    lower.0[lane] = sum.0[lane] + square.sqrt() - slack;
                }
                limit = self.threshold.get();
                let upper = simd.load_f32(&upper);
                mask &= simd.not_above_f32(simd.splat_f32(limit), upper);
                if mask == 0 {
                    break;
                }
            }
            while mask != 0 {
                let lane = mask.trailing_zeros() as usize;
                mask &= mask - 1;
                let slot = (block * LANES_F32 + lane) as u32;
                let (lower, upper) = (lower.0[lane], upper.0[lane]);
                if upper < limit {
                    continue;
                }
                found.push(Found { slot, lower, upper });
                if let Some(least) = largest.add(lower) {
                    self.threshold.raise(least);
                    limit = limit.max(least);
                }
            }
        }
        found
    }
}

/// ⟨m, x⟩ of sixteen items, as four sums side by side.
#[inline(always)]
fn linear_part<S: Simd>(simd: S, mean: &[f32], lanes: &[F32x16]) -> S::W {
    let zero = simd.splat_f32(0.0);
    let (mut a, mut b, mut c, mut d) = (zero, zero, zero, zero);
    let (means, items) = (mean.chunks_exact(4), lanes.chunks_exact(4));
    for (m, x) in means.remainder().iter().zip(items.remainder()) {
        a = simd.mul_add_f32(simd.load_f32(x), simd.splat_f32(*m), a);
    }
    for (m, x) in means.zip(items) {
        a = simd.mul_add_f32(simd.load_f32(&x[0]), simd.splat_f32(m[0]), a);
        b = simd.mul_add_f32(simd.load_f32(&x[1]), simd.splat_f32(m[1]), b);
        c = simd.mul_add_f32(simd.load_f32(&x[2]), simd.splat_f32(m[2]), c);
        d = simd.mul_add_f32(simd.load_f32(&x[3]), simd.splat_f32(m[3]), d);
    }
    simd.add_f32(simd.add_f32(a, b), simd.add_f32(c, d))
}

/// Adds yᵣ² of a chunk of rows, and takes their pivots from the rest.
#[inline(always)]
fn add_rows<S: Simd>(
    simd: S,
    factor: &[[f32; CHUNK]],
    pivots: &[u32],
    lanes: &[F32x16],
    squares: &mut F32x16,
    tail: &mut F32x16,
) {
    let mut rows = [simd.splat_f32(0.0); CHUNK];
    let mut rest = simd.load_f32(tail);
    for (at, (coefficients, pivot)) in factor.iter().zip(pivots).enumerate() {
        let x = simd.load_f32(&lanes[*pivot as usize]);
        if at < CHUNK {
            rest = simd.sub_mul_f32(x, x, rest);
        }
        for (row, coefficient) in rows.iter_mut().zip(coefficients) {
            *row = simd.mul_add_f32(x, simd.splat_f32(*coefficient), *row);
        }
    }
    let mut sum = simd.load_f32(squares);
    for row in rows {
        sum = simd.mul_add_f32(row, row, sum);
    }
    simd.store_f32(sum, squares);
    simd.store_f32(rest, tail);
}
