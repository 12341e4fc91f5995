//! SIMD dispatch: the one place that detects instruction sets.
//!
//! A kernel is written once, over [`Simd`] (eight f64; sixteen f32 by [`SimdF32`]), and compiled
//! for every instruction set; the fastest is detected once. A token, a value of an instruction
//! set's type, exists only where the machine has that set: it proves that its instructions may be
//! used. Loops that the compiler vectorises by itself go through [`vectorized`].
//!
//! AVX-512, AVX2 with FMA, and every target with built-in fused multiply-add (AArch64) give the
//! same bits: each operation rounds once, in the same order. x86-64 without FMA rounds products
//! separately — fused multiply-add in software would be an order of magnitude slower — and so
//! differs in the last digits, never in an arm except for ties.

/// Intrinsics in a method of a token: the token is the proof that the machine has them.
#[cfg(target_arch = "x86_64")]
macro_rules! intrinsics {
    ($body:expr) => {{
        // SAFETY: a value of the token's type exists only where its instructions were detected, and
        // `F64x8` and `F32x16` are 64 bytes aligned to 64, as loads and stores need.
        #[allow(unused_unsafe)]
        unsafe {
            $body
        }
    }};
}

mod f32x16;
mod portable;
mod scratch;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use std::sync::LazyLock;

pub(crate) use f32x16::{F32x16, LANES_F32, SimdF32};
pub use portable::Portable;
pub(crate) use scratch::with_scratch;

/// Eight f64 fill a 512-bit register.
pub const LANES: usize = 8;

/// One number for each of eight users: a register, a cache line.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(64))]
pub struct F64x8(pub [f64; LANES]);

impl F64x8 {
    /// The same number in all lanes.
    #[inline(always)]
    pub const fn splat(value: f64) -> Self {
        Self([value; LANES])
    }
}

impl std::ops::Deref for F64x8 {
    type Target = [f64; LANES];

    #[inline(always)]
    fn deref(&self) -> &[f64; LANES] {
        &self.0
    }
}

impl std::ops::DerefMut for F64x8 {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [f64; LANES] {
        &mut self.0
    }
}

/// The numbers of all lanes, contiguous.
pub(crate) fn flat(lanes: &[F64x8]) -> &[f64] {
    // SAFETY: a `F64x8` is eight f64 in a row (`repr(C)`), without gaps, since 64 bytes is its alignment.
    unsafe { std::slice::from_raw_parts(lanes.as_ptr().cast(), lanes.len() * LANES) }
}

/// The numbers of all lanes, contiguous and mutable.
pub(crate) fn flat_mut(lanes: &mut [F64x8]) -> &mut [f64] {
    // SAFETY: as above; every f64 is a valid part of a `F64x8`.
    unsafe { std::slice::from_raw_parts_mut(lanes.as_mut_ptr().cast(), lanes.len() * LANES) }
}

/// Whether the target has fused multiply-add at compile time.
const FUSED: bool = cfg!(any(target_feature = "fma", target_arch = "aarch64"));

/// The instruction set that a [`Bank`](crate::linear::Bank) uses.
#[derive(Clone, Copy, Debug)]
pub struct InstructionSet(pub(crate) Isa);

/// The instruction sets that can exist on this target.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Isa {
    #[cfg(target_arch = "x86_64")]
    Avx512(avx512::Avx512),
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
    Portable(Portable<FUSED>),
    /// Portable arithmetic with fused multiply-add in software: slow, and the bits that all others
    /// must give.
    #[cfg(test)]
    Reference(Portable<true>),
}

impl InstructionSet {
    /// The instruction sets of this machine, fastest first.
    pub fn available() -> Vec<Self> {
        let mut sets = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            sets.extend(avx512::Avx512::detect().map(|set| Self(Isa::Avx512(set))));
            sets.extend(avx2::Avx2::detect().map(|set| Self(Isa::Avx2(set))));
        }
        sets.push(Self(Isa::Portable(Portable)));
        sets
    }

    /// The fastest instruction set of this machine.
    pub fn best() -> Self {
        Self::available()[0]
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(_) => "AVX-512",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) => "AVX2",
            Isa::Portable(_) => "portable",
            #[cfg(test)]
            Isa::Reference(_) => "reference",
        }
    }

    /// How many arms a kernel scores at once.
    pub(crate) fn arms_at_once(self) -> usize {
        self.run(TileSizes).0
    }

    /// How many blocks a kernel scores at once.
    pub(crate) fn blocks_at_once(self) -> usize {
        self.run(TileSizes).1
    }

    /// Runs a kernel, compiled for this instruction set.
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(set) => set.run(kernel),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(set) => set.run(kernel),
            Isa::Portable(set) => kernel.run(set),
            #[cfg(test)]
            Isa::Reference(set) => kernel.run(set),
        }
    }
}

