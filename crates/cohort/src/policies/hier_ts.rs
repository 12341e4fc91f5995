//! `hier-ts`: hierarchical Thompson sampling. Users are drawn around one unknown mean, which all of
//! them help to learn.
//!
//! ```text
//! draw μ ~ N(μ̄, Σ̄), then θ ~ N(w_i + λM_i⁻¹μ, σ²M_i⁻¹);  play argmax_x ⟨x, θ⟩;  learn (x, y)
//! ```
//!
//! with the posterior of `shared/hierarchy.rs`. A decision and a reward cost O(d²) each.
//!
//! | constant | range | meaning |
//! | --- | --- | --- |
//! | `sigma_q` σ_q | (0, ∞) | prior scale of the mean, around 0 |
//! | `sigma_0` σ₀ | (0, ∞) | standard deviation of users around the mean |
//! | `sigma` σ | [0, ∞) | the noise; the environment's by default |
//!
//! The experiments of the paper have σ_q of ½ or 1 and σ₀ between 0.1 and ½ and give the policy the
//! true values; the defaults are the widest of these.
//!
//! Reference: Hong, Kveton, Zaheer, Ghavamzadeh, *Hierarchical Bayesian Bandits*, AISTATS 2022,
//! Algorithm 1 and Section 4.2 (linear).

use std::io::{self, Read, Write};

use super::draws::{best_for, normals, score_draw, shares, stream};
use super::shared::hierarchy::{HIERARCHY_PARAMS, Hierarchy};
use super::shared::served::{OneUser, Served};
use crate::builder::builder;
use crate::params::Settings;
use crate::registry::PolicyInfo;
use crate::saved::State;
use crate::{Arm, Contexts, Error, OnlinePolicy, Order, Policy, Problem, Saved, Score};
use rand_chacha::ChaCha8Rng;

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "hier-ts",
    summary: "Thompson sampling of users around one unknown mean (HierTS)",
    reference: "Hong, Kveton, Zaheer, Ghavamzadeh, AISTATS 2022, Algorithm 1",
    params: &[HIERARCHY_PARAMS],
    build,
};

builder! { sigma_q: real, sigma_0: real, sigma: real, intercept: flag }

#[derive(Clone)]
struct HierTs {
    seed: u64,
    known: Hierarchy,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let known = Hierarchy::new(problem, settings);
    Ok(Box::new(Served(HierTs { seed: problem.seed, known })))
}

impl HierTs {
    fn draw(&self, user: usize, rng: &mut ChaCha8Rng) -> Vec<f64> {
        let known = &self.known;
        let mut theta = normals(known.dim, rng);
        known.precision.backward(&mut theta);
        theta.iter_mut().zip(&known.mean).for_each(|(theta, mean)| *theta += mean);
        known.around(user, &mut theta);
        let mut own = normals(known.dim, rng);
        known.user(user).factor().backward(&mut own);
        theta.iter_mut().zip(&own).for_each(|(theta, own)| *theta += known.sigma * own);
        theta
    }

    /// The draw of the next decision.
    fn next_draw(&self, user: usize) -> Vec<f64> {
        self.draw(user, &mut stream(self.seed, user, self.known.user(user).rewards()))
    }
}

impl OneUser for HierTs {
    fn order(&self) -> Order {
        Order::Together
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl OnlinePolicy for HierTs {
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm {
        best_for(&self.next_draw(user), contexts)
    }

    fn score(&mut self, user: usize, contexts: &Contexts, scores: &mut [Score]) {
        let mut mean = self.known.mean.clone();
        self.known.around(user, &mut mean);
        score_draw(&mean, &self.next_draw(user), contexts, scores);
    }

    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        self.known.learn(user, context, reward);
    }

    fn chances(
        &mut self,
        user: usize,
        contexts: &Contexts,
        seed: u64,
        chances: &mut [f64],
    ) -> bool {
        shares(contexts, seed, chances, |rng| self.draw(user, rng));
        true
    }
}

impl State for HierTs {
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
