//! Small dense algebra for eight matrices at once, one in each lane: packed, row by row.
//!
//! All three steps of an inverse, A = LLᵀ, L⁻¹ and L⁻ᵀL⁻¹, work in place on tiles of `T` × `T` lanes that stay in
//! registers. Where a matrix comes from and where its inverse goes may be fused into the first and the last
//! step ([`Entries`], [`Sink`]).

use std::marker::PhantomData;

use super::lanes::F64x8;
use crate::linear::symmetric::packed_len;
use crate::simd::{self, Kernel, Simd};

/// Pivots below this share of their diagonal entry count as this: rounding has left nothing else.
const LEAST_PIVOT: f64 = 1e-14;
/// No pivot is smaller.
const LEAST: f64 = 1e-300;
/// Rows after which the mantissas of pivots, each below 2, are multiplied no further.
const MANTISSAS: usize = 512;

/// Where the entries of a matrix come from.
///
/// # Safety
/// An implementation may rely on j ≤ i < dim, and must allow any such i and j where [`Entries::allows`] says so.
pub(super) unsafe trait Entries: Copy {
    /// Whether there are entries for matrices of this dimension.
    fn allows(&self, dim: usize) -> bool;

    /// Entry (i, j) of the matrix that is to be factored into `a`.
    ///
    /// # Safety
    /// j ≤ i < dim, for a dimension that is allowed.
    unsafe fn entry<S: Simd>(&self, simd: S, a: Packed, i: usize, j: usize) -> S::V;
}

/// Where the entries of an inverse go.
///
/// # Safety
/// As of [`Entries`].
pub(super) unsafe trait Sink: Copy {
    /// Whether entries of matrices of this dimension can be kept.
    fn allows(&self, dim: usize) -> bool;

    /// What is kept of entry (i, j).
    ///
    /// # Safety
    /// j ≤ i < dim, for a dimension that is allowed.
    unsafe fn keep<S: Simd>(&self, simd: S, i: usize, j: usize, value: S::V) -> S::V;
}

/// Packed matrices that are at least so large: kernels check once and not at every entry, which costs more than
/// the arithmetic where matrices are small.
#[derive(Clone, Copy)]
pub(super) struct Packed<'a> {
    lanes: *mut F64x8,
    dim: usize,
    borrowed: PhantomData<&'a mut [F64x8]>,
}

impl<'a> Packed<'a> {
    #[inline(always)]
    fn new(a: &'a mut [F64x8], dim: usize) -> Self {
        assert!(a.len() >= packed_len(dim), "{} lanes for dimension {dim}", a.len());
        Self { lanes: a.as_mut_ptr(), dim, borrowed: PhantomData }
    }

    /// Entry (i, j).
    ///
    /// # Safety
    /// j ≤ i < dim.
    #[inline(always)]
    unsafe fn get<S: Simd>(self, simd: S, i: usize, j: usize) -> S::V {
        debug_assert!(j <= i && i < self.dim);
        // SAFETY: below packed_len(dim), which `new` has checked.
        unsafe { simd.load(&*self.lanes.add(packed_len(i) + j)) }
    }

    /// The same, to write to.
    ///
    /// # Safety
    /// j ≤ i < dim.
    #[inline(always)]
    unsafe fn set<S: Simd>(self, simd: S, i: usize, j: usize, value: S::V) {
        debug_assert!(j <= i && i < self.dim);
        // SAFETY: as above; no reference into the lanes is alive beside this one.
        unsafe { simd.store(value, &mut *self.lanes.add(packed_len(i) + j)) }
    }
}

/// The matrix is there already, and its inverse is kept as it is.
#[derive(Clone, Copy)]
pub(super) struct InPlace;

// SAFETY: `Packed` has all entries of its dimension.
unsafe impl Entries for InPlace {
    #[inline(always)]
    fn allows(&self, _: usize) -> bool {
        true
    }

