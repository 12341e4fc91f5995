//! `trace-norm`: users' vectors are the rows of a matrix of low rank, whose rank need not be known.
//!
//! ```text
//! Ŵ = argmin_W  1/(2n) Σ (y − ⟨x, w_i⟩)² + λ‖W‖_*,   n rewards of N users so far
//! λ = c·σ·s·√((N + d)/(N n)),  s² the mean square of a context's coordinate
//! play argmax_x ⟨x, ŵ_i⟩: there is no exploration, contexts that vary are enough
//! ```
//!
//! ‖W‖_* is the sum of singular values. Each fit is warm-started and runs accelerated proximal
//! gradient steps: a gradient step, then soft-thresholding of all singular values by λ/(step), for
//! which the eigenvectors of WᵀW, d × d, are enough: O(N d² + d³) per step.
//!
//! | constant | range | meaning |
//! | --- | --- | --- |
//! | `c` | [0, ∞) | scale of λ |
//! | `sigma` σ | [0, ∞) | the noise; the environment's by default |
//! | `steps` | 1, 2, … | proximal steps per fit |
//! | `refit` | 1, 2, … | rewards between fits; N by default, one fit per round |
//!
//! The paper's λ has this form with a constant that its analysis leaves large; s makes c
//! independent of the scale of contexts. The paper fits after every round, as this does by default.
//!
//! Reference: Cella, Lounici, Pacreau, Pontil, *Multi-task Representation Learning with Stochastic
//! Linear Bandits*, AISTATS 2023, Algorithm 1.

use super::shared::served::Served;
use super::shared::tasks::{Greedy, JointEstimator, Tasks};
use crate::builder::builder;
use crate::intercept::INTERCEPT;
use crate::linear::{Symmetric, dot};
use crate::params::{Kind, NOT_NEGATIVE, Param, Settings};
use crate::registry::PolicyInfo;
use crate::{Error, Policy, Problem};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "trace-norm",
    summary: "users in a subspace of unknown dimension, by the trace norm",
    reference: "Cella, Lounici, Pacreau, Pontil, AISTATS 2023, Algorithm 1",
    params: &[PARAMS],
    build,
};

builder! { c: real, sigma: real, steps: count, refit: count, intercept: flag }

const PARAMS: &[Param] = &[
    Param::real("c", NOT_NEGATIVE, 1.0, "scale of the penalty λ = c·σ·s·√((N + d)/(N n))"),
    Param::derived(
        "sigma",
        NOT_NEGATIVE,
        "the environment's noise",
        "σ, the noise scale of one reward",
    ),
    Param::count("steps", 1, 10, "proximal steps of a fit"),
    Param::derived("refit", Kind::Count(1), "the number of users", "rewards between fits"),
    INTERCEPT,
];

#[derive(Clone)]
struct TraceNorm {
    c: f64,
    sigma: f64,
    steps: usize,
    refit: f64,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let fit = TraceNorm {
        c: settings.real("c"),
        sigma: settings.derived("sigma", || problem.sigma),
        steps: settings.count("steps"),
        refit: settings.derived("refit", || problem.users.max(1) as f64),
    };
    Ok(Box::new(Served(Greedy::new(problem.users, problem.dim, problem.seed, fit))))
}

impl JointEstimator for TraceNorm {
    const NAME: &'static str = INFO.name;

    fn next(&self, rewards: f64) -> f64 {
        rewards + self.refit
    }

