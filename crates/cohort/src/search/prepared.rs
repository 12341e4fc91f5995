//! Bounds on a score that are cheap: a pivoted factor of the spread, and how much is left after some pivots.

use super::ScoreForm;
use crate::linear::{Symmetric, dot};

/// Rows of the factor that are worked out together.
pub(super) const CHUNK: usize = 8;

/// Steps of the power method: enough for a good guess, which is then proved.
const POWER_STEPS: usize = 24;
/// How many times a bound that is none is made larger before the trace is taken.
const BOUND_STEPS: usize = 64;

/// A [`ScoreForm`] as the screen uses it, in f32.
pub(super) struct PreparedForm {
    /// In the order of the items' coordinates.
    pub mean: Vec<f32>,
    /// Which coordinate each pivot is.
    pub pivots: Vec<u32>,
    /// Chunk by chunk, for every coordinate from the chunk's first pivot on, `CHUNK` coefficients: those
    /// of the chunk's rows, 0 where a row has none.
    pub factor: Vec<Vec<[f32; CHUNK]>>,
    /// λ(Sᵣ) before the first chunk and after every chunk.
    pub rest: Vec<f32>,
    /// What a bound allows for rounding, for an item of length 1, and besides.
    pub slack: f32,
    pub slack_any: f32,
    /// Squares of coordinates are taken from a squared length that is so much larger than it should be: what is
    /// left is then never less than it is.
    pub tail_growth: f32,
}

impl PreparedForm {
    pub fn new(form: &ScoreForm, largest_shift: f64) -> Self {
        let dim = form.mean.len();
        let Pivoted { pivots, rows, rest } = Pivoted::new(&form.spread);
        let chunks = (0..pivots.len()).step_by(CHUNK).map(|first| {
            (first..dim)
                .map(|at| {
                    std::array::from_fn(|row| match rows.get(first + row) {
                        Some(row_values) if first + row <= at => row_values[at] as f32,
                        _ => 0.0,
                    })
                })
                .collect()
        });
        let factor = chunks.collect();
        let length = dot(&form.mean, &form.mean).sqrt();
        let trace: f64 = (0..dim).map(|at| form.spread.at(at, at).max(0.0)).sum();
        let epsilon = f64::from(f32::EPSILON);
        let slack = (length + 2.0 * trace.sqrt()) * (dim as f64 + 16.0) * epsilon + form.rounding;
        let slack_any = 4.0 * epsilon * largest_shift + 8.0 * f64::EPSILON * form.offset.abs();
        Self {
            mean: form.mean.iter().map(|value| *value as f32).collect(),
            pivots: pivots.iter().map(|at| *at as u32).collect(),
            factor,
            // Rounded up.
            rest: rest.iter().map(|value| (value * (1.0 + 4.0 * epsilon)) as f32).collect(),
            slack: (slack * (1.0 + 4.0 * epsilon)) as f32,
            slack_any: slack_any as f32 + f32::MIN_POSITIVE,
            tail_growth: 1.0 + (dim as f32 + 16.0) * 2.0 * f32::EPSILON,
        }
    }
}

/// Pivoted Cholesky factorisation Q[p, p] = LLᵀ, and the remainder of Q chunk by chunk.
struct Pivoted {
    pivots: Vec<usize>,
    /// Row r is yᵣ's coefficients in the order of the pivots.
    rows: Vec<Vec<f64>>,
    rest: Vec<f64>,
}

impl Pivoted {
    fn new(spread: &Symmetric) -> Self {
        let dim = spread.dim();
        // The Schur complement, a full matrix in the order of the pivots so far.
        let mut left: Vec<f64> = (0..dim * dim).map(|at| spread.at(at / dim, at % dim)).collect();
        let mut pivots: Vec<usize> = (0..dim).collect();
        let mut rows: Vec<Vec<f64>> = Vec::with_capacity(dim);
        let mut rest = vec![largest_eigenvalue(&left, dim, 0)];
        for step in 0..dim {
            let diagonal = |at: usize| left[at * dim + at];
            let next = (step..dim).max_by(|a, b| diagonal(*a).total_cmp(&diagonal(*b)));
            let next = next.unwrap_or(step);
            if next != step {
                swap_rows_and_columns(&mut left, dim, step, next);
                pivots.swap(step, next);
                rows.iter_mut().for_each(|row| row.swap(step, next));
            }
            let pivot = left[step * dim + step];
            let mut row = vec![0.0; dim];
            if pivot > 0.0 {
                let root = pivot.sqrt();
                for (at, value) in row.iter_mut().enumerate().skip(step) {
                    *value = left[step * dim + at] / root;
                }
                for i in step + 1..dim {
                    let factor = row[i];
                    let below = &mut left[i * dim + step + 1..(i + 1) * dim];
                    for (entry, value) in below.iter_mut().zip(&row[step + 1..]) {
                        *entry -= factor * value;
                    }
                }
            }
            rows.push(row);
            if (step + 1) % CHUNK == 0 || step + 1 == dim {
                rest.push(largest_eigenvalue(&left, dim, step + 1));
            }
        }
        Self { pivots, rows, rest }
    }
}

