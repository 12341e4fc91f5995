//! Small dense algebra for eight matrices at once, one in each lane: packed, row by row.

mod cholesky;

use crate::algebra::packed_len;
use crate::simd::{self, F64x8, Kernel, Simd, with_scratch};

pub(crate) use cholesky::{Entries, InPlace, Packed, Sink, factor_from, invert_lower, square_into};

/// The factor L of A = LLᵀ in place, packed, with reciprocals on its diagonal, and ln det A.
pub fn factor(a: &mut [F64x8], dim: usize, log_det: &mut F64x8) {
    simd::run(Factor { a, dim, log_det });
}

/// A⁻¹ in place, packed, and ln det A, of positive definite matrices.
pub fn invert(a: &mut [F64x8], dim: usize, log_det: &mut F64x8) {
    simd::run(Invert { a, dim, log_det });
}

/// out = A b, A packed.
pub fn times(a: &[F64x8], b: &[F64x8], out: &mut [F64x8]) {
    simd::run(Times { a, b, out });
}

/// out = S C S of symmetric matrices, all packed.
pub fn sandwich(s: &[F64x8], c: &[F64x8], dim: usize, out: &mut [F64x8]) {
    with_scratch(3 * dim * dim, |full| simd::run(Sandwich { s, c, dim, full, out }));
}

struct Sandwich<'a> {
    s: &'a [F64x8],
    c: &'a [F64x8],
    dim: usize,
    /// Room for three full matrices.
    full: &'a mut [F64x8],
    out: &'a mut [F64x8],
}

impl Kernel for Sandwich<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { s, c, dim, full, out } = self;
        let (s_full, rest) = full.split_at_mut(dim * dim);
        let (c_full, product) = rest.split_at_mut(dim * dim);
        for (packed, full) in [(s, &mut *s_full), (c, &mut *c_full)] {
            for i in 0..dim {
                for j in 0..=i {
                    let entry = packed[packed_len(i) + j];
                    full[i * dim + j] = entry;
                    full[j * dim + i] = entry;
                }
            }
        }
        // Both are symmetric: entries of products are dot products of rows.
        rows_by_rows(simd, [s_full, c_full], [dim; 2], |i| (i * dim, dim), product);
        rows_by_rows(simd, [product, s_full], [dim; 2], |i| (packed_len(i), i + 1), out);
    }
}

/// Entries (i, j) of A Bᵀ, both of which have so many rows of such a length; `place` says where row i goes and how many
/// of its entries are wanted.
#[inline(always)]
pub(crate) fn rows_by_rows<S: Simd>(
    simd: S,
    [a, b]: [&[F64x8]; 2],
    [count, len]: [usize; 2],
    place: impl Fn(usize) -> (usize, usize),
    out: &mut [F64x8],
) {
    let mut i = 0;
    while i < count {
        let height = S::TILE.min(count - i);
        let (_, wanted) = place(i + height - 1);
        let mut j = 0;
        while j < wanted {
            let width = S::TILE.min(count - j);
            match (height, width) {
                (4, 4) => tile::<S, 4>(simd, [a, b], len, [i, j], &place, out),
                (2, 2) => tile::<S, 2>(simd, [a, b], len, [i, j], &place, out),
                _ => {
                    for at in i..i + height {
                        for other in j..(j + width).min(place(at).1) {
                            tile::<S, 1>(simd, [a, b], len, [at, other], &place, out);
                        }
                    }
                }
            }
            j += width;
        }
        i += height;
    }
}

/// `T` × `T` entries of A Bᵀ from (i, j) on, as far as they are wanted.
#[inline(always)]
fn tile<S: Simd, const T: usize>(
    simd: S,
    [a, b]: [&[F64x8]; 2],
    len: usize,
    [i, j]: [usize; 2],
    place: &impl Fn(usize) -> (usize, usize),
    out: &mut [F64x8],
) {
    let rows = std::array::from_fn(|r| &a[(i + r) * len..(i + r + 1) * len]);
    let columns = std::array::from_fn(|c| &b[(j + c) * len..(j + c + 1) * len]);
    let sums = dots::<S, T, T>(simd, rows, columns, len);
    for (r, sums) in sums.into_iter().enumerate() {
        let (start, wanted) = place(i + r);
        for (c, sum) in sums.into_iter().enumerate().take_while(|(c, _)| j + c < wanted) {
            simd.store(sum, &mut out[start + j + c]);
        }
    }
}

struct Factor<'a> {
    a: &'a mut [F64x8],
    dim: usize,
    log_det: &'a mut F64x8,
}

impl Kernel for Factor<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let log_det = factor_from(simd, self.a, self.dim, InPlace);
        simd.store(log_det, self.log_det);
    }
}

struct Invert<'a> {
    a: &'a mut [F64x8],
    dim: usize,
    log_det: &'a mut F64x8,
}

impl Kernel for Invert<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let log_det = factor_from(simd, self.a, self.dim, InPlace);
        simd.store(log_det, self.log_det);
        invert_lower(simd, self.a, self.dim);
        square_into(simd, self.a, self.dim, InPlace);
    }
}

struct Times<'a> {
    a: &'a [F64x8],
    b: &'a [F64x8],
    out: &'a mut [F64x8],
}

impl Kernel for Times<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        times_in(simd, self.a, self.b, self.out);
    }
}

