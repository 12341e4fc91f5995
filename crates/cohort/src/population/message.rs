//! What a user's rewards say about the centre of its component: a quadratic in μ, once the prior's
//! variances Δ (diagonal in the population's basis) and the noise are fixed.
//!
//! ```text
//! K = σ²I + XΔXᵀ,   G = σ²I + Δ½VΔ½
//! ln p(y | μ) = log + ⟨pull, μ⟩ − ½ μᵀ information μ
//! information = XᵀK⁻¹X = Δ^−½(I − σ²G⁻¹)Δ^−½,   pull = XᵀK⁻¹y = Δ^−½G⁻¹Δ½b
//! log = −½ (yᵀK⁻¹y + ln det K),   ln det K = ln det G + (n − D) ln σ²
//! ```
//!
//! (up to a number that depends on nothing but n). Components with the same Δ share a user's
//! message: the expected log likelihood under each is then one dot product. All that scoring needs to
//! know about variances follows from messages too.

use super::algebra::invert_kernel;
use super::lanes::{LANES, Lane, ZERO, add_product, add_scaled, each};
use super::model::Component;
use super::moments::Moments;
use crate::linear::symmetric::packed_len;

/// A prior variance is never below this share of what the user's own rewards leave uncertain: the
/// difference is beyond notice, and nothing cancels.
const LEAST_RATIO: f64 = 1e-7;

/// How many numbers the dot product with a component takes: information (packed), pull, log.
pub fn probe_len(dim: usize) -> usize {
    packed_len(dim) + dim + 1
}

/// How many numbers a message has: the above and yᵀK⁻¹y.
pub fn message_len(dim: usize) -> usize {
    probe_len(dim) + 1
}

/// Writes the messages of eight users.
pub fn write(users: &Moments, variances: &[f64], noise: f64, out: &mut [Lane]) {
    let mut scratch = vec![ZERO; 2 * users.dim()];
    let log_noise = noise.ln();
    write_with(users, variances, noise, log_noise, out, &mut scratch);
}

widest! {
    fn write_with(
        users: &Moments,
        variances: &[f64],
        noise: f64,
        log_noise: f64,
        out: &mut [Lane],
        scratch: &mut [Lane],
    ) = write_kernel
}

/// √Δ as it is used for eight users.
#[inline(always)]
pub(super) fn roots(gram: &[Lane], variances: &[f64], noise: f64, roots: &mut [Lane]) {
    for (j, (root, variance)) in roots.iter_mut().zip(variances).enumerate() {
        let seen = gram[packed_len(j) + j];
        // Where nothing was seen any number will do.
        let least: Lane = each(|lane| LEAST_RATIO * noise / seen[lane].max(1e-300));
        let square: Lane = each(|lane| variance.max(least[lane]).min(1e200));
        *root = each(|lane| square[lane].sqrt());
    }
}

#[inline(always)]
fn write_kernel(
    users: &Moments,
    variances: &[f64],
    noise: f64,
    log_noise: f64,
    out: &mut [Lane],
    scratch: &mut [Lane],
) {
    let d = users.dim();
    let (gram, moment) = (users.gram(), users.moment());
    let (root, scaled) = scratch.split_at_mut(d);
    roots(gram, variances, noise, root);
    let (information, rest) = out.split_at_mut(packed_len(d));
    for i in 0..d {
        let (start, own) = (packed_len(i), root[i]);
        let rows = information[start..=start + i].iter_mut().zip(&gram[start..=start + i]);
        for ((to, from), other) in rows.zip(root.iter()) {
            *to = each(|lane| own[lane] * other[lane] * from[lane]);
        }
        let (diagonal, b) = (information[start + i], moment[i]);
        information[start + i] = each(|lane| diagonal[lane] + noise);
        scaled[i] = each(|lane| own[lane] * b[lane]);
    }
    let mut log_det = ZERO;
    invert_kernel(information, d, &mut log_det);
    let (pull, tail) = rest.split_at_mut(d);
    super::algebra::times_kernel(information, scaled, pull);
    let mut explained = ZERO;
    for i in 0..d {
        let (b, p, own) = (scaled[i], pull[i], root[i]);
        add_product(&mut explained, &b, &p);
        let inverse: Lane = each(|lane| 1.0 / own[lane]);
        root[i] = inverse;
        pull[i] = each(|lane| p[lane] * inverse[lane]);
    }
    for i in 0..d {
        let (start, own) = (packed_len(i), root[i]);
        let diagonal = information[start + i];
        for (to, other) in information[start..start + i].iter_mut().zip(root.iter()) {
            let entry = *to;
            *to = each(|lane| -noise * entry[lane] * own[lane] * other[lane]);
        }
        information[start + i] =
            each(|lane| (1.0 - noise * diagonal[lane]) * own[lane] * own[lane]);
    }
    let (squares, n) = (users.squares(), users.rewards());
    for lane in 0..LANES {
        let square = (squares[lane] - explained[lane]).max(0.0) / noise;
        tail[0][lane] = -0.5 * (square + log_det[lane] + (n[lane] - d as f64) * log_noise);
        tail[1][lane] = square;
    }
}

