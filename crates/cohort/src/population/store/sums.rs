//! Sums of zzᵀ, packed, of one user and of eight at once.
//!
//! A sum is `S ← keep·S + zzᵀ` row by row in the order of arrival, whichever way it is worked out,
//! so that all ways end in the same bits.

use crate::population::lanes::{LANES, Lane};

/// Rows that are worked on together: their lanes stay close to the processor.
pub const TILE: usize = 8;

/// Several rows of eight users.
#[derive(Debug)]
pub struct Tile {
    /// How many rows there are.
    pub rows: usize,
    /// Whether anything is forgotten.
    pub forgets: bool,
    /// Coordinate by coordinate, its value in every row.
    pub right: Vec<Lane>,
    /// The same times the weight of the row; empty where all weights are 1.
    pub left: Vec<Lane>,
    /// What is kept, at every row, of the sum so far.
    pub keep: [Lane; TILE],
}

impl Tile {
    /// Room for rows of so many coordinates.
    pub fn new(coordinates: usize, weighted: bool) -> Self {
        let lanes = vec![[0.0; LANES]; coordinates * TILE];
        let left = if weighted { lanes.clone() } else { Vec::new() };
        Self { rows: 0, forgets: false, right: lanes, left, keep: [[1.0; LANES]; TILE] }
    }

    /// Rows of zeros, of which nothing follows.
    pub fn clear(&mut self, rows: usize) {
        (self.rows, self.forgets) = (rows, false);
        self.right.fill([0.0; LANES]);
        self.left.fill([0.0; LANES]);
        self.keep = [[1.0; LANES]; TILE];
    }

    /// One row of one user: z = (x, 1, y).
    pub fn put(&mut self, row: usize, lane: usize, x: &[f64], y: f64, keep: f64) {
        self.keep[row][lane] = keep;
        self.forgets |= keep != 1.0;
        for (at, value) in x.iter().chain([&1.0, &y]).enumerate() {
            self.right[at * TILE + row][lane] = *value;
        }
    }

    /// The weight of a row that has been put.
    pub fn weigh(&mut self, row: usize, lane: usize, weight: f64) {
        for (left, right) in self.left.iter_mut().zip(&self.right).skip(row).step_by(TILE) {
            left[lane] = weight * right[lane];
        }
    }

    /// All rows into the sums of the eight users.
    pub fn add_to(&self, sums: &mut [Lane]) {
        let left = if self.left.is_empty() { &self.right } else { &self.left };
        if self.forgets {
            add_forgetting(sums, left, &self.right, &self.keep[..self.rows]);
        } else {
            add(sums, left, &self.right, self.rows);
        }
    }
}

widest! {
    /// `sums ← sums + Σ left rightᵀ`, packed.
    fn add(sums: &mut [Lane], left: &[Lane], right: &[Lane], rows: usize) = add_kernel
}

#[inline(always)]
fn add_kernel(sums: &mut [Lane], left: &[Lane], right: &[Lane], rows: usize) {
    each_entry(sums, left, right, |sum, left, right| {
        for row in 0..rows {
            for lane in 0..LANES {
                sum[lane] += left[row][lane] * right[row][lane];
            }
        }
    });
}

widest! {
    /// `sums ← keep·sums + left rightᵀ`, row after row, packed.
    fn add_forgetting(sums: &mut [Lane], left: &[Lane], right: &[Lane], keep: &[Lane])
        = add_forgetting_kernel
}

#[inline(always)]
fn add_forgetting_kernel(sums: &mut [Lane], left: &[Lane], right: &[Lane], keep: &[Lane]) {
    each_entry(sums, left, right, |sum, left, right| {
        for (row, keep) in keep.iter().enumerate() {
            for lane in 0..LANES {
                sum[lane] = keep[lane] * sum[lane] + left[row][lane] * right[row][lane];
            }
        }
    });
}

/// What `update` makes of every entry, given the rows of both of its coordinates.
#[inline(always)]
fn each_entry(
    sums: &mut [Lane],
    left: &[Lane],
    right: &[Lane],
    update: impl Fn(&mut Lane, &[Lane; TILE], &[Lane; TILE]),
) {
    let (left, right) = (left.as_chunks().0, right.as_chunks().0);
    let mut at = 0;
    for i in 0..left.len() {
        for j in 0..=i {
            let mut sum = sums[at];
            update(&mut sum, &left[i], &right[j]);
            sums[at] = sum;
            at += 1;
        }
    }
}

widest! {
    /// `sums ← keep·sums + left rightᵀ` of one user, packed.
    pub fn add_one(sums: &mut [f64], left: &[f64], right: &[f64], keep: f64) = add_one_kernel
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
pub fn add_to_lane(sums: &mut [Lane], lane: usize, z: &[f64], keep: f64) {
    let mut sums = sums.iter_mut();
    for (i, left) in z.iter().enumerate() {
        for (sum, right) in sums.by_ref().take(i + 1).zip(z) {
            sum[lane] = keep * sum[lane] + left * right;
        }
    }
}
