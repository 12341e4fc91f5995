//! A root Z of eight users' statistics, ZᵀZ = Σ z zᵀ of z = (x, 1, y), with one row per reward: where rewards are few it is
//! smaller than the statistics, and what follows from it takes n²D + ½nD² products instead of ½D³.
//!
//! ```text
//! repeat: p = the coordinate of which most is left, over all eight users
//!         row_j = (A_pj − Σ_k Z_kp Z_kj)/√r_p,   r_j ← r_j − row_j²
//! until nothing is left of any coordinate: r_j ≤ 10⁻¹² A_jj
//! ```
//!
//! This is a Cholesky factorisation with pivots, which ends at the rank of A. A user of whom much less is left at p than
//! elsewhere gets a row of zeros, and another one later.

use std::sync::Arc;

use super::lanes::{F64x8, LANES, ZERO, each};
use crate::algebra::packed_len;
use crate::simd::{self, Kernel, Simd};

/// What is left of a coordinate counts as nothing below this part of it.
const NOTHING: f64 = 1e-12;
/// A pivot is at least this part of what is left elsewhere.
const LEAST_PIVOT: f64 = 0.01;
/// The work at which a root begins to pay, beside that without one: its loops are shorter.
const WORTH: f64 = 0.7;

/// The rows of a root; where a user has fewer than others they are zeros.
#[derive(Clone, Debug)]
pub struct GramRoot {
    /// D + 1.
    width: usize,
    numbers: Arc<Vec<F64x8>>,
}

impl GramRoot {
    /// Of packed statistics of so many coordinates, and users with these numbers of rewards. `None` where a root has too
    /// many rows to be worth it, or none.
    pub fn of(packed: &[F64x8], width: usize, rewards: &F64x8) -> Option<Self> {
        let most = Self::most_rows(width - 1);
        let fewest = rewards.iter().fold(0.0, |a: f64, b| a.max(*b));
        if most == 0 || fewest > most as f64 {
            return None;
        }
        let diagonal: Vec<F64x8> = (0..width).map(|j| packed[packed_len(j) + j]).collect();
        let mut left = diagonal.clone();
        let mut numbers: Vec<F64x8> = Vec::with_capacity(fewest as usize * width);
        while let Some((pivot, scale)) = next_pivot(&diagonal, &left) {
            if numbers.len() == most * width {
                return None;
            }
            let known = numbers.len();
            numbers.extend((0..width).map(|j| packed[packed_len(j.max(pivot)) + j.min(pivot)]));
            let (before, row) = numbers.split_at_mut(known);
            simd::run(NextRow { before, row, pivot, scale, left: &mut left });
        }
        (!numbers.is_empty()).then(|| Self { width, numbers: Arc::new(numbers) })
    }

    /// The most rows of a root that is worth it, if messages have D coordinates.
    fn most_rows(dim: usize) -> usize {
        let dim_ = dim as f64;
        let work = |n: f64| n * n * dim_ + n * n * n / 6.0 + 0.5 * n * dim_ * dim_;
        let is_worth_it = |n: &usize| work(*n as f64) < WORTH * 0.5 * dim_.powi(3);
        (1..=dim).take_while(is_worth_it).last().unwrap_or(0)
    }

    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.numbers.len() / self.width
    }

    /// The rows.
    pub fn rows(&self) -> impl Iterator<Item = &[F64x8]> {
        self.numbers.chunks_exact(self.width)
    }

    /// The rows, to be changed: linear maps of coordinates are maps of the root's rows.
    pub fn rows_mut(&mut self) -> impl Iterator<Item = &mut [F64x8]> {
        Arc::make_mut(&mut self.numbers).chunks_exact_mut(self.width)
    }

    /// The same with all numbers changed.
    pub fn map(&self, change: impl Fn(&F64x8) -> F64x8) -> Self {
        let numbers = self.numbers.iter().map(change).collect();
        Self { width: self.width, numbers: Arc::new(numbers) }
    }
}

/// The coordinate of which most is left, and 1/√r of the users for whom it is a pivot; `None` where nothing is left.
fn next_pivot(diagonal: &[F64x8], left: &[F64x8]) -> Option<(usize, F64x8)> {
    let mut most = ZERO;
    let mut best = (0.0, 0);
    for (j, (all, left)) in diagonal.iter().zip(left).enumerate() {
        // Parts of each coordinate, so that units do not matter.
        let mut sum = 0.0;
        for lane in 0..LANES {
            let part = if all[lane] > 0.0 { left[lane] / all[lane] } else { 0.0 };
            if part > NOTHING {
                most[lane] = most[lane].max(part);
                sum += part;
            }
        }
        if sum > best.0 {
            best = (sum, j);
        }
    }
    let (_, pivot) = best;
    let scale = each(|lane| {
        let part = left[pivot][lane] / diagonal[pivot][lane];
        let is_pivot = most[lane] > 0.0 && part > LEAST_PIVOT * most[lane];
        if is_pivot { 1.0 / left[pivot][lane].sqrt() } else { 0.0 }
    });
    (best.0 > 0.0 && scale != ZERO).then_some((pivot, scale))
}

