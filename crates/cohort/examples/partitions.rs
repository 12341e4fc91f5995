//! What does it cost to spread users over several policies with one population? Regret beside one policy that has all
//! users, on the same stream of users, arms and noise.
//!
//! ```text
//! cargo run --release -p cohort --example partitions [USERS CLUSTERS PARTS REWARDS SEEDS DIM]
//! ```

use std::sync::{Arc, Mutex};

use cohort::{Contexts, Policy, Problem, Score, registry};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

const ARMS: usize = 20;
const NOISE: f64 = 0.3;

struct World {
    users: usize,
    clusters: usize,
    parts: usize,
    rewards: usize,
    dim: usize,
}

/// Which policy has a user, and as which.
fn place(user: usize, parts: usize) -> (usize, usize) {
    let hash = (user as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    (hash as usize % parts, user)
}

fn unit(rng: &mut ChaCha8Rng, dim: usize) -> Vec<f64> {
    let x: Vec<f64> = (0..dim).map(|_| StandardNormal.sample(rng)).collect();
    let length = x.iter().map(|x: &f64| x * x).sum::<f64>().sqrt();
    x.iter().map(|x| x / length).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The regret of users who come in any order; `shared` says whether all parts have one population.
fn regret(world: &World, parts: usize, shared: bool, seed: u64) -> f64 {
    let dim = world.dim;
    let policy = || registry::build("cohort", &Problem::new(0, dim), []).expect("it is there");
    let all: Arc<Mutex<Vec<Box<dyn Policy>>>> =
        Arc::new(Mutex::new((0..parts).map(|_| policy()).collect()));
    let (mut asker, look) = (policy(), Arc::default());
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let tastes: Vec<Vec<f64>> = (0..world.clusters).map(|_| unit(&mut rng, dim)).collect();
    let own: Vec<Vec<f64>> = (0..world.users)
        .map(|user| {
            let own = unit(&mut rng, dim);
            tastes[user % world.clusters].iter().zip(own).map(|(t, o)| t + 0.2 * o).collect()
        })
        .collect();
    let items: Vec<Vec<f64>> = (0..200).map(|_| unit(&mut rng, dim)).collect();
    let (mut total, mut told) = (0.0, 0.0);
    for turn in 0..world.rewards {
        let user = rng.random_range(0..world.users);
        let mut offer = Vec::new();
        (0..ARMS).for_each(|_| offer.extend(&items[rng.random_range(0..items.len())]));
        let noise: f64 = StandardNormal.sample(&mut rng);
        let contexts = Contexts::new(&offer, dim).expect("finite");
        let (part, number) = place(user, parts);
        if shared && turn as f64 >= told * 1.01 {
            told = turn as f64;
            let parts = all.clone();
            let ask = move |question: &[u8]| {
                let mut parts = parts.lock().expect("one at a time");
                let answer = |part: &mut Box<dyn Policy>| {
                    Some(part.refits()?.shared()?.answer(question).ok()?())
                };
                parts.iter_mut().map(answer).collect()
            };
            let fits = asker.refits().and_then(|refits| refits.shared()).expect("it has");
            let found = fits.ask_others(Box::new(ask), Arc::clone(&look))();
            if !found.is_empty() {
                asker.refits().expect("it has").install(&found).expect("sound");
                for part in all.lock().expect("one at a time").iter_mut() {
                    part.refits().expect("it has").install(&found).expect("sound");
                }
            }
        }
        let mut all = all.lock().expect("one at a time");
        if !shared && let Some(job) = all[part].refits().and_then(|refits| refits.job()) {
            all[part].refits().expect("it has").install(&job()).expect("sound");
        }
        let online = all[part].online().expect("it has");
        let mut scores = vec![Score::default(); ARMS];
        online.score(number, &contexts, &mut scores);
        let best = |scores: &[f64]| {
            (0..ARMS).fold(0, |best, at| if scores[at] > scores[best] { at } else { best })
        };
        // Before anything is known a service draws.
        let totals: Vec<f64> = scores.iter().map(Score::total).collect();
        let alike = totals.iter().all(|total| *total == totals[0]);
        let chosen = if alike { turn % ARMS } else { best(&totals) };
        let worth: Vec<f64> = contexts.iter().map(|x| dot(x, &own[user])).collect();
        total += worth[best(&worth)] - worth[chosen];
        online.learn_one(number, contexts.arm(chosen), worth[chosen] + NOISE * noise);
    }
    total
}

fn main() {
    let mut words = std::env::args().skip(1).map(|word| word.parse().expect("a number"));
    let mut next = |usual: usize| words.next().unwrap_or(usual);
    let world = World {
        users: next(400),
        clusters: next(5),
        parts: next(8),
        rewards: next(20_000),
        dim: 0,
    };
    let seeds = next(6) as u64;
    let world = World { dim: next(8), ..world };
    let mut ratios = [Vec::new(), Vec::new()];
    for seed in 0..seeds {
        let one = regret(&world, 1, false, seed);
        let shared = regret(&world, world.parts, true, seed);
        let alone = regret(&world, world.parts, false, seed);
        println!(
            "seed {seed}: one {one:.1}, {} parts with one population {shared:.1}, each with its own {alone:.1}",
            world.parts
        );
        ratios[0].push(shared / one);
        ratios[1].push(alone / one);
    }
    for (ratios, what) in ratios.iter().zip(["one population", "populations of their own"]) {
        let n = ratios.len() as f64;
        let mean = ratios.iter().sum::<f64>() / n;
        let sd =
            (ratios.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0)).sqrt();
        println!("{what}: {mean:.4} × the regret of one policy (± {:.4})", 2.0 * sd / n.sqrt());
    }
}
