//! Symmetric matrices of small dimension, packed as d(d+1)/2 numbers: the lower triangle, row by
//! row. What is off the hot path (Cholesky, inverse, eigendecomposition) is written for clarity; d
//! is a few dozen at most.

use crate::linear::{dot, sum_in_parts};
use crate::simd::vectorized;

/// A symmetric matrix, packed: entry (i, j), j ≤ i, at `i(i+1)/2 + j`.
#[derive(Clone, Debug, PartialEq)]
pub struct Symmetric {
    dim: usize,
    packed: Vec<f64>,
}

/// The length of a packed symmetric matrix of dimension d.
pub const fn packed_len(dim: usize) -> usize {
    dim * (dim + 1) / 2
}

/// xxᵀ packed, off-diagonals doubled: its dot product with a packed matrix A is xᵀAx.
pub fn pack_outer_doubled(x: &[f64], out: &mut [f64]) {
    let mut at = 0;
    for i in 0..x.len() {
        for j in 0..i {
            out[at] = 2.0 * x[i] * x[j];
            at += 1;
        }
        out[at] = x[i] * x[i];
        at += 1;
    }
}

impl Symmetric {
    /// `scale`·I.
    pub fn identity(dim: usize, scale: f64) -> Self {
        let mut matrix = Self::zero(dim);
        matrix.add_diagonal(scale);
        matrix
    }

    /// The zero matrix.
    pub fn zero(dim: usize) -> Self {
        Self { dim, packed: vec![0.0; packed_len(dim)] }
    }

    /// From the packed lower triangle.
    ///
    /// # Panics
    /// If the length does not fit the dimension.
    pub fn from_packed(dim: usize, packed: Vec<f64>) -> Self {
        assert_eq!(packed.len(), packed_len(dim), "packed length for dimension {dim}");
        Self { dim, packed }
    }

    /// d.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The lower triangle, row by row.
    pub fn packed(&self) -> &[f64] {
        &self.packed
    }

    /// The lower triangle, row by row, mutably.
    pub fn packed_mut(&mut self) -> &mut [f64] {
        &mut self.packed
    }

    /// Entry (i, j).
    pub fn at(&self, i: usize, j: usize) -> f64 {
        let (low, high) = if i < j { (i, j) } else { (j, i) };
        self.packed[high * (high + 1) / 2 + low]
    }

    /// Row i up to and including the diagonal.
    fn row(&self, i: usize) -> &[f64] {
        &self.packed[packed_len(i)..packed_len(i) + i + 1]
    }

    /// A ← A + scale·I.
    pub fn add_diagonal(&mut self, scale: f64) {
        for i in 0..self.dim {
            self.packed[packed_len(i) + i] += scale;
        }
    }

    /// A ← A + scale·B.
    pub fn add(&mut self, scale: f64, other: &Self) {
        for (a, b) in self.packed.iter_mut().zip(&other.packed) {
            *a += scale * b;
        }
    }

    /// A ← A + scale·xxᵀ.
    pub fn add_outer(&mut self, scale: f64, x: &[f64]) {
        vectorized(
            #[inline(always)]
            || add_outer(&mut self.packed, scale, x),
        );
    }

    /// out ← A x.
    pub fn times(&self, x: &[f64], out: &mut [f64]) {
        vectorized(
            #[inline(always)]
            || times(&self.packed, x, out),
        );
    }

    /// xᵀ A x; a shorter x takes the leading rows and columns.
    pub fn quadratic(&self, x: &[f64]) -> f64 {
        let mut at = 0;
        let mut total = 0.0;
        for i in 0..x.len() {
            let mut row = 0.0;
            for j in 0..i {
                row += self.packed[at] * x[j];
                at += 1;
            }
            total += x[i] * (2.0 * row + self.packed[at] * x[i]);
            at += 1;
        }
        total
    }

    /// L with A = LLᵀ, packed; `None` where A is not positive definite.
    pub fn cholesky(&self) -> Option<Cholesky> {
        let mut lower = self.clone();
        for i in 0..self.dim {
            for j in 0..=i {
                let products: f64 = (0..j).map(|k| lower.at(i, k) * lower.at(j, k)).sum();
                let rest = self.at(i, j) - products;
                lower.packed[packed_len(i) + j] = if i != j {
                    rest / lower.at(j, j)
                } else if rest > 0.0 {
                    rest.sqrt()
                } else {
                    return None;
                };
            }
        }
        Some(Cholesky { lower })
    }

