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

/// Compiles a kernel for the widest vectors there are and takes the widest the machine has.
///
/// The kernel must be `#[inline(always)]`, and so must all that it calls.
macro_rules! widest {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) = $kernel:path) => {
        $(#[$doc])*
        $vis fn $name($($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512dq,avx512vl")]
                fn wide($($arg: $type),*) {
                    $kernel($($arg),*)
                }
                #[target_feature(enable = "avx2")]
                fn half_wide($($arg: $type),*) {
                    $kernel($($arg),*)
                }
                if std::arch::is_x86_feature_detected!("avx512f")
                    && std::arch::is_x86_feature_detected!("avx512dq")
                    && std::arch::is_x86_feature_detected!("avx512vl")
                {
                    // SAFETY: the machine has just been asked.
                    return unsafe { wide($($arg),*) };
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: the machine has just been asked.
                    return unsafe { half_wide($($arg),*) };
                }
            }
            $kernel($($arg),*)
        }
    };
}
