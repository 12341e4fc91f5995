//! Eight f64 in two registers.

use std::arch::x86_64::*;

use super::{F64x8, GatherRows, Kernel, Simd};

/// Token: proof that the machine has AVX2 and FMA.
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

impl Avx2 {
    /// The token, where the machine has them.
    pub fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(Self(()))
    }

    /// Runs a kernel compiled for AVX2 and FMA.
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx2,fma")]
        fn run<K: Kernel>(simd: Avx2, kernel: K) -> K::Output {
            kernel.run(simd)
        }
        // SAFETY: `self` exists only where AVX2 and FMA were detected.
        unsafe { run(self, kernel) }
    }
}

impl Simd for Avx2 {
    type V = [__m256d; 2];
    // 12 sums, two halves of a coefficient and a weight in 16 registers.
    const ARMS: usize = 6;
    const BLOCKS: usize = 1;
    const TILE: usize = 2;

    #[inline(always)]
    fn splat(self, value: f64) -> Self::V {
        intrinsics!([_mm256_set1_pd(value); 2])
    }

    #[inline(always)]
    fn load(self, lane: &F64x8) -> Self::V {
        let (low, high) = lane.0.split_at(4);
        intrinsics!([_mm256_load_pd(low.as_ptr()), _mm256_load_pd(high.as_ptr())])
    }

    #[inline(always)]
    fn store(self, value: Self::V, lane: &mut F64x8) {
        let (low, high) = lane.0.split_at_mut(4);
        intrinsics!({
            _mm256_store_pd(low.as_mut_ptr(), value[0]);
            _mm256_store_pd(high.as_mut_ptr(), value[1]);
        })
    }

    #[inline(always)]
    fn gather(self, rows: &GatherRows, k: usize) -> Self::V {
        assert!(k < rows.len);
        // SAFETY: every row is whole, and k is inside it.
        unsafe {
            let (low, high) = rows.starts.split_at(4);
            let first = rows.values.as_ptr().add(k);
            [
                _mm256_i64gather_pd::<8>(first, _mm256_loadu_si256(low.as_ptr().cast())),
                _mm256_i64gather_pd::<8>(first, _mm256_loadu_si256(high.as_ptr().cast())),
            ]
        }
    }

    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        intrinsics!([_mm256_add_pd(a[0], b[0]), _mm256_add_pd(a[1], b[1])])
    }

    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        intrinsics!([_mm256_sub_pd(a[0], b[0]), _mm256_sub_pd(a[1], b[1])])
    }

    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        intrinsics!([_mm256_mul_pd(a[0], b[0]), _mm256_mul_pd(a[1], b[1])])
    }

    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        intrinsics!([_mm256_div_pd(a[0], b[0]), _mm256_div_pd(a[1], b[1])])
    }

    #[inline(always)]
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        intrinsics!([_mm256_fmadd_pd(a[0], b[0], c[0]), _mm256_fmadd_pd(a[1], b[1], c[1])])
    }

    #[inline(always)]
    fn sub_mul(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        intrinsics!([_mm256_fnmadd_pd(a[0], b[0], c[0]), _mm256_fnmadd_pd(a[1], b[1], c[1])])
    }

    #[inline(always)]
    fn root(self, v: Self::V) -> Self::V {
        intrinsics!({
            let zero = _mm256_setzero_pd();
            [_mm256_sqrt_pd(_mm256_max_pd(v[0], zero)), _mm256_sqrt_pd(_mm256_max_pd(v[1], zero))]
        })
    }

    #[inline(always)]
    fn where_greater(self, a: Self::V, b: Self::V, greater: Self::V, other: Self::V) -> Self::V {
        intrinsics!({
            [
                _mm256_blendv_pd(other[0], greater[0], _mm256_cmp_pd::<_CMP_GT_OQ>(a[0], b[0])),
                _mm256_blendv_pd(other[1], greater[1], _mm256_cmp_pd::<_CMP_GT_OQ>(a[1], b[1])),
            ]
        })
    }

    #[inline(always)]
    fn all_up_to(self, v: Self::V, limit: f64) -> bool {
        intrinsics!({
            let (zero, limit) = (_mm256_setzero_pd(), _mm256_set1_pd(limit));
            let mut all = _mm256_cmp_pd::<_CMP_GE_OQ>(v[0], zero);
            all = _mm256_and_pd(all, _mm256_cmp_pd::<_CMP_GE_OQ>(v[1], zero));
            all = _mm256_and_pd(all, _mm256_cmp_pd::<_CMP_LE_OQ>(v[0], limit));
            all = _mm256_and_pd(all, _mm256_cmp_pd::<_CMP_LE_OQ>(v[1], limit));
            _mm256_movemask_pd(all) == 0xf
        })
    }

    #[inline(always)]
    fn mantissa_exponent(self, v: Self::V) -> (Self::V, Self::V) {
        let (low, high) = (split(self, v[0]), split(self, v[1]));
        ([low.0, high.0], [low.1, high.1])
    }

    #[inline(always)]
    fn times_power_of_2(self, v: Self::V, k: Self::V) -> Self::V {
        // A whole number plus 1.5·2⁵² has that number in its low bits; 1023 more is the exponent of a power of 2.
        let shift = self.splat(6_755_399_441_055_744.0 + 1023.0);
        let sums = self.add(k, shift);
        intrinsics!({
            let power = |sum: __m256d| {
                _mm256_castsi256_pd(_mm256_slli_epi64::<52>(_mm256_castpd_si256(sum)))
            };
            [_mm256_mul_pd(v[0], power(sums[0])), _mm256_mul_pd(v[1], power(sums[1]))]
        })
    }

    #[inline(always)]
    fn prefetch(self, lane: *const F64x8) {
        intrinsics!(_mm_prefetch::<_MM_HINT_T0>(lane.cast()))
    }
}

/// The mantissa and the exponent of four numbers, by their bits.
#[inline(always)]
fn split(_proof: Avx2, v: __m256d) -> (__m256d, __m256d) {
    intrinsics!({
        let bits = _mm256_castpd_si256(v);
        let one = _mm256_castpd_si256(_mm256_set1_pd(1.0));
        let mantissa = _mm256_and_si256(bits, _mm256_set1_epi64x((1 << 52) - 1));
        // An integer below 2⁵² in the low bits of 2⁵² is 2⁵² plus that integer.
        let shift = _mm256_set1_pd((1u64 << 52) as f64);
        let exponent = _mm256_or_si256(_mm256_srli_epi64::<52>(bits), _mm256_castpd_si256(shift));
        let exponent = _mm256_sub_pd(_mm256_castsi256_pd(exponent), shift);
        (
            _mm256_castsi256_pd(_mm256_or_si256(mantissa, one)),
            _mm256_sub_pd(exponent, _mm256_set1_pd(1023.0)),
        )
    })
}
