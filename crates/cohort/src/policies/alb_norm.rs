//! `alb-norm`: Adaptive Linear Bandit (norm), per user and without a shift; inside PMLB on
//! corrected rewards.
//!
//! ```text
//!  1  T_1 = ⌈√T⌉, δ_1 = δ, b_1 = the norm bound
//!  8  for epochs i = 1, 2, …
//! 10     play a fresh OFUL(δ_i) with norm bound b_i until the end of the epoch
//! 11     b_{i+1} = max_{θ ∈ C} ‖θ‖ over its confidence set C, radius with b_i
//! 12     T_{i+1} = 2T_i, δ_{i+1} = δ_i/2
//! ```
//!
//! The last epoch is cut at T. With `confidence = ball`, τ_min(δ_i) is that of the epoch's own OFUL: its
//! δ_i and the rounds it lasts. The maximum of line 11 is exact, for the ellipsoid too
//! ([`crate::linear::largest_norm`]), and not capped. Lines 2–7 of the original estimate b_1 and
//! arm biases; here b_1 is given and there are no biases, as in PMLB's analysis. The radius of C
//! includes the exploration scale, as the set that OFUL plays on does.
//!
//! Constants: those of OFUL ([`OFUL_PARAMS`]); `norm_bound` is b_1.
//!
//! Reference: Ghosh, Sankararaman, Ramchandran, *Problem-Complexity Adaptive Model Selection for
//! Stochastic Linear Bandits*, AISTATS 2021; reproduced as Algorithm 5 in the paper's supplement.

use std::io::{self, Read, Write};

use rayon::prelude::*;

use super::shared::Epochs;
use crate::builder::builder;
use crate::linear::{Bank, Confidence, OFUL_PARAMS};
use crate::params::Settings;
use crate::registry::PolicyInfo;
use crate::saved::{State, read_some, read_whole_bank, write_bank, write_numbers};
use crate::{Arm, Contexts, Error, Policy, Problem, Saved};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "alb-norm",
    summary: "per user: OFUL in doubling epochs with a norm bound learned from each",
    reference: "Ghosh et al., AISTATS 2021; the paper's supplement, Algorithm 5",
    params: &[OFUL_PARAMS],
    build,
};

builder! { OFUL }

/// Lengths of the epochs that fill `rounds` rounds: ⌈√T⌉, twice that, four times that, …, the
/// last one cut.
pub fn epoch_lengths(rounds: usize) -> Vec<usize> {
    let mut lengths = Vec::new();
    let mut length = (rounds as f64).sqrt().ceil() as usize;
    let mut left = rounds;
    while left > 0 {
        lengths.push(length.min(left));
        left -= length.min(left);
        length *= 2;
    }
    lengths
}

/// One ALB-Norm per user, all in step.
#[derive(Clone)]
pub(crate) struct AlbNorm {
    /// T, all epochs together.
    rounds: usize,
    epochs: Epochs,
    ofuls: Bank,
    /// b_i of every user.
    norm_bounds: Vec<f64>,
    /// OFUL(δ_i).
    confidence: Confidence,
    dim: usize,
}

impl AlbNorm {
    pub(crate) fn new(users: usize, dim: usize, rounds: usize, confidence: Confidence) -> Self {
        let lengths = epoch_lengths(rounds);
        let first = lengths.first().copied().unwrap_or(0);
        Self {
            rounds,
            epochs: Epochs::new(lengths),
            ofuls: Bank::new(users, dim, confidence.lambda),
            norm_bounds: vec![confidence.norm_bound; users],
            confidence: confidence.for_run(dim, first, confidence.delta),
            dim,
        }
    }

    /// Line 10: an arm for every user; `offsets` are added to the arms' scores.
    pub(crate) fn choose(
        &mut self,
        contexts: &Contexts,
        offsets: Option<&[f64]>,
        arms: &mut [Arm],
    ) {
        if let Some(length) = self.epochs.begin_next() {
            self.next_epoch(length);
        }
        let (confidence, bounds) = (&self.confidence, &self.norm_bounds);
        let radius = |user: usize, progress| confidence.radius_for(bounds[user], progress);
        self.ofuls.choose(contexts, confidence.shape, radius, offsets, arms);
    }

    pub(crate) fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        self.epochs.end_round();
        self.ofuls.learn(contexts, arms, rewards);
    }

    /// Lines 11–12: the largest ‖θ‖ of the epoch's confidence set bounds the next epoch, which
    /// starts afresh.
    fn next_epoch(&mut self, rounds: usize) {
        let (ofuls, confidence) = (&self.ofuls, &self.confidence);
        (self.norm_bounds.par_iter_mut().enumerate())
            .for_each(|(user, bound)| *bound = ofuls.largest_norm(user, confidence, *bound));
        self.confidence = self.confidence.for_run(self.dim, rounds, self.confidence.delta / 2.0);
        self.ofuls = Bank::new(self.norm_bounds.len(), self.dim, self.confidence.lambda);
    }
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let rounds = problem.rounds.ok_or(Error::Needs {
        policy: settings.policy(),
        what: "the number of rounds (its first epoch lasts √T)",
    })?;
    let confidence = Confidence::from_settings(problem, settings)?;
    Ok(Box::new(AlbNorm::new(problem.users, problem.dim, rounds, confidence)))
}

impl Policy for AlbNorm {
    fn choose(&mut self, contexts: &Contexts, arms: &mut [Arm]) {
        self.choose(contexts, None, arms);
    }

    fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        self.learn(contexts, arms, rewards);
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl AlbNorm {
    /// Writes the state of the epochs.
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.epochs.save(out)?;
        write_numbers(out, &[self.confidence.delta])?;
        write_numbers(out, &self.norm_bounds)?;
        write_bank(out, &self.ofuls, self.confidence.lambda)
    }

    /// Reads the state of the epochs, for as many users.
    pub(crate) fn read(&self, from: &mut dyn Read, what: &'static str) -> Result<Self, Error> {
        let epochs = Epochs::load(from, what)?;
        let delta = read_some(from, what, 1)?[0];
        let norm_bounds = read_some(from, what, self.norm_bounds.len())?;
        let (dim, lambda, users) = (self.dim, self.confidence.lambda, norm_bounds.len());
        let ofuls = read_whole_bank(from, what, dim, lambda, users)?;
        let lengths = epoch_lengths(self.rounds);
        let epoch = lengths.len().saturating_sub(epochs.coming() + 1);
        let length = lengths.get(epoch).copied().unwrap_or(0);
        let confidence = self.confidence.for_run(dim, length, delta);
        Ok(Self { rounds: self.rounds, epochs, ofuls, norm_bounds, confidence, dim })
    }
}

impl State for AlbNorm {
    const NAME: &'static str = INFO.name;
    const VERSION: u32 = 1;

    fn write_state(&self, out: &mut dyn Write) -> io::Result<()> {
        self.write(out)
    }

    fn read_state(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        *self = self.read(from, INFO.name)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_double_and_the_last_is_cut() {
        assert_eq!(epoch_lengths(1000), [32, 64, 128, 256, 512, 8]);
        assert_eq!(epoch_lengths(969), [32, 64, 128, 256, 489]);
        assert_eq!(epoch_lengths(1), [1]);
        assert!(epoch_lengths(0).is_empty());
    }
}
