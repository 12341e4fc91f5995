//! Eight users at once: every number of a block is one value per user.

pub use crate::simd::{F64x8, LANES};

/// Zero in all lanes.
pub const ZERO: F64x8 = F64x8::splat(0.0);

/// a + b·c with one c for all users.
#[inline(always)]
pub fn add_scaled(a: &mut F64x8, b: &F64x8, c: f64) {
    for lane in 0..LANES {
        a[lane] += b[lane] * c;
    }
}

/// f of every user's number.
#[inline(always)]
pub fn each(f: impl Fn(usize) -> f64) -> F64x8 {
    F64x8(std::array::from_fn(f))
}
