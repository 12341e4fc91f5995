//! Diagnostics of importance weights.
//!
//! ```text
//! w = π(a|x)/p(a|x)      n_eff = (Σw)²/Σw²
//! ```
//!
//! n_eff is the effective sample size (Kish 1965). If a few rows have huge weights, the estimate
//! rests on them alone, and an interval by the central limit theorem is too narrow. And since `E[w]
//! = 1`, a mean weight far from 1 shows that the propensities are wrong.

use serde::Serialize;

use super::WeightedRow;

/// The least n_eff for reliable intervals.
const LEAST_EFFECTIVE_ROWS: f64 = 100.0;
/// The largest acceptable share of one row in all weights.
const LARGEST_SHARE: f64 = 0.05;
/// A mean weight this many standard errors from 1 is significant.
const STANDARD_ERRORS: f64 = 5.0;

/// Diagnostics of the weights of a policy on a log.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Weights {
    /// Rows of the log.
    pub rows: usize,
    /// The effective sample size.
    pub effective_rows: f64,
    /// The largest weight.
    pub largest: f64,
    /// Its share in the sum of all.
    pub largest_share: f64,
    /// Their mean, which should be near 1.
    pub mean: f64,
    /// The standard error of that mean.
    pub mean_error: f64,
}

impl Weights {
    /// Computes them from weighted rows.
    pub fn of(weighted: &[WeightedRow]) -> Self {
        let rows = weighted.len();
        let sum: f64 = weighted.iter().map(|row| row.weight).sum();
        let squares: f64 = weighted.iter().map(|row| row.weight * row.weight).sum();
        let largest = weighted.iter().map(|row| row.weight).fold(0.0, f64::max);
        let n = rows as f64;
        let mean = sum / n;
        let variance = (squares / n - mean * mean).max(0.0);
        Self {
            rows,
            effective_rows: if sum > 0.0 { sum * sum / squares } else { 0.0 },
            largest,
            largest_share: if sum > 0.0 { largest / sum } else { 0.0 },
            mean,
            mean_error: (variance / n).sqrt(),
        }
    }

    /// Reasons for caution, as sentences.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let Self { rows, effective_rows, largest, largest_share, mean, mean_error } = self;
        if *effective_rows < LEAST_EFFECTIVE_ROWS {
            warnings.push(format!(
                "the effective sample size is {effective_rows:.1} of {rows} rows: too few to trust \
                 the intervals, which need {LEAST_EFFECTIVE_ROWS} or more"
            ));
        }
        if *largest_share > LARGEST_SHARE {
            warnings.push(format!(
                "one row has {:.0} % of all weights (its weight is {largest:.1}): it decides too much",
                100.0 * largest_share
            ));
        }
        if *mean > 0.0 && (mean - 1.0).abs() > STANDARD_ERRORS * mean_error + 1e-6 {
            warnings.push(format!(
                "the mean weight is {mean:.3} and should be 1: the propensities are not those with \
                 which the log was made, or the policy chooses what was never offered by chance"
            ));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(weights: &[f64]) -> Weights {
        let weighted =
            weights.iter().map(|weight| WeightedRow { weight: *weight, ..WeightedRow::default() });
        Weights::of(&weighted.collect::<Vec<_>>())
    }

    #[test]
    fn equal_weights_are_worth_every_row_and_one_heavy_one_is_worth_one() {
        assert_eq!(of(&[1.0; 500]).effective_rows, 500.0);
        assert!(of(&[1.0; 500]).warnings().is_empty());
        let mut heavy = vec![0.001; 500];
        heavy[7] = 499.5;
        let weights = of(&heavy);
        assert!((weights.effective_rows - 1.0).abs() < 0.01);
        let said = weights.warnings().join("\n");
        assert!(said.contains("effective sample size is 1.0 of 500"), "{said}");
        assert!(said.contains("one row has 100 %"), "{said}");
    }

    #[test]
    fn propensities_that_cannot_be_are_noticed() {
        // Propensities half as large as they were: every weight is twice what it should be.
        let weights: Vec<f64> = (0..1000).map(|row| if row % 2 == 0 { 1.0 } else { 3.0 }).collect();
        assert!(of(&weights).warnings().join("\n").contains("the mean weight is 2.000"));
    }
}
