//! Corollary 1 where what it asks for can be had: T ≥ τ_min(δ)² is about seven million rounds in one
//! dimension, and four billion already in four.

use cohort::linear::{default_rho_min, tau_min};
use cohort::{Problem, registry};

use super::{Draws, Probe, number};
use crate::Error;
use crate::reproduce::study::Setting;
use crate::seed::Seed;

/// Settings have `epsilon`. Four users at θ̄ ± ε and θ̄ ± ε/2, θ̄ = ½, two arms, noise ½: everybody
/// likes the larger arm. Regret of the policies, the worst user's and the mean.
pub const PROBE: Probe = Probe {
    name: "personal",
    columns: &[
        "pmlb, worst user",
        "pmlb, mean",
        "pmlb-compensated, worst user",
        "pmlb-compensated, mean",
        "linucb-ind, worst user",
        "linucb-ind, mean",
        "bound with constant 1",
        "τ_min²",
    ],
    run,
};

const POLICIES: [&str; 3] = ["pmlb", "pmlb-compensated", "linucb-ind"];
const SIGMA: f64 = 0.5;
const USERS: usize = 4;
const DELTA: f64 = 0.4;

fn run(setting: &Setting, rounds: usize, seed: Seed) -> Result<Vec<f64>, Error> {
    let epsilon = number(setting, "epsilon")?;
    let thetas = [1.0, -1.0, 0.5, -0.5].map(|side: f64| 0.5 + epsilon * side);
    let problem = Problem {
        rounds: Some(rounds),
        sigma: SIGMA,
        seed: seed.for_policies(),
        ..Problem::new(USERS, 1)
    };
    let mut row = Vec::new();
    for name in POLICIES {
        let mut policy = registry::build(name, &problem, [])?;
        let mut draws = Draws::new(seed, 1, 2);
        let (mut arms, mut rewards, mut regrets) = ([0; USERS], [0.0; USERS], [0.0; USERS]);
        for _ in 0..rounds {
            let noise = [0; USERS].map(|_| SIGMA * draws.noise());
            let contexts = draws.round()?;
            policy.choose(&contexts, &mut arms);
            for user in 0..USERS {
                let worth = |arm: usize| thetas[user] * contexts.arm(arm)[0];
                regrets[user] += worth(0).max(worth(1)) - worth(arms[user]);
                rewards[user] = worth(arms[user]) + noise[user];
            }
            policy.learn(&contexts, &arms, &rewards);
        }
        row.push(regrets.iter().copied().fold(0.0, f64::max));
        row.push(regrets.iter().sum::<f64>() / USERS as f64);
    }
    let (rho_min, time) = (default_rho_min(1), rounds as f64);
    row.push(epsilon * time.sqrt() + time.powf(0.25) / (rho_min * USERS as f64).sqrt());
    row.push(tau_min(rho_min, 1, rounds, DELTA).powi(2));
    Ok(row)
}
