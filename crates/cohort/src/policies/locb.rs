//! `locb`: local clustering. Clusters grow around seeds and may overlap; a user plays by the most
//! promising of those it is in.
//!
//! ```text
//! init    seeds s: some users, drawn without replacement;  N_s = all users
//! choose  among the clusters N_s ∋ i the arm with the largest
//!         ⟨w_N, x⟩ + α·√(xᵀM_N⁻¹x · ln(1 + t)),  M_N = I + Σ_{l∈N}(M_l − I),  w_N likewise;
//!         by i's own estimate where it is in none
//! update  M_i, b_i;  then for every seed that is not finished:
//!         i ∈ N_s  iff  ‖w_i − w_s‖ ≤ B(i) + B(s),   B(j) = F(T_j) = √((1 + ln(1 + T_j))/(1 + T_j))
//! finished is a seed once B(s) ≤ γ/4: its cluster stays as it is
//! ```
//!
//! | constant | range | meaning |
//! | --- | --- | --- |
//! | `alpha` α | (0, ∞) | width of the exploration |
//! | `exploration` | [0, ∞) | multiplies α |
//! | `seeds` | 1, 2, … | how many seeds; 20 of 50 users in the authors' code |
//! | `gamma` γ | (0, ∞) | the gap assumed between clusters; 0.2 in the authors' code |
//!
//! B is that of the authors' code; the theory's is (σ√(2d ln t + 2 ln(2/δ)) + 1)/√(1 + h(T)), which
//! it replaces there. The paper averages the members' estimates, its code pools their rewards: this
//! is the code's form, which is the better one. Unlike it, seeds are different users, a cluster's
//! sums follow who joins and leaves, and the bonus has its square root.
//!
//! Where there are fewer users than seeds at the start, the first to come become seeds. A user who
//! comes later is in all clusters that are not finished.
//!
//! Reference: Ban, He, *Local Clustering in Contextual Multi-Armed Bandits*, WWW 2021, Algorithm 1.

use std::io::{self, Read, Write};

use rand::seq::index;

use super::draws::stream;
use super::shared::clubs::{EXPLORATION_PARAMS, distance_squared, exploration, uncertainty, width};
use super::shared::served::{OneUser, Served, read_ofuls, write_ofuls};
use crate::builder::builder;
use crate::linear::Oful;
use crate::params::{POSITIVE, Param, Settings};
use crate::registry::PolicyInfo;
use crate::saved::State;
use crate::{Arm, Contexts, Error, OnlinePolicy, Policy, Problem, Saved, Score, saved};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "locb",
    summary: "clusters grow around seeds and may overlap (LOCB)",
    reference: "Ban, He, WWW 2021, Algorithm 1, in the form of its authors' code",
    params: &[
        EXPLORATION_PARAMS,
        &[
            Param::count("seeds", 1, 20, "how many users clusters are grown around"),
            Param::real("gamma", POSITIVE, 0.2, "γ: the gap assumed between clusters"),
        ],
    ],
    build,
};

builder! { alpha: real, exploration: real, intercept: flag, seeds: count, gamma: real }

/// M = I + Σxxᵀ: the regulariser.
const LAMBDA: f64 = 1.0;

#[derive(Clone)]
struct Locb {
    exploration: f64,
    gamma: f64,
    wanted: usize,
    dim: usize,
    users: Vec<Oful>,
    fresh: Oful,
    seeds: Vec<SeedCluster>,
    turns: f64,
}

/// A cluster that grows around a user.
#[derive(Clone)]
struct SeedCluster {
    user: usize,
    /// Whether each user is in it.
    members: Vec<bool>,
    sums: Oful,
    finished: bool,
}

/// The users that clusters are grown around, of those there are at the start.
pub fn draw_seeds(seed: u64, users: usize, wanted: usize) -> Vec<usize> {
    let mut rng = stream(seed, usize::MAX, 0.0);
    index::sample(&mut rng, users, wanted.min(users)).into_vec()
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let wanted = settings.count("seeds");
    let mut policy = Locb {
        exploration: exploration(settings),
        gamma: settings.real("gamma"),
        wanted,
        dim: problem.dim,
        users: Vec::new(),
        fresh: Oful::new(problem.dim, LAMBDA),
        seeds: Vec::new(),
        turns: 0.0,
    };
    for user in draw_seeds(problem.seed, problem.users, wanted) {
        policy.add_seed(user);
    }
    policy.grow_to(problem.users);
    Ok(Box::new(Served(policy)))
}

impl Locb {
    /// A cluster of all users who have come, around one of them.
    fn add_seed(&mut self, user: usize) {
        let mut sums = self.fresh.clone();
        sums.absorb(&self.users);
        let members = vec![true; self.users.len()];
        self.seeds.push(SeedCluster { user, members, sums, finished: false });
    }

