//! What every proof of the paper takes from OFUL: its set holds θ* at all times with probability
//! 1 − δ, V's smallest eigenvalue grows like ρ_min·t/2, the estimate comes closer like t^−½.

use cohort::linear::{Oful, Symmetric, default_rho_min, dot, tau_min};

use super::{Draws, Probe, best, confidence, direction, distance, number};
use crate::Error;
use crate::reproduce::study::Setting;
use crate::seed::{Purpose, Seed};

/// Settings have `dim` and `delta`; there are 5 arms and noise ½.
pub const PROBE: Probe = Probe {
    name: "oful",
    columns: &[
        "covered",
        "λ_min(V_T)",
        "1 + ρ_min T/2",
        "‖θ̂ − θ*‖",
        "D/√(1 + ρ_min T/2)",
        "regret",
        "τ_min",
    ],
    run,
};

const SIGMA: f64 = 0.5;
const ARMS: usize = 5;

fn run(setting: &Setting, rounds: usize, seed: Seed) -> Result<Vec<f64>, Error> {
    let (dim, delta) = (number(setting, "dim")? as usize, number(setting, "delta")?);
    let theta = direction(&mut seed.stream(Purpose::Users, 0), dim);
    let told = confidence(delta, SIGMA, 1.0);
    let mut oful = Oful::new(dim, told.lambda);
    let mut precision = Symmetric::identity(dim, told.lambda);
    let mut draws = Draws::new(seed, dim, ARMS);
    let (mut covered, mut regret) = (true, 0.0);
    for _ in 0..rounds {
        let noise = SIGMA * draws.noise();
        let contexts = draws.round()?;
        let x = contexts.arm(oful.choose(&contexts, &told));
        regret += dot(contexts.arm(best(&contexts, &theta)), &theta) - dot(x, &theta);
        oful.learn(x, dot(x, &theta) + noise);
        precision.add_outer(1.0, x);
        let away: Vec<f64> = theta.iter().zip(oful.estimate()).map(|(a, b)| a - b).collect();
        covered &= precision.quadratic(&away).sqrt() <= told.radius(oful.progress()) + 1e-9;
    }
    let rho_min = default_rho_min(dim);
    let floor = 1.0 + rho_min * rounds as f64 / 2.0;
    Ok(vec![
        f64::from(u8::from(covered)),
        precision.eigen().values[0],
        floor,
        distance(oful.estimate(), &theta),
        told.radius(oful.progress()) / floor.sqrt(),
        regret,
        tau_min(rho_min, dim, rounds, delta),
    ])
}
