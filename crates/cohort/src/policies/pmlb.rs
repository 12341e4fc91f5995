//! `pmlb`: Personalized Multi-agent Linear Bandits, Algorithm 4 of the paper, to the letter.
//!
//! ```text
//!  2  one common OFUL(δ)
//!  3  for ⌊√T⌋ rounds
//!  4     all users play its arm
//!  5     the average of their rewards updates it (R = σ/√N)
//!  7  θ̂* ← its estimate
//!  9  one ALB-Norm(δ) per user, for the T' = T − ⌊√T⌋ rounds that are left
//! 11     each user plays the arm of its own ALB-Norm
//! 12     and updates it with the corrected reward y − ⟨β, θ̂*⟩
//! ```
//!
//! The letter of line 11 plays the arm that is best for θ_i − θ̂*, not for θ_i:
//! `pmlb-compensated` adds ⟨β, θ̂*⟩ back when choosing, `pmlb-warm` also keeps every reward.
//!
//! Constants: those of OFUL ([`OFUL_PARAMS`]); `norm_bound` is also ALB-Norm's b_1.
//!
//! Reference: Ghosh, Sankararaman, Ramchandran, Algorithm 4 (PMLB).

use std::io::{self, Read, Write};

use super::alb_norm::AlbNorm;
use crate::builder::builder;
use crate::linear::{Confidence, OFUL_PARAMS, Oful, dot};
use crate::params::Settings;
use crate::registry::PolicyInfo;
use crate::saved::{State, read_count, write_count};
use crate::{Arm, Contexts, Error, Policy, Problem, Saved};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "pmlb",
    summary: "learn the average user for √T rounds, then each user's difference (the letter)",
    reference: "Ghosh et al., Algorithm 4",
    params: &[OFUL_PARAMS],
    build,
};

builder! { OFUL }

/// Line 3: how many rounds the common OFUL is played, ⌊√T⌋.
pub fn common_rounds(rounds: usize) -> usize {
    rounds.isqrt()
}

/// T, or an error that says that it is needed.
pub(crate) fn rounds(problem: &Problem, settings: &Settings) -> Result<usize, Error> {
    problem.rounds.ok_or(Error::Needs {
        policy: settings.policy(),
        what: "the number of rounds (its common phase lasts √T)",
    })
}

/// PMLB, with or without the shift added back.
#[derive(Clone)]
pub(crate) struct Pmlb {
    compensated: bool,
    common_rounds_left: usize,
    common: Oful,
    common_confidence: Confidence,
    personal: AlbNorm,
    /// ⟨β, θ̂*⟩ of every arm of this round.
    shifts: Vec<f64>,
    corrected: Vec<f64>,
}

impl Pmlb {
    pub(crate) fn from_settings(
        problem: &Problem,
        settings: &Settings,
        compensated: bool,
    ) -> Result<Self, Error> {
        let rounds = rounds(problem, settings)?;
        let confidence = Confidence::from_settings(problem, settings)?;
        let common_rounds = common_rounds(rounds);
        Ok(Self {
            compensated,
            common_rounds_left: common_rounds,
            common: Oful::new(problem.dim, confidence.lambda),
            common_confidence: confidence.averaged_over(problem.users),
            personal: AlbNorm::new(problem.users, problem.dim, rounds - common_rounds, confidence),
            shifts: Vec::new(),
            corrected: Vec::new(),
        })
    }

    fn shift(&mut self, contexts: &Contexts) {
        self.shifts.clear();
        self.shifts.extend(contexts.iter().map(|x| dot(x, self.common.estimate())));
    }
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    Ok(Box::new(Pmlb::from_settings(problem, settings, false)?))
}

impl Policy for Pmlb {
    fn choose(&mut self, contexts: &Contexts, arms: &mut [Arm]) {
        if self.common_rounds_left > 0 {
            arms.fill(self.common.choose(contexts, &self.common_confidence));
            return;
        }
        self.shift(contexts);
        let offsets = self.compensated.then_some(self.shifts.as_slice());
        self.personal.choose(contexts, offsets, arms);
    }

    fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        if self.common_rounds_left > 0 {
            self.common_rounds_left -= 1;
            let average = rewards.iter().sum::<f64>() / rewards.len() as f64;
            self.common.learn(contexts.arm(arms[0]), average);
            return;
        }
        self.shift(contexts);
        self.corrected.clear();
        self.corrected
            .extend(arms.iter().zip(rewards).map(|(arm, reward)| reward - self.shifts[*arm]));
        self.personal.learn(contexts, arms, &self.corrected);
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl State for Pmlb {
    const NAME: &'static str = INFO.name;
    const VERSION: u32 = 1;

    fn write_state(&self, out: &mut dyn Write) -> io::Result<()> {
        write_count(out, self.common_rounds_left)?;
        self.common.save_as_numbers(out)?;
        self.personal.write(out)
    }

    fn read_state(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        let (dim, lambda) = (self.common.estimate().len(), self.common_confidence.lambda);
        let common_rounds_left = read_count(from, INFO.name)?;
        let common = Oful::load_numbers(from, INFO.name, dim, lambda)?;
        self.personal = self.personal.read(from, INFO.name)?;
        (self.common_rounds_left, self.common) = (common_rounds_left, common);
        Ok(())
    }
}
