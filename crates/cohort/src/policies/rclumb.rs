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
//! history. Information sets differ from user to user; M_V is updated for the user that decides
//! (`InformationSets`) and factored once, O(d³/3). Edges are checked only when one of them may be
//! cut (`EdgeSlacks`).
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
//! A user who comes later has edges to all users.
//!
//! Reference: Wang, Xie, Liu, Li, Lui, *Online Clustering of Bandits with Misspecified User Models*,
//! NeurIPS 2023, Algorithm 1.

use std::io::{self, Read, Write};

use super::shared::edge_slack::EdgeSlacks;
use super::shared::information_sets::{CutEdges, InformationSets};
use super::shared::robust::{LAMBDA, ROBUST_PARAMS, Robust};
use super::shared::served::{OneUser, Served, read_ofuls, write_ofuls};
use crate::builder::builder;
use crate::linear::{Oful, argmax, dot};
use crate::params::Settings;
use crate::registry::PolicyInfo;
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
    cuts: CutEdges,
    slacks: EdgeSlacks,
    sets: InformationSets,
    pub(super) turns: f64,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    Ok(Box::new(Served(Rclumb::new(problem, Robust::new(settings)))))
}

impl Rclumb {
    pub(super) fn new(problem: &Problem, robust: Robust) -> Self {
        let (dim, alpha1, tolerance) = (problem.dim, robust.alpha1, robust.tolerance / 2.0);
        let mut cuts = CutEdges::default();
        cuts.grow_to(problem.users);
        Self {
            robust,
            dim,
            users: vec![Oful::new(dim, LAMBDA); problem.users],
            cuts,
            slacks: EdgeSlacks::new(problem.users, dim, alpha1, tolerance),
            sets: InformationSets::of(&[], dim, LAMBDA),
            turns: 0.0,
        }
    }

    fn grow_to(&mut self, users: usize) {
        self.cuts.grow_to(users);
        while self.users.len() < users {
            self.slacks.add(0..self.users.len());
            self.users.push(Oful::new(self.dim, LAMBDA));
        }
    }

    fn scores(&self, user: usize, contexts: &Contexts) -> Vec<Score> {
        let sum = self.sets.sum(user, &self.users, &self.cuts);
        let (mut precision, mut estimate) = (sum.gram.clone(), sum.moment.clone());
        precision.add_diagonal(LAMBDA);
        // Positive definite; where rounding at extreme scales says otherwise, nothing is known.
        let factor = precision
            .cholesky()
            .unwrap_or_else(|| crate::algebra::Cholesky::identity(self.dim, LAMBDA));
        factor.solve(&mut estimate);
        let beta = self.robust.beta(self.dim, self.turns);
        let score = |x: &[f64]| {
            let mut gain = x.to_vec();
            factor.solve(&mut gain);
            let bonus = self.robust.bonus(x, &gain, sum.rewards, beta);
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
        self.sets.learned(user, context, reward, self.users.len());
        if self.slacks.moved(user, &self.users[user]) {
            for other in self.slacks.recheck(user, &self.users, self.cuts.neighbours(user)) {
                self.cuts.cut(user, other);
                self.sets.parted(user, other);
            }
        }
        self.sets.keep(user, &self.users, &self.cuts);
    }
}

/// The version of the saved state. Version 1 had no sums: they are computed when it is read.
const VERSION: u32 = 2;

impl Saved for Rclumb {
    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        saved::write_header(out, VERSION)?;
        saved::write_numbers(out, &[self.turns])?;
        write_ofuls(out, self.dim, &self.users)?;
        for user in 0..self.users.len() {
            let cut: Vec<usize> =
                (0..user).filter(|other| self.cuts.is_cut(user, *other)).collect();
            saved::write_places(out, cut.into_iter())?;
        }
        self.sets.save(out)
    }

    fn load(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        let what = INFO.name;
        let version = u32::from_le_bytes(saved::read_array(from, what)?);
        if version != 1 {
            saved::check_equal(what, "layout version", version, VERSION)?;
        }
        let turns = saved::read_some(from, what, 1)?[0];
        let users = read_ofuls(from, what, self.dim, LAMBDA)?;
        let mut cuts = CutEdges::default();
        cuts.grow_to(users.len());
        for user in 0..users.len() {
            for other in saved::read_places(from, what, user)? {
                cuts.cut(user, other);
            }
        }
        self.sets = match version {
            1 => InformationSets::of(&users, self.dim, LAMBDA),
            _ => InformationSets::load(from, what, &users, self.dim, LAMBDA)?,
        };
        let (alpha1, tolerance) = (self.robust.alpha1, self.robust.tolerance / 2.0);
        self.slacks = EdgeSlacks::of(&users, self.dim, alpha1, tolerance);
        (self.turns, self.users, self.cuts) = (turns, users, cuts);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the first version wrote had no sums; it is read, and judges the same but for rounding.
    #[test]
    fn what_was_kept_without_sums_is_read() {
        let settings = INFO.check([("alpha1".to_owned(), 0.3.into())]).unwrap();
        let make = || Rclumb::new(&Problem::new(6, 2), Robust::new(&settings));
        let mut policy = make();
        for turn in 0..200 {
            let (user, angle) = (turn % 6, turn as f64);
            let sign = if user < 3 { 1.0 } else { -1.0 };
            policy.learn_one(user, &[angle.cos(), angle.sin()], sign * angle.cos());
        }
        assert!(policy.cuts.is_cut(0, 5) && !policy.cuts.is_cut(0, 1));
        let (mut bytes, mut sums) = (Vec::new(), Vec::new());
        policy.save(&mut bytes).unwrap();
        policy.sets.save(&mut sums).unwrap();
        bytes.truncate(bytes.len() - sums.len());
        bytes[..4].copy_from_slice(&1u32.to_le_bytes());
        let mut old = make();
        old.load(&mut bytes.as_slice()).unwrap();
        let values = [0.3, 0.4, -0.5, 0.1];
        let contexts = Contexts::new(&values, 2).unwrap();
        for user in 0..7 {
            for (a, b) in policy.scores(user, &contexts).iter().zip(old.scores(user, &contexts)) {
                assert!((a.total() - b.total()).abs() < 1e-12, "{a:?} against {b:?}");
            }
        }
        bytes[..4].copy_from_slice(&3u32.to_le_bytes());
        assert!(make().load(&mut bytes.as_slice()).is_err());
    }
}
