//! Principal components of a large sparse matrix, by randomised subspace iteration (Halko,
//! Martinsson, Tropp 2011): the matrix is only multiplied with, never made dense, and its mean is
//! subtracted on the fly.

use cohort::linear::{Symmetric, dot};
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

/// A sparse matrix by rows.
pub struct Sparse {
    /// For every row its (column, value) pairs.
    pub rows: Vec<Vec<(u32, f64)>>,
    /// The number of columns.
    pub columns: usize,
}

/// Oversampling: additional directions that make the last ones exact.
const SPARE: usize = 10;
/// The number of power iterations. Each reduces the error by a power of the ratio of singular
/// values.
const ITERATIONS: usize = 12;

/// The rows of the matrix in the basis of its leading components, row by row; each component's sign
/// is such that its largest entry is positive.
pub fn principal(matrix: &Sparse, count: usize, centred: bool, rng: &mut impl Rng) -> Vec<f64> {
    let width = (count + SPARE).min(matrix.columns).min(matrix.rows.len());
    let mean = if centred { matrix.mean_row() } else { vec![0.0; matrix.columns] };
    let mut basis: Vec<Vec<f64>> = (0..width)
        .map(|_| (0..matrix.columns).map(|_| StandardNormal.sample(rng)).collect())
        .collect();
    for _ in 0..ITERATIONS {
        orthonormalise(&mut basis);
        let images = par_map(&basis, |v| matrix.times(&mean, v));
        basis = par_map(&images, |u| matrix.transposed_times(&mean, u));
    }
    orthonormalise(&mut basis);

    // Rayleigh–Ritz: the best directions within the subspace.
    let images = par_map(&basis, |v| matrix.times(&mean, v));
    let mut gram = Symmetric::zero(width);
    for i in 0..width {
        for j in 0..=i {
            gram.packed_mut()[i * (i + 1) / 2 + j] = dot(&images[i], &images[j]);
        }
    }
    let eigen = gram.eigen();
    let mut items = vec![0.0; matrix.rows.len() * count];
    for component in 0..count {
        // Eigenvalues are ascending.
        let weights = &eigen.vectors[(width - 1 - component) * width..][..width];
        let mut scores = vec![0.0; matrix.rows.len()];
        for (weight, image) in weights.iter().zip(&images) {
            add(&mut scores, *weight, image);
        }
        let largest =
            scores.iter().copied().fold(0.0, |a: f64, b| if b.abs() > a.abs() { b } else { a });
        for (item, score) in scores.into_iter().enumerate() {
            items[item * count + component] = score * largest.signum();
        }
    }
    items
}

fn par_map(columns: &[Vec<f64>], f: impl Fn(&[f64]) -> Vec<f64> + Sync) -> Vec<Vec<f64>> {
    columns.par_iter().map(|column| f(column)).collect()
}

impl Sparse {
    fn mean_row(&self) -> Vec<f64> {
        let mut mean = vec![0.0; self.columns];
        for (column, value) in self.rows.iter().flatten() {
            mean[*column as usize] += value / self.rows.len() as f64;
        }
        mean
    }

    /// (A − 1·meanᵀ) v
    fn times(&self, mean: &[f64], v: &[f64]) -> Vec<f64> {
        let shift = dot(mean, v);
        let product = |row: &Vec<(u32, f64)>| {
            row.iter().map(|(column, value)| value * v[*column as usize]).sum::<f64>() - shift
        };
        self.rows.iter().map(product).collect()
    }

    /// (A − 1·meanᵀ)ᵀ u
    fn transposed_times(&self, mean: &[f64], u: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.columns];
        for (row, u) in self.rows.iter().zip(u) {
            for (column, value) in row {
                out[*column as usize] += value * u;
            }
        }
        add(&mut out, -u.iter().sum::<f64>(), mean);
        out
    }
}

/// Gram–Schmidt, each vector twice, for orthogonality to rounding.
fn orthonormalise(basis: &mut [Vec<f64>]) {
    for k in 0..basis.len() {
        let (before, rest) = basis.split_at_mut(k);
        let vector = &mut rest[0];
        for _ in 0..2 {
            for other in before.iter() {
                let along = dot(other, vector);
                add(vector, -along, other);
            }
        }
        let length = dot(vector, vector).sqrt();
        if length > 0.0 {
            vector.iter_mut().for_each(|value| *value /= length);
        }
    }
}

fn add(to: &mut [f64], scale: f64, what: &[f64]) {
    for (to, what) in to.iter_mut().zip(what) {
        *to += scale * what;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    /// Against the eigenvectors of the full covariance matrix.
    #[test]
    fn components_are_those_of_the_full_covariance() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let (rows, columns, count) = (60, 14, 4);
        let sparse = Sparse {
            rows: (0..rows)
                .map(|_| {
                    let wide = |column: usize| 1.0 / (1.0 + column as f64);
                    let mut row = Vec::new();
                    for column in 0..columns {
                        let value: f64 = StandardNormal.sample(&mut rng);
                        if value > 0.3 {
                            row.push((column as u32, value * wide(column)));
                        }
                    }
                    row
                })
                .collect(),
            columns,
        };
        for centred in [true, false] {
            let found = principal(&sparse, count, centred, &mut rng);
            let mean = if centred { sparse.mean_row() } else { vec![0.0; columns] };
            let full: Vec<Vec<f64>> = (sparse.rows.iter())
                .map(|row| {
                    let mut full: Vec<f64> = mean.iter().map(|mean| -mean).collect();
                    row.iter().for_each(|(column, value)| full[*column as usize] += value);
                    full
                })
                .collect();
            let mut covariance = Symmetric::zero(columns);
            full.iter().for_each(|row| covariance.add_outer(1.0, row));
            let eigen = covariance.eigen();
            for component in 0..count {
                let direction = &eigen.vectors[(columns - 1 - component) * columns..][..columns];
                let scores: Vec<f64> = full.iter().map(|row| dot(row, direction)).collect();
                let ours: Vec<f64> = (0..rows).map(|row| found[row * count + component]).collect();
                let sign = dot(&scores, &ours).signum();
                for (a, b) in scores.iter().zip(&ours) {
                    assert!((a - sign * b).abs() < 1e-6, "component {component}: {a} {b}");
                }
            }
        }
    }
}
