//! One kernel, compiled for every width of vectors that a machine may have.
//!
//! Kernels neither fuse products with sums nor reorder sums by what the machine has, so results
//! are the same bits everywhere.

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
