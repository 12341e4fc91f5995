//! Export and import of one learner, and its scores of all arms.

use super::Bank;
use super::layout::LANES;
use crate::linear::{Shape, Symmetric, dot};
use crate::search::ScoreForm;
use crate::{Contexts, Score};

impl Bank {
    /// d, the dimension.
    pub fn dim(&self) -> usize {
        self.layout.dim
    }

    /// The two terms that [`Bank::choose_one`] compares, for every arm: ⟨x, θ̂⟩ and radius·‖x‖. A
    /// learner beyond the last is scored as a fresh one.
    pub fn score_one(
        &self,
        learner: usize,
        contexts: &Contexts,
        shape: Shape,
        radius: f64,
        scores: &mut [Score],
    ) {
        let (estimate, inverse) = self.known_of(learner);
        for (x, score) in contexts.iter().zip(scores) {
            let bonus = radius * shape.length(x, &inverse);
            *score = Score { expected: dot(x, &estimate), bonus };
        }
    }

    /// θ̂ and V⁻¹ of a learner, who may not be there yet.
    fn known_of(&self, learner: usize) -> (Vec<f64>, Symmetric) {
        if learner >= self.learners {
            let inverse = Symmetric::identity(self.dim(), 1.0 / self.lambda);
            return (vec![0.0; self.dim()], inverse);
        }
        self.with_block(learner, |block| {
            let lane = learner % LANES;
            (block.estimate_of(lane).collect(), block.inverse_of(lane))
        })
    }

    /// [`Bank::score_one`] as a function of an arm's features, where the bonus is a length.
    pub fn score_form(&self, learner: usize, shape: Shape, radius: f64) -> Option<ScoreForm> {
        let (estimate, inverse) = self.known_of(learner);
        let mut spread = Symmetric::zero(self.dim());
        match shape {
            Shape::Ellipsoid => spread.add(radius * radius, &inverse),
            Shape::Ball { .. } => spread.add_diagonal(radius * radius),
            Shape::Squared => return None,
        }
        Some(ScoreForm::new(estimate, spread))
    }

    /// How many numbers [`Bank::export_one`] appends: V⁻¹ packed, θ̂, ln det V, updates.
    pub fn numbers_per_learner(&self) -> usize {
        self.layout.stride()
    }

    /// Appends the state of one learner, as numbers that [`Bank::import_one`] restores bit by bit.
    pub fn export_one(&self, learner: usize, numbers: &mut Vec<f64>) {
        let lane = learner % LANES;
        self.with_block(learner, |block| {
            numbers.extend(block.inverse.iter().map(|lanes| lanes.0[lane]));
            numbers.extend(block.estimate_of(lane));
            numbers.extend([block.log_det.0[lane], block.updates.0[lane]]);
        });
    }

    /// Restores an exported learner; `numbers` has [`Bank::numbers_per_learner`].
    pub fn import_one(&mut self, learner: usize, numbers: &[f64]) {
        for (lanes, number) in self.block_mut(learner).iter_mut().zip(numbers) {
            lanes.0[learner % LANES] = *number;
        }
    }
}
