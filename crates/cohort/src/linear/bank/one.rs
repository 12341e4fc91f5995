//! Operations on one learner of a bank.

use super::Bank;
use super::choosing_one::ChooseOne;
use super::layout::{F64x8, LANES};
use super::learning::{self, Learn};
use crate::linear::{Confidence, Oful, Progress, Shape, Symmetric, dot, largest_norm};
use crate::simd::with_scratch;
use crate::{Arm, Contexts};

impl Bank {
    /// The arm that one learner would choose in a round.
    ///
    /// # Panics
    /// If the contexts are of another dimension.
    pub fn choose_one(
        &self,
        learner: usize,
        contexts: &Contexts,
        shape: Shape,
        radius: f64,
    ) -> Arm {
        self.check_dim(contexts.dim());
        let lane = learner % LANES;
        self.with_block(learner, |block| {
            let lanes = ChooseOne::scratch_lanes(self.layout, contexts);
            with_scratch(lanes, |scratch| {
                self.set.run(ChooseOne { block, lane, contexts, shape, radius, scratch })
            })
        })
    }

    /// Learns one reward for one learner.
    ///
    /// # Panics
    /// If the context is of another dimension.
    pub fn learn_one(&mut self, learner: usize, x: &[f64], y: f64) {
        self.check_dim(x.len());
        let (layout, set, lane) = (self.layout, self.set, learner % LANES);
        // Row 0 is the learner's context, row 1 the zeros of the others.
        let mut played = [1; LANES];
        let (mut rewards, mut count) = (F64x8::splat(0.0), F64x8::splat(0.0));
        (played[lane], rewards.0[lane], count.0[lane]) = (0, y, 1.0);
        let mut contexts = std::mem::take(&mut self.single_contexts);
        contexts[..layout.dim].copy_from_slice(x);
        let block = self.block_mut(learner);
        with_scratch(learning::scratch_lanes(layout), |scratch| {
            set.run(Learn { layout, block, contexts: &contexts, played, rewards, count, scratch });
        });
        self.single_contexts = contexts;
    }

    /// The progress of one learner.
    pub fn progress(&self, learner: usize) -> Progress {
        self.with_block(learner, |block| block.progress(learner % LANES))
    }

    /// V⁻¹ of one learner.
    pub fn inverse(&self, learner: usize) -> Symmetric {
        self.with_block(learner, |block| block.inverse_of(learner % LANES))
    }

    /// Sets the estimate, V⁻¹ and number of updates of one learner: any Gaussian can be a prior.
    pub fn set_state(
        &mut self,
        learner: usize,
        estimate: &[f64],
        inverse: &Symmetric,
        updates: f64,
    ) {
        let (layout, lane) = (self.layout, learner % LANES);
        let block = layout.view_mut(self.block_mut(learner));
        for (lanes, value) in block.inverse.iter_mut().zip(inverse.packed()) {
            lanes.0[lane] = *value;
        }
        for (lanes, value) in block.estimate.iter_mut().zip(estimate) {
            lanes.0[lane] = *value;
        }
        block.log_det.0[lane] = 0.0;
        block.updates.0[lane] = updates;
    }

    /// Sets the estimates, V⁻¹·`scale` and numbers of updates of eight learners, the first of which
    /// is a multiple of eight. Of the last ones there may be less than eight.
    /// # Panics
    /// If the first is not a multiple of eight, or does not exist.
    pub(crate) fn set_eight(
        &mut self,
        first: usize,
        estimate: &[F64x8],
        inverse: &[F64x8],
        scale: &F64x8,
        updates: &F64x8,
    ) {
        assert!(first.is_multiple_of(LANES) && first < self.learners);
        let layout = self.layout;
        let block = layout.view_mut(self.block_mut(first));
        for (lanes, value) in block.inverse.iter_mut().zip(inverse) {
            *lanes = F64x8(std::array::from_fn(|lane| value[lane] * scale[lane]));
        }
        block.estimate.copy_from_slice(estimate);
        *block.log_det = F64x8::splat(0.0);
        *block.updates = *updates;
    }

    /// The numbers of updates of eight learners, of whom this is the first.
    pub(crate) fn updates_of_eight(&self, first: usize) -> F64x8 {
        self.with_block(first, |block| *block.updates)
    }

    /// θ̂ of one learner.
    pub fn estimate(&self, learner: usize) -> Vec<f64> {
        self.with_block(learner, |block| block.estimate_of(learner % LANES).collect())
    }

    /// Copies the state of a single learner.
    pub fn set(&mut self, learner: usize, oful: &Oful) {
        let (layout, lane) = (self.layout, learner % LANES);
        let block = layout.view_mut(self.block_mut(learner));
        for (lanes, value) in block.inverse.iter_mut().zip(oful.inverse().packed()) {
            lanes.0[lane] = *value;
        }
        for (lanes, value) in block.estimate.iter_mut().zip(oful.estimate()) {
            lanes.0[lane] = *value;
        }
        let progress = oful.progress();
        block.log_det.0[lane] = progress.log_det;
        block.updates.0[lane] = progress.updates;
    }

    /// Moves the prior mean of every learner by `step`: ridge regression towards m + step instead
    /// of m is θ̂ + λV⁻¹·step.
    pub fn shift_prior(&mut self, step: &[f64]) {
        let mut moved = vec![0.0; step.len()];
        for learner in 0..self.learners {
            self.inverse(learner).times(step, &mut moved);
            let (layout, lambda) = (self.layout, self.lambda);
            let block = layout.view_mut(self.block_mut(learner));
            for (lanes, moved) in block.estimate.iter_mut().zip(&moved) {
                lanes.0[learner % LANES] += lambda * moved;
            }
        }
    }

    /// `max ‖θ‖` over one learner's confidence set with norm bound S = `norm_bound`, exactly.
    pub fn largest_norm(&self, learner: usize, confidence: &Confidence, norm_bound: f64) -> f64 {
        self.largest_distance(learner, &vec![0.0; self.layout.dim], confidence, norm_bound)
    }

    /// `max ‖θ − from‖` over one learner's confidence set with norm bound S = `norm_bound`.
    pub fn largest_distance(
        &self,
        learner: usize,
        from: &[f64],
        confidence: &Confidence,
        norm_bound: f64,
    ) -> f64 {
        let lane = learner % LANES;
        self.with_block(learner, |block| {
            let radius = confidence.radius_for(norm_bound, block.progress(lane));
            let centre: Vec<f64> =
                block.estimate_of(lane).zip(from).map(|(estimate, from)| estimate - from).collect();
            match confidence.shape {
                Shape::Ellipsoid | Shape::Squared => {
                    largest_norm(&block.inverse_of(lane).eigen().inverse(), &centre, radius)
                }
                Shape::Ball { .. } => dot(&centre, &centre).sqrt() + radius,
            }
        })
    }
}
