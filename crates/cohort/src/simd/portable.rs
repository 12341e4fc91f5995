//! Eight f64 as an array, for any machine; the compiler vectorises it as it can.

use super::{F64x8, GatherRows, LANES, Simd};

/// Plain arithmetic; multiply-add is fused or two operations.
#[derive(Clone, Copy, Debug)]
pub struct Portable<const FUSED: bool>;

impl<const FUSED: bool> Simd for Portable<FUSED> {
    type V = [f64; LANES];
    const ARMS: usize = 4;
    const BLOCKS: usize = 1;
    const TILE: usize = 2;

    #[inline(always)]
    fn splat(self, value: f64) -> Self::V {
        [value; LANES]
    }

    #[inline(always)]
    fn load(self, lane: &F64x8) -> Self::V {
        lane.0
    }

    #[inline(always)]
    fn store(self, value: Self::V, lane: &mut F64x8) {
        lane.0 = value;
    }

    #[inline(always)]
    fn gather(self, rows: &GatherRows, k: usize) -> Self::V {
        rows.starts.map(|start| rows.values[start as usize + k])
    }

    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|l| a[l] + b[l])
    }

    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|l| a[l] - b[l])
    }

    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|l| a[l] * b[l])
    }

    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|l| a[l] / b[l])
    }

    #[inline(always)]
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        if FUSED {
            std::array::from_fn(|l| a[l].mul_add(b[l], c[l]))
        } else {
            std::array::from_fn(|l| a[l] * b[l] + c[l])
        }
    }

    #[inline(always)]
    fn sub_mul(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        if FUSED {
            std::array::from_fn(|l| (-a[l]).mul_add(b[l], c[l]))
        } else {
            std::array::from_fn(|l| c[l] - a[l] * b[l])
        }
    }

    #[inline(always)]
    fn root(self, v: Self::V) -> Self::V {
        std::array::from_fn(|l| v[l].max(0.0).sqrt())
    }

    #[inline(always)]
    fn where_greater(self, a: Self::V, b: Self::V, greater: Self::V, other: Self::V) -> Self::V {
        std::array::from_fn(|l| if a[l] > b[l] { greater[l] } else { other[l] })
    }

    #[inline(always)]
    fn all_up_to(self, v: Self::V, limit: f64) -> bool {
        v.iter().all(|v| (0.0..=limit).contains(v))
    }

    #[inline(always)]
    fn mantissa_exponent(self, v: Self::V) -> (Self::V, Self::V) {
        const MANTISSA: u64 = (1 << 52) - 1;
        let one = 1f64.to_bits();
        (
            std::array::from_fn(|l| f64::from_bits(v[l].to_bits() & MANTISSA | one)),
            std::array::from_fn(|l| (v[l].to_bits() >> 52) as f64 - 1023.0),
        )
    }

    #[inline(always)]
    fn times_power_of_2(self, v: Self::V, k: Self::V) -> Self::V {
        let power = |k: f64| f64::from_bits(((k as i64 + 1023) as u64) << 52);
        std::array::from_fn(|l| v[l] * power(k[l]))
    }

    #[inline(always)]
    fn prefetch(self, _lane: *const F64x8) {}
}
