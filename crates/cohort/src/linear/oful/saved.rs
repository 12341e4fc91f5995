//! Serialisation of a learner.

use std::io::{self, Read, Write};

use super::Oful;
use crate::Error;
use crate::saved::{read_count, read_numbers, write_count, write_numbers};

impl Oful {
    /// Writes the whole state, the inverse included.
    pub fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        write_numbers(out, self.precision.packed())?;
        write_numbers(out, self.inverse.packed())?;
        write_numbers(out, &self.moment)?;
        write_numbers(out, &self.estimate)?;
        write_numbers(out, &[self.log_det])?;
        write_count(out, self.updates)
    }

    /// Reads what [`Oful::save`] wrote of a learner of this dimension and regulariser.
    pub fn load(
        from: &mut dyn Read,
        what: &'static str,
        dim: usize,
        lambda: f64,
    ) -> Result<Self, Error> {
        let mut oful = Self::new(dim, lambda);
        read_numbers(from, what, oful.precision.packed_mut())?;
        read_numbers(from, what, oful.inverse.packed_mut())?;
        read_numbers(from, what, &mut oful.moment)?;
        read_numbers(from, what, &mut oful.estimate)?;
        read_numbers(from, what, std::slice::from_mut(&mut oful.log_det))?;
        oful.updates = read_count(from, what)?;
        Ok(oful)
    }
}
