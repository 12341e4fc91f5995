/// Declares a function whose kernel is compiled for the widest vectors of the machine, by
/// [`vectorized`](crate::simd::vectorized). The kernel must be `#[inline(always)]`, and so must all
/// that it calls.
macro_rules! widest {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) = $kernel:path) => {
        $(#[$doc])*
        $vis fn $name($($arg: $type),*) {
            crate::simd::vectorized(#[inline(always)] || $kernel($($arg),*))
        }
    };
}
