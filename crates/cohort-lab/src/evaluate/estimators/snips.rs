//! Self-normalised inverse propensity scoring: the weighted mean of the rewards.
//!
//! ```text
//! V̂ = Σ_i w_i r_i / Σ_i w_i       var V̂ ≈ n/(n−1) · Σ_i w_i² (r_i − V̂)² / (Σ_i w_i)²
//! ```
//!
//! Never outside the range of the rewards, and of less variance than [`ips`](super::ips) where the
//! weights vary; biased by an amount that falls as 1/n. The variance is the delta method's.
//!
//! Reference: Swaminathan and Joachims, *The Self-Normalized Estimator for Counterfactual
//! Learning*, NIPS 2015; the variance as in Owen, *Monte Carlo theory, methods and examples*,
//! equation 9.9.

use super::{Estimate, Estimator, WeightedRow, informative};
use crate::results::t_two_sided_95;

/// The estimate.
pub fn estimate(weighted: &[WeightedRow]) -> Estimate {
    let weights: f64 = weighted.iter().map(|row| row.weight).sum();
    let value = (weights > 0.0)
        .then(|| weighted.iter().map(|row| row.weight * row.reward).sum::<f64>() / weights);
    let half = value.filter(|_| weighted.len() > 1).map(|value| {
        let n = weighted.len() as f64;
        let spread = |row: &WeightedRow| (row.weight * (row.reward - value)).powi(2);
        let squares: f64 = weighted.iter().map(spread).sum();
        t_two_sided_95(weighted.len() - 1) * (n / (n - 1.0) * squares).sqrt() / weights
    });
    let with = |sign: f64| Some(value? + sign * half?);
    let (rows, informative_rows) = informative(weighted);
    Estimate {
        estimator: Estimator::Snips,
        value,
        low: with(-1.0),
        high: with(1.0),
        rows,
        informative_rows,
    }
}
