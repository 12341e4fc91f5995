//! The sufficient statistics of eight users, prepared for a fit or a posterior: in the population's
//! basis, each user's rewards weighted by how noisy they are.

use std::sync::Arc;

use super::gram_root::GramRoot;
use super::lanes::{F64x8, LANES, ZERO, each};
use super::model::Basis;
use crate::algebra::packed_len;
use crate::simd::{self, Kernel, Simd, with_scratch};

/// Σ z zᵀ of z = (x, 1, y) for eight users: with D = d + 1, the Gram matrix of (x, 1) packed, the
/// moment Σ(x, 1)y, and Σy².
#[derive(Clone, Debug)]
pub struct Moments {
    dim: usize,
    /// Shared between copies until one of them is changed: a fit tries several populations on the same users.
    numbers: Arc<Vec<F64x8>>,
    /// n, unweighted.
    rewards: F64x8,
    /// A root of the above, where that is less work.
    root: Option<GramRoot>,
}

impl Moments {
    /// Of users in R^d whose numbers are these, as the ledger has them.
    pub fn new(features: usize, numbers: Vec<F64x8>) -> Self {
        let dim = features + 1;
        let rewards = numbers[packed_len(dim) - 1];
        Self { dim, numbers: Arc::new(numbers), rewards, root: None }
    }

    /// The same with a root, where rewards are so few that this is less work.
    pub fn with_root(self) -> Self {
        Self { root: GramRoot::of(&self.numbers, self.dim + 1, &self.rewards), ..self }
    }

    /// The same without a root.
    #[cfg(test)]
    pub fn without_root(self) -> Self {
        Self { root: None, ..self }
    }

    /// The root, if there is one.
    pub fn root(&self) -> Option<&GramRoot> {
        self.root.as_ref()
    }

    /// Of users of whom nothing was seen.
    pub fn unseen(features: usize) -> Self {
        Self::new(features, vec![ZERO; packed_len(features + 2)])
    }

    /// D = d + 1.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Σ(x, 1)(x, 1)ᵀ, packed.
    pub fn gram(&self) -> &[F64x8] {
        &self.numbers[..packed_len(self.dim)]
    }

    /// Σ(x, 1)y.
    pub fn moment(&self) -> &[F64x8] {
        &self.numbers[packed_len(self.dim)..packed_len(self.dim) + self.dim]
    }

    /// Σy².
    pub fn squares(&self) -> &F64x8 {
        &self.numbers[packed_len(self.dim + 1) - 1]
    }

    /// n.
    pub fn rewards(&self) -> &F64x8 {
        &self.rewards
    }

    /// 1 for users that have rewards, else 0.
    pub fn active(&self) -> F64x8 {
        F64x8(self.rewards.map(|n| f64::from(n > 0.0)))
    }

    /// Those of the first lanes in other lanes, each in one of its own; nothing was seen of the others.
    pub fn placed(&self, lanes: &[usize]) -> Self {
        let place = |from: &F64x8| {
            let mut to = ZERO;
            lanes.iter().enumerate().for_each(|(lane, place)| to[*place] = from[lane]);
            to
        };
        let numbers = Arc::new(self.numbers.iter().map(place).collect());
        let root = self.root.as_ref().map(|root| root.map(place));
        Self { dim: self.dim, numbers, rewards: place(&self.rewards), root }
    }

    /// The same contexts, every reward zero.
    pub fn without_rewards(&self) -> Self {
        let mut plain = self.clone();
        Arc::make_mut(&mut plain.numbers)[packed_len(self.dim)..].fill(ZERO);
        plain.each_row(|row| row[self.dim] = ZERO);
        plain
    }

    /// Adds a number to every reward. Statistics are as the ledger has them.
    pub fn raise(&mut self, by: f64) {
        let d = self.dim - 1;
        let (ones, ys, squares) =
            (packed_len(d), packed_len(self.dim), packed_len(self.dim + 1) - 1);
        let numbers = Arc::make_mut(&mut self.numbers);
        for lane in 0..LANES {
            let (count, total) = (numbers[ys - 1][lane], numbers[ys + d][lane]);
            numbers[squares][lane] += by * (2.0 * total + by * count);
            for j in 0..=d {
                let x = numbers[ones + j][lane];
                numbers[ys + j][lane] += by * x;
            }
        }
        self.each_row(|row| row[d + 1] = each(|lane| row[d + 1][lane] + by * row[d][lane]));
    }

