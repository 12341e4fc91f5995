//! Variances along many vectors c, eight at a time: K vectors are K rows of D numbers, in the basis
//! of the rows.

use super::RowsPosterior;
use super::kernels::{ROWS, multiply, multiply_columns, product, scale, transpose};
use crate::linear::symmetric::packed_len;
use crate::population::lanes::{F64x8, LANES, ZERO, add_product, each};

/// Eight vectors and what is worked out of them.
struct Group {
    /// c, then Ac.
    vectors: Vec<F64x8>,
    /// Δc.
    scaled: Vec<F64x8>,
    /// L⁻¹XΔc, then G⁻¹XΔc.
    solved: Vec<F64x8>,
    variances: F64x8,
}

impl RowsPosterior<'_> {
    /// Writes Var[⟨c, θ⟩] of every vector, for a centre that is known.
    pub fn variances(&self, contexts: &[f64], out: &mut [f64]) {
        self.each_group(contexts, false, |first, group| {
            out[first..].iter_mut().zip(group.variances.0).for_each(|(out, variance)| {
                *out = variance;
            });
        });
    }

    /// Writes the same for several centres, one after the other (K numbers each), that are known
    /// up to covariances C, packed: more by (Ac)ᵀC(Ac).
    pub fn variances_with(&self, contexts: &[f64], doubts: &[&[f64]], out: &mut [f64]) {
        let arms = contexts.len() / self.design.dim;
        assert!(doubts.iter().all(|doubt| doubt.len() == packed_len(self.design.dim)));
        self.each_group(contexts, true, |first, group| {
            for (doubt, out) in doubts.iter().zip(out.chunks_exact_mut(arms)) {
                let mut variances = group.variances;
                add_quadratic(doubt, &group.vectors, &mut variances);
                out[first..]
                    .iter_mut()
                    .zip(variances.0)
                    .for_each(|(out, variance)| *out = variance);
            }
        });
    }

    /// Writes Ac = c − XᵀG⁻¹XΔc of every vector.
    pub fn carried(&self, contexts: &[f64], out: &mut [f64]) {
        let dim = self.design.dim;
        self.each_group(contexts, true, |first, group| {
            let rows = out[first * dim..].chunks_exact_mut(dim);
            for (lane, out) in rows.take(LANES).enumerate() {
                out.iter_mut().zip(&group.vectors).for_each(|(out, carried)| *out = carried[lane]);
            }
        });
    }

    /// Hands over one group after the other, with the number of its first vector.
    fn each_group(&self, contexts: &[f64], carry: bool, mut then: impl FnMut(usize, &Group)) {
        let (n, dim) = (self.design.rows(), self.design.dim);
        let (vectors, scaled) = (vec![ZERO; dim], vec![ZERO; dim]);
        let mut group = Group { vectors, scaled, solved: vec![ZERO; n], variances: ZERO };
        for (at, rows) in contexts.chunks(LANES * dim).enumerate() {
            solve(self, rows, &mut group);
            if carry {
                carry_along(self, &mut group);
            }
            then(at * LANES, &group);
        }
    }
}

widest! {
    /// L⁻¹XΔc and the variances.
    fn solve(of: &RowsPosterior, rows: &[f64], group: &mut Group) = solve_kernel
}

#[inline(always)]
fn solve_kernel(of: &RowsPosterior, rows: &[f64], group: &mut Group) {
    let Group { vectors, scaled, solved, variances } = group;
    let dim = vectors.len();
    transpose(rows, vectors);
    scaled.copy_from_slice(vectors);
    scale(scaled, of.prior);
    let mut variance = ZERO;
    for (vector, scaled) in vectors.iter().zip(scaled.iter()) {
        add_product(&mut variance, vector, scaled);
    }
    let row = |at: usize| &of.design.x[at * dim..][..dim];
    product(solved.len(), row, scaled, |at, sum| solved[at] = sum);
    forward(&of.lower, of.stride, solved);
    let mut known = ZERO;
    for solved in solved {
        add_product(&mut known, solved, solved);
    }
    *variances = each(|lane| (variance[lane] - known[lane]).max(0.0));
}

