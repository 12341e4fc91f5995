//! The noise of each user: w_i, the weight of its rewards relative to those of a median user.
//!
//! ```text
//! σ_i² ~ σ²·ν/χ²_ν,   q_i = E‖y − Xθ_i‖²/σ²,   w_i = σ²·E[1/σ_i²] = (ν + n_i)/(ν + q_i)
//! ```
//!
//! ν is estimated from how much q_i/n_i differ between users beyond chance; if they do not, it is
//! infinite and weights are not used.

use super::constants;
use super::e_step::{EStep, Messages};
use super::lanes::{F64x8, LANES, ZERO, each};
use super::moments::Moments;
use crate::algebra::lanes::times;
use crate::algebra::packed_len;

/// Values of ν that are tried besides infinity.
const TRIED: [f64; 7] = [32.0, 16.0, 8.0, 4.0, 2.0, 1.0, 0.5];
/// Standard deviations by which users' residuals must differ more than chance makes them to be compared at all.
const NOTABLE: f64 = 1.0;

/// q_i of eight users, whose messages are these, under their likeliest components.
fn residuals(e_step: &EStep, messages: &Messages, responsibilities: &[F64x8]) -> F64x8 {
    let population = e_step.population();
    let dim = population.features() + 1;
    let mut out = ZERO;
    for class in 0..2 {
        let first = class;
        let last = if class == 0 { 1 } else { responsibilities.len() };
        if messages[class].is_empty() {
            continue;
        }
        let message = &messages[class];
        let (information, pull) = message.split_at(packed_len(dim));
        let variances = &population.variances[class];
        let mut mean = vec![ZERO; dim];
        let mut total = ZERO;
        for lane in 0..LANES {
            total[lane] = responsibilities[first..last].iter().map(|share| share[lane]).sum();
            let best = (first..last).fold(first, |a, b| {
                if responsibilities[b][lane] > responsibilities[a][lane] { b } else { a }
            });
            for (to, from) in mean.iter_mut().zip(&population.components[best].mean) {
                to[lane] = *from;
            }
        }
        let mut product = vec![ZERO; dim];
        times(information, &mean, &mut product);
        let square = &message[message.len() - 1];
        for lane in 0..LANES {
            let mut q = square[lane];
            for j in 0..dim {
                let (m, p, h) = (mean[j][lane], pull[j][lane], product[j][lane]);
                let g = p - h;
                q += m * (h - 2.0 * p) - variances[j] * g * g
                    + variances[j] * information[packed_len(j) + j][lane];
            }
            out[lane] += total[lane] * q.max(0.0);
        }
    }
    out
}

/// Whether a user's rewards inform its noise. Equal rewards do not: rewards with few values, one of
/// them frequent, are equal by chance, not for lack of noise.
fn informs_noise(users: &Moments) -> [bool; LANES] {
    let (n, squares) = (users.rewards(), users.squares());
    let (weight, total) =
        (&users.gram()[packed_len(users.dim()) - 1], &users.moment()[users.dim() - 1]);
    std::array::from_fn(|lane| {
        let centred = squares[lane] - total[lane] * total[lane] / weight[lane];
        n[lane] >= constants::noise_least_rewards() && centred > 1e-9 * squares[lane]
    })
}

/// w of eight users; `None` if the noise of all users is the same.
pub fn weights(e_step: &EStep, users: &Moments) -> Option<F64x8> {
    let dof = e_step.population().noise_dof;
    if dof.is_infinite() {
        return None;
    }
    let mut messages = e_step.room();
    let mut responsibilities = vec![ZERO; e_step.components()];
    e_step.write(users, &mut messages);
    e_step.responsibilities(&messages, &mut responsibilities);
    let q = residuals(e_step, &messages, &responsibilities);
    let n = users.rewards();
    let said = informs_noise(users);
    Some(each(|lane| if said[lane] { (dof + n[lane]) / (dof + q[lane]) } else { 1.0 }))
}

