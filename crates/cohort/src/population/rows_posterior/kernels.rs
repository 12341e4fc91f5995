//! The inner loops. Sums go side by side: over eight vectors at once where there are many, in eight
//! parts where there is one.

use crate::population::lanes::{F64x8, LANES, ZERO};

/// Rows that are worked on together: four sums of eight do not wait for each other.
pub const ROWS: usize = 4;

/// The product of rows with eight vectors: what `finish` makes of the number of a row and its
/// product. Rows are as long as there are vectors' coordinates.
#[inline(always)]
pub fn product<'a>(
    rows: usize,
    row: impl Fn(usize) -> &'a [f64],
    vectors: &[F64x8],
    mut finish: impl FnMut(usize, F64x8),
) {
    for first in (0..rows).step_by(ROWS) {
        // Beyond the last row, the last row again, of which nothing is used.
        let sums = multiply([0, 1, 2, 3].map(|at| row((first + at).min(rows - 1))), vectors);
        for at in 0..ROWS.min(rows - first) {
            finish(first + at, sums[at]);
        }
    }
}

/// The products of some rows with eight vectors.
#[inline(always)]
pub fn multiply<const N: usize>(rows: [&[f64]; N], vectors: &[F64x8]) -> [F64x8; N] {
    let rows = rows.map(|row| &row[..vectors.len()]);
    let mut sums = [ZERO; N];
    for (k, vector) in vectors.iter().enumerate() {
        for at in 0..N {
            let scale = rows[at][k];
            for lane in 0..LANES {
                sums[at][lane] += scale * vector[lane];
            }
        }
    }
    sums
}

/// The products of four columns, from the given one on, with eight vectors; `matrix` has rows
/// `stride` numbers apart, one for each coordinate. Columns beyond the last are zeros.
#[inline(always)]
pub fn multiply_columns(
    matrix: &[f64],
    stride: usize,
    column: usize,
    vectors: &[F64x8],
) -> [F64x8; ROWS] {
    let mut sums = [ZERO; ROWS];
    let columns = ROWS.min(stride - column);
    if columns < ROWS {
        for (row, vector) in matrix.chunks_exact(stride).zip(vectors) {
            for at in 0..columns {
                for lane in 0..LANES {
                    sums[at][lane] += row[column + at] * vector[lane];
                }
            }
        }
        return sums;
    }
    for (row, vector) in matrix.chunks_exact(stride).zip(vectors) {
        let four = &row[column..column + ROWS];
        for at in 0..ROWS {
            for lane in 0..LANES {
                sums[at][lane] += four[at] * vector[lane];
            }
        }
    }
    sums
}

widest! {
    /// The lower triangle of XΔXᵀ (and more), row by row in a square; X has rows as
    /// long as Δ's diagonal.
    pub fn gram(x: &[f64], prior: &[f64], out: &mut [f64]) = gram_kernel
}

#[inline(always)]
fn gram_kernel(x: &[f64], prior: &[f64], out: &mut [f64]) {
    let dim = prior.len();
    let n = x.len() / dim;
    let mut vectors = vec![ZERO; dim];
    for first in (0..n).step_by(LANES) {
        transpose(&x[first * dim..], &mut vectors);
        scale(&mut vectors, prior);
        let lanes = LANES.min(n - first);
        product(
            n - first,
            |at| &x[(first + at) * dim..][..dim],
            &vectors,
            |at, sum| {
                for lane in 0..lanes.min(at + 1) {
                    out[(first + at) * n + first + lane] = sum[lane];
                }
            },
        );
    }
}

/// Up to eight rows as eight lanes; zeros where there are fewer.
#[inline(always)]
pub fn transpose(rows: &[f64], out: &mut [F64x8]) {
    if rows.len() < LANES * out.len() {
        out.fill(ZERO);
    }
    for (lane, row) in rows.chunks_exact(out.len()).take(LANES).enumerate() {
        for (out, value) in out.iter_mut().zip(row) {
            out[lane] = *value;
        }
    }
}

/// Δ times eight vectors, in place.
#[inline(always)]
pub fn scale(vectors: &mut [F64x8], prior: &[f64]) {
    for (vector, variance) in vectors.iter_mut().zip(prior) {
        *vector = F64x8(vector.map(|value| value * variance));
    }
}

/// The least that may be left of a number on the diagonal: less is rounding.
const LEFT: f64 = 1e-14;

widest! {
    /// Writes L with A = LLᵀ where there were zeros, and ln det A; NaN where there is no L. Rows
    /// of L begin `stride` numbers apart, a multiple of eight.
    pub fn factor(a: &[f64], stride: usize, lower: &mut [f64], log_det: &mut f64) = factor_kernel
}

#[inline(always)]
fn factor_kernel(a: &[f64], stride: usize, lower: &mut [f64], log_det: &mut f64) {
    *log_det = 0.0;
    let n = lower.len() / stride.max(1);
    for first in (0..n).step_by(ROWS) {
        let (above, block) = lower.split_at_mut(first * stride);
        let rows = ROWS.min(n - first);
        for (j, other) in above.chunks_exact(stride).enumerate() {
            let inverse = 1.0 / other[j];
            for (at, row) in block.chunks_exact_mut(stride).take(rows).enumerate() {
                row[j] = (a[(first + at) * n + j] - dot_up_to(row, other, j)) * inverse;
            }
        }
        for i in first..first + rows {
            let (before, row) = block.split_at_mut((i - first) * stride);
            for (j, other) in (first..).zip(before.chunks_exact(stride)) {
                row[j] = (a[i * n + j] - dot_up_to(row, other, j)) / other[j];
            }
            let diagonal = a[i * n + i];
            let rest = diagonal - dot_up_to(row, row, i);
            row[i] = rest.sqrt();
            *log_det += if rest > LEFT * diagonal { rest.ln() } else { f64::NAN };
        }
    }
}

/// The product of the first j numbers of two rows of L. What is not yet known of the first is zero,
/// so that whole lanes do no harm.
#[inline(always)]
fn dot_up_to(row: &[f64], other: &[f64], j: usize) -> f64 {
    let whole = j.next_multiple_of(LANES);
    dot_in_parts(&row[..whole], &other[..whole])
}

/// ⟨a, b⟩ in eight sums.
#[inline(always)]
pub fn dot_in_parts(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = ZERO;
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    for (sum, (a, b)) in sums.iter_mut().zip(a_rest.iter().zip(b_rest)) {
        *sum += a * b;
    }
    ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]))
}

/// a + b·c.
#[inline(always)]
pub fn add_scaled_row(a: &mut [f64], b: &[f64], c: f64) {
    for (a, b) in a.iter_mut().zip(b) {
        *a += b * c;
    }
}
