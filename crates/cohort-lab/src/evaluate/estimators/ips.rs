//! Inverse propensity scoring: rows are weighted by π(a|x)/p.
//!
//! ```text
//! V̂ = 1/n Σ_i w_i r_i
//! ```
//!
//! Unbiased when the propensities are right and nowhere 0 where π is not; its variance grows with
//! the weights. The interval is Student's, of the mean of w·r.
//!
//! Reference: Horvitz and Thompson, *A Generalization of Sampling Without Replacement from a Finite
//! Universe*, JASA 1952; for policies: Strehl, Langford, Li and Kakade, *Learning from Logged
//! Implicit Exploration Data*, NIPS 2010.

use super::{Estimate, Estimator, WeightedRow};

/// The estimate.
pub fn estimate(weighted: &[WeightedRow]) -> Estimate {
    let numbers: Vec<f64> = weighted.iter().map(|row| row.weight * row.reward).collect();
    Estimate::mean(Estimator::Ips, &numbers, weighted)
}