/// L⁻¹ of eight vectors, in place.
#[inline(always)]
fn forward(lower: &[f64], stride: usize, vectors: &mut [F64x8]) {
    let n = vectors.len();
    for first in (0..n).step_by(ROWS) {
        let (known, unknown) = vectors.split_at_mut(first);
        // Beyond the last row, the last row again, of which nothing is used.
        let row = |at: usize| &lower[(first + at).min(n - 1) * stride..][..n];
        let sums = multiply([row(0), row(1), row(2), row(3)], known);
        for at in 0..ROWS.min(n - first) {
            let mut rest: F64x8 = each(|lane| unknown[at][lane] - sums[at][lane]);
            for before in 0..at {
                let scale = row(at)[first + before];
                rest = each(|lane| rest[lane] - scale * unknown[before][lane]);
            }
            let diagonal = 1.0 / row(at)[first + at];
            unknown[at] = F64x8(rest.map(|rest| rest * diagonal));
        }
    }
}

/// L⁻ᵀ of eight vectors, in place.
#[inline(always)]
fn backward(lower: &[f64], stride: usize, vectors: &mut [F64x8]) {
    let n = vectors.len();
    for first in (0..n).step_by(ROWS).rev() {
        let next = n.min(first + ROWS);
        let (unknown, known) = vectors.split_at_mut(next);
        let sums = multiply_columns(&lower[next * stride..], stride, first, known);
        for i in (first..next).rev() {
            let mut rest: F64x8 = each(|lane| unknown[i][lane] - sums[i - first][lane]);
            for after in i + 1..next {
                let scale = lower[after * stride + i];
                rest = each(|lane| rest[lane] - scale * unknown[after][lane]);
            }
            let diagonal = 1.0 / lower[i * stride + i];
            unknown[i] = F64x8(rest.map(|rest| rest * diagonal));
        }
    }
}

widest! {
    /// Ac in place of c.
    fn carry_along(of: &RowsPosterior, group: &mut Group) = carry_along_kernel
}

#[inline(always)]
fn carry_along_kernel(of: &RowsPosterior, group: &mut Group) {
    let Group { vectors, solved, .. } = group;
    backward(&of.lower, of.stride, solved);
    let dim = vectors.len();
    for first in (0..dim).step_by(ROWS) {
        let sums = multiply_columns(&of.design.x, dim, first, solved);
        for (vector, sum) in vectors[first..].iter_mut().zip(sums) {
            *vector = each(|lane| vector[lane] - sum[lane]);
        }
    }
}

widest! {
    /// Adds vᵀCv of eight vectors, C packed.
    fn add_quadratic(packed: &[f64], vectors: &[F64x8], out: &mut F64x8) = add_quadratic_kernel
}

#[inline(always)]
fn add_quadratic_kernel(packed: &[f64], vectors: &[F64x8], out: &mut F64x8) {
    let dim = vectors.len();
    for first in (0..dim).step_by(ROWS) {
        let row = |at: usize| {
            let i = (first + at).min(dim - 1);
            &packed[packed_len(i)..][..=i]
        };
        // Twice what is left of the diagonal, and the diagonal.
        let sums = multiply([row(0), row(1), row(2), row(3)], &vectors[..first]);
        for at in 0..ROWS.min(dim - first) {
            let mut sum = F64x8(sums[at].map(|sum| 2.0 * sum));
            for before in 0..=at {
                let scale = row(at)[first + before] * if before < at { 2.0 } else { 1.0 };
                sum = each(|lane| sum[lane] + scale * vectors[first + before][lane]);
            }
            add_product(out, &vectors[first + at], &sum);
        }
    }
}
