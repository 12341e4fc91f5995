//! Many OFUL learners at once: users as SIMD lanes.
//!
//! | file | question it answers |
//! | --- | --- |
//! | this one | what can a bank do? |
//! | `layout` | where are the numbers? |
//! | `offer` | what can be prepared once for all learners? |
//! | `choosing`, `choosing_one` | which arm? |
//! | `learning`, `via_precision` | what follows from a reward? |
//! | `pending` | why are rewards not learned at once? |
//! | `round` | how are many blocks processed? |
//! | `one` | what can one learner do? |
//! | `saved` | how is a learner exported? |
//!
//! Learners are stored in blocks of eight, and inside a block every number of V⁻¹ (packed), of θ̂
//! and of ln det V is an array of one value per learner. Scoring, choosing and the rank-one update
//! are then plain vector code, and a block learns and chooses while it is in cache. Blocks are
//! independent, so they run on as many threads as the caller's rayon pool has and give the same
//! bits on any number.
//!
//! V itself is not stored: Sherman–Morrison contracts its own errors in every direction that is
//! being updated, so V⁻¹ stays near the direct inverse indefinitely (`tests` measures how near).
//! Only an update that would cancel many digits at once — a context far larger than all before it —
//! goes through V (`via_precision`).

mod arm_tiles;
mod choosing;
mod choosing_one;
mod layout;
mod learning;
mod one;
mod pending;
mod round;
mod saved;
#[cfg(test)]
mod tests;
mod via_precision;

use std::sync::Arc;

use rayon::prelude::*;

use super::{Progress, Shape};
pub use crate::simd::InstructionSet;
use crate::simd::with_scratch;
use crate::{Arm, Contexts};
use arm_tiles::ArmTiles;
use layout::{F64x8, LANES, Layout, LearnerBlock, Run};
use pending::Pending;
use round::RoundChoice;

/// Many learners of the same dimension and regulariser.
#[derive(Clone, Debug)]
pub struct Bank {
    layout: Layout,
    lambda: f64,
    learners: usize,
    /// Shared with copies until one of them writes to it.
    runs: Vec<Run>,
    /// The last round's rewards, which are learned when the next round chooses.
    pending: Pending,
    set: InstructionSet,
    /// Scratch for a single update: the learner's context, and zeros for the other lanes.
    single_contexts: Vec<f64>,
}

impl Bank {
    /// Fresh learners.
    pub fn new(learners: usize, dim: usize, lambda: f64) -> Self {
        let mut bank = Self {
            layout: Layout::new(dim),
            lambda,
            learners: 0,
            runs: Vec::new(),
            pending: Pending::default(),
            set: InstructionSet::best(),
            single_contexts: vec![0.0; 2 * dim],
        };
        bank.grow(learners);
        bank
    }

    /// The same bank with another instruction set than the fastest.
    pub fn using(self, set: InstructionSet) -> Self {
        Self { set, ..self }
    }

    /// Adds fresh learners until there are `learners`.
    pub fn grow(&mut self, learners: usize) {
        if learners > self.learners {
            self.learners = learners;
            self.layout.grow(&mut self.runs, learners.div_ceil(LANES), self.lambda);
        }
    }

    /// The number of learners.
    pub fn learners(&self) -> usize {
        self.learners
    }

    /// An arm for every learner: `argmax_x ⟨x, θ̂⟩ + offset(x) + radius·‖x‖` in the norm of the
    /// confidence set. `radius` is called once per learner; `offsets`, if any, are added to the
    /// arms' scores of all learners.
    /// Contexts of a lower dimension than the learners' are padded with zeros.
    ///
    /// # Panics
    /// If the contexts are of a higher dimension, or there are not as many offsets as arms.
    pub fn choose(
        &mut self,
        contexts: &Contexts,
        shape: Shape,
        radius: impl Fn(usize, Progress) -> f64 + Sync,
        offsets: Option<&[f64]>,
        arms: &mut [Arm],
    ) {
        let (dim, known) = (contexts.dim(), self.layout.dim);
        assert!(dim <= known, "contexts in {dim} dimensions for learners in {known}");
        if self.pending.learners() > arms.len() {
            self.apply_pending();
        }
        let (layout, set, pending) = (self.layout, self.set, &self.pending);
        let offer = ArmTiles::new(contexts, shape, offsets, set.arms_at_once());
        let round = RoundChoice { layout, set, pending, offer, radius: &radius };
        let per_run = layout.run_learners();
        let runs = self.runs.iter_mut().zip(arms.chunks_mut(per_run));
        for_each(runs.enumerate(), |(run, (lanes, arms))| {
            round.choose(run * per_run, Arc::make_mut(lanes).as_mut_slice(), arms);
        });
        self.pending.clear();
    }

