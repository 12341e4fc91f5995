//! A loop: every round, all users choose among the same arms, and their rewards are learned.
//!
//! `cargo run -p cohort --example rounds`

use cohort::policies::{cohort as cohort_policy, linucb_ind};
use cohort::{Contexts, Error, Policy, Problem};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

const USERS: usize = 60;
const DIM: usize = 4;
const ARMS: usize = 6;
const ROUNDS: usize = 300;
const NOISE: f64 = 0.3;

/// Plays one policy and returns the mean regret of a user. Half of the users have the preference
/// vector e₁, the other half e₂.
fn play(policy: &mut dyn Policy, seed: u64) -> Result<f64, Error> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut arms = [0; USERS];
    let mut regret = 0.0;
    for _ in 0..ROUNDS {
        let values: Vec<f64> = (0..ARMS * DIM).map(|_| rng.random_range(-0.5..0.5)).collect();
        let contexts = Contexts::new(&values, DIM)?;
        policy.choose(&contexts, &mut arms);
        let mut rewards = [0.0; USERS];
        for user in 0..USERS {
            let expected = |arm: usize| contexts.arm(arm)[user % 2];
            let best = (0..ARMS).map(expected).fold(f64::NEG_INFINITY, f64::max);
            regret += best - expected(arms[user]);
            rewards[user] = expected(arms[user]) + NOISE * rng.sample::<f64, _>(StandardNormal);
        }
        policy.learn(&contexts, &arms, &rewards);
    }
    Ok(regret / USERS as f64)
}

/// Prints the regret of learning alone and of learning across users.
pub fn main() -> Result<(), Error> {
    let problem = Problem { sigma: NOISE, rounds: Some(ROUNDS), ..Problem::new(USERS, DIM) };
    let alone = play(linucb_ind::builder().exploration(0.3).build(&problem)?.as_mut(), 7)?;
    let together = play(cohort_policy::builder().build(&problem)?.as_mut(), 7)?;
    println!("mean regret of a user: {alone:.2} alone, {together:.2} across users");
    assert!(together < alone);
    Ok(())
}
