//! The sufficient statistics of eight users, prepared for a fit or a posterior: in the population's
//! basis, each user's rewards weighted by how noisy they are.

use super::lanes::{LANES, Lane, ZERO, each};
use super::model::Basis;
use crate::linear::symmetric::packed_len;

/// Σ z zᵀ of z = (x, 1, y) for eight users: with D = d + 1, the Gram matrix of (x, 1) packed, the
/// moment Σ(x, 1)y, and Σy².
#[derive(Clone, Debug)]
pub struct Moments {
    dim: usize,
    numbers: Vec<Lane>,
    /// n, unweighted.
    rewards: Lane,
}

impl Moments {
    /// Of users in R^d whose numbers are these, as the ledger has them.
    pub fn new(features: usize, numbers: Vec<Lane>) -> Self {
        let dim = features + 1;
        let rewards = numbers[packed_len(dim) - 1];
        Self { dim, numbers, rewards }
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
    pub fn gram(&self) -> &[Lane] {
        &self.numbers[..packed_len(self.dim)]
    }

    /// Σ(x, 1)y.
    pub fn moment(&self) -> &[Lane] {
        &self.numbers[packed_len(self.dim)..packed_len(self.dim) + self.dim]
    }

    /// Σy².
    pub fn squares(&self) -> &Lane {
        &self.numbers[packed_len(self.dim + 1) - 1]
    }

    /// n.
    pub fn rewards(&self) -> &Lane {
        &self.rewards
    }

    /// 1 for users that have rewards, else 0.
    pub fn active(&self) -> Lane {
        self.rewards.map(|n| f64::from(n > 0.0))
    }

    /// The same contexts, every reward zero.
    pub fn without_rewards(&self) -> Self {
        let mut numbers = self.numbers.clone();
        numbers[packed_len(self.dim)..].fill(ZERO);
        Self { numbers, ..*self }
    }

    /// Multiplies every user's statistics by a weight: σ² over its own noise.
    pub fn weigh(&mut self, weights: &Lane) {
        for number in &mut self.numbers {
            for lane in 0..LANES {
                number[lane] *= weights[lane];
            }
        }
    }

    /// The same in another basis of the features.
    pub fn rotate(&mut self, basis: &Basis) {
        let d = self.dim - 1;
        let mut scratch = vec![ZERO; d * d];
        rotate(&mut self.numbers, basis.rows(), &mut scratch, d);
    }
}

widest! {
    /// UVUᵀ, UΣx and UΣxy in place; the rows of U are the basis.
    fn rotate(numbers: &mut [Lane], basis: &[f64], scratch: &mut [Lane], d: usize) = rotate_kernel
}

#[inline(always)]
fn rotate_kernel(numbers: &mut [Lane], basis: &[f64], scratch: &mut [Lane], d: usize) {
    let place = |i: usize, k: usize| if i < k { packed_len(k) + i } else { packed_len(i) + k };
    // scratch = U V
    for i in 0..d {
        for k in 0..d {
            let mut sum = ZERO;
            for m in 0..d {
                let u = basis[i * d + m];
                let v = &numbers[place(m, k)];
                for lane in 0..LANES {
                    sum[lane] += u * v[lane];
                }
            }
            scratch[i * d + k] = sum;
        }
    }
    for i in 0..d {
        for k in 0..=i {
            let mut sum = ZERO;
            for m in 0..d {
                let u = basis[k * d + m];
                let v = &scratch[i * d + m];
                for lane in 0..LANES {
                    sum[lane] += u * v[lane];
                }
            }
            numbers[packed_len(i) + k] = sum;
        }
    }
    for row in [packed_len(d), packed_len(d + 1)] {
        for i in 0..d {
            scratch[i] = ZERO;
            for m in 0..d {
                let u = basis[i * d + m];
                let v = numbers[row + m];
                for lane in 0..LANES {
                    scratch[i][lane] += u * v[lane];
                }
            }
        }
        numbers[row..row + d].copy_from_slice(&scratch[..d]);
    }
}

/// All eight the same.
pub fn all(value: f64) -> Lane {
    each(|_| value)
}