    fn fit(&mut self, tasks: &Tasks, estimates: &mut Vec<f64>) {
        let (dim, users, n) = (tasks.dim, tasks.users.len() as f64, tasks.rewards);
        let traces =
            tasks.users.iter().map(|user| (0..dim).map(|k| user.gram.at(k, k)).sum::<f64>());
        let square = traces.sum::<f64>() / (n * dim as f64);
        let steepest =
            tasks.users.iter().map(|user| largest_row_sum(&user.gram)).fold(0.0, f64::max) / n;
        if !(steepest > 0.0 && steepest.is_finite()) {
            return;
        }
        let penalty =
            self.c * self.sigma * square.sqrt() * ((users + dim as f64) / (users * n)).sqrt();
        // Nesterov's momentum, restarted at every fit.
        let (mut ahead, mut last, mut momentum) = (estimates.clone(), estimates.clone(), 1.0f64);
        let mut product = vec![0.0; dim];
        for _ in 0..self.steps {
            let mut next = ahead.clone();
            for (user, (w, from)) in tasks
                .users
                .iter()
                .zip(next.chunks_exact_mut(dim).zip(ahead.chunks_exact(dim)))
                .filter(|(user, _)| user.rewards > 0.0)
            {
                user.gram.times(from, &mut product);
                for ((w, moment), product) in w.iter_mut().zip(&user.moment).zip(&product) {
                    *w += (moment - product) / (n * steepest);
                }
            }
            shrink(&mut next, dim, penalty / steepest);
            let further = (1.0 + (1.0 + 4.0 * momentum * momentum).sqrt()) / 2.0;
            let push = (momentum - 1.0) / further;
            for ((ahead, next), last) in ahead.iter_mut().zip(&next).zip(&last) {
                *ahead = next + push * (next - last);
            }
            (last, momentum) = (next, further);
        }
        *estimates = last;
    }
}

/// An upper bound on the largest eigenvalue: the largest row sum of absolute values.
fn largest_row_sum(gram: &Symmetric) -> f64 {
    let row = |i: usize| (0..gram.dim()).map(|j| gram.at(i, j).abs()).sum::<f64>();
    (0..gram.dim()).map(row).fold(0.0, f64::max)
}

/// Soft-thresholds the singular values of a matrix of rows: by the eigenvectors of WᵀW, or of WWᵀ
/// where that is smaller.
fn shrink(rows: &mut [f64], dim: usize, by: f64) {
    let count = rows.len() / dim;
    if count >= dim {
        let mut square = Symmetric::zero(dim);
        rows.chunks_exact(dim).for_each(|w| square.add_outer(1.0, w));
        let (factor, mut product) = (shrinking(&square, by), vec![0.0; dim]);
        for w in rows.chunks_exact_mut(dim).filter(|w| dot(w, w) > 0.0) {
            factor.times(w, &mut product);
            w.copy_from_slice(&product);
        }
        return;
    }
    let column = |rows: &[f64], k: usize| (0..count).map(|i| rows[i * dim + k]).collect::<Vec<_>>();
    let mut square = Symmetric::zero(count);
    (0..dim).for_each(|k| square.add_outer(1.0, &column(rows, k)));
    let (factor, mut product) = (shrinking(&square, by), vec![0.0; count]);
    for k in 0..dim {
        factor.times(&column(rows, k), &mut product);
        product.iter().enumerate().for_each(|(i, value)| rows[i * dim + k] = *value);
    }
}

/// Σ (1 − by/s)vvᵀ over the singular values s > by, whose squares are the eigenvalues.
fn shrinking(square: &Symmetric, by: f64) -> Symmetric {
    let eigen = square.eigen();
    let mut factor = Symmetric::zero(square.dim());
    for (value, vector) in eigen.values.iter().zip(eigen.vectors.chunks_exact(square.dim())) {
        let singular = value.max(0.0).sqrt();
        if singular > by {
            factor.add_outer(1.0 - by / singular, vector);
        }
    }
    factor
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A matrix and its transpose have the same singular values.
    #[test]
    fn wide_matrices_shrink_as_tall_ones() {
        let mut wide = vec![1.0, -2.0, 0.5, 0.3, 0.7, 2.0];
        let mut tall: Vec<f64> = (0..6).map(|at| wide[at % 2 * 3 + at / 2]).collect();
        shrink(&mut wide, 3, 0.4);
        shrink(&mut tall, 2, 0.4);
        for at in 0..6 {
            assert!((tall[at] - wide[at % 2 * 3 + at / 2]).abs() < 1e-12, "{tall:?} {wide:?}");
        }
        assert!(wide[0] != 1.0);
    }
}
