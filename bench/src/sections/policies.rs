//! Every policy: user-rounds per second, learning time alone, on one thread and on two.

use std::time::Duration;

use cohort::registry::POLICIES;
use serde::{Deserialize, Serialize};

use super::{Effort, build, on_threads, play};
use crate::world::World;

/// The name of the section in the store.
pub const NAME: &str = "policies";

/// One policy at one size.
#[derive(Serialize, Deserialize)]
pub struct Measured {
    /// Its name.
    pub policy: String,
    /// d.
    pub dim: usize,
    /// N.
    pub users: usize,
    /// The number of threads.
    pub threads: usize,
    /// The best of the repeats.
    pub user_rounds_per_second: f64,
    /// The number of rounds of the fastest repeat.
    pub rounds: f64,
}

/// The number of clusters of users.
const CLUSTERS: usize = 10;

/// All policies of the registry.
pub fn measure(effort: &Effort) -> anyhow::Result<Vec<Measured>> {
    let mut all = Vec::new();
    for &dim in effort.or(&[15][..], &[15, 25]) {
        for &users in effort.or(&[100, 1_000][..], &[100, 1_000, 10_000, 100_000]) {
            for policy in POLICIES {
                for threads in [1, 2] {
                    let measured = measure_one(policy.name, dim, users, threads, effort)?;
                    eprintln!(
                        "{:18} d={dim} N={users:6} threads={threads}: {:10.0} user-rounds/s",
                        policy.name, measured.user_rounds_per_second
                    );
                    all.push(measured);
                }
            }
        }
    }
    Ok(all)
}

fn measure_one(
    policy: &str,
    dim: usize,
    users: usize,
    threads: usize,
    effort: &Effort,
) -> anyhow::Result<Measured> {
    // Long enough for policies to reach their later phases.
    let rounds = (10_000_000 / users).clamp(100, 1_000);
    let budget = Duration::from_secs_f64(effort.or(0.1, 0.5));
    let (mut best, mut played_rounds) = (0.0, 0.0);
    for repeat in 0..effort.or(1, 2) {
        let mut world = World::new(users, dim, CLUSTERS, repeat);
        let mut learner = build(policy, &world, rounds, &[])?;
        let played = on_threads(threads, || play(learner.as_mut(), &mut world, rounds, budget));
        let rate = played.user_rounds / played.seconds;
        if rate > best {
            (best, played_rounds) = (rate, played.user_rounds / users as f64);
        }
    }
    let (policy, user_rounds_per_second) = (policy.to_owned(), best);
    Ok(Measured { policy, dim, users, threads, user_rounds_per_second, rounds: played_rounds })
}
