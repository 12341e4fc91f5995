//! `lints`: linear Thompson sampling.
//!
//! ```text
//! M = λI + Σxxᵀ,  w = M⁻¹Σxy
//! every user:  draw θ ~ N(w, v²M⁻¹);  play argmax_x ⟨x, θ⟩;  learn (x, y)
//! ```
//!
//! | constant | range | meaning |
//! | --- | --- | --- |
//! | `v` | [0, ∞) | scale of the draw; σ by default, as practice has it |
//! | `lambda` λ | [10⁻⁶, 10¹²] | the regulariser |
//! | `model` | own, common | one regression for each user, or one for all |
//!
//! The paper's analysis asks for v = R·√(9 d ln(t/δ)), which explores far too much in practice; its
//! experiments, and most since, take v of the order of the noise.
//!
//! A draw costs O(d²): M is stored as a Cholesky factor. It depends on the seed, the user and that
//! user's number of rewards (`draws`), so a user who is asked again before the reward gets the same
//! arm; `chances` are frequencies of fresh draws.
//!
//! Reference: Agrawal, Goyal, *Thompson Sampling for Contextual Bandits with Linear Payoffs*,
//! ICML 2013, Algorithm 1.

use std::io::{self, Read, Write};

use super::draws::{best_for, normals, score_draw, shares, stream};
use super::shared::served::{OneUser, Served};
use super::shared::{REGRESSION_PARAMS, Regressions};
use crate::builder::builder;
use crate::intercept::INTERCEPT;
use crate::linear::Ridge;
use crate::params::{NOT_NEGATIVE, Param, Settings};
use crate::registry::PolicyInfo;
use crate::saved::State;
use crate::{Arm, Contexts, Error, OnlinePolicy, Order, Policy, Problem, Saved, Score};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "lints",
    summary: "linear Thompson sampling, for each user or for all",
    reference: "Agrawal, Goyal, ICML 2013, Algorithm 1",
    params: &[
        &[
            Param::derived(
                "v",
                NOT_NEGATIVE,
                "the environment's noise",
                "scale of the draw: θ ~ N(w, v²M⁻¹)",
            ),
            INTERCEPT,
        ],
        REGRESSION_PARAMS,
    ],
    build,
};

builder! { v: real, intercept: flag, lambda: real, model: choice }

#[derive(Clone)]
struct LinTs {
    v: f64,
    seed: u64,
    model: Regressions,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let v = settings.derived("v", || problem.sigma);
    Ok(Box::new(Served(LinTs {
        v,
        seed: problem.seed,
        model: Regressions::new(problem, settings),
    })))
}

impl LinTs {
    fn draw(&self, user: usize) -> Vec<f64> {
        let learner = self.model.learner(user);
        let mut rng = stream(self.seed, user, learner.rewards());
        let mut theta = normals(self.model.dim, &mut rng);
        learner.draw(self.v, &mut theta);
        theta
    }
}

impl OneUser for LinTs {
    fn order(&self) -> Order {
        Order::Together
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl OnlinePolicy for LinTs {
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm {
        best_for(&self.draw(user), contexts)
    }

    fn score(&mut self, user: usize, contexts: &Contexts, scores: &mut [Score]) {
        let mean = self.model.learner(user).estimate();
        score_draw(mean, &self.draw(user), contexts, scores);
    }

    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        self.model.learn(user, context, reward);
    }

    fn chances(
        &mut self,
        user: usize,
        contexts: &Contexts,
        seed: u64,
        chances: &mut [f64],
    ) -> bool {
        let learner: &Ridge = self.model.learner(user);
        shares(contexts, seed, chances, |rng| {
            let mut theta = normals(contexts.dim(), rng);
            learner.draw(self.v, &mut theta);
            theta
        });
        true
    }
}

impl State for LinTs {
    const NAME: &'static str = INFO.name;
    const VERSION: u32 = 1;

    fn write_state(&self, out: &mut dyn Write) -> io::Result<()> {
        self.model.save(out)
    }

    fn read_state(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        self.model.load(from, INFO.name)
    }

    fn adopt(&mut self, other: Self) -> Result<(), Error> {
        self.model.adopt(other.model, INFO.name)
    }
}