    #[inline(always)]
    unsafe fn entry<S: Simd>(&self, simd: S, a: Packed, i: usize, j: usize) -> S::V {
        // SAFETY: as asked for.
        unsafe { a.get(simd, i, j) }
    }
}

// SAFETY: nothing is looked up.
unsafe impl Sink for InPlace {
    #[inline(always)]
    fn allows(&self, _: usize) -> bool {
        true
    }

    #[inline(always)]
    unsafe fn keep<S: Simd>(&self, _simd: S, _i: usize, _j: usize, value: S::V) -> S::V {
        value
    }
}

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

/// x with Lx = b in place, L from [`factor`], and ‖x‖².
pub fn solve_lower(l: &[F64x8], b: &mut [F64x8], square: &mut F64x8) {
    simd::run(SolveLower { l, b, square });
}

/// out = S C S of symmetric matrices, all packed.
pub fn sandwich(s: &[F64x8], c: &[F64x8], dim: usize, out: &mut [F64x8]) {
    let mut full = vec![F64x8::splat(0.0); 3 * dim * dim];
    simd::run(Sandwich { s, c, dim, full: &mut full, out });
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
        rows_by_rows(simd, s_full, c_full, dim, |i| (i * dim, dim), product);
        rows_by_rows(simd, product, s_full, dim, |i| (packed_len(i), i + 1), out);
    }
}

/// Entries (i, j) of A Bᵀ; `place` says where row i goes and how many of its entries are wanted.
#[inline(always)]
fn rows_by_rows<S: Simd>(
    simd: S,
    a: &[F64x8],
    b: &[F64x8],
    dim: usize,
    place: impl Fn(usize) -> (usize, usize),
    out: &mut [F64x8],
) {
    let mut i = 0;
    while i < dim {
        let height = S::TILE.min(dim - i);
        let (_, wanted) = place(i + height - 1);
        let mut j = 0;
        while j < wanted {
            let width = S::TILE.min(dim - j);
            if height == 4 && width == 4 {
                let rows = [0, 1, 2, 3].map(|r| &a[(i + r) * dim..(i + r + 1) * dim]);
                let columns = [0, 1, 2, 3].map(|c| &b[(j + c) * dim..(j + c + 1) * dim]);
                let sums = dots::<S, 4, 4>(simd, rows, columns, dim);
                for r in 0..4 {
                    let (start, wanted) = place(i + r);
                    for c in (0..4).filter(|c| j + c < wanted) {
                        simd.store(sums[r][c], &mut out[start + j + c]);
                    }
                }
            } else {
                for r in 0..height {
                    let (start, wanted) = place(i + r);
                    let own = &a[(i + r) * dim..(i + r + 1) * dim];
                    for c in (0..width).filter(|c| j + c < wanted) {
                        let other = &b[(j + c) * dim..(j + c + 1) * dim];
                        let [[sum]] = dots::<S, 1, 1>(simd, [own], [other], dim);
                        simd.store(sum, &mut out[start + j + c]);
                    }
                }
            }
            j += width;
        }
        i += height;
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
        let Self { a, b, out } = self;
        for i in 0..b.len() {
            let own = simd.load(&b[i]);
            let row = &a[packed_len(i)..=packed_len(i) + i];
            let mut sum = simd.mul(simd.load(&row[i]), own);
            let before = row[..i].iter().zip(&b[..i]).zip(&mut out[..i]);
            for ((entry, b), out) in before {
                let entry = simd.load(entry);
                sum = simd.mul_add(entry, simd.load(b), sum);
                simd.store(simd.mul_add(entry, own, simd.load(out)), out);
            }
            simd.store(sum, &mut out[i]);
        }
    }
}

struct SolveLower<'a> {
    l: &'a [F64x8],
    b: &'a mut [F64x8],
    square: &'a mut F64x8,
}