/// The most likely ν of a sample; statistics and messages are unweighted.
pub fn fit_dof(e_step: &EStep, users: &[Moments], messages: &[Messages]) -> f64 {
    let mut responsibilities = vec![ZERO; e_step.components()];
    let mut seen: Vec<(f64, f64)> = Vec::new();
    for (block, messages) in users.iter().zip(messages) {
        e_step.responsibilities(messages, &mut responsibilities);
        let q = residuals(e_step, messages, &responsibilities);
        let said = informs_noise(block);
        for lane in 0..LANES {
            let n = block.rewards()[lane];
            if said[lane] {
                seen.push((q[lane].max(1e-12 * n), n));
            }
        }
    }
    if !differ(&seen) {
        return f64::INFINITY;
    }
    let mut best = (likelihood(&seen, f64::INFINITY) + constants::noise_margin(), f64::INFINITY);
    for dof in TRIED {
        let found = likelihood(&seen, dof);
        if found > best.0 {
            best = (found, dof);
        }
    }
    best.1
}

/// Whether q_i/n_i differ more between users than chance makes them: Σ (q − ns)²/2ns², whose mean is the number of users
/// where all have the same noise.
fn differ(seen: &[(f64, f64)]) -> bool {
    let (users, rewards) = (seen.len() as f64, seen.iter().map(|(_, n)| n).sum::<f64>());
    let scale = seen.iter().map(|(q, _)| q).sum::<f64>() / rewards.max(1.0);
    let sum: f64 = seen.iter().map(|(q, n)| (q / scale - n).powi(2) / (2.0 * n)).sum();
    let deviation = ((2.0 + 12.0 * users / rewards) * users).sqrt();
    sum > users + NOTABLE * deviation
}

/// Σ ln p(q_i | n_i, ν) with the scale that fits best, without what does not depend on ν.
fn likelihood(seen: &[(f64, f64)], dof: f64) -> f64 {
    // The scale in the middle, by the fixed point of its own equation.
    let rewards: f64 = seen.iter().map(|(_, n)| n).sum();
    let mut scale = seen.iter().map(|(q, _)| q).sum::<f64>() / rewards.max(1.0);
    if dof.is_finite() {
        for _ in 0..30 {
            let weighted = seen.iter().map(|(q, n)| q * (dof + n) / (dof + q / scale));
            let next = weighted.sum::<f64>() / rewards;
            let settled = (next - scale).abs() < 1e-4 * scale;
            scale = next;
            if settled {
                break;
            }
        }
    }
    // Users that come one after the other have about as many rewards.
    let (mut of, mut log_gamma) = (f64::NAN, 0.0);
    let mut total = 0.0;
    for (q, n) in seen {
        let q = q / scale;
        total += 0.5 * n * q.ln();
        if dof.is_infinite() {
            total -= 0.5 * q + 0.5 * n * std::f64::consts::LN_2;
        } else {
            if *n != of {
                (of, log_gamma) = (*n, ln_gamma(0.5 * (dof + n)) - ln_gamma(0.5 * dof));
            }
            total += 0.5 * dof * dof.ln() - 0.5 * (dof + n) * (dof + q).ln() + log_gamma;
        }
    }
    total
}

/// ln Γ(x) for x > 0, by Stirling's series above 8.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut below) = (x, 1.0);
    while x < 8.0 {
        below *= x;
        x += 1.0;
    }
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5));
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - below.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ln_gamma_of_whole_numbers_is_that_of_factorials() {
        let mut factorial: f64 = 1.0;
        for n in 1..20 {
            assert!((ln_gamma(f64::from(n)) - factorial.ln()).abs() < 1e-9);
            factorial *= f64::from(n);
        }
        assert!((ln_gamma(0.5) - std::f64::consts::PI.sqrt().ln()).abs() < 1e-9);
    }
}