/// [`times`] within a kernel: four rows at a time, whose sums stay in registers.
#[inline(always)]
pub(crate) fn times_in<S: Simd>(simd: S, a: &[F64x8], b: &[F64x8], out: &mut [F64x8]) {
    let mut first = 0;
    while first + 4 <= b.len() {
        times_rows::<S, 4>(simd, a, b, out, first);
        first += 4;
    }
    while first < b.len() {
        times_rows::<S, 1>(simd, a, b, out, first);
        first += 1;
    }
}

/// What `R` rows of the lower triangle, and what mirrors them, add to A b.
#[inline(always)]
fn times_rows<S: Simd, const R: usize>(
    simd: S,
    a: &[F64x8],
    b: &[F64x8],
    out: &mut [F64x8],
    first: usize,
) {
    let zero = simd.splat(0.0);
    let (mut own, mut sums, mut rows) = ([zero; R], [zero; R], [a; R]);
    for r in 0..R {
        own[r] = simd.load(&b[first + r]);
        rows[r] = &a[packed_len(first + r)..=packed_len(first + r) + first + r];
    }
    for j in 0..first {
        let (other, mut mirrored) = (simd.load(&b[j]), simd.load(&out[j]));
        for r in 0..R {
            let entry = simd.load(&rows[r][j]);
            sums[r] = simd.mul_add(entry, other, sums[r]);
            mirrored = simd.mul_add(entry, own[r], mirrored);
        }
        simd.store(mirrored, &mut out[j]);
    }
    for r in 0..R {
        for c in 0..r {
            let entry = simd.load(&rows[r][first + c]);
            sums[r] = simd.mul_add(entry, own[c], sums[r]);
            sums[c] = simd.mul_add(entry, own[r], sums[c]);
        }
        sums[r] = simd.mul_add(simd.load(&rows[r][first + r]), own[r], sums[r]);
    }
    for r in 0..R {
        simd.store(sums[r], &mut out[first + r]);
    }
}

/// x with Lx = b in place, L from [`factor`]; returns ‖x‖².
#[inline(always)]
pub(crate) fn solve_lower_in<S: Simd>(simd: S, l: &[F64x8], b: &mut [F64x8]) -> S::V {
    let mut total = simd.splat(0.0);
    for i in 0..b.len() {
        let row = &l[packed_len(i)..=packed_len(i) + i];
        let (known, unknown) = b.split_at_mut(i);
        let [[sum]] = dots::<S, 1, 1>(simd, [&row[..i]], [known], i);
        let x = simd.mul(simd.sub(simd.load(&unknown[0]), sum), simd.load(&row[i]));
        simd.store(x, &mut unknown[0]);
        total = simd.mul_add(x, x, total);
    }
    total
}

/// The same of many vectors of that length, one after the other in `b`: four at a time, whose sums need not wait for each
/// other.
#[inline(always)]
pub(crate) fn solve_lower_each<S: Simd>(simd: S, l: &[F64x8], dim: usize, b: &mut [F64x8]) {
    for some in b.chunks_mut(4 * dim) {
        if some.len() == 4 * dim {
            solve_lower_some::<S, 4>(simd, l, dim, some);
        } else {
            some.chunks_mut(dim).for_each(|one| solve_lower_some::<S, 1>(simd, l, dim, one));
        }
    }
}

#[inline(always)]
fn solve_lower_some<S: Simd, const C: usize>(simd: S, l: &[F64x8], dim: usize, b: &mut [F64x8]) {
    for i in 0..dim {
        let row = &l[packed_len(i)..=packed_len(i) + i];
        let known = std::array::from_fn(|c| &b[c * dim..c * dim + i]);
        let [sums] = dots::<S, 1, C>(simd, [&row[..i]], known, i);
        for (c, sum) in sums.into_iter().enumerate() {
            let x = simd.mul(simd.sub(simd.load(&b[c * dim + i]), sum), simd.load(&row[i]));
            simd.store(x, &mut b[c * dim + i]);
        }
    }
}

/// Σ_k rows[r][k]·columns[c][k] over k < len.
#[inline(always)]
fn dots<S: Simd, const R: usize, const C: usize>(
    simd: S,
    rows: [&[F64x8]; R],
    columns: [&[F64x8]; C],
    len: usize,
) -> [[S::V; C]; R] {
    let mut sums = [[simd.splat(0.0); C]; R];
    let (mut own, mut other) = (rows, columns);
    for row in &mut own {
        *row = &row[..len];
    }
    for column in &mut other {
        *column = &column[..len];
    }
    for k in 0..len {
        let mut b = [simd.splat(0.0); C];
        for c in 0..C {
            b[c] = simd.load(&other[c][k]);
        }
        for r in 0..R {
            let a = simd.load(&own[r][k]);
            for c in 0..C {
                sums[r][c] = simd.mul_add(a, b[c], sums[r][c]);
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algebra::Symmetric;
    use crate::simd::LANES;

    const ZERO: F64x8 = F64x8::splat(0.0);

    fn each(value: impl Fn(usize) -> f64) -> F64x8 {
        F64x8(std::array::from_fn(value))
    }

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
            let mut lanes: Vec<F64x8> =
                (0..packed_len(dim)).map(|at| each(|lane| plain[lane].packed()[at])).collect();
            let mut log_det = ZERO;
            let vector: Vec<F64x8> = (0..dim).map(|i| each(|lane| (i + lane) as f64)).collect();
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
