//! How is all this kept? As bytes: little-endian, lengths first. Nothing read is trusted.

use std::io::{self, Read, Write};

use crate::encoder::{Encoder, EncoderSettings};
use crate::features::{Features, Kind, hash_of};
use crate::learning::{Seen, SeenName};
use crate::moments::Moments;

/// The longest word and the longest list that are read.
const MAX_LEN: u32 = 1 << 24;

fn odd(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

fn put_len(out: &mut dyn Write, len: usize) -> io::Result<()> {
    let len =
        u32::try_from(len).ok().filter(|len| *len <= MAX_LEN).ok_or_else(|| odd("too long"))?;
    out.write_all(&len.to_le_bytes())
}

fn put_str(out: &mut dyn Write, word: &str) -> io::Result<()> {
    put_len(out, word.len())?;
    out.write_all(word.as_bytes())
}

fn put_f64(out: &mut dyn Write, number: f64) -> io::Result<()> {
    out.write_all(&number.to_le_bytes())
}

fn take<const N: usize>(from: &mut dyn Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn take_len(from: &mut dyn Read) -> io::Result<usize> {
    match u32::from_le_bytes(take(from)?) {
        len if len <= MAX_LEN => Ok(len as usize),
        len => Err(odd(format!("a length of {len}"))),
    }
}

fn take_u64(from: &mut dyn Read) -> io::Result<u64> {
    Ok(u64::from_le_bytes(take(from)?))
}

fn take_f64(from: &mut dyn Read) -> io::Result<f64> {
    let number = f64::from_le_bytes(take(from)?);
    if number.is_finite() { Ok(number) } else { Err(odd(format!("the number {number}"))) }
}

fn take_str(from: &mut dyn Read) -> io::Result<String> {
    let len = take_len(from)?;
    let mut bytes = Vec::new();
    let found = from.take(len as u64).read_to_end(&mut bytes)?;
    if found != len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    String::from_utf8(bytes).map_err(|_| odd("a word that is not UTF-8"))
}

fn take_bool(from: &mut dyn Read) -> io::Result<bool> {
    match take::<1>(from)? {
        [0] => Ok(false),
        [1] => Ok(true),
        [other] => Err(odd(format!("a yes or no that is {other}"))),
    }
}

fn take_kind(from: &mut dyn Read) -> io::Result<Kind> {
    let [number] = take(from)?;
    Kind::ALL
        .get(number as usize)
        .copied()
        .ok_or_else(|| odd(format!("a feature of kind {number}")))
}

impl Features {
    /// Writes them.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        put_len(out, self.atoms.len())?;
        for atom in &self.atoms {
            put_str(out, self.name(atom))?;
            out.write_all(&atom.space.to_le_bytes())?;
            out.write_all(&[atom.kind.number()])?;
            put_f64(out, atom.value)?;
            if atom.kind == Kind::List {
                let list = self.list(atom);
                put_len(out, list.len())?;
                list.iter().try_for_each(|number| out.write_all(&number.to_le_bytes()))?;
            }
        }
        Ok(())
    }

    /// Reads them.
    pub fn read(from: &mut dyn Read) -> io::Result<Self> {
        let mut features = Self::default();
        for _ in 0..take_len(from)? {
            let (name, space) = (take_str(from)?, take_u64(from)?);
            let (kind, value) = (take_kind(from)?, take_f64(from)?);
            let mut list = Vec::new();
            if kind == Kind::List {
                for _ in 0..take_len(from)? {
                    list.push(f32::from_le_bytes(take(from)?));
                }
            }
            if list.iter().any(|number| !number.is_finite()) {
                return Err(odd("a list with numbers that are not finite"));
            }
            features.push(&name, space, kind, value, &list);
        }
        Ok(features)
    }
}

impl Moments {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        [self.count, self.mean, self.squares].iter().try_for_each(|number| put_f64(out, *number))
    }

    fn read(from: &mut dyn Read) -> io::Result<Self> {
        Ok(Self { count: take_f64(from)?, mean: take_f64(from)?, squares: take_f64(from)? })
    }
}

impl Seen {
    /// Writes it.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        put_len(out, self.names.len())?;
        for SeenName { hash, name, kind, crossed } in &self.names {
            out.write_all(&hash.to_le_bytes())?;
            put_str(out, name)?;
            out.write_all(&[kind.number(), u8::from(*crossed)])?;
        }
        put_len(out, self.moments.len())?;
        for (number, moments) in &self.moments {
            out.write_all(&number.to_le_bytes())?;
            moments.write(out)?;
        }
        Ok(())
    }

    /// Reads it.
    pub fn read(from: &mut dyn Read) -> io::Result<Self> {
        let mut seen = Self::default();
        for _ in 0..take_len(from)? {
            let (hash, name) = (take_u64(from)?, take_str(from)?);
            let (kind, crossed) = (take_kind(from)?, take_bool(from)?);
            seen.names.push(SeenName { hash, name, kind, crossed });
        }
        for _ in 0..take_len(from)? {
            seen.moments.push((u32::from_le_bytes(take(from)?), Moments::read(from)?));
        }
        Ok(seen)
    }
}

impl EncoderSettings {
    /// Writes them.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.seed.to_le_bytes())?;
        out.write_all(&[u8::from(self.constant)])?;
        put_len(out, self.interactions.len())?;
        for (one, other) in &self.interactions {
            put_str(out, one)?;
            put_str(out, other)?;
        }
        Ok(())
    }

    /// Reads them.
    pub fn read(from: &mut dyn Read) -> io::Result<Self> {
        let (seed, constant) = (take_u64(from)?, take_bool(from)?);
        let mut interactions = Vec::new();
        for _ in 0..take_len(from)? {
            interactions.push((take_str(from)?, take_str(from)?));
        }
        Ok(Self { seed, interactions, constant })
    }
}

impl Encoder {
    /// Writes all that was learned; what was only gathered is not.
    pub fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        self.as_seen().write(out)
    }

    /// Takes over what [`Encoder::save`] of an encoder with the same settings wrote.
    pub fn load(&mut self, from: &mut dyn Read) -> io::Result<()> {
        let seen = Seen::read(from)?;
        let mut fresh = Self::new(self.dim(), self.settings().clone());
        fresh.learn(&seen);
        if fresh.names().count() != seen.names.len() {
            return Err(odd("a feature that is there twice"));
        }
        *self = fresh;
        Ok(())
    }
}

/// The hash of a name, for those who look for a feature by it.
pub fn name_hash(name: &str) -> u64 {
    hash_of(name)
}
