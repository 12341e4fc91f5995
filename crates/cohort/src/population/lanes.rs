//! Eight users at once: every number of a block is an array of one value per user, so that the
//! algebra of a refit is straight loops that the compiler turns into vector code.
//!
//! No operation reorders another's sum, so results are the same bits whatever the machine has.

/// Users per block: eight f64 fill a 512-bit register.
pub const LANES: usize = 8;

/// One number for each user of a block.
pub type Lane = [f64; LANES];

/// The same number for everybody.
pub const ZERO: Lane = [0.0; LANES];

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
    std::array::from_fn(f)
}
