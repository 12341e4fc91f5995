//! Small dense algebra for eight matrices at once, one in each lane.

use super::lanes::{LANES, Lane, ZERO, add_product, each};
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

/// Columns worked on at once: as many sums as need not wait for each other.
const COLUMNS: usize = 4;

/// Σ_k a[k]·b[k] in two independent sums.
#[inline(always)]
fn dot(a: &[Lane], b: &[Lane]) -> Lane {
    let (mut even, mut odd) = (ZERO, ZERO);
    let (pairs_a, pairs_b) = (a.chunks_exact(2), b.chunks_exact(2));
    if let (Some(a), Some(b)) = (pairs_a.remainder().first(), pairs_b.remainder().first()) {
        add_product(&mut even, a, b);
    }
    for (a, b) in pairs_a.zip(pairs_b) {
        add_product(&mut even, &a[0], &b[0]);
        add_product(&mut odd, &a[1], &b[1]);
    }
    each(|lane| even[lane] + odd[lane])
}

#[inline(always)]
pub(super) fn factor_kernel(a: &mut [Lane], dim: usize, log_det: &mut Lane) {
    let (mut product, mut logs) = ([1.0; LANES], ZERO);
    for i in 0..dim {
        let (above, row) = a.split_at_mut(packed_len(i));
        let mut j = 0;
        while j + COLUMNS <= i {
            // Four entries of the row at once: what they owe to columns before them …
            let other = |m: usize| &above[packed_len(j + m)..=packed_len(j + m) + j + m];
            let (r0, r1, r2, r3) = (other(0), other(1), other(2), other(3));
            let (mut s0, mut s1, mut s2, mut s3) = (ZERO, ZERO, ZERO, ZERO);
            for ((((own, a), b), c), d) in row[..j].iter().zip(r0).zip(r1).zip(r2).zip(r3) {
                add_product(&mut s0, own, a);
                add_product(&mut s1, own, b);
                add_product(&mut s2, own, c);
                add_product(&mut s3, own, d);
            }
            // … and to each other.
            let settle = |rest: &Lane, sum: &Lane, by: &Lane| -> Lane {
                each(|lane| (rest[lane] - sum[lane]) * by[lane])
            };
            let x0 = settle(&row[j], &s0, &r0[j]);
            add_product(&mut s1, &x0, &r1[j]);
            let x1 = settle(&row[j + 1], &s1, &r1[j + 1]);
            add_product(&mut s2, &x0, &r2[j]);
            add_product(&mut s2, &x1, &r2[j + 1]);
            let x2 = settle(&row[j + 2], &s2, &r2[j + 2]);
            add_product(&mut s3, &x0, &r3[j]);
            add_product(&mut s3, &x1, &r3[j + 1]);
            add_product(&mut s3, &x2, &r3[j + 2]);
            let x3 = settle(&row[j + 3], &s3, &r3[j + 3]);
            row[j..j + COLUMNS].copy_from_slice(&[x0, x1, x2, x3]);
            j += COLUMNS;
        }
        for j in j..i {
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
        let mut j = 0;
        while j + COLUMNS <= i {
            let (mut s0, mut s1, mut s2, mut s3) = (ZERO, ZERO, ZERO, ZERO);
            // The first three rows end within these columns.
            let x = |k: usize, m: usize| &above[packed_len(k) + j + m];
            add_product(&mut s0, &row[j], x(j, 0));
            add_product(&mut s0, &row[j + 1], x(j + 1, 0));
            add_product(&mut s1, &row[j + 1], x(j + 1, 1));
            add_product(&mut s0, &row[j + 2], x(j + 2, 0));
            add_product(&mut s1, &row[j + 2], x(j + 2, 1));
            add_product(&mut s2, &row[j + 2], x(j + 2, 2));
            for k in j + 3..i {
                let l = &row[k];
                let x = &above[packed_len(k) + j..packed_len(k) + j + COLUMNS];
                add_product(&mut s0, l, &x[0]);
                add_product(&mut s1, l, &x[1]);
                add_product(&mut s2, l, &x[2]);
                add_product(&mut s3, l, &x[3]);
            }
            let negative = |s: &Lane| -> Lane { each(|lane| -own[lane] * s[lane]) };
            let all = [negative(&s0), negative(&s1), negative(&s2), negative(&s3)];
            row[j..j + COLUMNS].copy_from_slice(&all);
            j += COLUMNS;
        }
        for j in j..i {
            let mut sum = ZERO;
            for k in j..i {
                add_product(&mut sum, &row[k], &above[packed_len(k) + j]);
            }
            row[j] = each(|lane| -own[lane] * sum[lane]);
        }
    }
    // A⁻¹ = L⁻ᵀL⁻¹: entry (i, j) needs rows from i on, which are still those of L⁻¹.
    for i in 0..dim {
        let mut j = 0;
        while j + COLUMNS <= i + 1 {
            let (mut s0, mut s1, mut s2, mut s3) = (ZERO, ZERO, ZERO, ZERO);
            for k in i..dim {
                let start = packed_len(k);
                let x = &a[start + i];
                let y = &a[start + j..start + j + COLUMNS];
                add_product(&mut s0, x, &y[0]);
                add_product(&mut s1, x, &y[1]);
                add_product(&mut s2, x, &y[2]);
                add_product(&mut s3, x, &y[3]);
            }
            let start = packed_len(i) + j;
            a[start..start + COLUMNS].copy_from_slice(&[s0, s1, s2, s3]);
            j += COLUMNS;
        }
        for j in j..=i {
            let mut sum = ZERO;
            for k in i..dim {
                add_product(&mut sum, &a[packed_len(k) + i], &a[packed_len(k) + j]);
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
