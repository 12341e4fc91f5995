//! Arm choice for many learners: `argmax_x ⟨x, θ̂⟩ + offset(x) + radius·‖x‖_{V⁻¹}`, learners as
//! lanes.
//!
//! Every coefficient of a block is loaded once for a whole tile of arms, whose sums stay in
//! registers. Two blocks at once share the weights of the arms.

use super::arm_tiles::ArmTiles;
use super::layout::{F64x8, Layout};
use crate::simd::{Kernel, Simd};

/// The most blocks that any instruction set scores at once.
pub const MOST_BLOCKS: usize = 2;

/// How many lanes of scratch memory [`Choose`] needs.
pub fn scratch_lanes(offer: &ArmTiles) -> usize {
    2 * offer.arms() * MOST_BLOCKS
}

/// Kernel that chooses for one block, or for as many as the instruction set scores at once.
pub struct Choose<'a> {
    /// The layout of a block.
    pub layout: Layout,
    /// The arms on offer.
    pub offer: &'a ArmTiles,
    /// The blocks, contiguous.
    pub blocks: &'a [F64x8],
    /// The address of the next blocks, for prefetching.
    pub next: *const F64x8,
    /// The radius of every learner.
    pub radii: &'a [F64x8; MOST_BLOCKS],
    /// [`scratch_lanes`] lanes.
    pub scratch: &'a mut [F64x8],
}

impl Kernel for Choose<'_> {
    /// The arm of every learner, as an f64.
    type Output = [F64x8; MOST_BLOCKS];

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Self::Output {
        macro_rules! compiled_for_tiles_of {
            ($($arms:literal)*) => {
                match self.offer.tile {
                    $($arms if const { $arms <= S::ARMS } => if const { S::BLOCKS == 1 } {
                        self.choose::<S, $arms, 1>(simd)
                    } else {
                        self.choose::<S, $arms, 2>(simd)
                    })*
                    other => unreachable!("a tile of {other} arms"),
                }
            };
        }
        // As in `arm_tiles.rs`.
        compiled_for_tiles_of!(1 2 4 6 8 10 13)
    }
}

impl Choose<'_> {
    #[inline(always)]
    fn choose<S: Simd, const ARMS: usize, const BLOCKS: usize>(
        self,
        simd: S,
    ) -> [F64x8; MOST_BLOCKS] {
        let Self { layout, offer, blocks, next, radii, scratch } = self;
        let per_tile = ARMS * BLOCKS;
        let (length, rest) = scratch.split_at_mut(offer.tiles * per_tile);
        let mean = &mut rest[..offer.tiles * per_tile];

        // Where only one block is left, it is scored twice.
        let last = blocks.len() / layout.stride() - 1;
        let mut inverse = [blocks; BLOCKS];
        let mut estimate = [blocks; BLOCKS];
        for b in 0..BLOCKS {
            let block = layout.view(&blocks[b.min(last) * layout.stride()..]);
            (inverse[b], estimate[b]) = (block.inverse, block.estimate);
        }

        // xᵀV⁻¹x tile by tile, with the square roots of one tile computed while the next is summed:
        // the divider works beside the multipliers. The first tiles prefetch one of the next blocks
        // each.
        let mut roots: &mut [F64x8] = &mut [];
        if offer.length.is_empty() {
            let mut rest = &mut *length;
            for (tile, weights) in offer.outer.chunks_exact(offer.layout.packed * ARMS).enumerate()
            {
                let (squares, later) = rest.split_at_mut(per_tile);
                let next = next.wrapping_add(tile.min(BLOCKS - 1) * layout.stride());
                add_up::<S, ARMS, BLOCKS>(simd, inverse, weights, next, roots, squares);
                (roots, rest) = (squares, later);
            }
        } else {
            for (lanes, length) in length.chunks_exact_mut(BLOCKS).zip(&offer.length) {
                lanes.fill(F64x8::splat(*length));
            }
        }
        // ⟨x, θ̂⟩ tile by tile, and meanwhile the remaining square roots.
        let tiles =
            offer.x.chunks_exact(offer.layout.dim * ARMS).zip(mean.chunks_exact_mut(per_tile));
        for (tile, (weights, means)) in tiles.enumerate() {
            let next = next.wrapping_add(tile.min(BLOCKS - 1) * layout.stride() + layout.packed);
            let (now, later) = roots.split_at_mut(roots.len().min(layout.dim));
            add_up::<S, ARMS, BLOCKS>(simd, estimate, weights, next, now, means);
            roots = later;
        }
        for lane in roots {
            simd.store(simd.root(simd.load(lane)), lane);
        }

        let mut best = [simd.splat(f64::NEG_INFINITY); BLOCKS];
        let mut chosen = [simd.splat(0.0); BLOCKS];
        let lanes = length.as_chunks::<BLOCKS>().0.iter().zip(mean.as_chunks::<BLOCKS>().0);
        for (arm, ((length, mean), offset)) in lanes.zip(&offer.offset).enumerate() {
            let (offset, this) = (simd.splat(*offset), simd.splat(arm as f64));
            for b in 0..BLOCKS {
                let mean = simd.add(simd.load(&mean[b]), offset);
                let mut length = simd.load(&length[b]);
                if offer.squared {
                    length = simd.mul(length, length);
                }
                let score = simd.mul_add(simd.load(&radii[b]), length, mean);
                chosen[b] = simd.where_greater(score, best[b], this, chosen[b]);
                best[b] = simd.where_greater(score, best[b], score, best[b]);
            }
        }
        let mut arms = [F64x8::splat(0.0); MOST_BLOCKS];
        for b in 0..BLOCKS {
            simd.store(chosen[b], &mut arms[b]);
        }
        arms
    }
}

/// `sums[arm][block] = Σ_c coefficients[block][c]·weights[c][arm]` for a tile of arms, interleaved
/// with the square roots of other sums.
#[inline(always)]
fn add_up<S: Simd, const ARMS: usize, const BLOCKS: usize>(
    simd: S,
    coefficients: [&[F64x8]; BLOCKS],
    weights: &[f64],
    next: *const F64x8,
    roots: &mut [F64x8],
    sums: &mut [F64x8],
) {
    let weights = weights.as_chunks::<ARMS>().0;
    let coefficients = coefficients.map(|lanes| &lanes[..weights.len()]);
    let mut sum = [[simd.splat(0.0); BLOCKS]; ARMS];
    let mut at = 0;
    // Loops of constant length over arrays in registers; a macro, since a closure or function would
    // spill them.
    macro_rules! add_one {
        () => {
            let mut coefficient = [simd.splat(0.0); BLOCKS];
            for b in 0..BLOCKS {
                coefficient[b] = simd.load(&coefficients[b][at]);
            }
            simd.prefetch(next.wrapping_add(at));
            for arm in 0..ARMS {
                let weight = simd.splat(weights[at][arm]);
                for b in 0..BLOCKS {
                    sum[arm][b] = simd.mul_add(coefficient[b], weight, sum[arm][b]);
                }
            }
            at += 1;
        };
    }
    let every = weights.len() / roots.len().max(1);
    for lane in roots {
        for _ in 0..every {
            add_one!();
        }
        simd.store(simd.root(simd.load(lane)), lane);
    }
    while at < weights.len() {
        add_one!();
    }
    for arm in 0..ARMS {
        for b in 0..BLOCKS {
            simd.store(sum[arm][b], &mut sums[arm * BLOCKS + b]);
        }
    }
}
