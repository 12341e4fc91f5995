//! `rsclumb`: robust clustering by sets. SCLUB for users whose rewards are not quite linear.
//!
//! ```text
//! phases of 2^s turns, sets of users, pivots w̃_V and checks as `sclub` has them
//! choose  argmax_x ⟨w_V, x⟩ + β‖x‖_{M_V⁻¹} + ε* Σ_{s: served s ∈ V} |xᵀM_V⁻¹x_s|,  V the set of i
//! split   i off V if ‖w_i − w̃_V‖ > α₁(F(T_i) + F(T̃_V)) + α₂ε*
//! merge   two checked sets if ‖w_V − w_V'‖ < ½[α₁(F(T_V) + F(T_V')) + α₂ε*]
//! ```
//!
//! As in `rclumb` the last term of a score is taken at its bound
//! ε*√(T_V·xᵀM_V⁻¹(M_V − λI)M_V⁻¹x). How often users come plays no part.
//!
//! The constants are those of [`rclumb`](super::rclumb).
//!
//! Reference: Wang, Xie, Liu, Li, Lui, *Online Clustering of Bandits with Misspecified User Models*,
//! NeurIPS 2023, Algorithm 2 (RSCLUMB).

use std::io::{self, Read, Write};

use super::sclub::{Phased, Scales};
use super::shared::robust::{ROBUST_PARAMS, Robust};
use super::shared::served::{OneUser, Served};
use crate::builder::builder;
use crate::linear::{argmax, dot};
use crate::params::Settings;
use crate::registry::PolicyInfo;
use crate::saved::State;
use crate::{Arm, Contexts, Error, OnlinePolicy, Policy, Problem, Saved, Score};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "rsclumb",
    summary: "sets of users that split and merge, rewards need not be linear (RSCLUMB)",
    reference: "Wang, Xie, Liu, Li, Lui, NeurIPS 2023, Algorithm 2",
    params: &[ROBUST_PARAMS],
    build,
};

builder! {
    alpha1: real, alpha2: real, epsilon: real, beta: real, delta: real, exploration: real,
    intercept: flag,
}

#[derive(Clone)]
struct Rsclumb {
    robust: Robust,
    dim: usize,
    phased: Phased,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let robust = Robust::new(settings);
    let scales = Scales {
        estimates: robust.alpha1,
        frequencies: f64::INFINITY,
        tolerance: robust.tolerance,
    };
    let phased = Phased::new(problem.users, problem.dim, scales);
    Ok(Box::new(Served(Rsclumb { robust, dim: problem.dim, phased })))
}

impl Rsclumb {
    fn scores(&self, user: usize, contexts: &Contexts) -> Vec<Score> {
        let sums = self.phased.sets.sums_for(user);
        let beta = self.robust.beta(self.dim, self.phased.turns);
        let (rewards, mut gain) = (sums.progress().updates, vec![0.0; self.dim]);
        let score = |x: &[f64]| {
            sums.inverse().times(x, &mut gain);
            let bonus = self.robust.bonus(x, &gain, rewards, beta);
            Score { expected: dot(x, sums.estimate()), bonus }
        };
        contexts.iter().map(score).collect()
    }
}

impl OneUser for Rsclumb {
    fn clusters(&self) -> Option<Vec<usize>> {
        Some(self.phased.sets.labels())
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl OnlinePolicy for Rsclumb {
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm {
        argmax(self.scores(user, contexts).iter().map(Score::total))
    }

    fn score(&mut self, user: usize, contexts: &Contexts, scores: &mut [Score]) {
        scores.copy_from_slice(&self.scores(user, contexts));
    }

    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        self.phased.learn(user, context, reward);
    }
}

impl State for Rsclumb {
    const NAME: &'static str = INFO.name;
    const VERSION: u32 = 1;

    fn write_state(&self, out: &mut dyn Write) -> io::Result<()> {
        self.phased.save(out)
    }

    fn read_state(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        self.phased.load(from, INFO.name)
    }

    fn adopt(&mut self, other: Self) -> Result<(), Error> {
        self.phased.adopt(other.phased, INFO.name)
    }
}
