//! The sections of the benchmark, one question per file.

pub mod clubs;
pub mod components;
pub mod growth;
pub mod limit;
pub mod peers;
pub mod phases;
pub mod policies;
pub mod refits;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use cohort::{Contexts, Order, Policy, Problem, Truth, registry};

use crate::race::seconds;
use crate::world::{NOISE, World};

/// The effort of a measurement.
pub struct Effort {
    /// Smaller sizes, fewer repeats.
    pub quick: bool,
    /// A Python that has the peers.
    pub python: PathBuf,
    /// The time limit of a peer for one clustering.
    pub time_limit_s: f64,
}

impl Effort {
    /// One of two values, by effort.
    pub fn or<T>(&self, quick: T, thorough: T) -> T {
        if self.quick { quick } else { thorough }
    }
}

/// Makes a policy for a world, with the ground truth for oracles.
pub fn build(
    name: &str,
    world: &World,
    rounds: usize,
    params: &[(&str, f64)],
) -> Result<Box<dyn Policy>, cohort::Error> {
    let thetas = world.thetas();
    let truth = Truth::new(&thetas, &world.clusters);
    let problem = Problem {
        rounds: Some(rounds),
        sigma: NOISE,
        seed: 1,
        truth: Some(truth),
        ..Problem::new(world.users, world.dim)
    };
    let params = params.iter().map(|(name, value)| ((*name).to_owned(), (*value).into()));
    registry::build(name, &problem, params)
}

/// The result of a run.
#[derive(Clone, Copy, Default)]
pub struct Played {
    /// The number of decisions.
    pub user_rounds: f64,
    /// The policy's own time: choosing and learning.
    pub seconds: f64,
}

/// Plays until `rounds` rounds are over or the policy has used up its time. The world's work is not
/// timed.
pub fn play(policy: &mut dyn Policy, world: &mut World, rounds: usize, budget: Duration) -> Played {
    let mut played = Played::default();
    let mut arms = vec![0; world.users];
    let mut rewards = vec![0.0; world.users];
    for _ in 0..rounds {
        let round = world.round();
        let contexts = Contexts::new(&round.contexts, world.dim).expect("whole and finite");
        if policy.order() == Order::OneByOne {
            let online = policy.online().expect("what is run one by one has turns");
            let start = Instant::now();
            for (user, cluster) in world.clusters.iter().enumerate() {
                let arm = online.decide(user, &contexts);
                online.learn_one(user, contexts.arm(arm), round.reward(user, *cluster, arm));
                played.user_rounds += 1.0;
                let out_of_time = user % 256 == 255 && start.elapsed() > budget;
                if out_of_time {
                    break;
                }
            }
            played.seconds += start.elapsed().as_secs_f64();
        } else {
            played.seconds += seconds(|| policy.choose(&contexts, &mut arms));
            for (user, reward) in rewards.iter_mut().enumerate() {
                *reward = round.reward(user, world.clusters[user], arms[user]);
            }
            played.seconds += seconds(|| policy.learn(&contexts, &arms, &rewards));
            played.user_rounds += world.users as f64;
        }
        if played.seconds > budget.as_secs_f64() {
            break;
        }
    }
    if policy.order() == Order::Together {
        // Rewards may be learned only when the next round chooses: one more choice, which counts as
        // time and not as work.
        let round = world.round();
        let contexts = Contexts::new(&round.contexts, world.dim).expect("whole and finite");
        played.seconds += seconds(|| policy.choose(&contexts, &mut arms));
    }
    played
}

/// Runs `work` on a pool of so many threads.
pub fn on_threads<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> R {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.expect("a few threads can be had").install(work)
}