impl Kernel for SolveLower<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { l, b, square } = self;
        let mut total = simd.splat(0.0);
        for i in 0..b.len() {
            let row = &l[packed_len(i)..=packed_len(i) + i];
            let (known, unknown) = b.split_at_mut(i);
            let [[sum]] = dots::<S, 1, 1>(simd, [&row[..i]], [known], i);
            let x = simd.mul(simd.sub(simd.load(&unknown[0]), sum), simd.load(&row[i]));
            simd.store(x, &mut unknown[0]);
            total = simd.mul_add(x, x, total);
        }
        simd.store(total, square);
    }
}

/// Runs `$body` with `$rows`, `$tile` as the numbers of rows of a tile and of columns: all of them, or in the last
/// rows fewer.
macro_rules! for_each_block {
    ($simd:ident, $dim:ident, |$first:ident| $call:ident($($arg:expr),*)) => {
        if S::TILE == 4 {
            let mut $first = 0;
            while $first < $dim {
                match $dim - $first {
                    1 => $call::<S, _, 1, 4>($simd, $($arg),*),
                    2 => $call::<S, _, 2, 4>($simd, $($arg),*),
                    3 => $call::<S, _, 3, 4>($simd, $($arg),*),
                    _ => $call::<S, _, 4, 4>($simd, $($arg),*),
                }
                $first += 4;
            }
        } else {
            let mut $first = 0;
            while $first < $dim {
                match $dim - $first {
                    1 => $call::<S, _, 1, 2>($simd, $($arg),*),
                    _ => $call::<S, _, 2, 2>($simd, $($arg),*),
                }
                $first += 2;
            }
        }
    };
}

/// ln det of a product of pivots.
struct LogDet<S: Simd> {
    mantissa: S::V,
    exponent: S::V,
}

/// A = LLᵀ: writes L into `a`, with reciprocals on its diagonal, and returns ln det A.
#[inline(always)]
pub(super) fn factor_from<S: Simd>(
    simd: S,
    a: &mut [F64x8],
    dim: usize,
    entries: impl Entries,
) -> S::V {
    assert!(entries.allows(dim), "entries of another dimension");
    let a = Packed::new(a, dim);
    let mut log_det = LogDet::<S> { mantissa: simd.splat(1.0), exponent: simd.splat(0.0) };
    // SAFETY: blocks end with the dimension, which was checked.
    unsafe { for_each_block!(simd, dim, |first| factor_rows(a, first, entries, &mut log_det)) };
    log_det.total(simd)
}

/// L⁻¹ from L, in place.
#[inline(always)]
pub(super) fn invert_lower<S: Simd>(simd: S, a: &mut [F64x8], dim: usize) {
    let a = Packed::new(a, dim);
    // SAFETY: blocks end with the dimension.
    unsafe { for_each_block!(simd, dim, |first| invert_rows(a, first, ())) };
}

/// XᵀX from lower triangular X, in place.
#[inline(always)]
pub(super) fn square_into<S: Simd>(simd: S, a: &mut [F64x8], dim: usize, sink: impl Sink) {
    assert!(sink.allows(dim), "a sink of another dimension");
    let a = Packed::new(a, dim);
    // SAFETY: blocks end with the dimension, which was checked.
    unsafe { for_each_block!(simd, dim, |first| square_rows(a, first, sink)) };
}

impl<S: Simd> LogDet<S> {
    #[inline(always)]
    fn add(&mut self, simd: S, pivot: S::V) {
        let (mantissa, exponent) = simd.mantissa_exponent(pivot);
        self.mantissa = simd.mul(self.mantissa, mantissa);
        self.exponent = simd.add(self.exponent, exponent);
    }

    #[inline(always)]
    fn shorten(&mut self, simd: S) {
        let (mantissa, exponent) = simd.mantissa_exponent(self.mantissa);
        self.mantissa = mantissa;
        self.exponent = simd.add(self.exponent, exponent);
    }

