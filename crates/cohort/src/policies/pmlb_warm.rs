//! `pmlb-warm`: PMLB that keeps every reward and plays for θ_i.
//!
//! ```text
//!  2–6  one common OFUL on every reward of every user, for ⌊√T⌋ rounds
//!  7'   m ← its estimate, and again at the start of every epoch, from all rewards so far
//!  9'   user i: θ̂_i = ridge regression towards m on *all* of i's rewards, the common phase included
//! 11'   play argmax_β ⟨β, θ̂_i⟩ + β_i‖β‖_{V_i⁻¹} with norm bound b_i on ‖θ_i − m‖
//!       epochs as in ALB-Norm: b_i ← max ‖θ − m‖ over the confidence set, δ halved; no reset
//! ```
//!
//! Constants: those of OFUL ([`OFUL_PARAMS`]); `norm_bound` is b_1.

use std::io::{self, Read, Write};

use rayon::prelude::*;

use super::alb_norm::epoch_lengths;
use super::pmlb::{common_rounds, rounds};
use super::shared::Epochs;
use crate::builder::builder;
use crate::linear::{Bank, Confidence, OFUL_PARAMS, Oful};
use crate::params::Settings;
use crate::registry::PolicyInfo;
use crate::saved::{
    State, read_count, read_some, read_whole_bank, write_bank, write_count, write_numbers,
};
use crate::{Arm, Contexts, Error, Policy, Problem, Saved};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "pmlb-warm",
    summary: "PMLB that shrinks each user to the average user and keeps every reward",
    reference: "a variant of Ghosh et al., Algorithm 4",
    params: &[OFUL_PARAMS],
    build,
};

builder! { OFUL }

#[derive(Clone)]
struct PmlbWarm {
    /// T: nothing is reset, so the OFUL of every epoch lasts T rounds.
    rounds: usize,
    /// The common phase, then the epochs.
    epochs: Epochs,
    in_common_phase: bool,
    /// One learner on the rewards of all users.
    common: Oful,
    /// m, the prior mean of every user.
    prior_mean: Vec<f64>,
    /// θ̂_i = ridge regression towards m.
    users: Bank,
    norm_bounds: Vec<f64>,
    confidence: Confidence,
    /// Per arm of a round: how often it was played, and the sum of its rewards.
    tally: Vec<(f64, f64)>,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let rounds = rounds(problem, settings)?;
    let confidence = Confidence::from_settings(problem, settings)?;
    let common_rounds = common_rounds(rounds);
    let mut lengths = vec![common_rounds];
    lengths.extend(epoch_lengths(rounds - common_rounds));
    Ok(Box::new(PmlbWarm {
        rounds,
        epochs: Epochs::new(lengths),
        in_common_phase: true,
        common: Oful::new(problem.dim, confidence.lambda),
        prior_mean: vec![0.0; problem.dim],
        users: Bank::new(problem.users, problem.dim, confidence.lambda),
        norm_bounds: vec![confidence.norm_bound; problem.users],
        confidence,
        tally: Vec::new(),
    }))
}

impl PmlbWarm {
    /// The confidence set of an epoch.
    fn for_epoch(&self, delta: f64) -> Confidence {
        self.confidence.for_run(self.prior_mean.len(), self.rounds, delta)
    }

    /// Line 7' and the end of an epoch. The first epoch has the norm bound it was given.
    fn next_stage(&mut self) {
        if !self.in_common_phase {
            self.bound_norms();
            self.confidence = self.for_epoch(self.confidence.delta / 2.0);
        }
        self.in_common_phase = false;
        self.recentre();
    }

    /// b_i = max ‖θ − m‖ over user i's confidence set.
    fn bound_norms(&mut self) {
        let (users, confidence, mean) = (&self.users, &self.confidence, &self.prior_mean);
        (self.norm_bounds.par_iter_mut().enumerate()).for_each(|(user, bound)| {
            *bound = users.largest_distance(user, mean, confidence, *bound);
        });
    }

    /// Moves every user's prior mean to the present common estimate: ridge regression towards m'
    /// instead of m is θ̂ + λV⁻¹(m' − m).
    fn recentre(&mut self) {
        let step: Vec<f64> = self
            .common
            .estimate()
            .iter()
            .zip(&self.prior_mean)
            .map(|(new, old)| new - old)
            .collect();
        self.users.shift_prior(&step);
        self.prior_mean.copy_from_slice(self.common.estimate());
    }
}

impl Policy for PmlbWarm {
    fn choose(&mut self, contexts: &Contexts, arms: &mut [Arm]) {
        if self.epochs.begin_next().is_some() {
            self.next_stage();
        }
        if self.in_common_phase {
            return arms.fill(self.common.choose(contexts, &self.confidence));
        }
        let (confidence, bounds) = (&self.confidence, &self.norm_bounds);
        let radius = |user: usize, progress| confidence.radius_for(bounds[user], progress);
        self.users.choose(contexts, confidence.shape, radius, None, arms);
    }

    fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        self.epochs.end_round();
        self.users.learn(contexts, arms, rewards);
        // Users that play the same arm are one weighted update: O(users + K·d²).
        self.tally.clear();
        self.tally.resize(contexts.arms(), (0.0, 0.0));
        for (arm, reward) in arms.iter().zip(rewards) {
            self.tally[*arm].0 += 1.0;
            self.tally[*arm].1 += reward;
        }
        for (x, (count, sum)) in contexts.iter().zip(&self.tally) {
            if *count > 0.0 {
                self.common.learn_weighted(x, *count, *sum);
            }
        }
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl State for PmlbWarm {
    const NAME: &'static str = INFO.name;
    const VERSION: u32 = 1;

    fn write_state(&self, out: &mut dyn Write) -> io::Result<()> {
        self.epochs.save(out)?;
        write_count(out, usize::from(self.in_common_phase))?;
        write_numbers(out, &[self.confidence.delta])?;
        write_numbers(out, &self.prior_mean)?;
        write_numbers(out, &self.norm_bounds)?;
        self.common.save_as_numbers(out)?;
        write_bank(out, &self.users, self.confidence.lambda)
    }

    fn read_state(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        let (what, lambda) = (INFO.name, self.confidence.lambda);
        let (users, dim) = (self.norm_bounds.len(), self.prior_mean.len());
        let epochs = Epochs::load(from, what)?;
        let in_common_phase = read_count(from, what)? == 1;
        let delta = read_some(from, what, 1)?[0];
        let prior_mean = read_some(from, what, dim)?;
        let norm_bounds = read_some(from, what, users)?;
        let common = Oful::load_numbers(from, what, dim, lambda)?;
        self.users = read_whole_bank(from, what, dim, lambda, users)?;
        self.confidence = self.for_epoch(delta);
        (self.epochs, self.in_common_phase, self.common) = (epochs, in_common_phase, common);
        (self.prior_mean, self.norm_bounds) = (prior_mean, norm_bounds);
        Ok(())
    }
}
