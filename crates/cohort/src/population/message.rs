//! What a user's rewards say about the centre of its component: a quadratic in μ, once the spread
//! and the noise are fixed.
//!
//! ```text
//! ln p(y_i | μ, τ, σ) = log + ⟨pull, μ⟩ − ½ μᵀ information μ
//! information = Q diag(λ/(σ² + τ²λ)) Qᵀ,   pull = Q (c/(σ² + τ²λ))
//! ```
//!
//! Components of the same spread share a user's message: the expected log likelihood under each
//! is then one dot product of d(d+1)/2 + d numbers.

use super::model::Component;
use super::spectrum::Spectrum;
use crate::linear::symmetric::packed_len;

/// How many numbers a message has: information (packed), pull, log.
pub fn message_len(dim: usize) -> usize {
    packed_len(dim) + dim + 1
}

/// Writes the message of a user.
pub fn write(user: &Spectrum, spread: f64, noise: f64, out: &mut [f64]) {
    let d = user.dim();
    let (information, rest) = out.split_at_mut(packed_len(d));
    let (pull, log) = rest.split_at_mut(d);
    information.fill(0.0);
    pull.fill(0.0);
    let mut total = user.freedom * noise.ln() + user.residual / noise;
    for j in user.seen() {
        let (value, along, q) = (user.values[j], user.along[j], user.vector(j));
        let variance = noise + spread * value;
        total += variance.ln() + along * along / (value * variance);
        let (weight, along) = (value / variance, along / variance);
        let mut at = 0;
        for i in 0..d {
            pull[i] += along * q[i];
            let scaled = weight * q[i];
            for (sum, q) in information[at..=at + i].iter_mut().zip(q) {
                *sum += scaled * q;
            }
            at += i + 1;
        }
    }
    log[0] = -0.5 * total;
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

/// ⟨a, b⟩, in four strands that need not wait for each other.
pub fn dot4(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (a8, b8) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = a8.remainder().iter().zip(b8.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a8.zip(b8) {
        for k in 0..8 {
            sums[k] += a[k] * b[k];
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// Factors a packed positive definite matrix in place and solves L x = b in place; returns
/// ln det A and ‖x‖² = bᵀA⁻¹b, `None` where it is not positive definite.
pub fn determinant_and_square(packed: &mut [f64], b: &mut [f64]) -> Option<(f64, f64)> {
    let (mut log_det, mut square) = (0.0, 0.0);
    let mut row = 0;
    for i in 0..b.len() {
        let (above, this) = packed.split_at_mut(row);
        let mut other = 0;
        for j in 0..i {
            let known: f64 = (above[other..other + j].iter().zip(&this[..j]))
                .map(|(a, b)| a * b)
                .sum();
            this[j] = (this[j] - known) / above[other + j];
            other += j + 1;
        }
        let (mut pivot, mut rest) = (this[i], b[i]);
        for j in 0..i {
            pivot -= this[j] * this[j];
            rest -= this[j] * b[j];
        }
        if pivot.is_nan() || pivot <= 0.0 {
            return None;
        }
        this[i] = pivot.sqrt();
        b[i] = rest / this[i];
        log_det += pivot.ln();
        square += b[i] * b[i];
        row += i + 1;
    }
    Some((log_det, square))
}
