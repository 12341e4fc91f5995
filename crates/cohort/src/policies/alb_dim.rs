//! `alb-dim`: Adaptive Linear Bandit (dimension), for each user: learns the support of θ, and plays
//! OFUL on it.
//!
//! ```text
//! D_0 = all coordinates;  for phases i = 0, 1, 2, …
//!   36^i·T₀ turns        a fresh OFUL(δ/2^i) on the coordinates D_i
//!   6^i·⌈√T₀⌉ turns      arms at random;  θ̂ by ridge regression on all that was explored so far
//!   D_{i+1} = {j: |θ̂_j| ≥ 2^{−(i+1)}}
//! ```
//!
//! Turns are counted per user. The paper's regression is least squares; λ keeps it defined while
//! fewer arms than coordinates have been explored.
//!
//! | constant | range | meaning |
//! | --- | --- | --- |
//! | `t0` T₀ | 1, 2, … | length of the first phase |
//! | those of OFUL | | [`OFUL_PARAMS`] |
//!
//! T₀ is ⌈d² ln²(1/δ)⌉ unless it is set: the paper's order with the constant 1. A shorter first
//! phase explores for fewer turns than there are coordinates, and then all coordinates fall below
//! the first threshold.
//!
//! Reference: Ghosh, Sankararaman, Ramchandran, *Problem-Complexity Adaptive Model Selection for
//! Stochastic Linear Bandits*, AISTATS 2021, Algorithm 2.

use std::io::{self, Read, Write};

use rand::RngExt;

use super::draws::stream;
use super::shared::served::{OneUser, Served};
use crate::builder::builder;
use crate::linear::{Confidence, OFUL_PARAMS, Oful, Ridge};
use crate::params::{Kind, Param, Settings};
use crate::registry::PolicyInfo;
use crate::saved::State;
use crate::{Arm, Contexts, Error, OnlinePolicy, Order, Policy, Problem, Saved, Score, saved};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "alb-dim",
    summary: "per user: OFUL on the coordinates that matter, learned in phases",
    reference: "Ghosh, Sankararaman, Ramchandran, AISTATS 2021, Algorithm 2",
    params: &[
        OFUL_PARAMS,
        &[Param::derived("t0", Kind::Count(1), "⌈d² ln²(1/δ)⌉", "T₀, length of the first phase")],
    ],
    build,
};

builder! { OFUL; t0: count }

#[derive(Clone)]
struct AlbDim {
    confidence: Confidence,
    t0: f64,
    dim: usize,
    seed: u64,
    users: Vec<User>,
    fresh: User,
}

#[derive(Clone)]
struct User {
    phase: i32,
    /// The number of turns learned from, in this phase and in all.
    turns: f64,
    all_turns: f64,
    /// 1 for coordinates in D_i, 0 for others.
    mask: Vec<f64>,
    oful: Oful,
    explored: Ridge,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let confidence = Confidence::from_settings(problem, settings)?;
    let (dim, lambda) = (problem.dim, confidence.lambda);
    let fresh = User {
        phase: 0,
        turns: 0.0,
        all_turns: 0.0,
        mask: vec![1.0; dim],
        oful: Oful::new(dim, lambda),
        explored: Ridge::new(dim, lambda),
    };
    let t0 = settings.derived("t0", || {
        let log = (1.0 / confidence.delta).ln();
        ((dim * dim) as f64 * log * log).ceil().max(1.0)
    });
    let (seed, users) = (problem.seed, Vec::new());
    Ok(Box::new(Served(AlbDim { confidence, t0, dim, seed, users, fresh })))
}

/// The turns of a phase that play OFUL, and those that explore after them.
pub fn phase_lengths(t0: f64, phase: i32) -> (f64, f64) {
    (36f64.powi(phase) * t0, 6f64.powi(phase) * t0.sqrt().ceil())
}

impl User {
    fn explores(&self, t0: f64) -> bool {
        self.turns >= phase_lengths(t0, self.phase).0
    }

    fn masked(&self, x: &[f64]) -> Vec<f64> {
        x.iter().zip(&self.mask).map(|(x, keep)| x * keep).collect()
    }
}

