//! `e2tc`: explore twice, then commit. First the users' subspace is estimated from random arms,
//! then every user's coordinates in it, then all play greedily.
//!
//! ```text
//! N₁ rounds   arms at random;  B̂ = the k leading eigenvectors of Σ_i θ̂_i θ̂_iᵀ, θ̂_i ridge estimates
//! N₂ rounds   arms at random;  ŵ_i by regression of user i's rewards on B̂ᵀx
//! then        play argmax_x ⟨x, B̂ŵ_i⟩ for ever
//! N₁ = ⌈c₁·d^{3/2}·k·√(T/N)⌉,  N₂ = ⌈c₂·k·√T⌉,  N users, T rounds
//! ```
//!
//! The paper's arms are all vectors of a ball: its first rounds are uniform on the sphere, its
//! second along the columns of B̂, and it commits to B̂ŵ_i itself. With a finite offer, both
//! explorations draw among its arms and all rewards count for ŵ_i.
//!
//! | constant | range | meaning |
//! | --- | --- | --- |
//! | `rank` k | 1, 2, … | dimension of the subspace, at most d |
//! | `c1`, `c2` | (0, ∞) | scales of N₁ and N₂, whose constants the paper leaves open |
//! | `ridge` ρ | (0, ∞) | of the regression in the subspace |
//!
//! Reference: Yang, Hu, Lee, Du, *Impact of Representation Learning in Linear Bandits*, ICLR 2021,
//! Algorithm 2 (E²TC).

use super::shared::served::Served;
use super::shared::subspace::{coordinates, leading_directions, lift, ridge_estimates};
use super::shared::tasks::{Greedy, JointEstimator, Tasks};
use crate::builder::builder;
use crate::intercept::INTERCEPT;
use crate::params::{POSITIVE, Param, Settings};
use crate::registry::PolicyInfo;
use crate::{Error, Policy, Problem};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "e2tc",
    summary: "finds the users' subspace, then their places in it, then commits (E2TC)",
    reference: "Yang, Hu, Lee, Du, ICLR 2021, Algorithm 2",
    params: &[PARAMS],
    build,
};

builder! { rank: count, c1: real, c2: real, ridge: real, intercept: flag }

const PARAMS: &[Param] = &[
    Param::count("rank", 1, 3, "k, dimension of the subspace that users lie in"),
    Param::real("c1", POSITIVE, 0.1, "scale of the rounds that find the subspace"),
    Param::real("c2", POSITIVE, 1.0, "scale of the rounds that find users' places in it"),
    Param::real("ridge", POSITIVE, 0.1, "ρ, of the regression in the subspace"),
    INTERCEPT,
];

#[derive(Clone)]
struct E2tc {
    rank: usize,
    ridge: f64,
    /// The numbers of rewards after which the subspace, and the users' coordinates in it, are
    /// estimated.
    first: f64,
    second: f64,
    /// B̂, once it is estimated.
    basis: Vec<f64>,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let rounds = problem.rounds.ok_or(Error::Needs {
        policy: settings.policy(),
        what: "the number of rounds (how long it explores depends on T)",
    })? as f64;
    let (users, dim) = (problem.users.max(1) as f64, problem.dim as f64);
    let rank = settings.count("rank").min(problem.dim);
    let k = rank as f64;
    let first = (settings.real("c1") * dim.powf(1.5) * k * (rounds / users).sqrt()).ceil();
    let second = (settings.real("c2") * k * rounds.sqrt()).ceil();
    let fit = E2tc {
        rank,
        ridge: settings.real("ridge"),
        first: users * first,
        second: users * (first + second),
        basis: vec![0.0; rank * problem.dim],
    };
    Ok(Box::new(Served(Greedy::new(problem.users, problem.dim, problem.seed, fit))))
}

impl JointEstimator for E2tc {
    const NAME: &'static str = INFO.name;

    fn explores(&self, rewards: f64) -> bool {
        rewards < self.second
    }

    fn next(&self, rewards: f64) -> f64 {
        // No fit is due after both: a finite number that is never reached, since it is saved.
        match rewards {
            rewards if rewards < self.first => self.first,
            rewards if rewards < self.second => self.second,
            _ => f64::MAX,
        }
    }

    fn fit(&mut self, tasks: &Tasks, estimates: &mut Vec<f64>) {
        if tasks.rewards < self.second {
            self.basis = leading_directions(&ridge_estimates(tasks, 1.0), tasks.dim, self.rank);
        } else {
            let weights = coordinates(tasks, &self.basis, self.ridge);
            *estimates = lift(&weights, &self.basis, tasks.dim);
        }
    }

    fn kept(&self) -> Vec<f64> {
        self.basis.clone()
    }

    fn keep(&mut self, numbers: &[f64]) {
        self.basis = numbers.to_vec();
    }
}