fn swap_rows_and_columns(matrix: &mut [f64], dim: usize, a: usize, b: usize) {
    for at in 0..dim {
        matrix.swap(a * dim + at, b * dim + at);
    }
    for row in matrix.chunks_exact_mut(dim) {
        row.swap(a, b);
    }
}

/// A bound on the largest eigenvalue of the part of a symmetric matrix from row and column `first` on: not
/// less than it, and hardly more.
fn largest_eigenvalue(matrix: &[f64], dim: usize, first: usize) -> f64 {
    let count = dim - first;
    let trace: f64 = (first..dim).map(|at| matrix[at * dim + at].max(0.0)).sum();
    if count == 0 || trace <= 0.0 {
        return 0.0;
    }
    let rows = || (first..dim).map(|at| &matrix[at * dim + first..(at + 1) * dim]);
    // Beginning with the diagonal, which is never orthogonal to all that is large.
    let mut vector: Vec<f64> =
        (first..dim).map(|at| matrix[at * dim + at].max(0.0).sqrt()).collect();
    let mut guess: f64 = 0.0;
    for _ in 0..POWER_STEPS {
        let length = dot(&vector, &vector).sqrt();
        vector.iter_mut().for_each(|value| *value /= length);
        let next: Vec<f64> = rows().map(|row| dot(row, &vector)).collect();
        let before = guess;
        guess = dot(&next, &next).sqrt();
        vector = next;
        if guess <= 0.0 || guess - before < 1e-3 * guess {
            break;
        }
    }
    // Numbers so small that their squares are none give no guess: then the trace has to do.
    let mut bound = 1.002 * guess;
    for _ in 0..BOUND_STEPS {
        if !(bound > 0.0 && bound < trace) {
            break;
        }
        let mut gap = Symmetric::identity(count, bound * (1.0 - 1e-9));
        let mut at = 0;
        for (i, row) in rows().enumerate() {
            for entry in &row[..=i] {
                gap.packed_mut()[at] -= entry;
                at += 1;
            }
        }
        if gap.cholesky().is_some() {
            return bound;
        }
        bound *= 1.05;
    }
    // The sum of all eigenvalues; those that rounding made negative take nothing from it.
    trace * (1.0 + 1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_whose_squares_are_none_have_a_bound() {
        for scale in [1e-170, 1e-300, 5e-324] {
            let matrix = [2.0 * scale, scale, scale, 3.0 * scale];
            let bound = largest_eigenvalue(&matrix, 2, 0);
            assert!(bound >= 3.6 * scale && bound <= 5.1 * scale, "{bound} for {scale}");
        }
    }

    proptest! {
        #[test]
        fn the_bound_is_an_upper_bound_and_tight(
            dim in 1usize..12,
            values in prop::collection::vec(-1.0..1.0f64, 12 * 12),
            scale in -6.0..6.0f64,
        ) {
            let mut matrix = Symmetric::zero(dim);
            for row in values.chunks_exact(dim).take(dim) {
                matrix.add_outer(10f64.powf(scale), row);
            }
            let full: Vec<f64> = (0..dim * dim).map(|at| matrix.at(at / dim, at % dim)).collect();
            let largest = *matrix.eigen().values.last().unwrap();
            let bound = largest_eigenvalue(&full, dim, 0);
            prop_assert!(bound >= largest * (1.0 - 1e-12), "{bound} {largest}");
            prop_assert!(bound <= largest * 1.2 + 1e-300, "{bound} {largest}");
        }
    }
}
