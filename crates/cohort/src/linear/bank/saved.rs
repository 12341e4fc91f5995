//! What one learner knows as numbers that can be kept, and what it thinks of every arm.

use super::Bank;
use super::layout::LANES;
use crate::linear::{Shape, Symmetric, dot};
use crate::{Contexts, Score};

impl Bank {
    /// d.
    pub fn dim(&self) -> usize {
        self.layout.dim
    }

    /// What [`Bank::choose_one`] compares, for every arm: ⟨x, θ̂⟩ and radius·‖x‖. A learner that is
    /// not there yet has seen nothing.
    pub fn score_one(
        &self,
        learner: usize,
        contexts: &Contexts,
        shape: Shape,
        radius: f64,
        scores: &mut [Score],
    ) {
        let (estimate, inverse) = if learner < self.learners {
            self.with_block(learner, |block| {
                let lane = learner % LANES;
                (block.estimate_of(lane).collect(), block.inverse_of(lane))
            })
        } else {
            (vec![0.0; self.dim()], Symmetric::identity(self.dim(), 1.0 / self.lambda))
        };
        for (x, score) in contexts.iter().zip(scores) {
            let length = match shape {
                Shape::Ellipsoid => inverse.quadratic(x).max(0.0).sqrt(),
                Shape::Squared => inverse.quadratic(x).max(0.0),
                Shape::Ball { .. } => dot(x, x).sqrt(),
            };
            score.expected = dot(x, &estimate);
            score.bonus = radius * length;
        }
    }

    /// How many numbers [`Bank::export_one`] gives: V⁻¹ packed, θ̂, ln det V, updates.
    pub fn numbers_per_learner(&self) -> usize {
        self.layout.stride()
    }

    /// All that one learner knows, as numbers that [`Bank::import_one`] takes over bit by bit.
    pub fn export_one(&self, learner: usize, numbers: &mut Vec<f64>) {
        let lane = learner % LANES;
        self.with_block(learner, |block| {
            numbers.extend(block.inverse.iter().map(|lanes| lanes.0[lane]));
            numbers.extend(block.estimate_of(lane));
            numbers.extend([block.log_det.0[lane], block.updates.0[lane]]);
        });
    }

    /// Makes one learner know what was exported; `numbers` has [`Bank::numbers_per_learner`].
    pub fn import_one(&mut self, learner: usize, numbers: &[f64]) {
        for (lanes, number) in self.block_mut(learner).iter_mut().zip(numbers) {
            lanes.0[learner % LANES] = *number;
        }
    }
}
