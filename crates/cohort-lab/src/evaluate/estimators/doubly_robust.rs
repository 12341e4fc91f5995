//! Doubly robust: a model of the rewards, corrected by what the log says of its errors.
//!
//! ```text
//! V̂ = 1/n Σ_i [ Σ_b π(b|x_i) q̂(x_i, b) + w_i (r_i − q̂(x_i, a_i)) ]
//! ```
//!
//! Right when the propensities are or when the model is; the better the model, the smaller the
//! variance. q̂ is fitted on other rows than those it speaks about (cross-fitting), so the terms
//! are as good as independent and the interval is Student's, of their mean.
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
