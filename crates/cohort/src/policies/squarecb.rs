//! `squarecb`: inverse-gap weighting. Arms are drawn with probabilities in closed form, so that the
//! propensity logged with a decision is exact.
//!
//! ```text
//! ŷ_k = ⟨x_k, w⟩ of a ridge regression,  b = argmax_k ŷ_k,  γ = γ₀·t^ρ,  t the reward to come
//! play k ≠ b with probability 1/(K + γ(ŷ_b − ŷ_k)),  b with the rest
//! ```
//!
//! | constant | range | meaning |
//! | --- | --- | --- |
//! | `gamma0` γ₀ | (0, ∞) | how greedy; 10 in Vowpal Wabbit |
//! | `rho` ρ | [0, 1] | how fast it becomes greedier; ½ in Vowpal Wabbit |
//! | `lambda` λ | [10⁻⁶, 10¹²] | the regulariser of the regression |
//! | `model` | own, common | one regression for each user, or one for all |
//!
//! t counts the rewards of the regression. The theory takes γ of the order √(K t / error of the
//! regression); γ₀ and ρ are the practical form. Predictions are not clipped to [0, 1]. The arm
//! that `decide` plays is drawn from the seed, the user and that user's number of rewards
//! (`draws`); a service draws by `chances` itself.
//!
//! Reference: Foster, Rakhlin, *Beyond UCB: Optimal and Efficient Contextual Bandits with Regression
//! Oracles*, ICML 2020, Algorithm 1; γ₀ and ρ: Vowpal Wabbit's `--squarecb`.

use std::io::{self, Read, Write};

use rand::RngExt;

use super::draws::stream;
use super::shared::served::{OneUser, Served};
use super::shared::{REGRESSION_PARAMS, Regressions};
use crate::builder::builder;
use crate::intercept::INTERCEPT;
use crate::linear::{argmax, dot};
use crate::params::{POSITIVE, Param, SHARE, Settings};
use crate::registry::PolicyInfo;
use crate::saved::State;
use crate::{Arm, Contexts, Error, OnlinePolicy, Order, Policy, Problem, Saved, Score};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "squarecb",
    summary: "inverse-gap weighting: probabilities of arms are exact (SquareCB)",
    reference: "Foster, Rakhlin, ICML 2020, Algorithm 1; Vowpal Wabbit",
    params: &[
        &[
            Param::real("gamma0", POSITIVE, 10.0, "γ₀: γ = γ₀·t^ρ, how greedy it is"),
            Param::real("rho", SHARE, 0.5, "ρ: γ = γ₀·t^ρ, how fast it becomes greedier"),
            INTERCEPT,
        ],
        REGRESSION_PARAMS,
    ],
    build,
};

builder! { gamma0: real, rho: real, intercept: flag, lambda: real, model: choice }

#[derive(Clone)]
struct SquareCb {
    gamma0: f64,
    rho: f64,
    seed: u64,
    model: Regressions,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let (gamma0, rho) = (settings.real("gamma0"), settings.real("rho"));
    let model = Regressions::new(problem, settings);
    Ok(Box::new(Served(SquareCb { gamma0, rho, seed: problem.seed, model })))
}

impl SquareCb {
    fn probabilities(&self, user: usize, contexts: &Contexts, to: &mut [f64]) {
        let learner = self.model.learner(user);
        let expected: Vec<f64> = contexts.iter().map(|x| dot(x, learner.estimate())).collect();
        let best = argmax(expected.iter().copied());
        let gamma = self.gamma0 * (learner.rewards() + 1.0).powf(self.rho);
        let mut rest = 1.0;
        for (arm, chance) in to.iter_mut().enumerate() {
            let gap = gamma * (expected[best] - expected[arm]);
            *chance = 1.0 / (contexts.arms() as f64 + gap);
            rest -= if arm == best { 0.0 } else { *chance };
        }
        to[best] = rest.max(0.0);
    }
}

impl OneUser for SquareCb {
    fn order(&self) -> Order {
        Order::Together
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl OnlinePolicy for SquareCb {
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm {
        let mut chances = vec![0.0; contexts.arms()];
        self.probabilities(user, contexts, &mut chances);
        let rewards = self.model.learner(user).rewards();
        let mut luck: f64 = stream(self.seed, user, rewards).random();
        let drawn = chances.iter().position(|chance| {
            luck -= chance;
            luck < 0.0
        });
        drawn.unwrap_or_else(|| argmax(chances))
    }

    /// No bonus: the arm is drawn.
    fn score(&mut self, user: usize, contexts: &Contexts, scores: &mut [Score]) {
        let estimate = self.model.learner(user).estimate();
        for (x, score) in contexts.iter().zip(scores) {
            *score = Score { expected: dot(x, estimate), bonus: 0.0 };
        }
    }

    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        self.model.learn(user, context, reward);
    }

    fn chances(
        &mut self,
        user: usize,
        contexts: &Contexts,
        _seed: u64,
        chances: &mut [f64],
    ) -> bool {
        self.probabilities(user, contexts, chances);
        true
    }
}

impl State for SquareCb {
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
