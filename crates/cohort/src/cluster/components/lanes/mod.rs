//! The inner loops of the search, in single precision, sixteen lanes at a time.
//!
//! | file | question it answers |
//! | --- | --- |
//! | this one | what is a block of lanes, and on which processor does a loop run? |
//! | `loops` | which loops are there? |
//! | `vector` | how does each processor do sixteen numbers at once? |
//!
//! The loops only propose: a pair that they let pass is decided by `Near`, and the limits they are
//! given allow for their rounding. So every processor gives the same components.

mod loops;
mod vector;

pub(super) use loops::{AT_ONCE, MeetAll, NearBox, Shift};
pub(super) use vector::Lanes;

use vector::{Portable, Vector};

/// Lanes in one `Lanes`.
pub(super) const WIDTH: usize = 16;
/// Most `Lanes` in a row of a block.
pub(super) const MOST_VECTORS: usize = 8;
/// Most points in a block.
pub(super) const MOST_POINTS: usize = WIDTH * MOST_VECTORS;

/// A set of the points of a block: bit l is point l.
pub(super) type Mask = u128;

/// One number for each point of a full block.
pub(super) type Row = [Lanes; MOST_VECTORS];

/// The points of a set, in order.
#[inline]
pub(super) fn members(mask: Mask) -> impl Iterator<Item = usize> {
    half_members(mask as u64, 0).chain(half_members((mask >> 64) as u64, 64))
}

#[inline]
fn half_members(mut bits: u64, from: usize) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let first = (bits != 0).then(|| from + bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(first)
    })
}

/// The set of the first `count` points.
pub(super) fn first(count: usize) -> Mask {
    if count == MOST_POINTS { Mask::MAX } else { (1 << count) - 1 }
}

/// The instructions that loops are run with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Processor {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Any,
}

/// A loop that can be run with any kind of vector.
pub(super) trait Loop {
    type Output;

    /// # Safety
    /// The processor must have the instructions that `V` is named after.
    unsafe fn run<V: Vector>(self) -> Self::Output;
}

impl Processor {
    /// Those that this machine has, the best first.
    pub fn available() -> Vec<Self> {
        let mut all = vec![];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                all.push(Self::Avx512);
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                all.push(Self::Avx2);
            }
        }
        all.push(Self::Any);
        all
    }

    pub fn best() -> Self {
        Self::available()[0]
    }

    #[inline]
    pub fn run<L: Loop>(self, work: L) -> L::Output {
        // SAFETY: the only source of Avx512 and Avx2 is `available`, which has asked the processor;
        // plain code runs on any.
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => unsafe { avx512(work) },
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => unsafe { avx2(work) },
            Self::Any => unsafe { work.run::<Portable>() },
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn avx512<L: Loop>(work: L) -> L::Output {
    // SAFETY: this function has the instructions.
    unsafe { work.run::<vector::Avx512>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2<L: Loop>(work: L) -> L::Output {
    // SAFETY: this function has the instructions.
    unsafe { work.run::<vector::Avx2>() }
}
