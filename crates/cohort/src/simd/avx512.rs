//! Eight f64 in one register.

use std::arch::x86_64::*;

use super::{F64x8, GatherRows, Kernel, Simd};

/// Token: proof that the machine has AVX-512F, DQ and VL.
#[derive(Clone, Copy, Debug)]
pub struct Avx512(());

impl Avx512 {
    /// The token, where the machine has them.
    pub fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl"))
        .then_some(Self(()))
    }

    /// Runs a kernel compiled for AVX-512F, DQ and VL.
    pub fn run<K: Kernel>(self, kernel: K) -> K::Output {
        #[target_feature(enable = "avx512f,avx512dq,avx512vl")]
        fn run<K: Kernel>(simd: Avx512, kernel: K) -> K::Output {
            kernel.run(simd)
        }
        // SAFETY: `self` exists only where these instruction sets were detected.
        unsafe { run(self, kernel) }
    }
}

impl Simd for Avx512 {
    type V = __m512d;
    // 26 sums, two coefficients and a weight in 32 registers.
    const ARMS: usize = 13;
    const BLOCKS: usize = 2;
    const TILE: usize = 4;

    #[inline(always)]
    fn splat(self, value: f64) -> Self::V {
        intrinsics!(_mm512_set1_pd(value))
    }

    #[inline(always)]
    fn load(self, lane: &F64x8) -> Self::V {
        intrinsics!(_mm512_load_pd(lane.0.as_ptr()))
    }

    #[inline(always)]
    fn store(self, value: Self::V, lane: &mut F64x8) {
        intrinsics!(_mm512_store_pd(lane.0.as_mut_ptr(), value))
    }

    #[inline(always)]
    fn gather(self, rows: &GatherRows, k: usize) -> Self::V {
        assert!(k < rows.len);
        // SAFETY: every row is whole, and k is inside it.
        unsafe {
            let starts = _mm512_loadu_epi64(rows.starts.as_ptr());
            _mm512_i64gather_pd::<8>(starts, rows.values.as_ptr().add(k))
        }
    }

    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        intrinsics!(_mm512_add_pd(a, b))
    }

    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        intrinsics!(_mm512_sub_pd(a, b))
    }

    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        intrinsics!(_mm512_mul_pd(a, b))
    }

    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        intrinsics!(_mm512_div_pd(a, b))
    }

    #[inline(always)]
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        intrinsics!(_mm512_fmadd_pd(a, b, c))
    }

    #[inline(always)]
    fn sub_mul(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        intrinsics!(_mm512_fnmadd_pd(a, b, c))
    }

    #[inline(always)]
    fn root(self, v: Self::V) -> Self::V {
        intrinsics!(_mm512_sqrt_pd(_mm512_max_pd(v, _mm512_setzero_pd())))
    }

    #[inline(always)]
    fn where_greater(self, a: Self::V, b: Self::V, greater: Self::V, other: Self::V) -> Self::V {
        intrinsics!(_mm512_mask_blend_pd(_mm512_cmp_pd_mask::<_CMP_GT_OQ>(a, b), other, greater))
    }

    #[inline(always)]
    fn all_up_to(self, v: Self::V, limit: f64) -> bool {
        intrinsics!({
            let low = _mm512_cmp_pd_mask::<_CMP_GE_OQ>(v, _mm512_setzero_pd());
            low & _mm512_cmp_pd_mask::<_CMP_LE_OQ>(v, _mm512_set1_pd(limit)) == 0xff
        })
    }

    #[inline(always)]
    fn mantissa_exponent(self, v: Self::V) -> (Self::V, Self::V) {
        intrinsics!({
            (_mm512_getmant_pd::<_MM_MANT_NORM_1_2, _MM_MANT_SIGN_SRC>(v), _mm512_getexp_pd(v))
        })
    }

    #[inline(always)]
    fn times_power_of_2(self, v: Self::V, k: Self::V) -> Self::V {
        intrinsics!(_mm512_scalef_pd(v, k))
    }

    #[inline(always)]
    fn prefetch(self, lane: *const F64x8) {
        intrinsics!(_mm_prefetch::<_MM_HINT_T0>(lane.cast()))
    }
}
