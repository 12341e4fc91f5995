//! The best of very many items for a user: found by bounds, beside scoring each.
//!
//! `cargo run --release -p cohort --example catalogue [ITEMS] [DIM] [K]`, by default 100,000 items, d = 15, the best ten. Users like what they
//! like linearly; the policy has learned from 50 answers of each of 200 users. Printed are times of one core (by the
//! processor's clock, which other programs do not slow down) and elapsed times, the best of five for each user, and the worst
//! user's; and that both answers are the same.

use std::time::Instant;

use cohort::search::ItemMatrix;
use cohort::{Contexts, Problem, Score};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// Milliseconds that all threads of this process were running, where the system tells.
fn cpu_ms() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let of = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    };
    tasks.filter_map(of).sum::<f64>() / 1e6
}

/// The best of five: milliseconds of processors, and elapsed.
fn timed<T>(mut work: impl FnMut() -> T) -> (T, f64, f64) {
    let (mut best, mut result) = ((f64::INFINITY, f64::INFINITY), None);
    for _ in 0..5 {
        let (cpu, clock) = (cpu_ms(), Instant::now());
        result = Some(work());
        best.0 = best.0.min(cpu_ms() - cpu);
        best.1 = best.1.min(clock.elapsed().as_secs_f64() * 1e3);
    }
    (result.expect("five times"), best.0, best.1)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(|word| word.parse::<usize>());
    let mut next = |usual: usize| arguments.next().unwrap_or(Ok(usual));
    let (items, dim, k) = (next(100_000)?, next(15)?, next(10)?);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut direction = |length: f64| -> Vec<f64> {
        let x: Vec<f64> = (0..dim).map(|_| StandardNormal.sample(&mut rng)).collect();
        let norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
        x.iter().map(|x| x * length / norm).collect()
    };
    let rows: Vec<f64> = (0..items).flat_map(|_| direction(1.0)).collect();
    let tastes: Vec<Vec<f64>> = (0..4).map(|_| direction(1.0)).collect();
    let contexts = Contexts::new(&rows, dim)?;
    let mut matrix = ItemMatrix::new(dim);
    for (slot, row) in contexts.iter().enumerate() {
        matrix.set(slot, row);
    }

    println!(
        "| policy | answers of the user | items scored | search, ms of a core | elapsed | scoring each, ms of a core |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    for name in ["cohort", "linucb-ind"] {
        let mut policy = cohort::registry::build(name, &Problem::new(0, dim), [])?;
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        for step in 0..50 * 200 {
            let (user, item) = (step % 200, rng.random_range(0..items));
            let x = contexts.arm(item);
            let reward: f64 = x.iter().zip(&tastes[user % 4]).map(|(a, b)| a * b).sum();
            let noise: f64 = StandardNormal.sample(&mut rng);
            policy.catch_up();
            let online = policy.online().ok_or("a policy for one user at a time")?;
            online.learn_one(user, x, reward + 0.1 * noise);
        }
        policy.catch_up();
        // One of those, and one of whom nothing is known.
        for (user, answers) in [(3, 50), (100_000, 0)] {
            let online = policy.online().ok_or("a policy for one user at a time")?;
            let (found, cpu, elapsed) = timed(|| {
                let form = online.score_form(user).expect("a score that can be searched");
                if matrix.all_alike(&form, None) {
                    return (Vec::new(), 0);
                }
                let slots = matrix.best(&form, k, None, None);
                let few: Vec<f64> =
                    slots.iter().flat_map(|slot| contexts.arm(*slot as usize)).copied().collect();
                let mut scores = vec![Score::default(); slots.len()];
                let few = Contexts::new(&few, dim).expect("items");
                online.score(user, &few, &mut scores);
                (best_of(slots.iter().map(|slot| *slot as usize), &scores, k), slots.len())
            });
            let (each, each_cpu, _) = timed(|| {
                let mut scores = vec![Score::default(); items];
                online.score(user, &contexts, &mut scores);
                best_of(0..items, &scores, k)
            });
            let scored = if found.0.is_empty() {
                "none: all are alike".to_owned()
            } else {
                found.1.to_string()
            };
            assert!(found.0.is_empty() || found.0 == each, "the same answer");
            println!("| {name} | {answers} | {scored} | {cpu:.2} | {elapsed:.2} | {each_cpu:.1} |");
        }
    }
    Ok(())
}

fn best_of(items: impl Iterator<Item = usize>, scores: &[Score], k: usize) -> Vec<usize> {
    let mut all: Vec<(usize, f64)> = items.zip(scores.iter().map(Score::total)).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    all.into_iter().take(k).map(|(item, _)| item).collect()
}