/// One more row: it holds row `pivot` of the statistics.
struct NextRow<'a> {
    before: &'a [F64x8],
    row: &'a mut [F64x8],
    pivot: usize,
    scale: F64x8,
    left: &'a mut [F64x8],
}

impl Kernel for NextRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { before, row, pivot, scale, left } = self;
        for known in before.chunks_exact(row.len()) {
            let own = simd.load(&known[pivot]);
            for (entry, other) in row.iter_mut().zip(known) {
                simd.store(simd.sub_mul(own, simd.load(other), simd.load(entry)), entry);
            }
        }
        let by = simd.load(&scale);
        for (entry, left) in row.iter_mut().zip(left.iter_mut()) {
            let value = simd.mul(simd.load(entry), by);
            simd.store(value, entry);
            simd.store(simd.sub_mul(value, value, simd.load(left)), left);
        }
        // Exactly nothing is left of the pivot itself, where there was one.
        for lane in (0..LANES).filter(|lane| scale[*lane] > 0.0) {
            left[pivot][lane] = 0.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Statistics of users who answer on rows of features that `x` gives, and how many rewards each has.
    fn packed(counts: &[usize], d: usize, x: impl Fn(usize, usize, usize) -> f64) -> Vec<F64x8> {
        let mut sums = vec![ZERO; packed_len(d + 2)];
        for (user, count) in counts.iter().enumerate() {
            for turn in 0..*count {
                let mut z: Vec<f64> = (0..d).map(|j| x(user, turn, j)).collect();
                z.extend([1.0, ((user + 3 * turn) as f64).cos()]);
                for i in 0..d + 2 {
                    for j in 0..=i {
                        sums[packed_len(i) + j][user] += z[i] * z[j];
                    }
                }
            }
        }
        sums
    }

    /// Features of which no few determine the others.
    fn generic(user: usize, turn: usize, j: usize) -> f64 {
        ((97 * user + 31 * turn + 1) as f64 * (0.4 + j as f64).sqrt()).sin()
    }

    fn root_of(counts: &[usize], d: usize, sums: &[F64x8]) -> Option<GramRoot> {
        let rewards = each(|lane| counts.get(lane).map_or(0.0, |n| *n as f64));
        GramRoot::of(sums, d + 2, &rewards)
    }

    fn assert_is_root(root: &GramRoot, sums: &[F64x8]) {
        let scale = sums.iter().flat_map(|v| v.0).fold(0.0, f64::max);
        for i in 0..root.width {
            for j in 0..=i {
                for lane in 0..LANES {
                    let square: f64 = root.rows().map(|row| row[i][lane] * row[j][lane]).sum();
                    let wanted = sums[packed_len(i) + j][lane];
                    assert!((square - wanted).abs() < 1e-11 * scale, "{square} against {wanted}");
                }
            }
        }
    }

    #[test]
    fn a_root_has_a_row_for_each_reward() {
        let (d, counts) = (40, [3, 7, 1, 0, 12]);
        let sums = packed(&counts, d, generic);
        let root = root_of(&counts, d, &sums).unwrap();
        assert!((12..=14).contains(&root.count()), "{} rows", root.count());
        assert_is_root(&root, &sums);
    }

    #[test]
    fn rewards_that_repeat_each_other_add_no_rows() {
        let (d, counts) = (40, [9, 9]);
        // Features of three kinds, and rewards that follow them: rank four at most.
        let sums = packed(&counts, d, |_, turn, j| ((turn % 3 * 31 + j * 7) as f64).sin());
        let root = root_of(&counts, d, &sums).unwrap();
        assert!(root.count() <= 6, "{} rows", root.count());
        assert_is_root(&root, &sums);
    }

    #[test]
    fn where_users_know_other_coordinates_a_root_has_more_rows_or_none() {
        let (d, counts) = (40, [4; 8]);
        let one_hot = |user: usize, turn: usize, j: usize| f64::from(j == 4 * user + turn);
        let sums = packed(&counts, d, one_hot);
        if let Some(root) = root_of(&counts, d, &sums) {
            assert_is_root(&root, &sums);
        }
        assert!(root_of(&[], d, &packed(&[], d, one_hot)).is_none(), "nobody answered");
        assert!(root_of(&[8], 8, &packed(&[8], 8, |_, t, j| ((t * 5 + j) as f64).sin())).is_none());
    }

    #[test]
    fn units_do_not_matter() {
        let (d, counts) = (30, [5, 8]);
        let plain = root_of(&counts, d, &packed(&counts, d, generic)).unwrap();
        let scaled = |user: usize, turn: usize, j: usize| {
            generic(user, turn, j) * 2f64.powi(j as i32 % 40 - 20)
        };
        let other = packed(&counts, d, scaled);
        let root = root_of(&counts, d, &other).unwrap();
        assert_eq!(root.count(), plain.count());
        for (a, b) in root.rows().zip(plain.rows()) {
            for (j, (a, b)) in a.iter().zip(b).enumerate().take(d) {
                for lane in 0..2 {
                    assert_eq!(a[lane], b[lane] * 2f64.powi(j as i32 % 40 - 20));
                }
            }
        }
    }
}
