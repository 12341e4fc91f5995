//! `phase-uniclub`: uniform exploration in phases, where the gap between clusters is not known.
//!
//! ```text
//! phase s = 1, 2, …   γ_s = 2^{−s}
//!   E_s = T₀(γ_s) turns   an arm at random                                     (T₀ as in `uniclub`)
//!   2^s·E_s turns         as `rclumb` with ε* = γ_s in its scores: users closer than γ_s may still
//!                         be joined, and that is what they may differ by
//! in all turns            edges (i, l) with ‖w_i − w_l‖ > α₁(F(T_i) + F(T_l)) are cut
//! ```
//!
//! Exploration takes T^{2/3} of T turns, and what is lost by users that are still joined is T·γ_s,
//! of the same order. That is our choice of lengths: we know that the paper's phases halve the gap
//! and not how long each is played.
//!
//! | constant | range | meaning |
//! | --- | --- | --- |
//! | `scale` s, `lambda_x`, `delta` | | as [`uniclub`](super::uniclub) has them |
//! | `alpha1` α₁ | (0, ∞) | how different users must be to be parted |
//! | `beta` β, `exploration` | [0, ∞) | as [`rclumb`](super::rclumb) has them |
//!
//! Reference: Li, Liu, Dai, Lui, *Demystifying Online Clustering of Bandits*, ICLR 2025
//! (PhaseUniCLUB).

use super::rclumb::Rclumb;
use super::shared::forced::{Forced, Forcing};
use super::shared::robust::Robust;
use super::shared::served::Served;
use super::uniclub::{UNIFORM_PARAMS, exploration_turns};
use crate::builder::builder;
use crate::intercept::INTERCEPT;
use crate::params::{NOT_NEGATIVE, POSITIVE, Param, Settings};
use crate::registry::PolicyInfo;
use crate::{Error, OnlinePolicy, Policy, Problem, Saved};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "phase-uniclub",
    summary: "uniform exploration in phases for a gap that is not known (PhaseUniCLUB)",
    reference: "Li, Liu, Dai, Lui, ICLR 2025",
    params: &[UNIFORM_PARAMS, PARAMS],
    build,
};

builder! {
    scale: real, lambda_x: real, delta: real, alpha1: real, beta: real, exploration: real,
    intercept: flag,
}

const PARAMS: &[Param] = &[
    Param::real("alpha1", POSITIVE, 1.0, "α₁: how different users must be to be parted"),
    Param::derived(
        "beta",
        NOT_NEGATIVE,
        "√λ + √(2 ln(1/δ) + d ln(1 + t/(λd)))",
        "β, the width of the exploration",
    ),
    Param::real("exploration", NOT_NEGATIVE, 1.0, "multiplies β and γ_s in scores"),
    INTERCEPT,
];

struct PhaseUniClub {
    rclumb: Rclumb,
    /// E_s for γ_s = 1: that of a phase is 4^s times this.
    unit: f64,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let robust = Robust::for_phases(settings);
    let unit = exploration_turns(problem, settings, 1.0).max(1.0);
    let rclumb = Rclumb::new(problem, robust);
    let forced = PhaseUniClub { rclumb, unit };
    Ok(Box::new(Served(Forcing { seed: problem.seed, forced })))
}

/// The phase s after `turns` turns, and whether it still explores.
pub fn phase(unit: f64, turns: f64) -> (i32, bool) {
    let (mut left, mut s) = (turns, 1);
    loop {
        let explore = unit * 4f64.powi(s);
        let all = explore * (1.0 + 2f64.powi(s));
        if left < all {
            return (s, left < explore);
        }
        left -= all;
        s += 1;
    }
}

impl Forced for PhaseUniClub {
    /// If not, scores are those of the phase.
    fn explores(&mut self) -> bool {
        let (s, explores) = phase(self.unit, self.rclumb.turns);
        self.rclumb.robust.epsilon = 0.5f64.powi(s);
        explores
    }

    fn learned(&self) -> f64 {
        self.rclumb.turns
    }

    fn otherwise(&mut self) -> &mut dyn OnlinePolicy {
        &mut self.rclumb
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(&mut self.rclumb)
    }
}