impl AlbDim {
    fn user(&self, user: usize) -> &User {
        self.users.get(user).unwrap_or(&self.fresh)
    }

    fn score_masked(&self, known: &User, contexts: &Contexts, scores: &mut [Score]) {
        let delta = self.confidence.delta / 2f64.powi(known.phase);
        let rounds = phase_lengths(self.t0, known.phase).0 as usize;
        let confidence = self.confidence.for_run(contexts.dim(), rounds, delta);
        let radius = confidence.radius(known.oful.progress());
        for (x, score) in contexts.iter().zip(scores) {
            let x = known.masked(x);
            let expected = crate::linear::dot(&x, known.oful.estimate());
            let bonus = known.oful.optimistic(&x, radius, confidence.shape) - expected;
            *score = Score { expected, bonus };
        }
    }
}

impl OneUser for AlbDim {
    fn order(&self) -> Order {
        Order::Together
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl OnlinePolicy for AlbDim {
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm {
        let known = self.user(user);
        if known.explores(self.t0) {
            return stream(self.seed, user, known.all_turns).random_range(0..contexts.arms());
        }
        let mut scores = vec![Score::default(); contexts.arms()];
        self.score_masked(known, contexts, &mut scores);
        crate::linear::argmax(scores.iter().map(Score::total))
    }

    /// All arms score the same while they are drawn at random.
    fn score(&mut self, user: usize, contexts: &Contexts, scores: &mut [Score]) {
        let known = self.user(user);
        if known.explores(self.t0) {
            scores.fill(Score::default())
        } else {
            self.score_masked(known, contexts, scores)
        }
    }

    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        if user >= self.users.len() {
            self.users.resize(user + 1, self.fresh.clone());
        }
        let (t0, lambda) = (self.t0, self.confidence.lambda);
        let known = &mut self.users[user];
        if known.explores(t0) {
            known.explored.learn(context, reward)
        } else {
            let x = known.masked(context);
            known.oful.learn(&x, reward);
        }
        known.turns += 1.0;
        known.all_turns += 1.0;
        let (play, explore) = phase_lengths(t0, known.phase);
        if known.turns >= play + explore {
            known.phase += 1;
            known.turns = 0.0;
            let least = 0.5f64.powi(known.phase);
            for (keep, estimate) in known.mask.iter_mut().zip(known.explored.estimate()) {
                *keep = f64::from(u8::from(estimate.abs() >= least));
            }
            known.oful = Oful::new(self.dim, lambda);
        }
    }

    fn chances(
        &mut self,
        user: usize,
        contexts: &Contexts,
        _seed: u64,
        chances: &mut [f64],
    ) -> bool {
        chances.fill(1.0 / contexts.arms() as f64);
        self.user(user).explores(self.t0)
    }
}

impl State for AlbDim {
    const NAME: &'static str = INFO.name;
    const VERSION: u32 = 1;

    fn write_state(&self, out: &mut dyn Write) -> io::Result<()> {
        saved::write_counts(out, &[self.dim, self.users.len()])?;
        for user in &self.users {
            saved::write_numbers(out, &[f64::from(user.phase), user.turns, user.all_turns])?;
            saved::write_numbers(out, &user.mask)?;
            user.oful.save(out)?;
            user.explored.save(out)?;
        }
        Ok(())
    }

    fn read_state(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        let (what, dim) = (INFO.name, self.dim);
        saved::check_equal(what, "sizes", saved::read_count(from, what)?, 2)?;
        saved::check_equal(what, "dimension", saved::read_count(from, what)?, dim)?;
        let mut users = Vec::new();
        for _ in 0..saved::read_count(from, what)? {
            let mut user = self.fresh.clone();
            let numbers = saved::read_some(from, what, 3)?;
            saved::check_equal(what, "a phase", (0.0..64.0).contains(&numbers[0]), true)?;
            (user.phase, user.turns, user.all_turns) = (numbers[0] as i32, numbers[1], numbers[2]);
            saved::read_numbers(from, what, &mut user.mask)?;
            user.oful = Oful::load(from, what, dim, self.confidence.lambda)?;
            user.explored = Ridge::load(from, what, dim)?;
            users.push(user);
        }
        self.users = users;
        Ok(())
    }
}
