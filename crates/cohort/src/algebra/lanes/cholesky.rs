//! Inverses of eight matrices at once: all three steps, A = LLᵀ, L⁻¹ and L⁻ᵀL⁻¹, work in place on tiles of `T` × `T` lanes
//! that stay in registers. Where a matrix comes from and where its inverse goes may be fused into the first and the last
//! step ([`Entries`], [`Sink`]).

use std::marker::PhantomData;

use crate::algebra::packed_len;
use crate::simd::{F64x8, Simd};

/// Pivots below this fraction of their diagonal entry are rounding errors, and are replaced by it.
const LEAST_PIVOT: f64 = 1e-14;
/// No pivot is smaller.
const LEAST: f64 = 1e-300;
/// Rows after which the mantissas of pivots, each below 2, are multiplied no further.
const MANTISSAS: usize = 512;

/// Where the entries of a matrix come from.
///
/// # Safety
/// An implementation may rely on j ≤ i < dim, and must allow any such i and j where [`Entries::allows`] says so.
pub(crate) unsafe trait Entries: Copy {
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
pub(crate) unsafe trait Sink: Copy {
    /// Whether entries of matrices of this dimension can be kept.
    fn allows(&self, dim: usize) -> bool;

    /// The value stored for entry (i, j).
    ///
    /// # Safety
    /// j ≤ i < dim, for a dimension that is allowed.
    unsafe fn keep<S: Simd>(&self, simd: S, i: usize, j: usize, value: S::V) -> S::V;
}

/// Packed matrices that are at least so large: kernels check once and not at every entry, which costs more than
/// the arithmetic where matrices are small.
#[derive(Clone, Copy)]
pub(crate) struct Packed<'a> {
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

/// The matrix is factored in place, and its inverse is stored unchanged.
#[derive(Clone, Copy)]
pub(crate) struct InPlace;

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
pub(crate) fn factor_from<S: Simd>(
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
pub(crate) fn invert_lower<S: Simd>(simd: S, a: &mut [F64x8], dim: usize) {
    let a = Packed::new(a, dim);
    // SAFETY: blocks end with the dimension.
    unsafe { for_each_block!(simd, dim, |first| invert_rows(a, first, ())) };
}

/// XᵀX from lower triangular X, in place.
#[inline(always)]
pub(crate) fn square_into<S: Simd>(simd: S, a: &mut [F64x8], dim: usize, sink: impl Sink) {
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
    // SAFETY: of all entries, rows are below first + R, columns at most at the row.
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
    // SAFETY: of all entries, rows are below first + R, columns at most at the row.
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
    // SAFETY: of all entries, rows are below dim, columns at most at the row.
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
