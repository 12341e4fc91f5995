//! Numbers and words as bytes and back: little-endian, lengths first, every step checked.
//!
//! Journal events and snapshots are both written with this. Nothing read is trusted: lengths are
//! compared with what is left before memory is taken, words must be UTF-8, numbers finite.

use std::io::{self, Read, Write};

/// Why bytes could not be understood.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    /// They end, or their source fails, too early.
    #[error("they cannot be read to their end: {0}")]
    Short(#[from] io::Error),
    /// Something in them is not what it should be.
    #[error("{0}")]
    Odd(String),
}

impl Malformed {
    /// Something that should not be there.
    pub fn odd(what: impl Into<String>) -> Self {
        Self::Odd(what.into())
    }
}

/// The longest word and the longest list that will be read: far above every limit of the service.
/// It is no promise of memory: that grows with what is really there.
const MAX_LEN: u64 = 1 << 30;

/// Writes to anything that takes bytes.
pub trait Put: Write {
    /// One byte.
    fn put_u8(&mut self, value: u8) -> io::Result<()> {
        self.write_all(&[value])
    }

    /// Four bytes.
    fn put_u32(&mut self, value: u32) -> io::Result<()> {
        self.write_all(&value.to_le_bytes())
    }

    /// Eight bytes.
    fn put_u64(&mut self, value: u64) -> io::Result<()> {
        self.write_all(&value.to_le_bytes())
    }

    /// Eight bytes.
    fn put_f64(&mut self, value: f64) -> io::Result<()> {
        self.write_all(&value.to_le_bytes())
    }

    /// A length, seven bits a byte, low ones first.
    fn put_len(&mut self, len: usize) -> io::Result<()> {
        let mut rest = len as u64;
        while rest >= 0x80 {
            self.put_u8(rest as u8 | 0x80)?;
            rest >>= 7;
        }
        self.put_u8(rest as u8)
    }

    /// Bytes with their length.
    fn put_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.put_len(bytes.len())?;
        self.write_all(bytes)
    }

    /// A word with its length.
    fn put_str(&mut self, word: &str) -> io::Result<()> {
        self.put_bytes(word.as_bytes())
    }

    /// Numbers with their count.
    fn put_numbers(&mut self, numbers: &[f64]) -> io::Result<()> {
        self.put_len(numbers.len())?;
        numbers.iter().try_for_each(|number| self.put_f64(*number))
    }

    /// A number or nothing.
    fn put_option(&mut self, number: Option<f64>) -> io::Result<()> {
        self.put_u8(number.is_some().into())?;
        number.map_or(Ok(()), |number| self.put_f64(number))
    }
}

impl<W: Write + ?Sized> Put for W {}

/// Reads from anything that gives bytes.
pub trait Take: Read + Sized {
    /// As many bytes as the array has.
    fn take_array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let mut bytes = [0; N];
        self.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// One byte.
    fn take_u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.take_array::<1>()?[0])
    }

    /// One byte that is 0 or 1.
    fn take_bool(&mut self) -> Result<bool, Malformed> {
        match self.take_u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Malformed::odd(format!("a yes or no that is {other}"))),
        }
    }

    /// Four bytes.
    fn take_u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.take_array()?))
    }

    /// Eight bytes.
    fn take_u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.take_array()?))
    }

    /// Eight bytes, a finite number.
    fn take_f64(&mut self) -> Result<f64, Malformed> {
        let number = f64::from_le_bytes(self.take_array()?);
        match number.is_finite() {
            true => Ok(number),
            false => Err(Malformed::odd(format!("the number {number}"))),
        }
    }

    /// A length.
    fn take_len(&mut self) -> Result<usize, Malformed> {
        let mut len = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take_u8()?;
            len |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        match len {
            0..=MAX_LEN => Ok(len as usize),
            _ => Err(Malformed::odd(format!("a length of {len}"))),
        }
    }

    /// Bytes with their length. Memory grows with what is really there.
    fn take_bytes(&mut self) -> Result<Vec<u8>, Malformed> {
        let len = self.take_len()?;
        let mut bytes = Vec::with_capacity(len.min(4096));
        let found = self.by_ref().take(len as u64).read_to_end(&mut bytes)?;
        match found == len {
            true => Ok(bytes),
            false => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        }
    }

    /// A word with its length.
    fn take_str(&mut self) -> Result<String, Malformed> {
        String::from_utf8(self.take_bytes()?)
            .map_err(|_| Malformed::odd("a word that is not UTF-8".to_owned()))
    }

    /// Finite numbers with their count.
    fn take_numbers(&mut self) -> Result<Vec<f64>, Malformed> {
        let count = self.take_len()?;
        let mut numbers = Vec::with_capacity(count.min(512));
        for _ in 0..count {
            numbers.push(self.take_f64()?);
        }
        Ok(numbers)
    }

    /// A finite number or nothing.
    fn take_option(&mut self) -> Result<Option<f64>, Malformed> {
        self.take_bool()?.then(|| self.take_f64()).transpose()
    }
}

impl<R: Read> Take for R {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_put_is_taken(
            word in ".{0,40}",
            numbers in prop::collection::vec(-1e300..1e300f64, 0..20),
            len in 0usize..1 << 24,
            option in prop::option::of(-1.0..1.0f64),
        ) {
            let mut bytes = Vec::new();
            bytes.put_str(&word)?;
            bytes.put_numbers(&numbers)?;
            bytes.put_len(len)?;
            bytes.put_option(option)?;
            let mut from = bytes.as_slice();
            prop_assert_eq!(from.take_str().unwrap(), word);
            prop_assert_eq!(from.take_numbers().unwrap(), numbers);
            prop_assert_eq!(from.take_len().unwrap(), len);
            prop_assert_eq!(from.take_option().unwrap(), option);
            prop_assert!(from.is_empty());
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert!([0xff; 12].as_slice().take_len().is_err(), "a length beyond all memory");
        assert!([200, 1, 7].as_slice().take_bytes().is_err(), "more bytes than there are");
        assert!(f64::NAN.to_le_bytes().as_slice().take_f64().is_err());
        assert!([2u8].as_slice().take_bool().is_err());
        assert!([2, 0xff, 0xfe].as_slice().take_str().is_err());
    }
}
