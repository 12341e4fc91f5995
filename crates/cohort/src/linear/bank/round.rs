//! One round over the blocks of a run: every block learns its pending rewards and chooses while it
//! is in cache.

use super::arm_tiles::ArmTiles;
use super::choosing::{self, Choose, MOST_BLOCKS};
use super::layout::{F64x8, LANES, Layout, LearnerBlock};
use super::learning;
use super::pending::Pending;
use crate::Arm;
use crate::linear::Progress;
use crate::simd::{InstructionSet, with_scratch};

/// The inputs of a round, shared by all runs.
pub struct RoundChoice<'a, R> {
    /// The layout of a block.
    pub layout: Layout,
    /// The instruction set.
    pub set: InstructionSet,
    /// The previous round, still to be learned.
    pub pending: &'a Pending,
    /// This round's arms.
    pub offer: ArmTiles,
    /// The radius of a learner's confidence set, by its number and progress.
    pub radius: R,
}

impl<R: Fn(usize, Progress) -> f64> RoundChoice<'_, R> {
    /// Chooses for the learners of a run, which starts with learner `first`.
    pub fn choose(&self, mut first: usize, lanes: &mut [F64x8], arms: &mut [Arm]) {
        let (stride, together) = (self.layout.stride(), self.set.blocks_at_once());
        let needed = choosing::scratch_lanes(&self.offer);
        with_scratch(needed.max(learning::scratch_lanes(self.layout)), |scratch| {
            let blocks = lanes.chunks_mut(together * stride);
            for (blocks, arms) in blocks.zip(arms.chunks_mut(together * LANES)) {
                let mut radii = [F64x8::splat(0.0); MOST_BLOCKS];
                let of_block = blocks.chunks_exact_mut(stride).zip(arms.chunks(LANES));
                for ((block, arms), radii) in of_block.zip(&mut radii) {
                    self.pending.apply_to(self.set, self.layout, first, block, scratch);
                    *radii = self.radii(first, self.layout.view(block), arms.len());
                    first += LANES;
                }
                let chosen = self.set.run(Choose {
                    layout: self.layout,
                    offer: &self.offer,
                    blocks,
                    next: blocks.as_ptr_range().end,
                    radii: &radii,
                    scratch,
                });
                for (arm, chosen) in arms.iter_mut().zip(chosen.iter().flat_map(|lane| lane.0)) {
                    *arm = chosen as Arm;
                }
            }
        });
    }

    /// The radii of the learners of a block; the last block may have fewer than eight.
    fn radii(&self, first: usize, block: LearnerBlock, learners: usize) -> F64x8 {
        let radius = |lane| (self.radius)(first + lane, block.progress(lane));
        if learners == LANES {
            // No stores in between, so that the compiler computes common subexpressions once.
            F64x8(std::array::from_fn(radius))
        } else {
            F64x8(std::array::from_fn(|lane| if lane < learners { radius(lane) } else { 0.0 }))
        }
    }
}
