//! Sets of points of a block as bit masks, and the layout that the kernels of the search share.

use crate::simd::{F32x16, LANES_F32};

/// Points per vector.
pub(super) const WIDTH: usize = LANES_F32;
/// The most vectors in a row of a block.
pub(super) const MOST_VECTORS: usize = 8;
/// The most points in a block.
pub(super) const MOST_POINTS: usize = WIDTH * MOST_VECTORS;

/// A set of the points of a block: bit l is point l.
pub(super) type Mask = u128;

/// One number for each point of a full block.
pub(super) type Row = [F32x16; MOST_VECTORS];

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
