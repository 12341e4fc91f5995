//! Doubly robust: a reward model, corrected by its errors on the log.
//!
//! ```text
//! V̂ = 1/n Σ_i [ Σ_b π(b|x_i) q̂(x_i, b) + w_i (r_i − q̂(x_i, a_i)) ]
//! ```
//!
//! Consistent when the propensities are right or when the model is; the better the model, the
//! smaller the variance. q̂ is cross-fitted: no row is predicted by a model fitted on it, so the
//! terms are nearly independent and the interval is Student's, of their mean.
//!
//! Reference: Dudík, Langford and Li, *Doubly Robust Policy Evaluation and Learning*, ICML 2011;
//! cross-fitting: Chernozhukov et al., *Double/Debiased Machine Learning*, 2018.

use super::{Estimate, Estimator, WeightedRow};

/// The estimate.
pub fn estimate(weighted: &[WeightedRow]) -> Estimate {
    let number =
        |row: &WeightedRow| row.model_of_policy + row.weight * (row.reward - row.model_of_chosen);
    let numbers: Vec<f64> = weighted.iter().map(number).collect();
    Estimate::mean(Estimator::Dr, &numbers, weighted)
}
