//! `uniclub`: CLUB after uniform exploration. Arms are drawn at random until users can be told
//! apart, so that no assumption on how contexts vary is needed later.
//!
//! ```text
//! turns t ≤ T₀  an arm at random;  then as `club`
//! in all turns  update, cut and clusters of `club`
//! T₀ = ⌈s·[N ln(N/δ) + N d/(γ²λ_x)·ln(N/δ)]⌉,  N users
//! ```
//!
//! | constant | range | meaning |
//! | --- | --- | --- |
//! | `explore` T₀ | 0, 1, … | turns of exploration, where they are to be set as such |
//! | `scale` s | (0, ∞) | scale of T₀, whose constant the paper leaves open |
//! | `gap` γ | (0, ∞) | the least distance of two clusters |
//! | `lambda_x` λ_x | (0, 1] | least eigenvalue of the contexts' covariance |
//! | `delta` δ | (0, 1) | how often it may fail |
//! | `alpha`, `exploration`, `alpha2`, `graph` | | as [`super::club`] has them |
//!
//! The order of T₀ is known and not its constant: 1/100 gives every user some dozens of random arms
//! where γ is 1.
//!
//! Reference: Li, Liu, Dai, Lui, *Demystifying Online Clustering of Bandits: Enhanced Exploration
//! Under Stochastic and Smoothed Adversarial Contexts*, ICLR 2025, Algorithm 1 (UniCLUB).

use std::ops::Bound;

use super::club::{self, Club};
use super::shared::forced::{self, Forced, Forcing};
use super::shared::served::Served;
use crate::builder::builder;
use crate::linear::default_rho_min;
use crate::params::{Kind, POSITIVE, PROBABILITY, Param, Settings};
use crate::registry::PolicyInfo;
use crate::{Arm, Error, OnlinePolicy, Policy, Problem, Saved};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "uniclub",
    summary: "uniform exploration first, then CLUB (UniCLUB)",
    reference: "Li, Liu, Dai, Lui, ICLR 2025, Algorithm 1",
    params: &[UNIFORM_PARAMS, PARAMS, club::PARAMS[0], club::PARAMS[1]],
    build,
};

builder! {
    scale: real, lambda_x: real, delta: real, explore: count, gap: real, alpha: real,
    exploration: real, intercept: flag, alpha2: real, graph: choice, bonus: choice,
}

const PARAMS: &[Param] = &[
    Param::derived("explore", Kind::Count(0), "by its formula", "T₀, turns of random arms"),
    Param::real("gap", POSITIVE, 1.0, "γ, the least distance of two clusters"),
];

/// The parameters of the length of uniform exploration.
pub(super) const UNIFORM_PARAMS: &[Param] = &[
    Param::real("scale", POSITIVE, 0.01, "scale of how long arms are drawn at random"),
    Param::derived(
        "lambda_x",
        Kind::Real(Bound::Excluded(0.0), Bound::Included(1.0)),
        "1/(3d), that of the paper's contexts",
        "λ_x, least eigenvalue of the contexts' covariance",
    ),
    Param::real("delta", PROBABILITY, 0.1, "δ, how often users may be told apart wrongly"),
];

/// T₀ for a gap.
pub(super) fn exploration_turns(problem: &Problem, settings: &Settings, gap: f64) -> f64 {
    let (users, dim) = (problem.users.max(1) as f64, problem.dim as f64);
    let lambda_x = settings.derived("lambda_x", || default_rho_min(problem.dim));
    let log = (users / settings.real("delta")).ln();
    (settings.real("scale") * (users * log + users * dim / (gap * gap * lambda_x) * log)).ceil()
}

struct UniClub {
    club: Club,
    explore: f64,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let by_formula = || exploration_turns(problem, settings, settings.real("gap"));
    let explore = settings.derived("explore", by_formula);
    let forced = UniClub { club: Club::new(problem, settings), explore };
    Ok(Box::new(Served(Forcing { seed: problem.seed, forced })))
}

/// A random arm for a turn.
pub fn random_arm(seed: u64, user: usize, turns: f64, arms: usize) -> Arm {
    forced::random_arm(seed, user, turns, arms)
}

impl Forced for UniClub {
    fn explores(&mut self) -> bool {
        self.club.turns < self.explore
    }

    fn learned(&self) -> f64 {
        self.club.turns
    }

    fn otherwise(&mut self) -> &mut dyn OnlinePolicy {
        &mut self.club
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(&mut self.club)
    }

    fn clusters(&self) -> Option<Vec<usize>> {
        Policy::clusters(&self.club)
    }
}
