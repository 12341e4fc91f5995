//! Serialisation of a learner.

use std::io::{self, Read, Write};

use super::Oful;
use crate::Error;
use crate::saved::{read_count, read_numbers, read_some, write_count, write_numbers};

impl Oful {
    /// Writes the whole state, the inverse included.
    pub fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        self.write_numbers(out)?;
        write_count(out, self.numbers.updates)
    }

    /// Reads what [`Oful::save`] wrote of a learner of this dimension and regulariser.
    pub fn load(
        from: &mut dyn Read,
        what: &'static str,
        dim: usize,
        lambda: f64,
    ) -> Result<Self, Error> {
        let mut oful = Self::read_numbers(from, what, dim, lambda)?;
        oful.own().updates = read_count(from, what)?;
        Ok(oful)
    }

    /// Writes the layout of some policies, in which the number of updates is an f64.
    pub(crate) fn save_as_numbers(&self, out: &mut dyn Write) -> io::Result<()> {
        self.write_numbers(out)?;
        write_numbers(out, &[self.numbers.updates as f64])
    }

    /// Reads what [`Oful::save_as_numbers`] wrote.
    pub(crate) fn load_numbers(
        from: &mut dyn Read,
        what: &'static str,
        dim: usize,
        lambda: f64,
    ) -> Result<Self, Error> {
        let mut oful = Self::read_numbers(from, what, dim, lambda)?;
        oful.own().updates = read_some(from, what, 1)?[0] as usize;
        Ok(oful)
    }

    fn write_numbers(&self, out: &mut dyn Write) -> io::Result<()> {
        write_numbers(out, self.numbers.precision.packed())?;
        write_numbers(out, self.numbers.inverse.packed())?;
        write_numbers(out, &self.numbers.moment)?;
        write_numbers(out, &self.numbers.estimate)?;
        write_numbers(out, &[self.numbers.log_det])
    }

    fn read_numbers(
        from: &mut dyn Read,
        what: &'static str,
        dim: usize,
        lambda: f64,
    ) -> Result<Self, Error> {
        let mut oful = Self::new(dim, lambda);
        let own = oful.own();
        read_numbers(from, what, own.precision.packed_mut())?;
        read_numbers(from, what, own.inverse.packed_mut())?;
        read_numbers(from, what, &mut own.moment)?;
        read_numbers(from, what, &mut own.estimate)?;
        read_numbers(from, what, std::slice::from_mut(&mut own.log_det))?;
        Ok(oful)
    }
}