    /// Eigenvalues (ascending) and their vectors, by cyclic Jacobi rotations: slower than a
    /// tridiagonal method by a small factor, as exact as the input, and short enough to read.
    pub fn eigen(&self) -> Eigen {
        let d = self.dim;
        let mut a: Vec<f64> = (0..d * d).map(|at| self.at(at / d, at % d)).collect();
        let mut q = vec![0.0; d * d];
        for i in 0..d {
            q[i * d + i] = 1.0;
        }
        let frobenius: f64 = a.iter().map(|v| v * v).sum();
        for _sweep in 0..64 {
            let off: f64 = (0..d)
                .flat_map(|i| (0..i).map(move |j| (i, j)))
                .map(|(i, j)| a[i * d + j].powi(2))
                .sum();
            if off <= frobenius * 1e-32 {
                break;
            }
            for i in 1..d {
                for j in 0..i {
                    rotate(&mut a, &mut q, d, i, j);
                }
            }
        }
        let mut order: Vec<usize> = (0..d).collect();
        order.sort_by(|&i, &j| a[i * d + i].total_cmp(&a[j * d + j]));
        Eigen {
            values: order.iter().map(|&i| a[i * d + i]).collect(),
            vectors: order.iter().flat_map(|&i| q[i * d..(i + 1) * d].to_vec()).collect(),
        }
    }
}

/// One Jacobi rotation that makes entry (i, j) of the full matrix `a` zero; the rows of `q` carry
/// the vectors along.
fn rotate(a: &mut [f64], q: &mut [f64], d: usize, i: usize, j: usize) {
    let off = a[i * d + j];
    if off == 0.0 {
        return;
    }
    let half_gap = (a[j * d + j] - a[i * d + i]) / (2.0 * off);
    let tangent = half_gap.signum() / (half_gap.abs() + half_gap.hypot(1.0));
    let cosine = 1.0 / tangent.hypot(1.0);
    let sine = tangent * cosine;
    for k in 0..d {
        let (u, v) = (a[k * d + i], a[k * d + j]);
        a[k * d + i] = cosine * u - sine * v;
        a[k * d + j] = sine * u + cosine * v;
    }
    for k in 0..d {
        let (u, v) = (a[i * d + k], a[j * d + k]);
        a[i * d + k] = cosine * u - sine * v;
        a[j * d + k] = sine * u + cosine * v;
        let (u, v) = (q[i * d + k], q[j * d + k]);
        q[i * d + k] = cosine * u - sine * v;
        q[j * d + k] = sine * u + cosine * v;
    }
}

/// The eigenbasis of a symmetric matrix.
#[derive(Clone, Debug)]
pub struct Eigen {
    /// Ascending.
    pub values: Vec<f64>,
    /// The vector of `values[k]` in row k.
    pub vectors: Vec<f64>,
}

impl Eigen {
    /// The eigenbasis of the inverse.
    pub fn inverse(&self) -> Self {
        let d = self.values.len();
        Self {
            values: self.values.iter().rev().map(|value| 1.0 / value).collect(),
            vectors: self.vectors.chunks_exact(d).rev().flatten().copied().collect(),
        }
    }
}

/// The Cholesky factor of A = LLᵀ: solves, inverts, and gives the determinant.
#[derive(Clone, Debug)]
pub struct Cholesky {
    lower: Symmetric,
}

impl Cholesky {
    /// The factor of `scale`·I.
    pub fn identity(dim: usize, scale: f64) -> Self {
        Self { lower: Symmetric::identity(dim, scale.sqrt()) }
    }

    /// L, packed.
    pub fn packed(&self) -> &[f64] {
        &self.lower.packed
    }

    /// From L, packed; `None` where a number on the diagonal is not positive.
    pub fn from_packed(dim: usize, packed: Vec<f64>) -> Option<Self> {
        let lower = Symmetric::from_packed(dim, packed);
        (0..dim).all(|i| lower.at(i, i) > 0.0).then_some(Self { lower })
    }

    /// A ← A + xxᵀ in O(d²), by Givens rotations: L stays a factor whatever is added. Overwrites x.
    pub fn add_outer(&mut self, x: &mut [f64]) {
        let packed = &mut self.lower.packed;
        for k in 0..x.len() {
            let diagonal = packed[packed_len(k) + k];
            let length = diagonal.hypot(x[k]);
            let (cosine, sine) = (diagonal / length, x[k] / length);
            packed[packed_len(k) + k] = length;
            for i in k + 1..x.len() {
                let below = &mut packed[packed_len(i) + k];
                let old = *below;
                *below = cosine * old + sine * x[i];
                x[i] = cosine * x[i] - sine * old;
            }
        }
    }

    /// x with A x = b, in place.
    pub fn solve(&self, b: &mut [f64]) {
        self.forward(b);
        self.backward(b);
    }

    /// x with L x = b, in place: its squared length is bᵀA⁻¹b.
    pub fn forward(&self, b: &mut [f64]) {
        for i in 0..b.len() {
            let row = self.lower.row(i);
            let known: f64 = (0..i).map(|j| row[j] * b[j]).sum();
            b[i] = (b[i] - known) / row[i];
        }
    }

    /// x with Lᵀ x = b, in place: it has covariance A⁻¹ where b has covariance I.
    pub fn backward(&self, b: &mut [f64]) {
        for i in (0..b.len()).rev() {
            let row = self.lower.row(i);
            b[i] /= row[i];
            for j in 0..i {
                b[j] -= row[j] * b[i];
            }
        }
    }

    /// L z, which has covariance A where z has covariance I.
    pub fn times(&self, z: &[f64]) -> Vec<f64> {
        (0..z.len()).map(|i| dot(self.lower.row(i), &z[..=i])).collect()
    }

