//! `rclumb`: robust clustering of users whose rewards are not quite linear. A user learns from its
//! neighbours in a graph that loses edges, and only from those.
//!
//! ```text
//! init    a complete graph on the users;  M_i = λI, b_i = 0, λ = 1
//! choose  V = i and its neighbours:  M_V = λI + Σ_{l∈V}(M_l − λI),  w_V = M_V⁻¹Σ b_l
//!         argmax_x ⟨w_V, x⟩ + β‖x‖_{M_V⁻¹} + ε* Σ_{s: served s ∈ V} |xᵀM_V⁻¹x_s|
//! update  M_i, b_i;  cut every edge (i, l) with ‖w_i − w_l‖ > α₁(F(T_i) + F(T_l)) + α₂ε*
//! ```
//!
//! The last term of a score is taken at its bound ε*√(T_V·xᵀM_V⁻¹(M_V − λI)M_V⁻¹x), which needs no
//! history. Information sets differ from user to user, so M_V is summed for a decision, O(|V|d²),
//! and factored once, O(d³/3); keeping all N of them would take O(N d²) for every reward.
//!
//! | constant | range | meaning |
//! | --- | --- | --- |
//! | `alpha1` α₁ | (0, ∞) | 1 in the authors' code |
//! | `alpha2` α₂ | [0, ∞) | 1.5 in the authors' code |
//! | `epsilon` ε* | [0, ∞) | the largest deviation from linear; 0.2 in the authors' code |
//! | `beta` β | [0, ∞) | √λ + √(2 ln(1/δ) + d ln(1 + t/(λd))); 1.5 in the authors' code |
//! | `delta` δ | (0, 1) | that of β |
//! | `exploration` | [0, ∞) | multiplies both bonuses |
//!
//! A user who comes later has edges to everybody.
//!
//! Reference: Wang, Xie, Liu, Li, Lui, *Online Clustering of Bandits with Misspecified User Models*,
//! NeurIPS 2023, Algorithm 1.

use std::io::{self, Read, Write};

use super::shared::clubs::{distance_squared, uncertainty};
use super::shared::robust::{LAMBDA, ROBUST_PARAMS, Robust};
use super::shared::served::{OneUser, Served, read_ofuls, write_ofuls};
use crate::builder::builder;
use crate::linear::{Oful, Symmetric, argmax, dot};
use crate::params::Settings;
use crate::registry::PolicyInfo;
use crate::saved::State;
use crate::{Arm, Contexts, Error, OnlinePolicy, Policy, Problem, Saved, Score, saved};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "rclumb",
    summary: "users learn from neighbours in a graph, rewards need not be linear (RCLUMB)",
    reference: "Wang, Xie, Liu, Li, Lui, NeurIPS 2023, Algorithm 1",
    params: &[ROBUST_PARAMS],
    build,
};

builder! {
    alpha1: real, alpha2: real, epsilon: real, beta: real, delta: real, exploration: real,
    intercept: flag,
}

#[derive(Clone)]
pub(super) struct Rclumb {
    pub(super) robust: Robust,
    dim: usize,
    users: Vec<Oful>,
    /// Whether there is an edge to each user before: row i has i of them.
    edges: Vec<Vec<bool>>,
    pub(super) turns: f64,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    Ok(Box::new(Served(Rclumb::new(problem, Robust::new(settings)))))
}

impl Rclumb {
    pub(super) fn new(problem: &Problem, robust: Robust) -> Self {
        let (users, edges) = (Vec::new(), Vec::new());
        let mut policy = Self { robust, dim: problem.dim, users, edges, turns: 0.0 };
        policy.grow_to(problem.users);
        policy
    }

    fn grow_to(&mut self, users: usize) {
        for user in self.users.len()..users {
            self.users.push(Oful::new(self.dim, LAMBDA));
            self.edges.push(vec![true; user]);
        }
    }

    /// Whether two different users have an edge; a user who has not come yet has all.
    fn edge(&self, a: usize, b: usize) -> bool {
        self.edges.get(a.max(b)).is_none_or(|row| row[a.min(b)])
    }

    fn scores(&self, user: usize, contexts: &Contexts) -> Vec<Score> {
        let mut precision = Symmetric::identity(self.dim, LAMBDA);
        let (mut estimate, mut rewards) = (vec![0.0; self.dim], 0.0);
        for (l, other) in self.users.iter().enumerate() {
            if (l == user || self.edge(user, l)) && other.progress().updates > 0.0 {
                precision.add(1.0, other.precision());
                precision.add_diagonal(-LAMBDA);
                estimate.iter_mut().zip(other.moment()).for_each(|(sum, b)| *sum += b);
                rewards += other.progress().updates;
            }
        }
        // Positive definite; where rounding at extreme scales says otherwise, nothing is known.
        let factor = precision
            .cholesky()
            .unwrap_or_else(|| crate::linear::symmetric::Cholesky::identity(self.dim, LAMBDA));
        factor.solve(&mut estimate);
        let beta = self.robust.beta(self.dim, self.turns);
        let score = |x: &[f64]| {
            let mut gain = x.to_vec();
            factor.solve(&mut gain);
            let bonus = self.robust.bonus(x, &gain, rewards, beta);
            Score { expected: dot(x, &estimate), bonus }
        };
        contexts.iter().map(score).collect()
    }
}

impl OneUser for Rclumb {
    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl OnlinePolicy for Rclumb {
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm {
        argmax(self.scores(user, contexts).iter().map(Score::total))
    }

    fn score(&mut self, user: usize, contexts: &Contexts, scores: &mut [Score]) {
        scores.copy_from_slice(&self.scores(user, contexts));
    }

    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        self.grow_to(user + 1);
        self.turns += 1.0;
        self.users[user].learn(context, reward);
        let own = &self.users[user];
        let own_bound = uncertainty(own.progress().updates);
        for (l, other) in self.users.iter().enumerate() {
            if l == user {
                continue;
            }
            let bounds = own_bound + uncertainty(other.progress().updates);
            let allowed = self.robust.alpha1 * bounds + self.robust.tolerance;
            if distance_squared(own.estimate(), other.estimate()) > allowed * allowed {
                self.edges[user.max(l)][user.min(l)] = false;
            }
        }
    }
}

impl State for Rclumb {
    const NAME: &'static str = INFO.name;
    const VERSION: u32 = 1;

    fn write_state(&self, out: &mut dyn Write) -> io::Result<()> {
        saved::write_numbers(out, &[self.turns])?;
        write_ofuls(out, self.dim, &self.users)?;
        self.edges.iter().try_for_each(|row| {
            let cut: Vec<usize> = (0..row.len()).filter(|other| !row[*other]).collect();
            saved::write_places(out, cut.into_iter())
        })
    }

    fn read_state(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        let what = INFO.name;
        let turns = saved::read_some(from, what, 1)?[0];
        let users = read_ofuls(from, what, self.dim, LAMBDA)?;
        let mut edges = Vec::new();
        for user in 0..users.len() {
            let mut row = vec![true; user];
            for other in saved::read_places(from, what, user)? {
                row[other] = false;
            }
            edges.push(row);
        }
        (self.turns, self.users, self.edges) = (turns, users, edges);
        Ok(())
    }

    fn adopt(&mut self, other: Self) -> Result<(), Error> {
        saved::check_equal(INFO.name, "dimension", other.dim, self.dim)?;
        (self.turns, self.users, self.edges) = (other.turns, other.users, other.edges);
        Ok(())
    }
}