    #[inline(always)]
    fn total(mut self, simd: S) -> S::V {
        self.shorten(simd);
        let rest = simd.ln_1p(simd.sub(self.mantissa, simd.splat(1.0)));
        simd.mul_add(self.exponent, simd.splat(std::f64::consts::LN_2), rest)
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

/// Rows `first`, … of L.
///
/// # Safety
/// first + R ≤ dim; first is a multiple of T.
#[inline(always)]
unsafe fn factor_rows<S: Simd, E: Entries, const R: usize, const T: usize>(
    simd: S,
    a: Packed,
    first: usize,
    entries: E,
    log_det: &mut LogDet<S>,
) {
    let (zero, one) = (simd.splat(0.0), simd.splat(1.0));
    // SAFETY of all entries: rows are below first + R, columns at most at the row.
    unsafe {
        let mut column = 0;
        while column < first {
            let mut sums = [[zero; T]; R];
            for k in 0..column {
                let mut b = [zero; T];
                for c in 0..T {
                    b[c] = a.get(simd, column + c, k);
                }
                for r in 0..R {
                    let l = a.get(simd, first + r, k);
                    for c in 0..T {
                        sums[r][c] = simd.mul_add(l, b[c], sums[r][c]);
                    }
                }
            }
            let mut solved = [[zero; T]; R];
            for c in 0..T {
                for r in 0..R {
                    let entry = entries.entry(simd, a, first + r, column + c);
                    solved[r][c] = simd.sub(entry, sums[r][c]);
                }
            }
            for c in 0..T {
                for m in 0..c {
                    let other = a.get(simd, column + c, column + m);
                    for r in 0..R {
                        solved[r][c] = simd.sub_mul(solved[r][m], other, solved[r][c]);
                    }
                }
                let own = a.get(simd, column + c, column + c);
                for r in 0..R {
                    solved[r][c] = simd.mul(solved[r][c], own);
                }
            }
            for r in 0..R {
                for c in 0..T {
                    a.set(simd, first + r, column + c, solved[r][c]);
                }
            }
            column += T;
        }
        let mut sums = [[zero; R]; R];
        for k in 0..first {
            let mut b = [zero; R];
            for r in 0..R {
                b[r] = a.get(simd, first + r, k);
            }
            for r in 0..R {
                for c in 0..=r {
                    sums[r][c] = simd.mul_add(b[r], b[c], sums[r][c]);
                }
            }
        }
        let mut own = [[zero; R]; R];
        for c in 0..R {
            for r in c..R {
                let entry = entries.entry(simd, a, first + r, first + c);
                let mut rest = simd.sub(entry, sums[r][c]);
                for m in 0..c {
                    rest = simd.sub_mul(own[r][m], own[c][m], rest);
                }
                if r == c {
                    let floor = simd.splat(LEAST);
                    let least = simd.mul(entry, simd.splat(LEAST_PIVOT));
                    let least = simd.where_greater(least, floor, least, floor);
                    let pivot = simd.where_greater(rest, least, rest, least);
                    log_det.add(simd, pivot);
                    own[c][c] = simd.div(one, simd.root(pivot));
                } else {
                    own[r][c] = simd.mul(rest, own[c][c]);
                }
            }
        }
        for r in 0..R {
            for c in 0..=r {
                a.set(simd, first + r, first + c, own[r][c]);
            }
        }
    }
    if first.is_multiple_of(MANTISSAS) {
        log_det.shorten(simd);
    }
}

/// Rows `first`, … of L⁻¹: x_ij = −x_ii Σ_{j ≤ k < i} l_ik x_kj.
///
/// # Safety
/// first + R ≤ dim; first is a multiple of T.
#[inline(always)]
unsafe fn invert_rows<S: Simd, U, const R: usize, const T: usize>(
    simd: S,
    a: Packed,
    first: usize,
    _: U,
) {
    let zero = simd.splat(0.0);
    // SAFETY of all entries: rows are below first + R, columns at most at the row.
    unsafe {
        // The inverse of the block on the diagonal.
        let mut own = [[zero; R]; R];
        for r in 0..R {
            own[r][r] = a.get(simd, first + r, first + r);
            for c in 0..r {
                let mut sum = zero;
                for k in c..r {
                    sum = simd.mul_add(a.get(simd, first + r, first + k), own[k][c], sum);
                }
                own[r][c] = simd.sub(zero, simd.mul(own[r][r], sum));
            }
        }
        let mut column = 0;
        while column < first {
            let mut sums = [[zero; T]; R];
            // The first rows end within these columns.
            for m in 0..T {
                for r in 0..R {
                    let l = a.get(simd, first + r, column + m);
                    for c in 0..=m {
                        let x = a.get(simd, column + m, column + c);
                        sums[r][c] = simd.mul_add(l, x, sums[r][c]);
                    }
                }
            }
            for k in column + T..first {
                let mut b = [zero; T];
                for c in 0..T {
                    b[c] = a.get(simd, k, column + c);
                }
                for r in 0..R {
                    let l = a.get(simd, first + r, k);
                    for c in 0..T {
                        sums[r][c] = simd.mul_add(l, b[c], sums[r][c]);
                    }
                }
            }
            for r in 0..R {
                for c in 0..T {
                    let mut value = zero;
                    for s in 0..=r {
                        value = simd.sub_mul(own[r][s], sums[s][c], value);
                    }
                    a.set(simd, first + r, column + c, value);
                }
            }
            column += T;
        }
        for r in 0..R {
            for c in 0..=r {
                a.set(simd, first + r, first + c, own[r][c]);
            }
        }
    }
}

/// Rows `first`, … of XᵀX: entry (i, j) needs rows of X from i on, which are still there.
///
/// # Safety
/// first + R ≤ dim; first is a multiple of T.
#[inline(always)]
unsafe fn square_rows<S: Simd, K: Sink, const R: usize, const T: usize>(
    simd: S,
    a: Packed,
    first: usize,
    sink: K,
) {
    let zero = simd.splat(0.0);
    // SAFETY of all entries: rows are below dim, columns at most at the row.
    unsafe {
        let mut column = 0;
        while column < first {
            let mut sums = [[zero; T]; R];
            for m in 0..R {
                for c in 0..T {
                    let y = a.get(simd, first + m, column + c);
                    for r in 0..=m {
                        let x = a.get(simd, first + m, first + r);
                        sums[r][c] = simd.mul_add(x, y, sums[r][c]);
                    }
                }
            }
            for k in first + R..a.dim {
                let mut b = [zero; T];
                for c in 0..T {
                    b[c] = a.get(simd, k, column + c);
                }
                for r in 0..R {
                    let x = a.get(simd, k, first + r);
                    for c in 0..T {
                        sums[r][c] = simd.mul_add(x, b[c], sums[r][c]);
                    }
                }
            }
            for r in 0..R {
                for c in 0..T {
                    let value = sink.keep(simd, first + r, column + c, sums[r][c]);
                    a.set(simd, first + r, column + c, value);
                }
            }
            column += T;
        }
        let mut sums = [[zero; R]; R];
        for m in 0..R {
            for r in 0..=m {
                let x = a.get(simd, first + m, first + r);
                for c in 0..=r {
                    sums[r][c] = simd.mul_add(x, a.get(simd, first + m, first + c), sums[r][c]);
                }
            }
        }
        for k in first + R..a.dim {
            for r in 0..R {
                let x = a.get(simd, k, first + r);
                for c in 0..=r {
                    sums[r][c] = simd.mul_add(x, a.get(simd, k, first + c), sums[r][c]);
                }
            }
        }
        for r in 0..R {
            for c in 0..=r {
                let value = sink.keep(simd, first + r, first + c, sums[r][c]);
                a.set(simd, first + r, first + c, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::Symmetric;
    use crate::population::lanes::{LANES, ZERO, each};

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
