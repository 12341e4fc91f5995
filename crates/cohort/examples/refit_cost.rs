//! What a refit costs: `cargo run --release -p cohort --example refit_cost [USERS…]`.
//!
//! Users of ten kinds in R¹⁵ with 50 rewards each, played at random; a first fit, then a warm one.

use std::time::Instant;

use cohort::linear::dot;
use cohort::population::{Given, Ledger, Population};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

const DIM: usize = 15;
const KINDS: usize = 10;
const REWARDS: usize = 50;
const SIGMA: f64 = 0.3;

fn main() {
    let asked: Vec<usize> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let sizes = if asked.is_empty() { vec![1_000, 10_000, 100_000] } else { asked };
    println!("| users | first fit, s | warm fit, s | warm, µs a user | cohorts |");
    println!("| --- | --- | --- | --- | --- |");
    for users in sizes {
        let ledger = seen(users);
        let start = Instant::now();
        let Some(first) = Population::fit(&ledger, None, &Given::default()) else { continue };
        let first_seconds = start.elapsed().as_secs_f64();
        let warm_seconds = (0..3)
            .map(|_| {
                let start = Instant::now();
                Population::fit(&ledger, Some(&first.population), &Given::default());
                start.elapsed().as_secs_f64()
            })
            .fold(f64::INFINITY, f64::min);
        println!(
            "| {users} | {first_seconds:.3} | {warm_seconds:.3} | {:.1} | {} |",
            warm_seconds / users as f64 * 1e6,
            first.population.cohorts().len()
        );
    }
}

fn seen(users: usize) -> Ledger {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut ledger = Ledger::new(users, DIM, None);
    let normal = |rng: &mut ChaCha8Rng| -> f64 { StandardNormal.sample(rng) };
    let centres: Vec<Vec<f64>> = (0..KINDS)
        .map(|_| (0..DIM).map(|_| normal(&mut rng) / (DIM as f64).sqrt()).collect())
        .collect();
    let bound = 1.0 / (DIM as f64).sqrt();
    for user in 0..users {
        for _ in 0..REWARDS {
            let x: Vec<f64> = (0..DIM).map(|_| rng.random_range(-bound..bound)).collect();
            let y = dot(&x, &centres[user % KINDS]) + SIGMA * normal(&mut rng);
            ledger.learn_one(user, &x, y);
        }
    }
    ledger
}
