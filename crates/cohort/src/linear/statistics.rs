//! What has been seen of one learner: sums that are never thrown away and that add up.

use super::Symmetric;

/// V = Σxxᵀ, b = Σxy, Σy² and n. The statistics of a group are the sum of its members'.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// Σxxᵀ, without any regulariser.
    pub gram: Symmetric,
    /// Σxy.
    pub moment: Vec<f64>,
    /// Σy².
    pub squares: f64,
    /// n, how many rewards.
    pub rewards: f64,
}

impl Statistics {
    /// Of a learner that has seen nothing.
    pub fn new(dim: usize) -> Self {
        Self { gram: Symmetric::zero(dim), moment: vec![0.0; dim], squares: 0.0, rewards: 0.0 }
    }

    /// One more reward.
    pub fn learn(&mut self, x: &[f64], y: f64) {
        self.gram.add_outer(1.0, x);
        for (b, x) in self.moment.iter_mut().zip(x) {
            *b += x * y;
        }
        self.squares += y * y;
        self.rewards += 1.0;
    }

    /// All that another learner has seen, too.
    pub fn add(&mut self, other: &Self) {
        self.gram.add(1.0, &other.gram);
        for (a, b) in self.moment.iter_mut().zip(&other.moment) {
            *a += b;
        }
        self.squares += other.squares;
        self.rewards += other.rewards;
    }
}
