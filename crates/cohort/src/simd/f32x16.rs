//! Sixteen f32 at once, for searches that only propose candidates: the same tokens as for f64.

use super::Portable;

/// Lanes of an [`F32x16`].
pub const LANES_F32: usize = 16;

/// Sixteen f32, one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct F32x16(pub [f32; LANES_F32]);

impl F32x16 {
    /// The same number in all lanes.
    #[inline(always)]
    pub const fn splat(value: f32) -> Self {
        Self([value; LANES_F32])
    }
}

/// Arithmetic on sixteen f32. A product may or may not be rounded before it is added: callers allow
/// for either.
pub(crate) trait SimdF32: Copy {
    /// Sixteen f32 in registers.
    type W: Copy;

    /// How many such vectors the registers hold, roughly.
    const REGISTERS: usize;

    fn load_f32(self, lanes: &F32x16) -> Self::W;
    fn store_f32(self, value: Self::W, lanes: &mut F32x16);
    fn splat_f32(self, value: f32) -> Self::W;
    fn add_f32(self, a: Self::W, b: Self::W) -> Self::W;
    fn sub_f32(self, a: Self::W, b: Self::W) -> Self::W;
    fn max_f32(self, a: Self::W, b: Self::W) -> Self::W;
    /// a·b + c.
    fn mul_add_f32(self, a: Self::W, b: Self::W, c: Self::W) -> Self::W;
    /// c − a·b.
    fn sub_mul_f32(self, a: Self::W, b: Self::W, c: Self::W) -> Self::W;
    /// One bit a lane: 1 unless v > limit.
    fn not_above_f32(self, v: Self::W, limit: Self::W) -> u16;
}

impl<const FUSED: bool> SimdF32 for Portable<FUSED> {
    type W = [f32; LANES_F32];
    const REGISTERS: usize = 4;

    #[inline(always)]
    fn load_f32(self, lanes: &F32x16) -> Self::W {
        lanes.0
    }

    #[inline(always)]
    fn store_f32(self, value: Self::W, lanes: &mut F32x16) {
        lanes.0 = value;
    }

    #[inline(always)]
    fn splat_f32(self, value: f32) -> Self::W {
        [value; LANES_F32]
    }

    #[inline(always)]
    fn add_f32(self, a: Self::W, b: Self::W) -> Self::W {
        std::array::from_fn(|l| a[l] + b[l])
    }

    #[inline(always)]
    fn sub_f32(self, a: Self::W, b: Self::W) -> Self::W {
        std::array::from_fn(|l| a[l] - b[l])
    }

    #[inline(always)]
    fn max_f32(self, a: Self::W, b: Self::W) -> Self::W {
        std::array::from_fn(|l| if a[l] > b[l] { a[l] } else { b[l] })
    }

    #[inline(always)]
    fn mul_add_f32(self, a: Self::W, b: Self::W, c: Self::W) -> Self::W {
        std::array::from_fn(|l| a[l] * b[l] + c[l])
    }

    #[inline(always)]
    fn sub_mul_f32(self, a: Self::W, b: Self::W, c: Self::W) -> Self::W {
        std::array::from_fn(|l| c[l] - a[l] * b[l])
    }