    /// A⁻¹.
    pub fn inverse(&self) -> Symmetric {
        let d = self.lower.dim;
        let mut inverse = Symmetric::zero(d);
        for i in 0..d {
            let mut column = vec![0.0; d];
            column[i] = 1.0;
            self.solve(&mut column);
            inverse.packed[packed_len(i)..=packed_len(i) + i].copy_from_slice(&column[..=i]);
        }
        inverse
    }

    /// ln det A.
    pub fn log_det(&self) -> f64 {
        (0..self.lower.dim).map(|i| 2.0 * self.lower.at(i, i).ln()).sum()
    }
}

#[inline(always)]
fn add_outer(packed: &mut [f64], scale: f64, x: &[f64]) {
    let mut rest = packed;
    for i in 0..x.len() {
        let (row, below) = rest.split_at_mut(i + 1);
        let scaled = scale * x[i];
        for (a, x) in row.iter_mut().zip(x) {
            *a += scaled * x;
        }
        rest = below;
    }
}

#[inline(always)]
fn times(packed: &[f64], x: &[f64], out: &mut [f64]) {
    out.fill(0.0);
    let mut rest = packed;
    for i in 0..x.len() {
        let (row, below) = rest.split_at(i + 1);
        let (before, diagonal) = (&row[..i], row[i]);
        out[i] += sum_in_parts(before, &x[..i], |a, x| a * x) + diagonal * x[i];
        for (out, a) in out.iter_mut().zip(before) {
            *out += a * x[i];
        }
        rest = below;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn positive_definite(dim: usize) -> impl Strategy<Value = Symmetric> {
        prop::collection::vec(prop::collection::vec(-1.0..1.0f64, dim), 0..3 * dim).prop_map(
            move |xs| {
                let mut matrix = Symmetric::identity(dim, 1.0);
                for x in &xs {
                    matrix.add_outer(1.0, x);
                }
                matrix
            },
        )
    }

    proptest! {
        #[test]
        fn inverse_times_matrix_is_identity(matrix in positive_definite(6)) {
            let inverse = matrix.cholesky().unwrap().inverse();
            for i in 0..6 {
                let column: Vec<f64> = (0..6).map(|j| matrix.at(i, j)).collect();
                let mut product = vec![0.0; 6];
                inverse.times(&column, &mut product);
                for j in 0..6 {
                    prop_assert!((product[j] - f64::from(i == j)).abs() < 1e-10);
                }
            }
        }

        #[test]
        fn eigenvectors_diagonalise_and_are_orthonormal(matrix in positive_definite(7)) {
            let eigen = matrix.eigen();
            prop_assert!(eigen.values.is_sorted());
            for k in 0..7 {
                let q = &eigen.vectors[k * 7..(k + 1) * 7];
                let mut product = vec![0.0; 7];
                matrix.times(q, &mut product);
                for i in 0..7 {
                    prop_assert!((product[i] - eigen.values[k] * q[i]).abs() < 1e-9);
                }
                for l in 0..7 {
                    let other = &eigen.vectors[l * 7..(l + 1) * 7];
                    prop_assert!((super::dot(q, other) - f64::from(k == l)).abs() < 1e-12);
                }
            }
            let log_det: f64 = eigen.values.iter().map(|v| v.ln()).sum();
            prop_assert!((log_det - matrix.cholesky().unwrap().log_det()).abs() < 1e-9);
        }

        #[test]
        fn packed_outer_product_gives_the_quadratic_form(
            matrix in positive_definite(5),
            x in prop::collection::vec(-1.0..1.0f64, 5),
        ) {
            let mut outer = vec![0.0; packed_len(5)];
            pack_outer_doubled(&x, &mut outer);
            let quadratic = super::dot(&outer, matrix.packed());
            prop_assert!((quadratic - matrix.quadratic(&x)).abs() < 1e-12);
        }
    }

    proptest! {
        #[test]
        fn a_factor_follows_what_is_added(
            matrix in positive_definite(6),
            x in prop::collection::vec(-3.0..3.0f64, 6),
        ) {
            let mut factor = matrix.cholesky().unwrap();
            factor.add_outer(&mut x.clone());
            let mut sum = matrix.clone();
            sum.add_outer(1.0, &x);
            for (carried, fresh) in factor.packed().iter().zip(sum.cholesky().unwrap().packed()) {
                prop_assert!((carried - fresh).abs() < 1e-10);
            }
            let mut half = x.clone();
            factor.forward(&mut half);
            let mut solved = x.clone();
            factor.solve(&mut solved);
            let (square, product) =
                (super::dot(&half, &half), super::dot(&x, &solved));
            prop_assert!((square - product).abs() < 1e-10);
        }
    }

    #[test]
    fn a_matrix_that_is_not_positive_definite_has_no_factor() {
        assert!(Symmetric::identity(3, -1.0).cholesky().is_none());
        assert!(Symmetric::zero(3).cholesky().is_none());
    }
}
