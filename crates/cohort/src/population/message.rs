//! What a user's rewards say about the centre of its component: a quadratic in μ, once the spread
//! and the noise are fixed.
//!
//! ```text
//! ln p(y_i | μ, τ, σ) = log + ⟨pull, μ⟩ − ½ μᵀ information μ
//! information = Qᵀ diag(λ/(σ² + τ²λ)) Q,   pull = Qᵀ (c/(σ² + τ²λ))
//! ```
//!
//! (up to a number that depends on the user's contexts alone). Components of the same spread
//! share a user's message: the expected log likelihood under each is then one dot product of
//! d(d+1)/2 + d + 1 numbers.

use super::lanes::{LANES, Lane, ZERO, add_product, add_scaled, each};
use super::model::Component;
use super::spectrum::Spectrum;
use crate::linear::symmetric::packed_len;

/// How many numbers a message has: information (packed), pull, log.
pub fn message_len(dim: usize) -> usize {
    packed_len(dim) + dim + 1
}

/// Writes the messages of eight users.
pub fn write(users: &Spectrum, spread: f64, noise: f64, out: &mut [Lane]) {
    let d = users.dim();
    let mut log: Lane =
        each(|lane| users.freedom[lane] * noise.ln() + users.residual[lane] / noise);
    for (value, along) in users.values().iter().zip(users.along()) {
        for lane in 0..LANES {
            let variance = noise + spread * value[lane];
            log[lane] += variance.ln();
            if value[lane] > 0.0 {
                log[lane] += along[lane] * along[lane] / (value[lane] * variance);
            }
        }
    }
    write_quadratic(users, spread, noise, out);
    out[packed_len(d) + d] = log.map(|log| -0.5 * log);
}

widest! {
    /// Information and pull.
    fn write_quadratic(users: &Spectrum, spread: f64, noise: f64, out: &mut [Lane])
        = write_quadratic_kernel
}

#[inline(always)]
fn write_quadratic_kernel(users: &Spectrum, spread: f64, noise: f64, out: &mut [Lane]) {
    let d = users.dim();
    let (values, vectors, along) = (users.values(), users.vectors(), users.along());
    let (information, pull) = out.split_at_mut(packed_len(d));
    information.fill(ZERO);
    pull[..d].fill(ZERO);
    for j in 0..d {
        let per: Lane = each(|lane| 1.0 / (noise + spread * values[j][lane]));
        let weight: Lane = each(|lane| values[j][lane] * per[lane]);
        let along: Lane = each(|lane| along[j][lane] * per[lane]);
        let q = &vectors[j * d..(j + 1) * d];
        let mut at = 0;
        for i in 0..d {
            add_product(&mut pull[i], &along, &q[i]);
            let scaled: Lane = each(|lane| weight[lane] * q[i][lane]);
            for k in 0..=i {
                add_product(&mut information[at], &scaled, &q[k]);
                at += 1;
            }
        }
    }
}

/// A component as messages see it: `−½ (μμᵀ + C)` packed with off-diagonals doubled, μ, and 1.
/// Its dot product with a message is the expected log likelihood over what is known of μ.
pub fn probe(component: &Component) -> Vec<f64> {
    let mu = &component.centre;
    let mut probe = Vec::with_capacity(message_len(mu.len()));
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
    pub fn expect(message: &[Lane], probe: &[f64], out: &mut Lane) = expect_kernel
}

#[inline(always)]
fn expect_kernel(message: &[Lane], probe: &[f64], out: &mut Lane) {
    // Four sums that need not wait for each other.
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

widest! {
    /// `sums += share·message`, user by user.
    pub fn accumulate(sums: &mut [Lane], share: &Lane, message: &[Lane]) = accumulate_kernel
}

#[inline(always)]
fn accumulate_kernel(sums: &mut [Lane], share: &Lane, message: &[Lane]) {
    for (sum, message) in sums.iter_mut().zip(message) {
        add_product(sum, share, message);
    }
}

#[cfg(test)]
mod tests {
    use super::super::ledger::Ledger;
    use super::*;
    use crate::linear::{Symmetric, dot};
    use proptest::prelude::*;

    /// ln N(y; Xμ, σ²I + τ²XXᵀ) without the constant, by a dense factorisation of size n.
    fn dense(xs: &[Vec<f64>], ys: &[f64], mu: &[f64], spread: f64, noise: f64) -> f64 {
        let n = ys.len();
        let mut packed = Vec::new();
        for i in 0..n {
            for j in 0..=i {
                packed.push(spread * dot(&xs[i], &xs[j]) + if i == j { noise } else { 0.0 });
            }
        }
        let factor = Symmetric::from_packed(n, packed).cholesky().unwrap();
        let rest: Vec<f64> = (0..n).map(|i| ys[i] - dot(&xs[i], mu)).collect();
        let mut solved = rest.clone();
        factor.solve(&mut solved);
        -0.5 * (factor.log_det() + dot(&rest, &solved))
    }

    proptest! {
        /// Messages leave out what depends on contexts alone, so differences are compared.
        #[test]
        fn a_message_is_the_likelihood_of_the_rewards(
            n in 1usize..9,
            values in prop::collection::vec(-1.0..1.0f64, 9 * 4),
            centres in prop::collection::vec(-1.0..1.0f64, 6),
            spreads in prop::collection::vec(0.0..2.0f64, 2),
            noises in prop::collection::vec(0.05..2.0f64, 2),
            lane in 0usize..LANES,
        ) {
            let d = 3;
            let xs: Vec<Vec<f64>> = values.chunks(4).take(n).map(|v| v[..d].to_vec()).collect();
            let ys: Vec<f64> = values.chunks(4).take(n).map(|v| v[d]).collect();
            let mut ledger = Ledger::new(LANES, d, None);
            for (x, y) in xs.iter().zip(&ys) {
                ledger.learn_one(lane, x, *y);
            }
            let users = Spectrum::new(ledger.block(0), 0.0);
            let log = |k: usize| {
                let component = Component {
                    weight: 1.0,
                    centre: centres[k * d..(k + 1) * d].to_vec(),
                    doubt: Symmetric::zero(d),
                    spread: spreads[k],
                };
                let mut messages = vec![ZERO; message_len(d)];
                write(&users, spreads[k], noises[k], &mut messages);
                let mut logs = ZERO;
                expect(&messages, &probe(&component), &mut logs);
                (logs[lane], dense(&xs, &ys, &component.centre, spreads[k], noises[k]))
            };
            let ((a, plain_a), (b, plain_b)) = (log(0), log(1));
            let (difference, plain) = (a - b, plain_a - plain_b);
            prop_assert!(
                (difference - plain).abs() < 1e-6 * (1.0 + plain_a.abs() + plain_b.abs()),
                "{difference} against {plain}"
            );
        }
    }
}
