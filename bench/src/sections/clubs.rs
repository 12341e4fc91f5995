//! club and sclub against full recomputation at every turn, as their authors' code does it. The
//! naive versions are the test oracles.

use cohort::{Arm, Contexts};
use serde::{Deserialize, Serialize};

use super::{Effort, build};
use crate::race::seconds;
use crate::world::{Round, World};

#[path = "../../../crates/cohort/tests/plain/club.rs"]
mod plain_club;
#[path = "../../../crates/cohort/tests/plain/sclub.rs"]
mod plain_sclub;

use plain_club::PlainClub;
use plain_sclub::PlainSclub;

/// The name of the section in the store.
pub const NAME: &str = "clubs";

/// One of the two policies.
#[derive(Serialize, Deserialize)]
pub struct Measured {
    /// Its name.
    pub policy: String,
    /// N.
    pub users: usize,
    /// The number of turns.
    pub turns: usize,
    /// Turns per second, the best of the repeats.
    pub ours_per_second: f64,
    /// Turns per second of full recomputation, once.
    pub naive_per_second: f64,
    /// In how many turns both chose the same arm.
    pub same_arms: usize,
    /// Whether both have the same clusters in the end.
    pub same_clusters: bool,
}

/// N = 1,000, d = 15, K = 25, 10 clusters, users served round-robin from the first turn on.
pub fn measure(effort: &Effort) -> anyhow::Result<Vec<Measured>> {
    let (users, dim, rounds) = (effort.or(200, 1_000), 15, effort.or(2, 5));
    let alpha = |policy: &str, name: &str| default_of(policy, name);
    let club = {
        let complete: Vec<Vec<bool>> =
            (0..users).map(|user| (0..users).map(|other| user != other).collect()).collect();
        let (alpha, alpha2) = (alpha("club", "alpha")?, alpha("club", "alpha2")?);
        Naive::Club(PlainClub::new(dim, alpha, alpha2, complete))
    };
    let sclub = {
        let alpha_theta = alpha("sclub", "alpha_theta")?;
        let (alpha, alpha_p) = (alpha("sclub", "alpha")?, alpha("sclub", "alpha_p")?);
        Naive::Sclub(PlainSclub::new(users, dim, alpha, alpha_theta, alpha_p))
    };
    [("club", club), ("sclub", sclub)]
        .into_iter()
        .map(|(policy, naive)| compare(policy, naive, users, dim, rounds))
        .collect()
}

/// The default of a parameter.
fn default_of(policy: &str, name: &str) -> anyhow::Result<f64> {
    let info = cohort::registry::info(policy)?;
    Ok(info.check([])?.real(name))
}

enum Naive {
    Club(PlainClub),
    Sclub(PlainSclub),
}

impl Naive {
    fn turn(&mut self, user: usize, contexts: &Contexts, reward: impl Fn(Arm) -> f64) -> Arm {
        match self {
            Naive::Club(club) => {
                let arm = club.decide(user, contexts);
                club.learn_one(user, contexts.arm(arm), reward(arm));
                arm
            }
            Naive::Sclub(sclub) => {
                let arm = sclub.decide(user, contexts);
                sclub.learn_one(user, contexts.arm(arm), reward(arm));
                arm
            }
        }
    }

    fn clusters(&self) -> Vec<usize> {
        match self {
            Naive::Club(club) => club.clusters().to_vec(),
            Naive::Sclub(sclub) => sclub.clusters(),
        }
    }
}

fn compare(
    policy: &str,
    mut naive: Naive,
    users: usize,
    dim: usize,
    rounds: usize,
) -> anyhow::Result<Measured> {
    let mut world = World::new(users, dim, 10, 1);
    let clusters = world.clusters.clone();
    let played: Vec<Round> = (0..rounds).map(|_| world.round()).collect();
    let turns = users * rounds;

    let (mut ours, mut arms, mut found) = (f64::INFINITY, Vec::new(), None);
    for _repeat in 0..3 {
        let mut policy = build(policy, &world, 1_000, &[])?;
        let learner = policy.online().expect("it is for turns");
        arms.clear();
        ours = ours.min(seconds(|| {
            for round in &played {
                let contexts = Contexts::new(&round.contexts, dim).expect("whole and finite");
                for user in 0..users {
                    let arm = learner.decide(user, &contexts);
                    let reward = round.reward(user, clusters[user], arm);
                    learner.learn_one(user, contexts.arm(arm), reward);
                    arms.push(arm);
                }
            }
        }));
        found = policy.clusters();
    }
    let mut theirs = Vec::new();
    let naive_seconds = seconds(|| {
        for round in &played {
            let contexts = Contexts::new(&round.contexts, dim).expect("whole and finite");
            for user in 0..users {
                let reward = |arm| round.reward(user, clusters[user], arm);
                theirs.push(naive.turn(user, &contexts, reward));
            }
        }
    });
    Ok(Measured {
        policy: policy.to_owned(),
        users,
        turns,
        ours_per_second: turns as f64 / ours,
        naive_per_second: turns as f64 / naive_seconds,
        same_arms: arms.iter().zip(&theirs).filter(|(a, b)| a == b).count(),
        same_clusters: found == Some(naive.clusters()),
    })
}
