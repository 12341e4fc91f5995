//! `cab`: context-aware clustering. Who is alike is asked anew for every arm.
//!
//! ```text
//! CB_j(x) = α·√(xᵀM_j⁻¹x · ln(1 + t)),  M_j = I + Σxxᵀ,  w_j = M_j⁻¹Σxy
//! N_k = {i} ∪ {j served before: |⟨w_i − w_j, x_k⟩| ≤ CB_i(x_k) + CB_j(x_k)}      for user i, arm k
//! play argmax_k mean_{j∈N_k} ⟨w_j, x_k⟩ + mean_{j∈N_k} CB_j(x_k)
//! learn (x, y): if CB_i(x) ≥ γ/4 only i; else i and every j ∈ N(x) with CB_j(x) < γ/4
//! ```
//!
//! A user's estimates rest on what others were served, too, where all are sure and agree. A decision
//! costs O(N K d²): every user who was served is asked about every arm, and no other.
//!
//! | constant | range | meaning |
//! | --- | --- | --- |
//! | `alpha` α | (0, ∞) | width of the exploration; public code takes 0.01 to 1 |
//! | `exploration` | [0, ∞) | multiplies α |
//! | `gamma` γ | (0, ∞) | the gap that is assumed between users who differ; 0.1 to 0.5 in public code |
//!
//! The neighbourhood of the update is that of the decision: it is found again from what was known
//! before the reward, so that rewards may come late.
//!
//! Reference: Gentile, Li, Kar, Karatzoglou, Zappella, Etrue, *On Context-Dependent Clustering of
//! Bandits*, ICML 2017, Figure 1.

use std::io::{self, Read, Write};

use super::shared::clubs::{EXPLORATION_PARAMS, exploration, width};
use super::shared::served::{OneUser, Served, read_ofuls, write_ofuls};
use crate::builder::builder;
use crate::linear::{Oful, argmax, dot};
use crate::params::{POSITIVE, Param, Settings};
use crate::registry::PolicyInfo;
use crate::saved::State;
use crate::{Arm, Contexts, Error, OnlinePolicy, Policy, Problem, Saved, Score, saved};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "cab",
    summary: "who is alike is asked anew for every arm (CAB)",
    reference: "Gentile, Li, Kar, Karatzoglou, Zappella, Etrue, ICML 2017, Figure 1",
    params: &[
        EXPLORATION_PARAMS,
        &[Param::real("gamma", POSITIVE, 0.2, "γ: the gap assumed between users who differ")],
    ],
    build,
};

builder! { alpha: real, exploration: real, intercept: flag, gamma: real }

/// M = I + Σxxᵀ: the regulariser.
const LAMBDA: f64 = 1.0;

#[derive(Clone)]
struct Cab {
    exploration: f64,
    gamma: f64,
    dim: usize,
    users: Vec<Oful>,
    fresh: Oful,
    /// How many turns have been learned from.
    turns: f64,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    Ok(Box::new(Served(Cab {
        exploration: exploration(settings),
        gamma: settings.real("gamma"),
        dim: problem.dim,
        users: Vec::new(),
        fresh: Oful::new(problem.dim, LAMBDA),
        turns: 0.0,
    })))
}

/// ⟨w, x⟩ and CB(x).
fn look(user: &Oful, x: &[f64], width: f64) -> Score {
    let bonus = width * user.inverse().quadratic(x).max(0.0).sqrt();
    Score { expected: dot(user.estimate(), x), bonus }
}

impl Cab {
    fn width(&self) -> f64 {
        self.exploration * width(self.turns)
    }

    /// The others in N(x), each with its place, and what user i itself says.
    fn neighbours(&self, user: usize, x: &[f64]) -> (Score, impl Iterator<Item = (usize, Score)>) {
        let width = self.width();
        let own = look(self.users.get(user).unwrap_or(&self.fresh), x, width);
        let others = self.users.iter().enumerate();
        let others = others.filter(move |(j, other)| *j != user && other.progress().updates > 0.0);
        let near =
            others.map(move |(j, other)| (j, look(other, x, width))).filter(move |(_, other)| {
                (own.expected - other.expected).abs() <= own.bonus + other.bonus
            });
        (own, near)
    }

    /// The others who learn from what a user was served.
    fn sure_neighbours(&self, user: usize, x: &[f64]) -> Vec<usize> {
        let sure = self.gamma / 4.0;
        let (own, others) = self.neighbours(user, x);
        if own.bonus < sure {
            others.filter(|(_, other)| other.bonus < sure).map(|(j, _)| j).collect()
        } else {
            Vec::new()
        }
    }

    fn score_arm(&self, user: usize, x: &[f64]) -> Score {
        let (own, others) = self.neighbours(user, x);
        let (mut count, mut sum) = (1.0, own);
        for (_, other) in others {
            count += 1.0;
            sum.expected += other.expected;
            sum.bonus += other.bonus;
        }
        Score { expected: sum.expected / count, bonus: sum.bonus / count }
    }
}

impl OneUser for Cab {
    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl OnlinePolicy for Cab {
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm {
        argmax(contexts.iter().map(|x| self.score_arm(user, x).total()))
    }

    fn score(&mut self, user: usize, contexts: &Contexts, scores: &mut [Score]) {
        for (x, score) in contexts.iter().zip(scores) {
            *score = self.score_arm(user, x);
        }
    }

    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        if user >= self.users.len() {
            self.users.resize(user + 1, self.fresh.clone());
        }
        let learning = self.sure_neighbours(user, context);
        for learner in learning.into_iter().chain([user]) {
            self.users[learner].learn(context, reward);
        }
        self.turns += 1.0;
    }
}

impl State for Cab {
    const NAME: &'static str = INFO.name;
    const VERSION: u32 = 1;

    fn write_state(&self, out: &mut dyn Write) -> io::Result<()> {
        saved::write_numbers(out, &[self.turns])?;
        write_ofuls(out, self.dim, &self.users)
    }

    fn read_state(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        let turns = saved::read_some(from, INFO.name, 1)?[0];
        self.users = read_ofuls(from, INFO.name, self.dim, LAMBDA)?;
        self.turns = turns;
        Ok(())
    }

    fn adopt(&mut self, other: Self) -> Result<(), Error> {
        saved::check_equal(INFO.name, "dimension", other.dim, self.dim)?;
        (self.turns, self.users) = (other.turns, other.users);
        Ok(())
    }
}