    /// Multiplies every user's statistics by a weight: σ² over its own noise.
    pub fn weigh(&mut self, weights: &F64x8) {
        for number in Arc::make_mut(&mut self.numbers) {
            for lane in 0..LANES {
                number[lane] *= weights[lane];
            }
        }
        let roots = weights.map(f64::sqrt);
        self.each_row(|row| row.iter_mut().for_each(|z| *z = each(|lane| z[lane] * roots[lane])));
    }

    /// The same in another basis of the features.
    pub fn rotate(&mut self, basis: &Basis) {
        let numbers: &mut Vec<F64x8> = Arc::make_mut(&mut self.numbers);
        rotate(numbers, basis.rows(), self.dim - 1);
        let d = self.dim - 1;
        self.each_row(|row| turn_lanes(basis.rows(), d, row));
    }

    fn each_row(&mut self, change: impl FnMut(&mut [F64x8])) {
        if let Some(root) = &mut self.root {
            root.rows_mut().for_each(change);
        }
    }
}

/// UAUᵀ of packed matrices in place, where U turns the first `d` coordinates and leaves the others; its rows are these.
pub fn rotate(numbers: &mut [F64x8], rows: &[f64], d: usize) {
    with_scratch(2 * d * d, |scratch| simd::run(Rotate { numbers, rows, d, scratch }));
}

/// U x in place, where U turns the first `d` coordinates and leaves the others; its rows are these.
pub fn turn_lanes(rows: &[f64], d: usize, x: &mut [F64x8]) {
    with_scratch(d, |scratch| {
        scratch.copy_from_slice(&x[..d]);
        simd::run(Turn { rows, x: scratch, out: &mut x[..d] });
    });
}

struct Turn<'a> {
    rows: &'a [f64],
    x: &'a [F64x8],
    out: &'a mut [F64x8],
}

impl Kernel for Turn<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        turn(simd, self.rows, self.x, self.out);
    }
}

struct Rotate<'a> {
    numbers: &'a mut [F64x8],
    rows: &'a [f64],
    d: usize,
    /// Room for two full matrices.
    scratch: &'a mut [F64x8],
}

impl Kernel for Rotate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { numbers, rows, d, scratch } = self;
        let (full, product) = scratch.split_at_mut(d * d);
        for i in 0..d {
            for k in 0..=i {
                full[i * d + k] = numbers[packed_len(i) + k];
                full[k * d + i] = numbers[packed_len(i) + k];
            }
        }
        // AUᵀ, then UAUᵀ: entries are sums over a row of A, of which four are made at once.
        for i in 0..d {
            turn(simd, rows, &full[i * d..(i + 1) * d], &mut product[i * d..(i + 1) * d]);
        }
        for i in 0..d {
            for k in 0..d {
                full[k * d + i] = product[i * d + k];
            }
        }
        for k in 0..d {
            turn(simd, rows, &full[k * d..(k + 1) * d], &mut product[..d]);
            for i in k..d {
                numbers[packed_len(i) + k] = product[i];
            }
        }
        // What the other coordinates have in common with the first.
        let mut row = d;
        while packed_len(row) + d < numbers.len() {
            let start = packed_len(row);
            full[..d].copy_from_slice(&numbers[start..start + d]);
            turn(simd, rows, &full[..d], &mut numbers[start..start + d]);
            row += 1;
        }
    }
}

/// out = U x.
#[inline(always)]
fn turn<S: Simd>(simd: S, rows: &[f64], x: &[F64x8], out: &mut [F64x8]) {
    let d = x.len();
    let mut i = 0;
    while i + 4 <= d {
        let row = |k: usize| &rows[(i + k) * d..(i + k + 1) * d];
        let (a, b, c, e) = (row(0), row(1), row(2), row(3));
        let mut sums = [simd.splat(0.0); 4];
        for (m, x) in x.iter().enumerate() {
            let x = simd.load(x);
            sums[0] = simd.mul_add(x, simd.splat(a[m]), sums[0]);
            sums[1] = simd.mul_add(x, simd.splat(b[m]), sums[1]);
            sums[2] = simd.mul_add(x, simd.splat(c[m]), sums[2]);
            sums[3] = simd.mul_add(x, simd.splat(e[m]), sums[3]);
        }
        for (out, sum) in out[i..i + 4].iter_mut().zip(sums) {
            simd.store(sum, out);
        }
        i += 4;
    }
    while i < d {
        let mut sum = simd.splat(0.0);
        for (x, u) in x.iter().zip(&rows[i * d..(i + 1) * d]) {
            sum = simd.mul_add(simd.load(x), simd.splat(*u), sum);
        }
        simd.store(sum, &mut out[i]);
        i += 1;
    }
}

/// The same value in all lanes.
pub fn all(value: f64) -> F64x8 {
    each(|_| value)
}
