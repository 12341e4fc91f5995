//! What the kernels ask of a machine: arithmetic on eight f64 at once.
//!
//! A kernel is written once, over [`Simd`], and compiled once for every instruction set; which one
//! runs is found out when a bank is made. A value of an instruction set's type exists only where
//! the machine has it, so that having one is the proof that its instructions may be used.
//!
//! AVX-512, AVX2 with FMA, and every target that has fused multiply-add by itself (AArch64) give
//! the same bits: each operation rounds once, in the same order. x86-64 without FMA rounds
//! products separately — the fused operation in software would be an order of magnitude slower —
//! and so differs in the last digits, never in an arm beyond ties.

mod portable;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use super::layout::{LANES, Lane};
pub use portable::Portable;

/// Whether multiply and add are one operation on this target without asking.
const FUSED: bool = cfg!(any(target_feature = "fma", target_arch = "aarch64"));

/// The instructions that a [`Bank`](super::Bank) uses.
#[derive(Clone, Copy, Debug)]
pub struct InstructionSet(pub(super) Isa);

/// One value for each instruction set that this machine has.
#[derive(Clone, Copy, Debug)]
pub(super) enum Isa {
    #[cfg(target_arch = "x86_64")]
    Avx512(avx512::Avx512),
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
    Portable(Portable<FUSED>),
    /// The portable arithmetic with fused multiply-add in software: slow, and bit by bit what
    /// the others must give.
    #[cfg(test)]
    Reference(Portable<true>),
}

impl InstructionSet {
    /// Those of this machine, fastest first.
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

    /// The fastest.
    pub fn best() -> Self {
        Self::available()[0]
    }

    /// What it is called.
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
    pub(super) fn arms_at_once(self) -> usize {
        self.run(Tile).0
    }

    /// How many blocks a kernel scores at once.
    pub(super) fn blocks_at_once(self) -> usize {
        self.run(Tile).1
    }

    /// Runs a kernel, compiled for this instruction set.
    pub(super) fn run<K: Kernel>(self, kernel: K) -> K::Output {
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

/// A piece of work for some instruction set. `run` and all that it calls must be
/// `#[inline(always)]`: only so is it compiled for the instructions of its caller.
pub(super) trait Kernel {
    /// What comes out.
    type Output;
    /// Does it.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// Asks an instruction set how much it scores at once.
struct Tile;

impl Kernel for Tile {
    type Output = (usize, usize);

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) -> Self::Output {
        (S::ARMS, S::BLOCKS)
    }
}

/// Eight rows of the same length, somewhere among others.
pub(super) struct Rows<'a> {
    values: &'a [f64],
    starts: [i64; LANES],
    len: usize,
}

impl<'a> Rows<'a> {
    /// The rows `at` of a matrix with rows of `len` numbers.
    ///
    /// # Panics
    /// If a row is not there.
    #[inline(always)]
    pub fn new(values: &'a [f64], len: usize, at: [u32; LANES]) -> Self {
        let rows = values.len() / len;
        assert!(at.iter().all(|row| (*row as usize) < rows), "rows {at:?} of {rows}");
        Self { values, starts: at.map(|row| i64::from(row) * len as i64), len }
    }
}

/// Arithmetic on eight f64 at once.
pub(super) trait Simd: Copy {
    /// Eight f64 in registers.
    type V: Copy;

    /// How many arms a kernel scores at once, and for how many blocks, without running out of
    /// registers: `ARMS · BLOCKS` sums, `BLOCKS` coefficients and one weight.
    const ARMS: usize;
    /// How many blocks a kernel scores at once.
    const BLOCKS: usize;

    fn splat(self, value: f64) -> Self::V;
    fn load(self, lane: &Lane) -> Self::V;
    fn store(self, value: Self::V, lane: &mut Lane);

    /// Coordinate `k` of eight rows.
    fn gather(self, rows: &Rows, k: usize) -> Self::V;

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

    /// Whether 0 ≤ v ≤ limit in every lane; a lane that is not a number says no.
    fn all_up_to(self, v: Self::V, limit: f64) -> bool;

    /// m ∈ [1, 2) and e with v = m·2^e, for v ≥ 1 and finite.
    fn mantissa_exponent(self, v: Self::V) -> (Self::V, Self::V);

    /// Tells the machine that a lane will be needed soon. The address need not be valid.
    fn prefetch(self, lane: *const Lane);

    /// ln(1 + v) for v ≥ 0 and finite, to a few units in the last place.
    ///
    /// 1 + v = m·2^e with m around 1; then ln m = 2 artanh(f/(2 + f)) for f = m − 1, by the
    /// polynomial of fdlibm's `e_log.c`. Where e = 0, f is v itself and nothing was rounded away.
    #[inline(always)]
    fn ln_1p(self, v: Self::V) -> Self::V {
        const COEFFICIENTS: [f64; 7] = [
            1.479_819_860_511_658_6e-1,
            1.531_383_769_920_937_3e-1,
            1.818_357_216_161_805e-1,
            2.222_219_843_214_978_4e-1,
            2.857_142_874_366_239e-1,
            3.999_999_999_940_942e-1,
            6.666_666_666_666_735e-1,
        ];
        let one = self.splat(1.0);
        let root_2 = self.splat(std::f64::consts::SQRT_2);
        let grown = self.add(one, v);
        let (m, e) = self.mantissa_exponent(grown);
        let e = self.where_greater(m, root_2, self.add(e, one), e);
        let m = self.where_greater(m, root_2, self.mul(m, self.splat(0.5)), m);
        let f = self.where_greater(grown, root_2, self.sub(m, one), v);
        let s = self.div(f, self.add(f, self.splat(2.0)));
        let z = self.mul(s, s);
        let mut tail = self.splat(COEFFICIENTS[0]);
        for coefficient in &COEFFICIENTS[1..] {
            tail = self.mul_add(tail, z, self.splat(*coefficient));
        }
        // ln m = 2s + s·z·tail, where 2s = f − s·f.
        let ln_m = self.sub_mul(s, self.sub_mul(z, tail, f), f);
        self.mul_add(e, self.splat(std::f64::consts::LN_2), ln_m)
    }
}
