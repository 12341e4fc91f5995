//! Scoring many arms by a belief: arms as SIMD lanes.

use super::lanes::{F64x8, LANES, ZERO, add_scaled};
use super::posterior::Belief;
use crate::linear::{Symmetric, dot};
use crate::search::ScoreForm;
use crate::simd::vectorized;
use crate::{Arm, Contexts, Score};

impl Belief {
    /// Plays `argmax_x mean + width·deviation`, ties to the lowest index.
    pub fn choose(&self, contexts: &Contexts, width: f64) -> Arm {
        let mut best = (0, f64::NEG_INFINITY);
        self.predict_all(contexts, |arm, mean, deviation| {
            let score = mean + width * deviation;
            if score > best.1 {
                best = (arm, score);
            }
        });
        best.0
    }

    /// The score of every arm, the user's level included.
    pub fn score(&self, contexts: &Contexts, width: f64, scores: &mut [Score]) {
        let level = self.level();
        self.predict_all(contexts, |arm, mean, deviation| {
            scores[arm] = Score { expected: mean + level, bonus: width * deviation };
        });
    }

    /// [`Belief::score`] as a function of an arm's features. The last coordinate, the level, is the offset.
    pub fn form(&self, width: f64) -> ScoreForm {
        let dim = self.classes[0].covariance.dim() - 1;
        let mut mean = vec![0.0; dim];
        for guess in self.guesses() {
            mean.iter_mut().zip(&guess.mean).for_each(|(sum, m)| *sum += guess.share * m);
        }
        let (mut spread, mut farthest) = (Symmetric::zero(dim), 0.0f64);
        let square = width * width;
        for class in &self.classes {
            // Rows of the packed triangle: those without the last are the matrix without the level.
            let inner = class.covariance.packed()[..spread.packed().len()].to_vec();
            spread.add(square * class.total(), &Symmetric::from_packed(dim, inner));
            for guess in &class.guesses {
                let apart: Vec<f64> =
                    guess.mean.iter().zip(&mean).map(|(m, mean)| m - mean).collect();
                spread.add_outer(square * guess.share, &apart);
                farthest = farthest.max(dot(&guess.mean[..dim], &guess.mean[..dim]).sqrt());
            }
        }
        let mut form = ScoreForm::new(mean, spread);
        form.offset = self.level();
        // Scores take the square of the mean from the mean of squares: of that difference the root is taken.
        form.rounding = width * 1e-7 * farthest;
        form
    }

    /// [`Belief::predict`] for every arm, in order.
    fn predict_all(&self, contexts: &Contexts, mut with: impl FnMut(Arm, f64, f64)) {
        let mut group = vec![ZERO; contexts.dim()];
        for first in (0..contexts.arms()).step_by(LANES) {
            let arms = LANES.min(contexts.arms() - first);
            for lane in 0..arms {
                for (coordinate, x) in group.iter_mut().zip(contexts.arm(first + lane)) {
                    coordinate[lane] = *x;
                }
            }
            let (mut mean, mut square) = (ZERO, ZERO);
            for class in &self.classes {
                let mut share = 0.0;
                for guess in &class.guesses {
                    add_mean(&group, guess.share, &guess.mean, &mut mean, &mut square);
                    share += guess.share;
                }
                add_variance(&group, share, class.covariance.packed(), &mut square);
            }
            for lane in 0..arms {
                let variance = square[lane] - mean[lane] * mean[lane];
                with(first + lane, mean[lane], variance.max(0.0).sqrt());
            }
        }
    }
}

/// Adds E⟨x, θ⟩ and (E⟨x, θ⟩)² under one component, weighted by its probability, for a group of
/// arms, `group[k][lane]` being coordinate k of an arm.
fn add_mean(group: &[F64x8], share: f64, centre: &[f64], mean: &mut F64x8, square: &mut F64x8) {
    vectorized(
        #[inline(always)]
        || add_mean_kernel(group, share, centre, mean, square),
    );
}

#[inline(always)]
fn add_mean_kernel(
    group: &[F64x8],
    share: f64,
    centre: &[f64],
    mean: &mut F64x8,
    square: &mut F64x8,
) {
    let mut along = ZERO;
    for (x, centre) in group.iter().zip(centre) {
        add_scaled(&mut along, x, *centre);
    }
    for lane in 0..LANES {
        mean[lane] += share * along[lane];
        square[lane] += share * along[lane] * along[lane];
    }
}

/// Adds share·xᵀCx for a group of arms.
fn add_variance(group: &[F64x8], share: f64, covariance: &[f64], square: &mut F64x8) {
    vectorized(
        #[inline(always)]
        || add_variance_kernel(group, share, covariance, square),
    );
}

#[inline(always)]
fn add_variance_kernel(group: &[F64x8], share: f64, covariance: &[f64], square: &mut F64x8) {
    let mut variance = ZERO;
    let mut rows = covariance;
    for (i, x) in group.iter().enumerate() {
        let (row, below) = rows.split_at(i + 1);
        rows = below;
        // xᵀCx = Σ_i x_i·(2·Σ_{j<i} C_ij x_j + C_ii x_i)
        let mut before = ZERO;
        for (entry, x) in row[..i].iter().zip(group) {
            add_scaled(&mut before, x, *entry);
        }
        for lane in 0..LANES {
            variance[lane] += x[lane] * (2.0 * before[lane] + row[i] * x[lane]);
        }
    }
    for lane in 0..LANES {
        square[lane] += share * variance[lane].max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::posterior::{ClassBelief, ComponentPosterior};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arms_together_are_judged_as_one_after_the_other(
            dim in 1usize..9,
            arms in 1usize..20,
            values in prop::collection::vec(-1.0..1.0f64, 9 * 20),
            share in 0.0..1.0f64,
            width in 0.0..2.0f64,
        ) {
            let contexts = Contexts::new(&values[..dim * arms], dim).unwrap();
            let class = |component: usize, share: f64| {
                let mut covariance = Symmetric::identity(dim + 1, 0.3);
                covariance.add_outer(0.5, &values[component..=component + dim]);
                let mean = values[component + 3..=component + 3 + dim].to_vec();
                ClassBelief { covariance, guesses: vec![ComponentPosterior { component, share, mean }] }
            };
            let belief = Belief { classes: vec![class(0, share), class(1, 1.0 - share)], noise: 1.0 };
            let mut scores = vec![Score::default(); arms];
            belief.score(&contexts, width, &mut scores);
            for (x, score) in contexts.iter().zip(&scores) {
                let (mean, deviation) = belief.predict(x);
                prop_assert!((score.expected - mean - belief.level()).abs() < 1e-12);
                prop_assert!((score.bonus - width * deviation).abs() < 1e-7);
            }
            let form = belief.form(width);
            for (x, score) in contexts.iter().zip(&scores) {
                prop_assert!((form.at(x) - score.total()).abs() < 1e-6);
            }
            let score = |arm| {
                let (mean, deviation) = belief.predict(contexts.arm(arm));
                mean + width * deviation
            };
            let best = (0..arms).map(score).fold(f64::NEG_INFINITY, f64::max);
            prop_assert!(score(belief.choose(&contexts, width)) > best - 1e-7);
        }
    }
}