/// Runs a kernel with the fastest instruction set of this machine.
pub(crate) fn run<K: Kernel>(kernel: K) -> K::Output {
    static BEST: LazyLock<InstructionSet> = LazyLock::new(InstructionSet::best);
    BEST.run(kernel)
}

/// Runs plain code compiled for the widest vectors of this machine: loops that the compiler
/// vectorises by itself. It neither fuses products with sums nor reorders sums, so results are the
/// same bits everywhere.
///
/// The closure must be `#[inline(always)]`, and so must all that it calls.
pub(crate) fn vectorized<R>(work: impl FnOnce() -> R) -> R {
    run(Vectorized(work))
}

struct Vectorized<F>(F);

impl<R, F: FnOnce() -> R> Kernel for Vectorized<F> {
    type Output = R;

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) -> R {
        (self.0)()
    }
}

/// A computation over some instruction set. `run` and all that it calls must be
/// `#[inline(always)]`: only then is it compiled for the instruction set of its caller.
pub(crate) trait Kernel {
    /// The result.
    type Output;
    /// Computes it.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// Kernel that returns the tile sizes of an instruction set.
struct TileSizes;

impl Kernel for TileSizes {
    type Output = (usize, usize);

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) -> Self::Output {
        (S::ARMS, S::BLOCKS)
    }
}

/// Eight rows of the same length within a matrix.
pub(crate) struct GatherRows<'a> {
    values: &'a [f64],
    starts: [i64; LANES],
    len: usize,
}

impl<'a> GatherRows<'a> {
    /// The rows `at` of a matrix with rows of `len` numbers.
    ///
    /// # Panics
    /// If a row does not exist.
    #[inline(always)]
    pub fn new(values: &'a [f64], len: usize, at: [u32; LANES]) -> Self {
        let rows = values.len() / len;
        assert!(at.iter().all(|row| (*row as usize) < rows), "rows {at:?} of {rows}");
        Self { values, starts: at.map(|row| i64::from(row) * len as i64), len }
    }
}

/// Arithmetic on eight f64 at once.
pub(crate) trait Simd: SimdF32 {
    /// Eight f64 in registers.
    type V: Copy;

    /// How many arms a kernel scores at once, and for how many blocks, without running out of
    /// registers: `ARMS · BLOCKS` sums, `BLOCKS` coefficients and one weight.
    const ARMS: usize;
    /// How many blocks a kernel scores at once.
    const BLOCKS: usize;
    /// Rows and columns of a tile of sums in registers: 4 or 2.
    const TILE: usize;

    fn splat(self, value: f64) -> Self::V;
    fn load(self, lane: &F64x8) -> Self::V;
    fn store(self, value: Self::V, lane: &mut F64x8);

    /// Coordinate `k` of eight rows.
    fn gather(self, rows: &GatherRows, k: usize) -> Self::V;

    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    fn div(self, a: Self::V, b: Self::V) -> Self::V;

    /// a·b + c.
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;