    /// Learns one reward per learner: `rewards[i]` for `arms[i]`.
    ///
    /// # Panics
    /// If the contexts are of another dimension, there are not as many rewards as arms, or an arm
    /// was not on offer.
    pub fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        self.learn_some(contexts, arms, rewards, |_| true);
    }

    /// The same for some of them; the others stay as they are.
    ///
    /// # Panics
    /// As [`Bank::learn`].
    pub(crate) fn learn_some(
        &mut self,
        contexts: &Contexts,
        arms: &[Arm],
        rewards: &[f64],
        learns: impl Fn(usize) -> bool,
    ) {
        self.check_dim(contexts.dim());
        self.apply_pending();
        self.pending.set(contexts, arms, rewards, learns);
    }

    /// Applies the pending round.
    fn apply_pending(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let (layout, set, pending) = (self.layout, self.set, &self.pending);
        for_each(self.runs.iter_mut().enumerate(), |(run, lanes)| {
            with_scratch(learning::scratch_lanes(layout), |scratch| {
                let blocks = Arc::make_mut(lanes).chunks_exact_mut(layout.stride());
                for (at, block) in blocks.enumerate() {
                    let first = run * layout.run_learners() + at * LANES;
                    pending.apply_to(set, layout, first, block, scratch);
                }
            });
        });
        self.pending.clear();
    }

    /// θ̂ of every learner, row by row.
    pub fn estimates(&self) -> Vec<f64> {
        let (dim, per_run) = (self.layout.dim, self.layout.run_learners());
        let mut estimates = vec![0.0; self.learners * dim];
        for_each(estimates.chunks_mut(per_run * dim).enumerate(), |(run, estimates)| {
            for (block, estimates) in estimates.chunks_mut(LANES * dim).enumerate() {
                self.with_block(run * per_run + block * LANES, |block| {
                    for (lane, estimate) in estimates.chunks_exact_mut(dim).enumerate() {
                        for (estimate, lanes) in estimate.iter_mut().zip(block.estimate) {
                            *estimate = lanes.0[lane];
                        }
                    }
                });
            }
        });
        estimates
    }

    /// Calls `look` with the block of a learner, its pending reward included.
    fn with_block<R>(&self, learner: usize, look: impl FnOnce(LearnerBlock) -> R) -> R {
        let layout = self.layout;
        let (run, start) = self.place(learner);
        let block = &self.runs[run][start..start + layout.stride()];
        if self.pending.is_empty() {
            return look(layout.view(block));
        }
        with_scratch(layout.stride() + learning::scratch_lanes(layout), |scratch| {
            let (taught, scratch) = scratch.split_at_mut(layout.stride());
            taught.copy_from_slice(block);
            let first = learner - learner % LANES;
            self.pending.apply_to(self.set, layout, first, taught, scratch);
            look(layout.view(taught))
        })
    }

    /// The block of a learner, mutably. Applies the pending round first.
    fn block_mut(&mut self, learner: usize) -> &mut [F64x8] {
        self.apply_pending();
        let (run, start) = self.place(learner);
        let stride = self.layout.stride();
        &mut Arc::make_mut(&mut self.runs[run])[start..start + stride]
    }

    fn check_dim(&self, dim: usize) {
        assert_eq!(dim, self.layout.dim, "the dimension of the contexts and of the learners");
    }

    /// The run of a learner, and where in it the block starts.
    fn place(&self, learner: usize) -> (usize, usize) {
        let per_run = self.layout.run_learners();
        (learner / per_run, learner % per_run / LANES * self.layout.stride())
    }
}

/// Runs all tasks, in parallel where the caller's pool and the tasks are more than one.
fn for_each<T: Send>(tasks: impl Iterator<Item = T>, work: impl Fn(T) + Sync + Send) {
    let tasks: Vec<T> = tasks.collect();
    if tasks.len() > 1 && rayon::current_num_threads() > 1 {
        tasks.into_par_iter().for_each(work);
    } else {
        tasks.into_iter().for_each(work);
    }
}
