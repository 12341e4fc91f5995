//! PMLB's common phase: how far its estimate is from the average user after √T rounds. Nothing
//! after that phase is played, so that T may be as large as the statement asks for.

use cohort::linear::{Oful, default_rho_min, dot, tau_min};
use cohort::policies::pmlb::common_rounds;

use super::{Draws, Probe, confidence, direction, distance, number};
use crate::Error;
use crate::reproduce::study::Setting;
use crate::seed::{Purpose, Seed};

/// Settings have `users` and `horizon` (T); two dimensions, 5 arms, noise 1.
pub const PROBE: Probe =
    Probe {
        name: "average", columns: &["‖θ̂* − θ̄*‖", "√(d/(ρ_min N √T))", "√T", "τ_min"], run
    };

const SIGMA: f64 = 1.0;
const DIM: usize = 2;
const ARMS: usize = 5;
const DELTA: f64 = 0.4;

fn run(setting: &Setting, _rounds: usize, seed: Seed) -> Result<Vec<f64>, Error> {
    let (users, horizon) = (number(setting, "users")?, number(setting, "horizon")? as usize);
    // Only the average of the users' vectors reaches the common OFUL, and the average of their noise.
    let average = direction(&mut seed.stream(Purpose::Users, 0), DIM);
    let sigma = SIGMA / users.sqrt();
    let told = confidence(DELTA, sigma, 1.0);
    let mut common = Oful::new(DIM, told.lambda);
    let mut draws = Draws::new(seed, DIM, ARMS);
    let played = common_rounds(horizon);
    for _ in 0..played {
        let noise = sigma * draws.noise();
        let contexts = draws.round()?;
        let x = contexts.arm(common.choose(&contexts, &told));
        common.learn(x, dot(x, &average) + noise);
    }
    let rho_min = default_rho_min(DIM);
    let bound = (DIM as f64 / (rho_min * users * (horizon as f64).sqrt())).sqrt();
    let tau_min = tau_min(rho_min, DIM, horizon, DELTA);
    Ok(vec![distance(common.estimate(), &average), bound, played as f64, tau_min])
}
