//! Sixteen f32 at once, on each kind of processor.

/// Sixteen numbers that lie side by side in one cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(in super::super) struct Lanes(pub [f32; 16]);

impl Lanes {
    /// The same number in all lanes.
    pub const fn all(value: f32) -> Self {
        Self([value; 16])
    }
}

/// Arithmetic on sixteen lanes. A product may or may not be rounded before it is added: whoever
/// uses it allows for either.
///
/// # Safety
/// Every function may be called only where the processor has the instructions that the
/// implementation is named after.
pub(in super::super) trait Vector: Copy {
    /// How many such vectors the registers hold, roughly.
    const REGISTERS: usize;

    unsafe fn load(lanes: &Lanes) -> Self;
    unsafe fn store(self, lanes: &mut Lanes);
    unsafe fn splat(value: f32) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    unsafe fn max(self, other: Self) -> Self;
    /// self + a·b
    unsafe fn plus_product(self, a: Self, b: Self) -> Self;
    /// self − a·b
    unsafe fn minus_product(self, a: Self, b: Self) -> Self;
    /// One bit a lane: 1 unless self > limit.
    unsafe fn not_above(self, limit: Self) -> u16;
}

/// Any processor.
#[derive(Clone, Copy)]
pub(super) struct Portable(Lanes);

impl Portable {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Self(Lanes(std::array::from_fn(|l| f(self.0.0[l], other.0.0[l]))))
    }
}

impl Vector for Portable {
    const REGISTERS: usize = 4;

    #[inline(always)]
    unsafe fn load(lanes: &Lanes) -> Self {
        Self(*lanes)
    }

    #[inline(always)]
    unsafe fn store(self, lanes: &mut Lanes) {
        *lanes = self.0;
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self(Lanes::all(value))
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }

    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        self.zip(other, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    unsafe fn plus_product(self, a: Self, b: Self) -> Self {
        self.zip(a.zip(b, |a, b| a * b), |sum, product| sum + product)
    }

    #[inline(always)]
    unsafe fn minus_product(self, a: Self, b: Self) -> Self {
        self.zip(a.zip(b, |a, b| a * b), |sum, product| sum - product)
    }

    #[inline(always)]
    unsafe fn not_above(self, limit: Self) -> u16 {
        let above = self.zip(limit, |a, limit| f32::from(u8::from(a > limit)));
        (0..16).fold(0, |mask, l| mask | u16::from(above.0.0[l] == 0.0) << l)
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Lanes, Vector};
    use std::arch::x86_64::*;

    /// AVX-512: one register.
    #[derive(Clone, Copy)]
    pub struct Avx512(__m512);

    // SAFETY (all blocks below): the caller vouches for the processor; `Lanes` is as long and as
    // aligned as the loads and stores need.
    impl Vector for Avx512 {
        const REGISTERS: usize = 32;

        #[inline(always)]
        unsafe fn load(lanes: &Lanes) -> Self {
            unsafe { Self(_mm512_load_ps(lanes.0.as_ptr())) }
        }

        #[inline(always)]
        unsafe fn store(self, lanes: &mut Lanes) {
            unsafe { _mm512_store_ps(lanes.0.as_mut_ptr(), self.0) }
        }

        #[inline(always)]
        unsafe fn splat(value: f32) -> Self {
            unsafe { Self(_mm512_set1_ps(value)) }
        }

        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            unsafe { Self(_mm512_add_ps(self.0, other.0)) }
        }

        #[inline(always)]
        unsafe fn sub(self, other: Self) -> Self {
            unsafe { Self(_mm512_sub_ps(self.0, other.0)) }
        }

        #[inline(always)]
        unsafe fn max(self, other: Self) -> Self {
            unsafe { Self(_mm512_max_ps(self.0, other.0)) }
        }

        #[inline(always)]
        unsafe fn plus_product(self, a: Self, b: Self) -> Self {
            unsafe { Self(_mm512_fmadd_ps(a.0, b.0, self.0)) }
        }

        #[inline(always)]
        unsafe fn minus_product(self, a: Self, b: Self) -> Self {
            unsafe { Self(_mm512_fnmadd_ps(a.0, b.0, self.0)) }
        }

        #[inline(always)]
        unsafe fn not_above(self, limit: Self) -> u16 {
            unsafe { _mm512_cmp_ps_mask::<_CMP_NGT_UQ>(self.0, limit.0) }
        }
    }

    /// AVX2 with FMA: two registers.
    #[derive(Clone, Copy)]
    pub struct Avx2(__m256, __m256);

    impl Vector for Avx2 {
        const REGISTERS: usize = 8;

        #[inline(always)]
        unsafe fn load(lanes: &Lanes) -> Self {
            let at = lanes.0.as_ptr();
            unsafe { Self(_mm256_load_ps(at), _mm256_load_ps(at.add(8))) }
        }

        #[inline(always)]
        unsafe fn store(self, lanes: &mut Lanes) {
            let at = lanes.0.as_mut_ptr();
            unsafe {
                _mm256_store_ps(at, self.0);
                _mm256_store_ps(at.add(8), self.1);
            }
        }

        #[inline(always)]
        unsafe fn splat(value: f32) -> Self {
            unsafe { Self(_mm256_set1_ps(value), _mm256_set1_ps(value)) }
        }

        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            unsafe { Self(_mm256_add_ps(self.0, other.0), _mm256_add_ps(self.1, other.1)) }
        }

        #[inline(always)]
        unsafe fn sub(self, other: Self) -> Self {
            unsafe { Self(_mm256_sub_ps(self.0, other.0), _mm256_sub_ps(self.1, other.1)) }
        }

        #[inline(always)]
        unsafe fn max(self, other: Self) -> Self {
            unsafe { Self(_mm256_max_ps(self.0, other.0), _mm256_max_ps(self.1, other.1)) }
        }

        #[inline(always)]
        unsafe fn plus_product(self, a: Self, b: Self) -> Self {
            unsafe { Self(_mm256_fmadd_ps(a.0, b.0, self.0), _mm256_fmadd_ps(a.1, b.1, self.1)) }
        }

        #[inline(always)]
        unsafe fn minus_product(self, a: Self, b: Self) -> Self {
            unsafe { Self(_mm256_fnmadd_ps(a.0, b.0, self.0), _mm256_fnmadd_ps(a.1, b.1, self.1)) }
        }

        #[inline(always)]
        unsafe fn not_above(self, limit: Self) -> u16 {
            unsafe {
                let low = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NGT_UQ>(self.0, limit.0));
                let high = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NGT_UQ>(self.1, limit.1));
                (low | high << 8) as u16
            }
        }
    }
}
