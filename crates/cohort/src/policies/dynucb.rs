//! `dynucb`: dynamic clustering. A fixed number of clusters; users move to the nearest, as in
//! k-means.
//!
//! ```text
//! init    every user in one of C clusters at random;  M_i = I, b_i = 0
//! choose  argmax_x ⟨w_V, x⟩ + α·√(xᵀM_V⁻¹x · ln(1 + t)),  V the cluster of i,
//!         M_V = I + Σ_{l∈V}(M_l − I),  b_V = Σ b_l,  w_V = M_V⁻¹b_V
//! update  M_i += xxᵀ,  b_i += yx;  then i moves to argmin_V ‖w_i − w_V‖ (its own on a tie)
//! ```
//!
//! Cluster sums follow each reward by Sherman–Morrison; a move costs O(d³), once for the cluster
//! that is left and once for the one that is entered.
//!
//! | constant | range | meaning |
//! | --- | --- | --- |
//! | `alpha` α | (0, ∞) | width; the paper's analysis has 1 + √(ln(2/δ)/2), public code tunes it |
//! | `exploration` | [0, ∞) | multiplies α |
//! | `clusters` C | 1, 2, … | how many clusters; 4 to 16 in the paper |
//!
//! The first cluster of a user is drawn from the seed and the user's number.
//!
//! Reference: Nguyen, Lauw, *Dynamic Clustering of Contextual Multi-Armed Bandits*, CIKM 2014,
//! Algorithm 1.

use std::io::{self, Read, Write};

use rand::RngExt;

use super::draws::stream;
use super::shared::clubs::{EXPLORATION_PARAMS, distance_squared, exploration, width};
use super::shared::served::{OneUser, Served, read_ofuls, write_ofuls};
use crate::builder::builder;
use crate::cluster::partition::number_by_smallest_member;
use crate::linear::{Oful, argmax};
use crate::params::{Param, Settings};
use crate::registry::PolicyInfo;
use crate::saved::State;
use crate::{Arm, Contexts, Error, OnlinePolicy, Policy, Problem, Saved, Score, saved};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "dynucb",
    summary: "a fixed number of clusters, users move to the nearest (DynUCB)",
    reference: "Nguyen, Lauw, CIKM 2014, Algorithm 1",
    params: &[
        EXPLORATION_PARAMS,
        &[Param::count("clusters", 1, 4, "C, how many clusters there are")],
    ],
    build,
};

builder! { alpha: real, exploration: real, intercept: flag, clusters: count }

/// M = I + Σxxᵀ: the regulariser.
const LAMBDA: f64 = 1.0;

/// An upper limit on the number of clusters, whatever is asked for.
const MOST_CLUSTERS: usize = 1 << 16;

#[derive(Clone)]
struct DynUcb {
    exploration: f64,
    seed: u64,
    dim: usize,
    users: Vec<Oful>,
    homes: Vec<usize>,
    clusters: Vec<Oful>,
    turns: f64,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let count = settings.count("clusters").min(MOST_CLUSTERS);
    let mut policy = DynUcb {
        exploration: exploration(settings),
        seed: problem.seed,
        dim: problem.dim,
        users: Vec::new(),
        homes: Vec::new(),
        clusters: vec![Oful::new(problem.dim, LAMBDA); count],
        turns: 0.0,
    };
    policy.grow_to(problem.users);
    Ok(Box::new(Served(policy)))
}

/// The first cluster of a user.
pub fn first_cluster(seed: u64, user: usize, clusters: usize) -> usize {
    stream(seed, user, 0.0).random_range(0..clusters)
}

impl DynUcb {
    fn home(&self, user: usize) -> usize {
        let first = || first_cluster(self.seed, user, self.clusters.len());
        self.homes.get(user).copied().unwrap_or_else(first)
    }

    fn grow_to(&mut self, users: usize) {
        for user in self.users.len()..users {
            self.homes.push(self.home(user));
            self.users.push(Oful::new(self.dim, LAMBDA));
        }
    }

    fn width(&self) -> f64 {
        self.exploration * width(self.turns)
    }

    /// The nearest cluster; the present one where none is nearer.
    fn nearest(&self, user: usize) -> usize {
        let own = self.users[user].estimate();
        let distance = |at: usize| distance_squared(own, self.clusters[at].estimate());
        let nearest = argmax((0..self.clusters.len()).map(|at| -distance(at)));
        let home = self.homes[user];
        if distance(nearest) < distance(home) { nearest } else { home }
    }
}

impl OneUser for DynUcb {
    fn clusters(&self) -> Option<Vec<usize>> {
        let mut labels = self.homes.clone();
        number_by_smallest_member(&mut labels);
        Some(labels)
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl OnlinePolicy for DynUcb {
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm {
        self.clusters[self.home(user)].best_arm(contexts, self.width())
    }

    fn score(&mut self, user: usize, contexts: &Contexts, scores: &mut [Score]) {
        self.clusters[self.home(user)].score(contexts, self.width(), scores);
    }

    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        self.grow_to(user + 1);
        self.turns += 1.0;
        let from = self.homes[user];
        self.users[user].learn(context, reward);
        self.clusters[from].learn(context, reward);
        let to = self.nearest(user);
        if to != from {
            self.clusters[from].release(&self.users[user]);
            self.clusters[to].absorb([&self.users[user]]);
            self.homes[user] = to;
        }
    }
}

impl State for DynUcb {
    const NAME: &'static str = INFO.name;
    const VERSION: u32 = 1;

    fn write_state(&self, out: &mut dyn Write) -> io::Result<()> {
        saved::write_numbers(out, &[self.turns])?;
        write_ofuls(out, self.dim, &self.users)?;
        write_ofuls(out, self.dim, &self.clusters)?;
        saved::write_places(out, self.homes.iter().copied())
    }

    fn read_state(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        let what = INFO.name;
        let turns = saved::read_some(from, what, 1)?[0];
        let users = read_ofuls(from, what, self.dim, LAMBDA)?;
        let clusters = read_ofuls(from, what, self.dim, LAMBDA)?;
        saved::check_equal(what, "clusters", clusters.len(), self.clusters.len())?;
        let homes = saved::read_places(from, what, clusters.len())?;
        saved::check_equal(what, "users", homes.len(), users.len())?;
        (self.turns, self.users, self.clusters, self.homes) = (turns, users, clusters, homes);
        Ok(())
    }

    fn adopt(&mut self, other: Self) -> Result<(), Error> {
        saved::check_equal(INFO.name, "dimension", other.dim, self.dim)?;
        saved::check_equal(INFO.name, "clusters", other.clusters.len(), self.clusters.len())?;
        let Self { users, homes, clusters, turns, .. } = other;
        (self.turns, self.users, self.clusters, self.homes) = (turns, users, clusters, homes);
        Ok(())
    }
}
