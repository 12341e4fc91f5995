//! Screening of sixteen items at once: coordinates are added until none of them can be among the
//! best.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::matrix::Threshold;
use super::prepared::{CHUNK, PreparedForm};
use crate::simd::{F32x16, Kernel, LANES_F32, Simd};

/// An item that may be among the best, and bounds of its score.
#[derive(Clone, Copy, Debug)]
pub(super) struct Match {
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
    pub prepared: &'a PreparedForm,
    pub k: usize,
    pub threshold: &'a Threshold,
}

/// The k best of many numbers.
struct TopK {
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

impl TopK {
    /// Adds a score; returns the k-th best if there are k.
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

/// Sixteen items whose bonus is to be worked out: a block as it is, or those that are left of several blocks.
struct ItemBlock<'a> {
    lanes: &'a [F32x16],
    norm: &'a F32x16,
    /// The expected reward of each.
    linear: &'a F32x16,
    slots: &'a [u32; LANES_F32],
    /// Which of them are asked about.
    mask: u16,
}

/// Items that are left of blocks of which few are, side by side: sixteen bonuses cost as much as one.
struct Survivors {
    lanes: Vec<F32x16>,
    norm: F32x16,
    linear: F32x16,
    slots: [u32; LANES_F32],
    count: usize,
}

impl Survivors {
    fn new(dim: usize) -> Self {
        let zero = F32x16::splat(0.0);
        Self { lanes: vec![zero; dim], norm: zero, linear: zero, slots: [0; LANES_F32], count: 0 }
    }

    fn add(&mut self, from: &ItemBlock, lane: usize) {
        for (to, from) in self.lanes.iter_mut().zip(from.lanes) {
            to.0[self.count] = from.0[lane];
        }
        self.norm.0[self.count] = from.norm.0[lane];
        self.linear.0[self.count] = from.linear.0[lane];
        self.slots[self.count] = from.slots[lane];
        self.count += 1;
    }

    fn as_block(&self) -> ItemBlock<'_> {
        let mask = ((1u32 << self.count) - 1) as u16;
        let Self { lanes, norm, linear, slots, .. } = self;
        ItemBlock { lanes, norm, linear, slots, mask }
    }
}

/// Blocks with at least this many remaining items are scored in place: compacting them would cost
/// more.
const MANY_LEFT: u32 = 8;

impl Kernel for Screen<'_> {
    type Output = Vec<Match>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Vec<Match> {
        let mut found = Vec::new();
        let mut best = TopK { k: self.k, heap: BinaryHeap::new() };
        let Self { dim, prepared, .. } = self;
        let mut survivors = Survivors::new(dim);
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
            let linear_w = linear_part(simd, &prepared.mean, lanes);
            let linear_w = simd.add_f32(linear_w, simd.load_f32(&shift));
            let mut linear = F32x16::splat(0.0);
            simd.store_f32(linear_w, &mut linear);
            let mask = wanted & self.may_be(simd, &norm[0], &linear);
            if mask == 0 {
                continue;
            }
            let slots = std::array::from_fn(|lane| (block * LANES_F32 + lane) as u32);
            let mut items =
                ItemBlock { lanes, norm: &norm[0], linear: &linear, slots: &slots, mask };
            if mask.count_ones() >= MANY_LEFT {
                self.score(simd, &items, &mut found, &mut best);
                continue;
            }
            while items.mask != 0 {
                survivors.add(&items, items.mask.trailing_zeros() as usize);
                items.mask &= items.mask - 1;
                if survivors.count == LANES_F32 {
                    self.score_survivors(simd, &mut survivors, &mut found, &mut best);
                }
            }
        }
        self.score_survivors(simd, &mut survivors, &mut found, &mut best);
        found
    }
}

impl Screen<'_> {
    /// Which of sixteen may be among the best, if nothing of the bonus is known but how large it can be.
    #[inline(always)]
    fn may_be<S: Simd>(&self, simd: S, norm: &F32x16, linear: &F32x16) -> u16 {
        let widest = self.prepared.rest[0].sqrt() + self.prepared.slack;
        let (norm, linear) = (simd.load_f32(norm), simd.load_f32(linear));
        let bound = simd.mul_add_f32(norm, simd.splat_f32(widest), linear);
        let limit = self.threshold.get() - self.prepared.slack_any;
        simd.not_above_f32(simd.splat_f32(limit), bound)
    }

    #[inline(always)]
    fn score_survivors<S: Simd>(
        &self,
        simd: S,
        survivors: &mut Survivors,
        found: &mut Vec<Match>,
        best: &mut TopK,
    ) {
        let mut items = survivors.as_block();
        // The threshold may have risen since they were put here.
        items.mask &= self.may_be(simd, items.norm, items.linear);
        if items.mask != 0 {
            self.score(simd, &items, found, best);
        }
        survivors.count = 0;
    }

    /// Works out the bonus of sixteen items, as far as it takes.
    #[inline(always)]
    fn score<S: Simd>(&self, simd: S, block: &ItemBlock, found: &mut Vec<Match>, best: &mut TopK) {
        let &ItemBlock { lanes, norm, linear, slots, mut mask } = block;
        let prepared = self.prepared;
        let (mut upper, mut lower) = (*linear, *linear);
        let (mut squares, mut tail) = (F32x16::splat(0.0), F32x16::splat(0.0));
        for lane in 0..LANES_F32 {
            tail.0[lane] = norm.0[lane] * norm.0[lane] * prepared.tail_growth;
        }
        let mut limit = self.threshold.get() - prepared.slack_any;
        for (at, factor) in prepared.factor.iter().enumerate() {
            let pivots = &prepared.pivots[at * CHUNK..];
            add_rows(simd, factor, pivots, lanes, &mut squares, &mut tail);
            let rest = prepared.rest[at + 1];
            for lane in 0..LANES_F32 {
                let (square, slack) =
                    (squares.0[lane], prepared.slack * norm.0[lane] + prepared.slack_any);
                let most = square + rest * tail.0[lane].max(0.0);
                upper.0[lane] = linear.0[lane] + most.sqrt() + slack;
                lower.0[lane] = linear.0[lane] + square.sqrt() - slack;
            }
            limit = self.threshold.get();
            mask &= simd.not_above_f32(simd.splat_f32(limit), simd.load_f32(&upper));
            if mask == 0 {
                return;
            }
        }
        while mask != 0 {
            let lane = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            let (slot, lower, upper) = (slots[lane], lower.0[lane], upper.0[lane]);
            if upper < limit {
                continue;
            }
            found.push(Match { slot, lower, upper });
            if let Some(least) = best.add(lower) {
                self.threshold.raise(least);
                limit = limit.max(least);
            }
        }
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
