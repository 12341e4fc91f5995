//! A subspace common to all users: the estimators of `mlin-greedy` and `e2tc`.

use super::tasks::Tasks;
use crate::linear::{Symmetric, dot};

/// The ridge estimate of every user, row by row.
pub(crate) fn ridge_estimates(tasks: &Tasks, lambda: f64) -> Vec<f64> {
    let mut estimates = Vec::with_capacity(tasks.users.len() * tasks.dim);
    for user in &tasks.users {
        let mut precision = user.gram.clone();
        precision.add_diagonal(lambda);
        let mut estimate = user.moment.clone();
        match precision.cholesky() {
            Some(factor) => factor.solve(&mut estimate),
            None => estimate.fill(0.0),
        }
        estimates.extend(estimate);
    }
    estimates
}

/// The k leading right singular vectors of the rows, row by row and orthonormal.
pub(crate) fn leading_directions(rows: &[f64], dim: usize, rank: usize) -> Vec<f64> {
    let mut square = Symmetric::zero(dim);
    rows.chunks_exact(dim).for_each(|row| square.add_outer(1.0, row));
    let vectors = square.eigen().vectors;
    vectors.chunks_exact(dim).rev().take(rank).flatten().copied().collect()
}

/// The regression of every user on its coordinates along `basis`, row by row.
pub(crate) fn coordinates(tasks: &Tasks, basis: &[f64], ridge: f64) -> Vec<f64> {
    let (dim, rank) = (tasks.dim, basis.len() / tasks.dim);
    let (mut all, mut product) = (Vec::with_capacity(tasks.users.len() * rank), vec![0.0; dim]);
    for user in &tasks.users {
        let mut matrix = Symmetric::identity(rank, ridge);
        let mut right = vec![0.0; rank];
        for (a, direction) in basis.chunks_exact(dim).enumerate().filter(|_| user.rewards > 0.0) {
            user.gram.times(direction, &mut product);
            for (b, other) in basis.chunks_exact(dim).take(a + 1).enumerate() {
                matrix.packed_mut()[a * (a + 1) / 2 + b] += dot(&product, other);
            }
            right[a] = dot(&user.moment, direction);
        }
        match matrix.cholesky() {
            Some(factor) => factor.solve(&mut right),
            None => right.fill(0.0),
        }
        all.extend(right);
    }
    all
}

/// Σ_a w_a b_a for every user, row by row.
pub(crate) fn lift(weights: &[f64], basis: &[f64], dim: usize) -> Vec<f64> {
    let rank = basis.len() / dim;
    let mut rows = vec![0.0; weights.len() / rank * dim];
    for (row, w) in rows.chunks_exact_mut(dim).zip(weights.chunks_exact(rank)) {
        for (w, direction) in w.iter().zip(basis.chunks_exact(dim)) {
            row.iter_mut().zip(direction).for_each(|(row, b)| *row += w * b);
        }
    }
    rows
}
