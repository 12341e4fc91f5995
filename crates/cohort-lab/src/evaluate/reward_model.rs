//! The reward model q̂: ridge regression, cross-fitted.
//!
//! ```text
//! q̂(x, a) = β₀ + ⟨β, (features of the row, features of the item)⟩
//! β = argmin Σ (r − q̂)² + λ‖β‖²,  λ = 1,  β₀ free
//! ```
//!
//! An item without features is known by its name: one indicator per item. Each stratum has a model
//! of its own. Row i is predicted by the model of fold `i mod 3`, which was fitted on the other two
//! thirds.

use cohort::linear::{Symmetric, dot};
use rayon::prelude::*;

use super::log::{Log, Row};

/// The number of folds.
pub const FOLDS: usize = 3;
/// λ.
const RIDGE: f64 = 1.0;

/// The models of all folds and strata.
pub struct RewardModel {
    /// `models[stratum][fold]`
    models: Vec<Vec<FittedRidge>>,
}

/// One fitted model.
#[derive(Clone, Debug, Default)]
struct FittedRidge {
    intercept: f64,
    of_row: Vec<f64>,
    of_item: Vec<f64>,
}

impl RewardModel {
    /// Fits a model for every stratum and fold.
    pub fn cross_fitted(log: &Log) -> Self {
        let strata = log.rows.iter().map(|row| row.stratum + 1).max().unwrap_or(0);
        let fit = |stratum: usize, fold: usize| {
            let others = (log.rows.iter().enumerate())
                .filter(|(at, row)| row.stratum == stratum && at % FOLDS != fold)
                .map(|(_, row)| row);
            FittedRidge::fit(log, others)
        };
        let models = (0..strata)
            .map(|stratum| (0..FOLDS).into_par_iter().map(|fold| fit(stratum, fold)).collect())
            .collect();
        Self { models }
    }

    /// q̂ for a candidate of a row.
    pub fn predict(&self, log: &Log, row: usize, which: usize) -> f64 {
        let (fold, row) = (row % FOLDS, &log.rows[row]);
        self.models[row.stratum][fold].predict(log, row, which)
    }
}

impl FittedRidge {
    fn fit<'a>(log: &Log, rows: impl Iterator<Item = &'a Row> + Clone) -> Self {
        let of_item = if log.items_have_features() { log.dim } else { log.items.len() };
        let dim = log.context_dim + of_item;
        let count = rows.clone().count() as f64;
        if count == 0.0 {
            return Self {
                intercept: 0.0,
                of_row: vec![0.0; log.context_dim],
                of_item: vec![0.0; of_item],
            };
        }
        // Centred sums: first the means, then the moments around them.
        let (mut mean, mut reward_mean) = (vec![0.0; dim], 0.0);
        for row in rows.clone() {
            nonzero(log, row, &mut |at, value| mean[at] += value / count);
            reward_mean += row.reward / count;
        }
        // Σxxᵀ of sparse rows, entry by entry; n·x̄x̄ᵀ is subtracted afterwards.
        let (mut gram, mut moment) = (vec![0.0; dim * dim], vec![0.0; dim]);
        let mut entries = Vec::new();
        for row in rows {
            entries.clear();
            nonzero(log, row, &mut |at, value| entries.push((at, value)));
            for (i, x) in &entries {
                moment[*i] += x * (row.reward - reward_mean);
                for (j, y) in &entries {
                    gram[i * dim + j] += x * y;
                }
            }
        }
        let mut packed = Vec::with_capacity(dim * (dim + 1) / 2);
        for i in 0..dim {
            packed.extend((0..=i).map(|j| gram[i * dim + j] - count * mean[i] * mean[j]));
        }
        let mut normal = Symmetric::from_packed(dim, packed);
        normal.add_diagonal(RIDGE);
        if let Some(factor) = normal.cholesky() {
            factor.solve(&mut moment);
        }
        let intercept = reward_mean - dot(&mean, &moment);
        let of_item = moment.split_off(log.context_dim);
        Self { intercept, of_row: moment, of_item }
    }

    fn predict(&self, log: &Log, row: &Row, which: usize) -> f64 {
        let of_item = if log.items_have_features() {
            dot(&self.of_item, row.candidate(which, log.dim))
        } else {
            self.of_item[row.candidates[which] as usize]
        };
        self.intercept + dot(&self.of_row, &row.context) + of_item
    }
}

/// Visits the nonzero features of a row and of its chosen item.
fn nonzero(log: &Log, row: &Row, visit: &mut dyn FnMut(usize, f64)) {
    let of_row = row.context.iter().enumerate();
    of_row.filter(|(_, value)| **value != 0.0).for_each(|(at, value)| visit(at, *value));
    if log.items_have_features() {
        let features = row.candidate(row.chosen, log.dim);
        for (at, value) in features.iter().enumerate() {
            visit(log.context_dim + at, *value);
        }
    } else {
        visit(log.context_dim + row.item() as usize, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the normal equations with an unpenalised intercept column.
    #[test]
    fn it_is_ridge_regression_with_a_free_intercept() {
        let mut log = Log { dim: 2, ..Log::default() };
        for at in 0..40usize {
            let x = [(at as f64 * 0.7).sin(), (at as f64 * 1.3).cos()];
            log.rows.push(Row {
                candidates: [0].into(),
                reward: 0.4 + 2.0 * x[0] - x[1],
                features: x.into(),
                ..Row::default()
            });
        }
        let model = FittedRidge::fit(&log, log.rows.iter());
        // At the optimum the gradient vanishes: Σ(r − q̂) = 0 and Σ(r − q̂)x = λβ.
        let error = |row: &Row| row.reward - model.predict(&log, row, 0);
        let total: f64 = log.rows.iter().map(error).sum();
        assert!(total.abs() < 1e-9, "{total}");
        for k in 0..2 {
            let slope: f64 = log.rows.iter().map(|row| error(row) * row.features[k]).sum();
            assert!((slope - RIDGE * model.of_item[k]).abs() < 1e-9, "{slope}");
        }
    }

    #[test]
    fn no_row_speaks_about_itself() {
        let mut log = Log { dim: 1, ..Log::default() };
        for at in 0..30usize {
            let reward = if at == 7 { 1000.0 } else { 0.0 };
            let features = [at as f64 / 30.0].into();
            log.rows.push(Row { candidates: [0].into(), reward, features, ..Row::default() });
        }
        let model = RewardModel::cross_fitted(&log);
        assert_eq!(model.predict(&log, 7, 0), 0.0, "the others know nothing of row 7");
        assert!(model.predict(&log, 8, 0) > 0.0);
    }
}