    /// c − a·b.
    fn sub_mul(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;

    /// √max(v, 0): rounding can make a square that is nearly zero negative.
    fn root(self, v: Self::V) -> Self::V;

    /// `greater` in the lanes where a > b, `other` elsewhere.
    fn where_greater(self, a: Self::V, b: Self::V, greater: Self::V, other: Self::V) -> Self::V;

    /// Whether 0 ≤ v ≤ limit in every lane; false for NaN.
    fn all_up_to(self, v: Self::V, limit: f64) -> bool;

    /// m ∈ [1, 2) and e with v = m·2^e, for v > 0, normal and finite.
    fn mantissa_exponent(self, v: Self::V) -> (Self::V, Self::V);

    /// v·2^k for whole numbers k from −1022 to 1023.
    fn times_power_of_2(self, v: Self::V, k: Self::V) -> Self::V;

    /// The larger of two, in every lane.
    #[inline(always)]
    fn larger(self, a: Self::V, b: Self::V) -> Self::V {
        self.where_greater(a, b, a, b)
    }

    /// Prefetches a lane. The address need not be valid.
    fn prefetch(self, lane: *const F64x8);

    /// ln(1 + v) for v ≥ 0 and finite, to a few units in the last place.
    ///
    /// 1 + v = m·2^e with m around 1; then ln m = 2 artanh(f/(2 + f)) for f = m − 1, by the
    /// polynomial of fdlibm's `e_log.c`. Where e = 0, f is v itself and nothing was rounded away.
    #[inline(always)]
    fn ln_1p(self, v: Self::V) -> Self::V {
        let one = self.splat(1.0);
        let root_2 = self.splat(std::f64::consts::SQRT_2);
        let grown = self.add(one, v);
        let (m, e) = self.mantissa_around_1(grown);
        let f = self.where_greater(grown, root_2, self.sub(m, one), v);
        self.mul_add(e, self.splat(std::f64::consts::LN_2), self.ln_around_1(f))
    }

    /// m ∈ [√½, √2] and e with v = m·2^e, for v > 0, normal and finite: around 1 rather than from 1
    /// to 2, so that nothing cancels in ln m where v is nearly 1.
    #[inline(always)]
    fn mantissa_around_1(self, v: Self::V) -> (Self::V, Self::V) {
        let (m, e) = self.mantissa_exponent(v);
        let root_2 = self.splat(std::f64::consts::SQRT_2);
        let halved = self.mul(m, self.splat(0.5));
        let raised = self.add(e, self.splat(1.0));
        (self.where_greater(m, root_2, halved, m), self.where_greater(m, root_2, raised, e))
    }

    /// ln(1 + f) for 1 + f from √½ to √2.
    #[inline(always)]
    fn ln_around_1(self, f: Self::V) -> Self::V {
        const COEFFICIENTS: [f64; 7] = [
            1.479_819_860_511_658_6e-1,
            1.531_383_769_920_937_3e-1,
            1.818_357_216_161_805e-1,
            2.222_219_843_214_978_4e-1,
            2.857_142_874_366_239e-1,
            3.999_999_999_940_942e-1,
            6.666_666_666_666_735e-1,
        ];
        let s = self.div(f, self.add(f, self.splat(2.0)));
        let z = self.mul(s, s);
        let mut tail = self.splat(COEFFICIENTS[0]);
        for coefficient in &COEFFICIENTS[1..] {
            tail = self.mul_add(tail, z, self.splat(*coefficient));
        }
        // ln m = 2s + s·z·tail, where 2s = f − s·f.
        self.sub_mul(s, self.sub_mul(z, tail, f), f)
    }

    /// ln v for v > 0, normal and finite, to a few units in the last place.
    #[inline(always)]
    fn ln(self, v: Self::V) -> Self::V {
        let (m, e) = self.mantissa_around_1(v);
        let f = self.sub(m, self.splat(1.0));
        self.mul_add(e, self.splat(std::f64::consts::LN_2), self.ln_around_1(f))
    }

    /// e^v, to a few units in the last place; for v below −700 that of −700, above 700 that of 700.
    ///
    /// v = k ln 2 + r with |r| ≤ ½ ln 2, and e^r by its series.
    #[inline(always)]
    fn exp(self, v: Self::V) -> Self::V {
        /// 1/13!, …, 1/2!
        const COEFFICIENTS: [f64; 12] = [
            1.605_904_383_682_161_5e-10,
            2.087_675_698_786_81e-9,
            2.505_210_838_544_172e-8,
            2.755_731_922_398_589_3e-7,
            2.755_731_922_398_589e-6,
            2.480_158_730_158_73e-5,
            1.984_126_984_126_984e-4,
            1.388_888_888_888_889e-3,
            8.333_333_333_333_333e-3,
            4.166_666_666_666_666_4e-2,
            1.666_666_666_666_666_6e-1,
            0.5,
        ];
        /// ln 2 in two parts, of which the first times a small whole number is exact.
        const LN_2: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];
        let (low, high) = (self.splat(-700.0), self.splat(700.0));
        let v = self.where_greater(v, low, v, low);
        let v = self.where_greater(v, high, high, v);
        // Adding 1.5·2⁵² leaves no bits for fractions.
        let shift = self.splat(6_755_399_441_055_744.0);
        let k = self.sub(self.mul_add(v, self.splat(std::f64::consts::LOG2_E), shift), shift);
        let r = self.sub_mul(k, self.splat(LN_2[0]), v);
        let r = self.sub_mul(k, self.splat(LN_2[1]), r);
        let mut series = self.splat(COEFFICIENTS[0]);
        for coefficient in &COEFFICIENTS[1..] {
            series = self.mul_add(series, r, self.splat(*coefficient));
        }
        let one = self.splat(1.0);
        let tail = self.mul_add(self.mul(r, r), series, r);
        self.times_power_of_2(self.add(one, tail), k)
    }
}