    fn grow_to(&mut self, users: usize) {
        for user in self.users.len()..users {
            self.users.push(self.fresh.clone());
            for seed in &mut self.seeds {
                seed.members.push(!seed.finished);
            }
            if self.seeds.len() < self.wanted {
                self.add_seed(user);
            }
        }
    }

    fn width(&self) -> f64 {
        self.exploration * width(self.turns)
    }

    /// The clusters that a user is in; for one who has not come yet, those it would be in.
    fn clusters_of(&self, user: usize) -> impl Iterator<Item = &Oful> {
        let is_in = move |seed: &&SeedCluster| match seed.members.get(user) {
            Some(member) => *member,
            None => !seed.finished,
        };
        self.seeds.iter().filter(is_in).map(|seed| &seed.sums)
    }

    /// What decides for a user: the cluster with the most promising arm, and that arm.
    fn most_promising(&self, user: usize, contexts: &Contexts) -> (&Oful, Arm) {
        let width = self.width();
        let mut best: Option<(f64, &Oful, Arm)> = None;
        for sums in self.clusters_of(user) {
            let arm = sums.best_arm(contexts, width);
            let x = contexts.arm(arm);
            let score = sums.optimistic(x, width, crate::linear::Shape::Ellipsoid);
            if best.is_none_or(|(most, _, _)| score > most) {
                best = Some((score, sums, arm));
            }
        }
        let own = self.users.get(user).unwrap_or(&self.fresh);
        best.map_or_else(|| (own, own.best_arm(contexts, width)), |(_, sums, arm)| (sums, arm))
    }
}

impl OneUser for Locb {
    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl OnlinePolicy for Locb {
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm {
        self.most_promising(user, contexts).1
    }

    fn score(&mut self, user: usize, contexts: &Contexts, scores: &mut [Score]) {
        self.most_promising(user, contexts).0.score(contexts, self.width(), scores);
    }

    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        self.grow_to(user + 1);
        self.turns += 1.0;
        self.users[user].learn(context, reward);
        let (own, own_bound) = (&self.users[user], bound(&self.users[user]));
        for seed in &mut self.seeds {
            if seed.members[user] {
                seed.sums.learn(context, reward);
            }
            if seed.finished {
                continue;
            }
            let centre = &self.users[seed.user];
            let apart = distance_squared(own.estimate(), centre.estimate()).sqrt();
            let belongs = user == seed.user || apart <= own_bound + bound(centre);
            if belongs != seed.members[user] {
                seed.members[user] = belongs;
                if belongs { seed.sums.absorb([own]) } else { seed.sums.release(own) }
            }
            seed.finished = bound(centre) <= self.gamma / 4.0;
        }
    }
}

/// B: how far an estimate may be off.
fn bound(user: &Oful) -> f64 {
    uncertainty(user.progress().updates)
}

impl State for Locb {
    const NAME: &'static str = INFO.name;
    const VERSION: u32 = 1;

    fn write_state(&self, out: &mut dyn Write) -> io::Result<()> {
        saved::write_numbers(out, &[self.turns])?;
        write_ofuls(out, self.dim, &self.users)?;
        saved::write_count(out, self.seeds.len())?;
        for SeedCluster { user, members, sums, finished } in &self.seeds {
            saved::write_counts(out, &[*user, usize::from(*finished)])?;
            let inside = (0..members.len()).filter(|user| members[*user]);
            saved::write_places(out, inside.collect::<Vec<_>>().into_iter())?;
            sums.save(out)?;
        }
        Ok(())
    }

    fn read_state(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        let what = INFO.name;
        let turns = saved::read_some(from, what, 1)?[0];
        let users = read_ofuls(from, what, self.dim, LAMBDA)?;
        let mut seeds = Vec::new();
        for _ in 0..saved::read_count(from, what)? {
            let numbers = saved::read_counts(from, what)?;
            let (found, expected) = (format!("{numbers:?}"), "a user and whether it is finished");
            let [user, finished @ (0 | 1)] = numbers[..] else {
                return Err(Error::Saved { what, found, expected: expected.to_owned() });
            };
            if user >= users.len() {
                let expected = format!("one of {} users", users.len());
                return Err(Error::Saved { what, found: format!("user {user}"), expected });
            }
            let mut members = vec![false; users.len()];
            for member in saved::read_places(from, what, users.len())? {
                members[member] = true;
            }
            let sums = Oful::load(from, what, self.dim, LAMBDA)?;
            seeds.push(SeedCluster { user, members, sums, finished: finished == 1 });
        }
        (self.turns, self.users, self.seeds) = (turns, users, seeds);
        Ok(())
    }

    fn adopt(&mut self, other: Self) -> Result<(), Error> {
        saved::check_equal(INFO.name, "dimension", other.dim, self.dim)?;
        (self.turns, self.users, self.seeds) = (other.turns, other.users, other.seeds);
        Ok(())
    }
}
