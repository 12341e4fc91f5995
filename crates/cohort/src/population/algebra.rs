//! Small dense algebra for eight matrices at once, one in each lane.

use super::lanes::{LANES, Lane, ZERO, each};
use crate::linear::symmetric::packed_len;

/// Pivots below this share of their diagonal entry count as this: rounding has left nothing else.
const LEAST_PIVOT: f64 = 1e-14;

widest! {
    /// The factor L of A = LLᵀ in place, packed, with reciprocals on its diagonal, and ln det A.
    pub fn factor(a: &mut [Lane], dim: usize, log_det: &mut Lane) = factor_kernel
}

widest! {
    /// A⁻¹ in place, packed, and ln det A, of positive definite matrices.
    pub fn invert(a: &mut [Lane], dim: usize, log_det: &mut Lane) = invert_kernel
}

widest! {
    /// out = A b, A packed.
    pub fn times(a: &[Lane], b: &[Lane], out: &mut [Lane]) = times_kernel
}

widest! {
    /// x with Lx = b in place, L from [`factor`], and ‖x‖².
    pub fn solve_lower(l: &[Lane], b: &mut [Lane], square: &mut Lane) = solve_lower_kernel
}

#[inline(always)]
fn solve_lower_kernel(l: &[Lane], b: &mut [Lane], square: &mut Lane) {
    *square = ZERO;
    for i in 0..b.len() {
        let row = &l[packed_len(i)..=packed_len(i) + i];
        let known = dot(&row[..i], &b[..i]);
        for lane in 0..LANES {
            b[i][lane] = (b[i][lane] - known[lane]) * row[i][lane];
            square[lane] += b[i][lane] * b[i][lane];
        }
    }
}

/// Σ_k a[k]·b[k] in two independent sums.
#[inline(always)]
fn dot(a: &[Lane], b: &[Lane]) -> Lane {
    let (mut even, mut odd) = (ZERO, ZERO);
    let (pairs_a, pairs_b) = (a.chunks_exact(2), b.chunks_exact(2));
    if let (Some(a), Some(b)) = (pairs_a.remainder().first(), pairs_b.remainder().first()) {
        for lane in 0..LANES {
            even[lane] += a[lane] * b[lane];
        }
    }
    for (a, b) in pairs_a.zip(pairs_b) {
        for lane in 0..LANES {
            even[lane] += a[0][lane] * b[0][lane];
            odd[lane] += a[1][lane] * b[1][lane];
        }
    }
    each(|lane| even[lane] + odd[lane])
}

#[inline(always)]
pub(super) fn factor_kernel(a: &mut [Lane], dim: usize, log_det: &mut Lane) {
    let (mut product, mut logs) = ([1.0; LANES], ZERO);
    for i in 0..dim {
        let start = packed_len(i);
        let (above, row) = a.split_at_mut(start);
        for j in 0..i {
            let other = &above[packed_len(j)..=packed_len(j) + j];
            let known = dot(&row[..j], &other[..j]);
            let rest = row[j];
            row[j] = each(|lane| (rest[lane] - known[lane]) * other[j][lane]);
        }
        let known = dot(&row[..i], &row[..i]);
        let diagonal = row[i];
        for lane in 0..LANES {
            let least = (LEAST_PIVOT * diagonal[lane]).max(1e-300);
            let pivot = (diagonal[lane] - known[lane]).max(least);
            product[lane] *= pivot;
            row[i][lane] = 1.0 / pivot.sqrt();
        }
        // A few pivots to a logarithm: their product can neither overflow nor vanish.
        if i % 3 == 2 || i + 1 == dim {
            for lane in 0..LANES {
                logs[lane] += product[lane].clamp(1e-300, 1e300).ln();
                product[lane] = 1.0;
            }
        }
    }
    *log_det = logs;
}

#[inline(always)]
pub(super) fn invert_kernel(a: &mut [Lane], dim: usize, log_det: &mut Lane) {
    factor_kernel(a, dim, log_det);
    // L⁻¹ row by row: x_ij = −x_ii Σ_{j ≤ k < i} l_ik x_kj.
    for i in 0..dim {
        let (above, row) = a.split_at_mut(packed_len(i));
        let own = row[i];
        for j in 0..i {
            let mut sum = ZERO;
            for k in j..i {
                let x = &above[packed_len(k) + j];
                for lane in 0..LANES {
                    sum[lane] += row[k][lane] * x[lane];
                }
            }
            row[j] = each(|lane| -own[lane] * sum[lane]);
        }
    }
    // A⁻¹ = L⁻ᵀL⁻¹: entry (i, j) needs rows from i on, which are still those of L⁻¹.
    for i in 0..dim {
        for j in 0..=i {
            let mut sum = ZERO;
            for k in i..dim {
                let (x, y) = (&a[packed_len(k) + i], &a[packed_len(k) + j]);
                for lane in 0..LANES {
                    sum[lane] += x[lane] * y[lane];
                }
            }
            a[packed_len(i) + j] = sum;
        }
    }
}

#[inline(always)]
pub(super) fn times_kernel(a: &[Lane], b: &[Lane], out: &mut [Lane]) {
    out.fill(ZERO);
    let mut at = 0;
    for i in 0..b.len() {
        let mut sum = ZERO;
        for j in 0..i {
            for lane in 0..LANES {
                sum[lane] += a[at][lane] * b[j][lane];
                out[j][lane] += a[at][lane] * b[i][lane];
            }
            at += 1;
        }
        for lane in 0..LANES {
            out[i][lane] += sum[lane] + a[at][lane] * b[i][lane];
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::Symmetric;

    fn matrices(dim: usize) -> Vec<Symmetric> {
        (0..LANES)
            .map(|lane| {
                let mut matrix = Symmetric::identity(dim, 0.3 + lane as f64);
                for k in 0..dim + lane {
                    let x: Vec<f64> =
                        (0..dim).map(|i| ((i * 7 + k * 13 + lane) as f64).sin()).collect();
                    matrix.add_outer(1.0, &x);
                }
                matrix
            })
            .collect()
    }

    #[test]
    fn eight_inverses_are_those_of_one_at_a_time() {
        for dim in [1, 2, 5, 16, 31] {
            let plain = matrices(dim);
            let mut lanes: Vec<Lane> =
                (0..packed_len(dim)).map(|at| each(|lane| plain[lane].packed()[at])).collect();
            let mut log_det = ZERO;
            let vector: Vec<Lane> = (0..dim).map(|i| each(|lane| (i + lane) as f64)).collect();
            let mut product = vec![ZERO; dim];
            times(&lanes, &vector, &mut product);
            invert(&mut lanes, dim, &mut log_det);
            for (lane, matrix) in plain.iter().enumerate() {
                let factor = matrix.cholesky().unwrap();
                assert!((log_det[lane] - factor.log_det()).abs() < 1e-9);
                for (a, b) in lanes.iter().zip(factor.inverse().packed()) {
                    assert!((a[lane] - b).abs() < 1e-10, "{} against {b}", a[lane]);
                }
                let x: Vec<f64> = vector.iter().map(|v| v[lane]).collect();
                let mut out = vec![0.0; dim];
                matrix.times(&x, &mut out);
                for (a, b) in product.iter().zip(&out) {
                    assert!((a[lane] - b).abs() < 1e-9);
                }
            }
        }
    }
}
