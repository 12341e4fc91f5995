//! The cost of learning the population in `cohort`: single refits against the number of users, and
//! whole runs beside `linucb-ind`, which learns no population.

use std::time::{Duration, Instant};

use cohort::linear::dot;
use cohort::population::{FitOptions, Ledger, Population};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use super::{Effort, build, on_threads, play};
use crate::race::seconds;
use crate::world::{World, unit_vectors};

/// The name of the section in the store.
pub const NAME: &str = "refits";

const DIM: usize = 15;
const KINDS: usize = 10;
const REWARDS: usize = 50;
const SIGMA: f64 = 0.3;

/// Both measurements.
#[derive(Serialize, Deserialize)]
pub struct Measured {
    /// Single refits.
    pub refits: Vec<Refit>,
    /// Whole runs.
    pub runs: Vec<Run>,
}

/// A fit of the population.
#[derive(Serialize, Deserialize)]
pub struct Refit {
    /// N.
    pub users: usize,
    /// The first fit, in seconds.
    pub first_seconds: f64,
    /// A fit from the previous one, the best of three, in seconds.
    pub warm_seconds: f64,
    /// The same on one thread.
    pub warm_seconds_one_thread: f64,
    /// The number of cohorts found.
    pub cohorts: usize,
}

/// A whole run of both policies.
#[derive(Serialize, Deserialize)]
pub struct Run {
    /// N.
    pub users: usize,
    /// T.
    pub rounds: usize,
    /// The number of threads.
    pub threads: usize,
    /// Learning time of `cohort`, refits included: the best of the repeats.
    pub cohort_seconds: f64,
    /// Learning time of `linucb-ind`, likewise.
    pub linucb_ind_seconds: f64,
}

/// Measures both; the policies take turns.
pub fn measure(effort: &Effort) -> anyhow::Result<Measured> {
    let sizes = effort.or(&[1_000, 10_000][..], &[1_000, 10_000, 100_000, 1_000_000]);
    let refits = sizes.iter().map(|users| refit(*users)).collect::<anyhow::Result<_>>()?;
    let mut runs = Vec::new();
    for threads in [1, 2] {
        runs.push(run(effort.or(1_000, 10_000), 1_000, threads, effort.or(1, 3))?);
    }
    Ok(Measured { refits, runs })
}

fn refit(users: usize) -> anyhow::Result<Refit> {
    let ledger = seen(users);
    let start = Instant::now();
    let first = Population::fit(&ledger, None, &FitOptions::default());
    let first_seconds = start.elapsed().as_secs_f64();
    let first = first.ok_or_else(|| anyhow::anyhow!("{users} users: there was nothing to fit"))?;
    let warm = |threads: usize, times: usize| {
        let once = || {
            seconds(|| {
                Population::fit(&ledger, Some(&first), &FitOptions::default());
            })
        };
        on_threads(threads, || (0..times).map(|_| once()).fold(f64::INFINITY, f64::min))
    };
    let cohorts = first.cohorts().len();
    let refit = Refit {
        users,
        first_seconds,
        warm_seconds: warm(2, 3),
        warm_seconds_one_thread: warm(1, 1),
        cohorts,
    };
    eprintln!("N={users}: first {first_seconds:.3} s, warm {:.3} s", refit.warm_seconds);
    Ok(refit)
}

/// A ledger of users in ten groups with 50 rewards each, for random arms.
fn seen(users: usize) -> Ledger {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut ledger = Ledger::new(DIM, 1.0);
    let centres = unit_vectors(KINDS, DIM, &mut rng);
    let bound = 1.0 / (DIM as f64).sqrt();
    for user in 0..users {
        for _ in 0..REWARDS {
            let x: Vec<f64> = (0..DIM).map(|_| rng.random_range(-bound..bound)).collect();
            let noise: f64 = StandardNormal.sample(&mut rng);
            let centre = &centres[user % KINDS * DIM..][..DIM];
            ledger.learn_one(user, &x, dot(&x, centre) + SIGMA * noise);
        }
    }
    ledger
}

fn run(users: usize, rounds: usize, threads: usize, repeats: usize) -> anyhow::Result<Run> {
    let mut best = [f64::INFINITY; 2];
    for repeat in 0..repeats {
        for (policy, best) in ["cohort", "linucb-ind"].into_iter().zip(&mut best) {
            let mut world = World::new(users, DIM, KINDS, repeat as u64);
            let mut learner = build(policy, &world, rounds, &[])?;
            let unhurried = Duration::MAX;
            let played =
                on_threads(threads, || play(learner.as_mut(), &mut world, rounds, unhurried));
            *best = best.min(played.seconds);
        }
    }
    let [cohort_seconds, linucb_ind_seconds] = best;
    eprintln!(
        "N={users}, {threads} threads: cohort {cohort_seconds:.2} s, linucb-ind {linucb_ind_seconds:.2} s"
    );
    Ok(Run { users, rounds, threads, cohort_seconds, linucb_ind_seconds })
}
