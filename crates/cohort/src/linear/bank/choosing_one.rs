//! Arm choice for one learner: arms as lanes.
//!
//! It adds the same products in the same order as [`choosing`](super::choosing), so that a learner
//! that is asked alone gives the same arm as in a round, to the last bit.

use super::arm_tiles::euclidean;
use super::layout::{F64x8, LANES, Layout, LearnerBlock};
use crate::linear::{Shape, argmax};
use crate::simd::{Kernel, Simd};
use crate::{Arm, Contexts};

/// Kernel that chooses for one learner; arms are lanes.
pub struct ChooseOne<'a> {
    /// The learner's block.
    pub block: LearnerBlock<'a>,
    /// The learner's lane in the block.
    pub lane: usize,
    /// The arms on offer.
    pub contexts: &'a Contexts<'a>,
    /// The form of the confidence set.
    pub shape: Shape,
    /// Its radius.
    pub radius: f64,
    /// [`ChooseOne::scratch_lanes`] lanes.
    pub scratch: &'a mut [F64x8],
}

/// How many lanes of arms are processed at once: their sums are independent, so that no addition
/// waits for another.
const UNROLL: usize = 4;

impl ChooseOne<'_> {
    /// How many lanes of scratch memory it needs.
    pub fn scratch_lanes(layout: Layout, contexts: &Contexts) -> usize {
        UNROLL * layout.dim + contexts.arms().div_ceil(LANES)
    }
}

impl Kernel for ChooseOne<'_> {
    type Output = Arm;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Arm {
        let Self { block, lane, contexts, shape, radius, scratch } = self;
        let (x, scores) = scratch.split_at_mut(UNROLL * block.estimate.len());
        let learner = Learner { block, lane, shape, radius };
        let mut first = 0;
        for scores in scores.chunks_mut(UNROLL) {
            match scores.len() {
                1 => learner.score::<S, 1>(simd, contexts, first, x, scores),
                2 => learner.score::<S, 2>(simd, contexts, first, x, scores),
                3 => learner.score::<S, 3>(simd, contexts, first, x, scores),
                _ => learner.score::<S, UNROLL>(simd, contexts, first, x, scores),
            }
            first += UNROLL * LANES;
        }
        argmax(scores.iter().flat_map(|lane| lane.0).take(contexts.arms()))
    }
}

/// One learner of a block.
struct Learner<'a> {
    block: LearnerBlock<'a>,
    lane: usize,
    shape: Shape,
    radius: f64,
}

impl Learner<'_> {
    /// The scores of `WIDTH` lanes of arms from the arm `first` on.
    #[inline(always)]
    fn score<S: Simd, const WIDTH: usize>(
        &self,
        simd: S,
        contexts: &Contexts,
        first: Arm,
        x: &mut [F64x8],
        scores: &mut [F64x8],
    ) {
        let dim = self.block.estimate.len();
        let x = &mut x.as_chunks_mut::<WIDTH>().0[..dim];
        // Lanes beyond the last arm repeat it; their scores are not read.
        let arm = |at: usize| contexts.arm((first + at).min(contexts.arms() - 1));
        for w in 0..WIDTH {
            let rows: [&[f64]; LANES] = std::array::from_fn(|l| arm(w * LANES + l));
            for k in 0..dim {
                x[k][w] = F64x8(rows.map(|row| row[k]));
            }
        }
        let LearnerBlock { inverse, estimate, .. } = self.block;
        let lane = self.lane;

        let mut length = [simd.splat(0.0); WIDTH];
        match self.shape {
            Shape::Ellipsoid | Shape::Squared => {
                let mut at = 0;
                for i in 0..dim {
                    let (mut x_i, mut doubled) = (length, length);
                    for w in 0..WIDTH {
                        x_i[w] = simd.load(&x[i][w]);
                        doubled[w] = simd.add(x_i[w], x_i[w]);
                    }
                    for j in 0..i {
                        let v = simd.splat(inverse[at].0[lane]);
                        for w in 0..WIDTH {
                            let weight = simd.mul(doubled[w], simd.load(&x[j][w]));
                            length[w] = simd.mul_add(v, weight, length[w]);
                        }
                        at += 1;
                    }
                    for w in 0..WIDTH {
                        let weight = simd.mul(x_i[w], x_i[w]);
                        length[w] =
                            simd.mul_add(simd.splat(inverse[at].0[lane]), weight, length[w]);
                    }
                    at += 1;
                }
                if self.shape == Shape::Ellipsoid {
                    for length in &mut length {
                        *length = simd.root(*length);
                    }
                }
            }
            Shape::Ball { .. } => {
                for w in 0..WIDTH {
                    let lengths = std::array::from_fn(|l| euclidean(arm(w * LANES + l)));
                    length[w] = simd.load(&F64x8(lengths));
                }
            }
        }
        let mut mean = [simd.splat(0.0); WIDTH];
        for k in 0..dim {
            for w in 0..WIDTH {
                let estimate = simd.splat(estimate[k].0[lane]);
                mean[w] = simd.mul_add(estimate, simd.load(&x[k][w]), mean[w]);
            }
        }
        for w in 0..WIDTH {
            let score = simd.mul_add(simd.splat(self.radius), length[w], mean[w]);
            simd.store(score, &mut scores[w]);
        }
    }
}