/// A component as messages see it: `−½ (μμᵀ + C)` packed with off-diagonals doubled, μ, and 1.
/// Its dot product with a message is the expected log likelihood over what is known of μ.
pub fn probe(component: &Component) -> Vec<f64> {
    let mu = &component.mean;
    let mut probe = Vec::with_capacity(probe_len(mu.len()));
    let mut at = 0;
    for i in 0..mu.len() {
        for j in 0..=i {
            let times = if i == j { -0.5 } else { -1.0 };
            probe.push(times * (mu[i] * mu[j] + component.doubt.packed()[at]));
            at += 1;
        }
    }
    probe.extend_from_slice(mu);
    probe.push(1.0);
    probe
}

widest! {
    /// The expected log likelihood of eight users under one component.
    pub fn likelihood(message: &[Lane], probe: &[f64], out: &mut Lane) = likelihood_kernel
}

#[inline(always)]
fn likelihood_kernel(message: &[Lane], probe: &[f64], out: &mut Lane) {
    // Four sums that need not wait for each other.
    let message = &message[..probe.len()];
    let mut sums = [ZERO; 4];
    let (messages, probes) = (message.chunks_exact(4), probe.chunks_exact(4));
    for (message, probe) in messages.remainder().iter().zip(probes.remainder()) {
        add_scaled(&mut sums[0], message, *probe);
    }
    for (message, probe) in messages.zip(probes) {
        for k in 0..4 {
            add_scaled(&mut sums[k], &message[k], probe[k]);
        }
    }
    *out = each(|lane| (sums[0][lane] + sums[1][lane]) + (sums[2][lane] + sums[3][lane]));
}

/// `sums += Σ share·message` over eight users.
pub fn accumulate(sums: &mut [f64], share: &Lane, message: &[Lane], least: f64) {
    let some = share.iter().filter(|share| **share > least).count();
    if some > 2 {
        return accumulate_all(sums, share, message);
    }
    for lane in (0..LANES).filter(|lane| share[*lane] > least) {
        for (sum, message) in sums.iter_mut().zip(message) {
            *sum += share[lane] * message[lane];
        }
    }
}

widest! {
    fn accumulate_all(sums: &mut [f64], share: &Lane, message: &[Lane]) = accumulate_kernel
}

#[inline(always)]
fn accumulate_kernel(sums: &mut [f64], share: &Lane, message: &[Lane]) {
    for (sum, message) in sums.iter_mut().zip(message) {
        let p: Lane = each(|lane| share[lane] * message[lane]);
        *sum += ((p[0] + p[4]) + (p[1] + p[5])) + ((p[2] + p[6]) + (p[3] + p[7]));
    }
}

#[cfg(test)]
mod tests {
    use super::super::ledger::Ledger;
    use super::*;
    use crate::linear::{Symmetric, dot};
    use proptest::prelude::*;

    /// ln N(y; Xμ, σ²I + XΔXᵀ) without the constant, by a dense factorisation of size n.
    fn dense(xs: &[Vec<f64>], ys: &[f64], mu: &[f64], variances: &[f64], noise: f64) -> f64 {
        let n = ys.len();
        let mut packed = Vec::new();
        for i in 0..n {
            for j in 0..=i {
                let own = if i == j { noise } else { 0.0 };
                let k = |k: usize| xs[i][k] * variances[k] * xs[j][k];
                packed.push(own + (0..variances.len()).map(k).sum::<f64>());
            }
        }
        let factor = Symmetric::from_packed(n, packed).cholesky().unwrap();
        let rest: Vec<f64> = (0..n).map(|i| ys[i] - dot(&xs[i], mu)).collect();
        let mut solved = rest.clone();
        factor.solve(&mut solved);
        -0.5 * (factor.log_det() + dot(&rest, &solved))
    }

    proptest! {
        #[test]
        fn a_message_is_the_likelihood_of_the_rewards(
            n in 1usize..9,
            values in prop::collection::vec(-1.0..1.0f64, 9 * 4),
            mu in prop::collection::vec(-1.0..1.0f64, 4),
            variances in prop::collection::vec(0.001..2.0f64, 4),
            noise in 0.01..2.0f64,
        ) {
            let mut ledger = Ledger::new(3, 1.0);
            let mut xs = Vec::new();
            let mut ys = Vec::new();
            for row in values.chunks_exact(4).take(n) {
                ledger.learn_one(5, &row[..3], row[3]);
                xs.push(vec![row[0], row[1], row[2], 1.0]);
                ys.push(row[3] - ledger.origin());
            }
            let users = ledger.moments(&[0]);
            let mut message = vec![ZERO; message_len(4)];
            write(&users, &variances, noise, &mut message);
            let component = Component { weight: 1.0, mean: mu.clone(), doubt: Symmetric::zero(4) };
            let mut log = ZERO;
            likelihood(&message, &probe(&component), &mut log);
            let plain = dense(&xs, &ys, &mu, &variances, noise);
            prop_assert!((log[0] - plain).abs() < 1e-6 * (1.0 + plain.abs()), "{} against {plain}", log[0]);
        }
    }
}
