//! `hier-ucb`: upper confidence bounds from the posterior of users around one unknown mean.
//!
//! ```text
//! m_i = w_i + λM_i⁻¹μ̄,   S_i = σ²M_i⁻¹ + λ²M_i⁻¹Σ̄M_i⁻¹
//! play argmax_x ⟨x, m_i⟩ + √(2 ln(1/δ)) √(xᵀS_i x);  learn (x, y)
//! ```
//!
//! with the posterior of `shared/hierarchy.rs`. A decision costs O(K d²), a reward O(d²).
//!
//! | constant | range | meaning |
//! | --- | --- | --- |
//! | `delta` δ | (0, 1) | how often a bound may fail |
//! | `exploration` | [0, ∞) | multiplies the width; 1 = the paper's |
//! | `sigma_q`, `sigma_0`, `sigma` | | as `hier-ts` has them |
//!
//! δ enters the paper's bound as 1/(number of rounds); the value of its experiments is not known to
//! us, so it is a parameter, with OFUL's default of 0.4.
//!
//! Reference: Guan, Xiong, *Improved Bayes Regret Bounds for Multi-Task Hierarchical Bayesian Bandit
//! Algorithms*, NeurIPS 2024 (HierBayesUCB).

use std::io::{self, Read, Write};

use super::shared::hierarchy::{HIERARCHY_PARAMS, Hierarchy};
use super::shared::served::{OneUser, Served};
use crate::builder::builder;
use crate::linear::{argmax, dot};
use crate::params::{NOT_NEGATIVE, PROBABILITY, Param, Settings};
use crate::registry::PolicyInfo;
use crate::saved::State;
use crate::{Arm, Contexts, Error, OnlinePolicy, Order, Policy, Problem, Saved, Score};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "hier-ucb",
    summary: "confidence bounds for users around one unknown mean (HierBayesUCB)",
    reference: "Guan, Xiong, NeurIPS 2024",
    params: &[
        &[
            Param::real("delta", PROBABILITY, 0.4, "δ, how often a bound may fail"),
            Param::real("exploration", NOT_NEGATIVE, 1.0, "multiplies the width; 1 = the paper's"),
        ],
        HIERARCHY_PARAMS,
    ],
    build,
};

builder! {
    delta: real, exploration: real, sigma_q: real, sigma_0: real, sigma: real, intercept: flag,
}

#[derive(Clone)]
struct HierUcb {
    /// exploration·√(2 ln(1/δ)).
    width: f64,
    known: Hierarchy,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let width = (2.0 * (1.0 / settings.real("delta")).ln()).sqrt();
    let width = settings.real("exploration") * width;
    Ok(Box::new(Served(HierUcb { width, known: Hierarchy::new(problem, settings) })))
}

impl HierUcb {
    fn scores(&self, user: usize, contexts: &Contexts) -> impl Iterator<Item = Score> {
        let known = &self.known;
        let mut mean = known.mean.clone();
        known.around(user, &mut mean);
        let factor = known.user(user).factor();
        contexts.iter().map(move |x| {
            let mut gain = x.to_vec();
            factor.solve(&mut gain);
            let own = known.sigma.powi(2) * dot(x, &gain).max(0.0);
            known.precision.forward(&mut gain);
            let variance = own + known.lambda.powi(2) * dot(&gain, &gain);
            Score { expected: dot(x, &mean), bonus: self.width * variance.sqrt() }
        })
    }
}

impl OneUser for HierUcb {
    fn order(&self) -> Order {
        Order::Together
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl OnlinePolicy for HierUcb {
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm {
        argmax(self.scores(user, contexts).map(|score| score.total()))
    }

    fn score(&mut self, user: usize, contexts: &Contexts, scores: &mut [Score]) {
        let scored = self.scores(user, contexts);
        scores.iter_mut().zip(scored).for_each(|(to, scored)| *to = scored);
    }

    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        self.known.learn(user, context, reward);
    }
}

impl State for HierUcb {
    const NAME: &'static str = INFO.name;
    const VERSION: u32 = 1;

    fn write_state(&self, out: &mut dyn Write) -> io::Result<()> {
        self.known.save(out)
    }

    fn read_state(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        self.known.load(from, INFO.name)
    }

    fn adopt(&mut self, other: Self) -> Result<(), Error> {
        self.known.adopt(other.known, INFO.name)
    }
}
