//! How far is the effect of an item shrunk? As far as would have foretold answers best so far.
//!
//! ```text
//! effect of an item with n residuals about their common mean = their sum / (n + ρ),   ρ = noise / variance of effects
//! ```
//!
//! The moments of all residuals make ρ too small: an item that disappoints is not shown again and keeps its bad mean, and
//! residuals of the beginning hold what the policy had not learned then. So each of some ρ foretells every residual
//! from those of the item before it, and the one with the smallest squared error counts; at first the one that shrinks
//! to nothing.

use std::io::{self, Read, Write};

use super::Item;
use super::saved::{put, take};

/// Values of ρ: powers of two, and infinity.
const RATIOS: usize = 12;

fn ratio(at: usize) -> f64 {
    if at == RATIOS - 1 { f64::INFINITY } else { f64::from(1u32 << at) }
}

/// How well each ρ foretold.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Shrinkage {
    /// Sums of squared errors.
    errors: [f64; RATIOS],
    /// Residuals that were foretold.
    count: f64,
}

impl Shrinkage {
    /// One residual of an item, of which `before` is known.
    pub fn judge(&mut self, before: &Item, centre: f64, residual: f64) {
        self.count += 1.0;
        let (surprise, sum) = (residual - centre, before.sum - before.count * centre);
        for (at, error) in self.errors.iter_mut().enumerate() {
            let left = surprise - sum / (before.count + ratio(at));
            *error += left * left;
        }
    }

    /// The best ρ, the largest of those that are equally good; none where less than half of so many residuals were
    /// judged, as in what an earlier version kept.
    pub fn best(&self, residuals: f64) -> Option<f64> {
        if 2.0 * self.count < residuals {
            return None;
        }
        let mut best = RATIOS - 1;
        for at in (0..RATIOS).rev() {
            if self.errors[at] < self.errors[best] {
                best = at;
            }
        }
        Some(ratio(best))
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0.0
    }

    pub fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        put(out, &[self.count])?;
        put(out, &self.errors)
    }

    pub fn load(from: &mut dyn Read) -> io::Result<Self> {
        let [count] = take(from)?;
        Ok(Self { count, errors: take(from)? })
    }
}
