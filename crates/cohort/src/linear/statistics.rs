//! Sufficient statistics of one learner: sums that add up over learners.

use std::io::{self, Read, Write};

use super::Symmetric;
use crate::Error;
use crate::saved::{read_numbers, write_numbers};

/// Sufficient statistics Σxxᵀ, Σxy, Σy² and n. Those of a group are the sum of its members'.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// Σxxᵀ, without any regulariser.
    pub gram: Symmetric,
    /// Σxy.
    pub moment: Vec<f64>,
    /// Σy².
    pub squares: f64,
    /// n, the number of rewards.
    pub rewards: f64,
}

impl Statistics {
    /// The statistics of no data.
    pub fn new(dim: usize) -> Self {
        Self { gram: Symmetric::zero(dim), moment: vec![0.0; dim], squares: 0.0, rewards: 0.0 }
    }

    /// Adds one reward.
    pub fn learn(&mut self, x: &[f64], y: f64) {
        self.gram.add_outer(1.0, x);
        for (b, x) in self.moment.iter_mut().zip(x) {
            *b += x * y;
        }
        self.squares += y * y;
        self.rewards += 1.0;
    }

    /// Adds the statistics of another learner.
    pub fn add(&mut self, other: &Self) {
        self.gram.add(1.0, &other.gram);
        for (a, b) in self.moment.iter_mut().zip(&other.moment) {
            *a += b;
        }
        self.squares += other.squares;
        self.rewards += other.rewards;
    }

    /// Writes all numbers.
    pub fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        write_numbers(out, self.gram.packed())?;
        write_numbers(out, &self.moment)?;
        write_numbers(out, &[self.squares, self.rewards])
    }

    /// Reads what [`Statistics::save`] wrote of a learner of this dimension.
    pub fn load(from: &mut dyn Read, what: &'static str, dim: usize) -> Result<Self, Error> {
        let (mut statistics, mut counts) = (Self::new(dim), [0.0; 2]);
        read_numbers(from, what, statistics.gram.packed_mut())?;
        read_numbers(from, what, &mut statistics.moment)?;
        read_numbers(from, what, &mut counts)?;
        [statistics.squares, statistics.rewards] = counts;
        Ok(statistics)
    }
}
