//! Memory layout of many learners: lanes, blocks and runs.
//!
//! ```text
//! lane    one number for each of eight learners, 64 bytes: a register, a cache line
//! block   V⁻¹ (packed) | θ̂ | ln det V | updates of eight learners, one lane a coefficient
//! run     blocks side by side in one allocation: what a thread takes at a time
//! ```
//!
//! More learners are more runs: existing runs are never copied, so that a service does not pause
//! when it grows, and N learners take the memory of their statistics.

use std::sync::Arc;

use crate::algebra::packed_len;
use crate::linear::{Progress, Symmetric};
pub use crate::simd::{F64x8, LANES};

/// Lanes per run, roughly: 256 KiB, some tens of microseconds of work.
const RUN_LANES: usize = 4096;

/// Blocks side by side.
pub type Run = Arc<Vec<F64x8>>;

/// The layout of a block, which follows from the dimension.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// d.
    pub dim: usize,
    /// d(d+1)/2, the coefficients of V⁻¹.
    pub packed: usize,
}

/// A read-only view of a block.
#[derive(Clone, Copy)]
pub struct LearnerBlock<'a> {
    /// V⁻¹ packed.
    pub inverse: &'a [F64x8],
    /// θ̂.
    pub estimate: &'a [F64x8],
    /// ln det V − d ln λ.
    pub log_det: &'a F64x8,
    /// The number of updates.
    pub updates: &'a F64x8,
}

/// A mutable view of a block.
pub struct BlockMut<'a> {
    /// V⁻¹ packed.
    pub inverse: &'a mut [F64x8],
    /// θ̂.
    pub estimate: &'a mut [F64x8],
    /// ln det V − d ln λ.
    pub log_det: &'a mut F64x8,
    /// The number of updates.
    pub updates: &'a mut F64x8,
}

impl Layout {
    /// The layout for contexts of dimension `dim`.
    pub fn new(dim: usize) -> Self {
        Self { dim, packed: packed_len(dim) }
    }

    /// Lanes per block.
    pub fn stride(self) -> usize {
        self.packed + self.dim + 2
    }

    /// Blocks per run: an even number, since kernels score two blocks at a time.
    pub fn run_blocks(self) -> usize {
        (RUN_LANES / self.stride()).clamp(2, 64) & !1
    }

    /// Learners per run.
    pub fn run_learners(self) -> usize {
        self.run_blocks() * LANES
    }

    /// Splits the lanes of a block into its parts.
    pub fn view(self, lanes: &[F64x8]) -> LearnerBlock<'_> {
        let (inverse, rest) = lanes.split_at(self.packed);
        let (estimate, rest) = rest.split_at(self.dim);
        LearnerBlock { inverse, estimate, log_det: &rest[0], updates: &rest[1] }
    }

    /// Splits the lanes of a block into its parts, mutably.
    pub fn view_mut(self, lanes: &mut [F64x8]) -> BlockMut<'_> {
        let (inverse, rest) = lanes.split_at_mut(self.packed);
        let (estimate, rest) = rest.split_at_mut(self.dim);
        let (log_det, updates) = rest.split_at_mut(1);
        BlockMut { inverse, estimate, log_det: &mut log_det[0], updates: &mut updates[0] }
    }

    /// Adds blocks of fresh learners until there are `blocks` of them.
    pub fn grow(self, runs: &mut Vec<Run>, blocks: usize, lambda: f64) {
        let (stride, per_run) = (self.stride(), self.run_blocks());
        let in_last = runs.last().map_or(per_run, |run| run.len() / stride);
        let mut have = runs.len() * per_run + in_last - per_run;
        while have < blocks {
            let added = (blocks - have).min(per_run - have % per_run);
            if have.is_multiple_of(per_run) {
                runs.push(Arc::new(Vec::with_capacity(added * stride)));
            }
            let Some(run) = runs.last_mut().map(Arc::make_mut) else { return };
            let start = run.len();
            run.resize(start + added * stride, F64x8::splat(0.0));
            for block in run[start..].chunks_exact_mut(stride) {
                for k in 0..self.dim {
                    block[packed_len(k) + k] = F64x8::splat(1.0 / lambda);
                }
            }
            have += added;
        }
    }
}

impl LearnerBlock<'_> {
    /// The progress of one learner.
    pub fn progress(&self, lane: usize) -> Progress {
        Progress { log_det: self.log_det.0[lane], updates: self.updates.0[lane] }
    }

    /// θ̂ of one learner.
    pub fn estimate_of(&self, lane: usize) -> impl Iterator<Item = f64> {
        self.estimate.iter().map(move |lanes| lanes.0[lane])
    }

    /// V⁻¹ of one learner.
    pub fn inverse_of(&self, lane: usize) -> Symmetric {
        let packed = self.inverse.iter().map(|lanes| lanes.0[lane]).collect();
        Symmetric::from_packed(self.estimate.len(), packed)
    }
}
