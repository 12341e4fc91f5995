//! Eight users at once: every number of a block is one value per user.

pub use crate::simd::{LANES, Lane};

/// Zero for everybody.
pub const ZERO: Lane = Lane::splat(0.0);

/// a + b·c, user by user.
#[inline(always)]
pub fn add_product(a: &mut Lane, b: &Lane, c: &Lane) {
    for lane in 0..LANES {
        a[lane] += b[lane] * c[lane];
    }
}

/// a + b·c with one c for all users.
#[inline(always)]
pub fn add_scaled(a: &mut Lane, b: &Lane, c: f64) {
    for lane in 0..LANES {
        a[lane] += b[lane] * c;
    }
}

/// f of every user's number.
#[inline(always)]
pub fn each(f: impl Fn(usize) -> f64) -> Lane {
    Lane(std::array::from_fn(f))
}