    #[inline(always)]
    fn not_above_f32(self, v: Self::W, limit: Self::W) -> u16 {
        let above: Self::W = std::array::from_fn(|l| f32::from(u8::from(v[l] > limit[l])));
        (0..LANES_F32).fold(0, |mask, l| mask | u16::from(above[l] == 0.0) << l)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::super::avx2::Avx2;
    use super::super::avx512::Avx512;
    use super::{F32x16, SimdF32};

    impl SimdF32 for Avx512 {
        type W = __m512;
        const REGISTERS: usize = 32;

        #[inline(always)]
        fn load_f32(self, lanes: &F32x16) -> Self::W {
            intrinsics!(_mm512_load_ps(lanes.0.as_ptr()))
        }

        #[inline(always)]
        fn store_f32(self, value: Self::W, lanes: &mut F32x16) {
            intrinsics!(_mm512_store_ps(lanes.0.as_mut_ptr(), value))
        }

        #[inline(always)]
        fn splat_f32(self, value: f32) -> Self::W {
            intrinsics!(_mm512_set1_ps(value))
        }

        #[inline(always)]
        fn add_f32(self, a: Self::W, b: Self::W) -> Self::W {
            intrinsics!(_mm512_add_ps(a, b))
        }

        #[inline(always)]
        fn sub_f32(self, a: Self::W, b: Self::W) -> Self::W {
            intrinsics!(_mm512_sub_ps(a, b))
        }

        #[inline(always)]
        fn max_f32(self, a: Self::W, b: Self::W) -> Self::W {
            intrinsics!(_mm512_max_ps(a, b))
        }

        #[inline(always)]
        fn mul_add_f32(self, a: Self::W, b: Self::W, c: Self::W) -> Self::W {
            intrinsics!(_mm512_fmadd_ps(a, b, c))
        }

        #[inline(always)]
        fn sub_mul_f32(self, a: Self::W, b: Self::W, c: Self::W) -> Self::W {
            intrinsics!(_mm512_fnmadd_ps(a, b, c))
        }

        #[inline(always)]
        fn not_above_f32(self, v: Self::W, limit: Self::W) -> u16 {
            intrinsics!(_mm512_cmp_ps_mask::<_CMP_NGT_UQ>(v, limit))
        }
    }

    impl SimdF32 for Avx2 {
        type W = [__m256; 2];
        const REGISTERS: usize = 8;

        #[inline(always)]
        fn load_f32(self, lanes: &F32x16) -> Self::W {
            let (low, high) = lanes.0.split_at(8);
            intrinsics!([_mm256_load_ps(low.as_ptr()), _mm256_load_ps(high.as_ptr())])
        }

        #[inline(always)]
        fn store_f32(self, value: Self::W, lanes: &mut F32x16) {
            let (low, high) = lanes.0.split_at_mut(8);
            intrinsics!({
                _mm256_store_ps(low.as_mut_ptr(), value[0]);
                _mm256_store_ps(high.as_mut_ptr(), value[1]);
            })
        }

        #[inline(always)]
        fn splat_f32(self, value: f32) -> Self::W {
            intrinsics!([_mm256_set1_ps(value); 2])
        }

        #[inline(always)]
        fn add_f32(self, a: Self::W, b: Self::W) -> Self::W {
            intrinsics!([_mm256_add_ps(a[0], b[0]), _mm256_add_ps(a[1], b[1])])
        }

        #[inline(always)]
        fn sub_f32(self, a: Self::W, b: Self::W) -> Self::W {
            intrinsics!([_mm256_sub_ps(a[0], b[0]), _mm256_sub_ps(a[1], b[1])])
        }

        #[inline(always)]
        fn max_f32(self, a: Self::W, b: Self::W) -> Self::W {
            intrinsics!([_mm256_max_ps(a[0], b[0]), _mm256_max_ps(a[1], b[1])])
        }

        #[inline(always)]
        fn mul_add_f32(self, a: Self::W, b: Self::W, c: Self::W) -> Self::W {
            intrinsics!([_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1])])
        }

        #[inline(always)]
        fn sub_mul_f32(self, a: Self::W, b: Self::W, c: Self::W) -> Self::W {
            intrinsics!([_mm256_fnmadd_ps(a[0], b[0], c[0]), _mm256_fnmadd_ps(a[1], b[1], c[1])])
        }

        #[inline(always)]
        fn not_above_f32(self, v: Self::W, limit: Self::W) -> u16 {
            intrinsics!({
                let low = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NGT_UQ>(v[0], limit[0]));
                let high = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NGT_UQ>(v[1], limit[1]));
                (low | high << 8) as u16
            })
        }
    }
}
