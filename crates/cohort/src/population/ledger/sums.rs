//! Sums of zzᵀ, packed, of one user and of eight at once.
//!
//! A sum is `S ← keep·S + zzᵀ` row by row in the order of arrival, whichever way it is worked out,
//! so that all ways end in the same bits.

use crate::population::lanes::{F64x8, LANES, ZERO};
use crate::simd::vectorized;

/// Rows that are worked on together: their lanes stay close to the processor.
pub const TILE: usize = 8;

/// One number for each user and row.
type Tall = [F64x8; TILE];

/// Several rows of eight users. Where there are fewer, the rest is zeros, which change no sum.
#[derive(Debug)]
pub struct RowTile {
    /// Every coordinate.
    right: Vec<Tall>,
    /// The same times the weight of the row; empty where all weights are 1.
    left: Vec<Tall>,
    /// The discount factor of the sum so far, at every row.
    keep: Tall,
}

impl RowTile {
    /// Space for rows of the given number of coordinates.
    pub fn new(coordinates: usize, weighted: bool) -> Self {
        let right = vec![[ZERO; TILE]; coordinates];
        let left = if weighted { right.clone() } else { Vec::new() };
        Self { right, left, keep: [F64x8::splat(1.0); TILE] }
    }

    /// Rows of zeros.
    pub fn clear(&mut self) {
        self.right.fill([ZERO; TILE]);
        self.left.fill([ZERO; TILE]);
        self.keep = [F64x8::splat(1.0); TILE];
    }

    /// One row of one user: z = (x, 1, y).
    pub fn put(&mut self, row: usize, lane: usize, x: &[f64], y: f64, keep: f64) {
        self.keep[row][lane] = keep;
        let (context, rest) = self.right.split_at_mut(x.len());
        for (right, value) in context.iter_mut().zip(x) {
            right[row][lane] = *value;
        }
        rest[0][row][lane] = 1.0;
        rest[1][row][lane] = y;
    }

    /// The weight of a row that has been put.
    pub fn weigh(&mut self, row: usize, lane: usize, weight: f64) {
        for (left, right) in self.left.iter_mut().zip(&self.right) {
            left[row][lane] = weight * right[row][lane];
        }
    }

    /// All rows into the sums of the eight users.
    pub fn add_to(&self, sums: &mut [F64x8]) {
        let left = if self.left.is_empty() { &self.right } else { &self.left };
        add(sums, left, &self.right, &self.keep);
    }
}

/// `sums ← keep·sums + left rightᵀ`, row after row, packed.
fn add(sums: &mut [F64x8], left: &[Tall], right: &[Tall], keep: &Tall) {
    vectorized(
        #[inline(always)]
        || add_kernel(sums, left, right, keep),
    );
}

#[inline(always)]
fn add_kernel(sums: &mut [F64x8], left: &[Tall], right: &[Tall], keep: &Tall) {
    let mut sums = sums.iter_mut();
    for (i, left) in left.iter().enumerate() {
        for (right, into) in right[..=i].iter().zip(sums.by_ref()) {
            let mut sum = *into;
            for row in 0..TILE {
                for lane in 0..LANES {
                    sum[lane] = keep[row][lane] * sum[lane] + left[row][lane] * right[row][lane];
                }
            }
            *into = sum;
        }
    }
}

/// `sums ← keep·sums + left rightᵀ` of one user, packed.
pub fn add_one(sums: &mut [f64], left: &[f64], right: &[f64], keep: f64) {
    vectorized(
        #[inline(always)]
        || add_one_kernel(sums, left, right, keep),
    );
}

#[inline(always)]
fn add_one_kernel(sums: &mut [f64], left: &[f64], right: &[f64], keep: f64) {
    let mut rest = sums;
    for (i, left) in left.iter().enumerate() {
        let (row, after) = rest.split_at_mut(i + 1);
        for (sum, right) in row.iter_mut().zip(right) {
            *sum = keep * *sum + left * right;
        }
        rest = after;
    }
}

/// `sums ← keep·sums + zzᵀ` of one of eight users, packed.
pub fn add_to_lane(sums: &mut [F64x8], lane: usize, z: &[f64], keep: f64) {
    let mut sums = sums.iter_mut();
    for (i, left) in z.iter().enumerate() {
        for (sum, right) in sums.by_ref().take(i + 1).zip(z) {
            sum[lane] = keep * sum[lane] + left * right;
        }
    }
}
