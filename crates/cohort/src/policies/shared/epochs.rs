//! Epochs of given lengths, counted down round by round: the schedule of ALB-Norm and `pmlb-warm`.

use std::io::{self, Read, Write};

use crate::Error;
use crate::saved::{read_count, read_counts, write_count, write_counts};

/// A schedule of epochs, of which the first has begun.
#[derive(Clone)]
pub(crate) struct Epochs {
    /// The lengths of the coming epochs, last first.
    coming: Vec<usize>,
    rounds_left: usize,
}

impl Epochs {
    pub(crate) fn new(mut lengths: Vec<usize>) -> Self {
        lengths.reverse();
        let rounds_left = lengths.pop().unwrap_or(0);
        Self { coming: lengths, rounds_left }
    }

    /// Begins the next epoch if the present one is over; returns its length. Past the horizon there
    /// are none left: the last one continues.
    pub(crate) fn begin_next(&mut self) -> Option<usize> {
        if self.rounds_left > 0 {
            return None;
        }
        let length = self.coming.pop()?;
        self.rounds_left = length;
        Some(length)
    }

    /// Counts a round.
    pub(crate) fn end_round(&mut self) {
        self.rounds_left = self.rounds_left.saturating_sub(1);
    }

    /// The number of epochs that have not begun.
    pub(crate) fn coming(&self) -> usize {
        self.coming.len()
    }

    pub(crate) fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        write_counts(out, &self.coming)?;
        write_count(out, self.rounds_left)
    }

    pub(crate) fn load(from: &mut dyn Read, what: &'static str) -> Result<Self, Error> {
        Ok(Self { coming: read_counts(from, what)?, rounds_left: read_count(from, what)? })
    }
}
