//! ALB-Norm by itself: its norm estimates b_i, and its regret against ‖θ*‖.

use cohort::linear::{Oful, dot, largest_norm};
use cohort::policies::alb_norm::epoch_lengths;

use super::{Draws, Probe, best, confidence, direction, number};
use crate::Error;
use crate::reproduce::study::Setting;
use crate::seed::{Purpose, Seed};

/// Settings have `norm` (‖θ*‖); two dimensions, 5 arms, noise 0.1, δ_1 = 0.1, b_1 = 1.
pub const PROBE: Probe =
    Probe {
        name: "norm", columns: &["last b_i", "2‖θ*‖", "regret", "condition of Lemma 3"], run
    };

/// With this noise the condition of Lemma 3 holds from about T = 200 on.
const SIGMA: f64 = 0.1;
const DIM: usize = 2;
const ARMS: usize = 5;
const DELTA: f64 = 0.1;

fn run(setting: &Setting, rounds: usize, seed: Seed) -> Result<Vec<f64>, Error> {
    let norm = number(setting, "norm")?;
    let mut theta = direction(&mut seed.stream(Purpose::Users, 0), DIM);
    theta.iter_mut().for_each(|x| *x *= norm);
    let mut draws = Draws::new(seed, DIM, ARMS);
    let (mut bound, mut delta, mut regret) = (1.0, DELTA, 0.0);
    for length in epoch_lengths(rounds) {
        let told = confidence(delta, SIGMA, bound);
        let mut oful = Oful::new(DIM, told.lambda);
        for _ in 0..length {
            let noise = SIGMA * draws.noise();
            let contexts = draws.round()?;
            let x = contexts.arm(oful.choose(&contexts, &told));
            regret += dot(contexts.arm(best(&contexts, &theta)), &theta) - dot(x, &theta);
            oful.learn(x, dot(x, &theta) + noise);
        }
        let precision = oful.inverse().eigen().inverse();
        bound = largest_norm(&precision, oful.estimate(), told.radius(oful.progress()));
        delta /= 2.0;
    }
    let (dim, time) = (DIM as f64, rounds as f64);
    let condition =
        2.0 * SIGMA * dim.sqrt() / time.powf(0.25) * (ARMS as f64 * time.sqrt() / DELTA).ln();
    Ok(vec![bound, 2.0 * norm, regret, condition])
}
