//! One message of a partition's stream as bytes.
//!
//! ```text
//! record = version u8 · kind u8 · part u32 · parts u32 · sequence u64 · epoch u64 · first u64 · events u32 ·
//!          control u64 · payload · xxh3-64 of all before
//! ```
//!
//! An owner begins with an epoch record; from then on every record is a frame of the journal
//! ([`crate::journal::frame`]), or a part of one that is larger than a message may be. A record says at which
//! sequence of the stream it was meant to stand: one that stands elsewhere is damage, whatever the store says. The
//! parts of a frame follow each other; a frame whose last part is missing was never acknowledged, and is passed over
//! where the next record is a new owner's epoch record. Anything else out of order is damage.

use xxhash_rust::xxh3::xxh3_64;

use crate::bytes::{Malformed, Put, Take};
use crate::journal::JournalError;

/// The layout above.
const VERSION: u8 = 1;
/// Bytes of a record beside its payload.
pub const RECORD_BYTES: usize = 1 + 1 + 4 + 4 + 8 + 8 + 8 + 4 + 8 + 8;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A new owner begins here; the payload is its name.
    Epoch,
    /// A frame, or a part of one.
    Frame,
}

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// What it is.
    pub kind: Kind,
    /// Which part of a frame, from 0 …
    pub part: u32,
    /// … of so many.
    pub parts: u32,
    /// Where it stands in the stream.
    pub sequence: u64,
    /// The owner's epoch.
    pub epoch: u64,
    /// The number of the frame's first event; of an epoch record, the number that the next event gets.
    pub first: u64,
    /// How many events the frame has.
    pub events: u32,
    /// Up to which number of the control stream its owner had come with this frame.
    pub control: u64,
    /// The frame's bytes, or a part of them.
    pub payload: Vec<u8>,
}

impl Record {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(RECORD_BYTES + self.payload.len());
        self.write(&mut out).expect("memory takes all bytes");
        let sum = xxh3_64(&out);
        out.extend(sum.to_le_bytes());
        out
    }

    fn write(&self, out: &mut Vec<u8>) -> std::io::Result<()> {
        out.put_u8(VERSION)?;
        out.put_u8(match self.kind {
            Kind::Epoch => 1,
            Kind::Frame => 2,
        })?;
        out.put_u32(self.part)?;
        out.put_u32(self.parts)?;
        out.put_u64(self.sequence)?;
        out.put_u64(self.epoch)?;
        out.put_u64(self.first)?;
        out.put_u32(self.events)?;
        out.put_u64(self.control)?;
        out.extend(&self.payload);
        Ok(())
    }

    /// Reads a record that the store says to stand at `sequence`.
    pub fn decode(sequence: u64, bytes: &[u8]) -> Result<Self, Malformed> {
        let Some((mut from, sum)) = bytes.split_last_chunk::<8>() else {
            return Err(Malformed::odd(format!("a record of {} bytes", bytes.len())));
        };
        if u64::from_le_bytes(*sum) != xxh3_64(from) {
            return Err(Malformed::odd("the checksum of its record does not match"));
        }
        let from = &mut from;
        match from.take_u8()? {
            VERSION => {}
            version => {
                return Err(Malformed::odd(format!(
                    "a record of layout version {version}, this program knows {VERSION}: a newer one wrote it"
                )));
            }
        }
        let kind = match from.take_u8()? {
            1 => Kind::Epoch,
            2 => Kind::Frame,
            kind => return Err(Malformed::odd(format!("a record of the unknown kind {kind}"))),
        };
        let (part, parts) = (from.take_u32()?, from.take_u32()?);
        let (stands, epoch) = (from.take_u64()?, from.take_u64()?);
        let (first, events, control) = (from.take_u64()?, from.take_u32()?, from.take_u64()?);
        if stands != sequence {
            let what = format!("a record meant for sequence {stands} stands at {sequence}");
            return Err(Malformed::odd(what));
        }
        if part >= parts {
            return Err(Malformed::odd(format!("part {part} of {parts}")));
        }
        let payload = from.to_vec();
        Ok(Self { kind, part, parts, sequence, epoch, first, events, control, payload })
    }

    /// Whether it is the last part of a frame.
    pub fn ends_frame(&self) -> bool {
        self.kind == Kind::Frame && self.part + 1 == self.parts
    }

    /// The number that the event after it gets, if it ends a frame or begins an epoch.
    pub fn next(&self) -> u64 {
        self.first + u64::from(self.events)
    }
}

/// Puts records together to frames, and finds what is missing or out of order.
#[derive(Default)]
pub struct Assembler {
    /// The sequence that comes next.
    sequence: Option<u64>,
    /// The event that comes next.
    event: Option<u64>,
    epoch: u64,
    /// Parts of a frame that is not complete.
    parts: Vec<u8>,
    part: u32,
}

/// A frame that is complete.
pub struct Frame {
    /// The number of its first event.
    pub first: u64,
    /// How many it has.
    pub events: u32,
    /// Up to which number of the control stream it had come.
    pub control: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl Assembler {
    /// The event that comes next, as far as it is known.
    pub fn next_event(&self) -> u64 {
        self.event.unwrap_or_default()
    }

    /// Takes the next record. Returns a frame when it is complete.
    pub fn push(&mut self, record: Record) -> Result<Option<Frame>, JournalError> {
        let damaged = |what: String| JournalError::Damaged { event: record.first, what };
        if let Some(expected) = self.sequence.filter(|expected| *expected != record.sequence) {
            return Err(damaged(format!(
                "records {expected} to {} of its stream are not there",
                record.sequence.wrapping_sub(1)
            )));
        }
        if record.epoch < self.epoch {
            let what =
                format!("an owner of epoch {} wrote after epoch {}", record.epoch, self.epoch);
            return Err(damaged(what));
        }
        let begins = record.part == 0;
        if begins && self.event.is_some_and(|event| event != record.first) {
            let missing = self.event.unwrap_or_default();
            let last = record.first.wrapping_sub(1);
            return Err(damaged(format!("events {missing} to {last} are not there")));
        }
        let incomplete = self.part > 0;
        if record.kind == Kind::Frame && record.epoch != self.epoch && self.epoch != 0 {
            return Err(damaged(format!("epoch {} did not begin", record.epoch)));
        }
        if record.kind == Kind::Frame && incomplete && record.part != self.part {
            return Err(damaged(format!("part {} of a frame is not there", self.part)));
        }
        if record.kind == Kind::Frame && !incomplete && !begins && self.sequence.is_some() {
            return Err(damaged("the beginning of a frame is not there".to_owned()));
        }
        self.sequence = Some(record.sequence + 1);
        self.epoch = record.epoch;
        if record.kind == Kind::Epoch {
            (self.part, self.event) = (0, Some(record.first));
            self.parts.clear();
            return Ok(None);
        }
        if !incomplete && !begins {
            // Reading began inside a frame, of which nothing is wanted.
            return Ok(None);
        }
        self.event = self.event.or(Some(record.first));
        self.parts.extend(&record.payload);
        self.part = record.part + 1;
        if !record.ends_frame() {
            return Ok(None);
        }
        self.part = 0;
        self.event = Some(record.next());
        let bytes = std::mem::take(&mut self.parts);
        let Record { first, events, control, .. } = record;
        Ok(Some(Frame { first, events, control, bytes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(sequence: u64, epoch: u64, part: u32, parts: u32, first: u64) -> Record {
        let (kind, events, control) = (Kind::Frame, 2, 0);
        let payload = vec![part as u8];
        Record { kind, part, parts, sequence, epoch, first, events, control, payload }
    }

    fn epoch(sequence: u64, epoch: u64, first: u64) -> Record {
        Record { kind: Kind::Epoch, events: 0, ..record(sequence, epoch, 0, 1, first) }
    }

    #[test]
    fn every_flipped_bit_of_a_record_is_found_and_so_is_another_place() {
        let one = record(7, 3, 0, 1, 5);
        let bytes = one.encode();
        assert_eq!(bytes.len(), RECORD_BYTES + 1);
        assert_eq!(Record::decode(7, &bytes).unwrap(), one);
        assert!(Record::decode(8, &bytes).is_err());
        for bit in 0..8 * bytes.len() {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Record::decode(7, &bytes).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(Record::decode(7, &bytes[..length]).is_err());
        }
    }

    #[test]
    fn a_frame_without_its_end_is_passed_over_only_before_a_new_epoch() {
        let read = |records: Vec<Record>| -> Result<Vec<(u64, Vec<u8>)>, JournalError> {
            let mut assembler = Assembler::default();
            let mut frames = Vec::new();
            for record in records {
                frames.extend(assembler.push(record)?.map(|frame| (frame.first, frame.bytes)));
            }
            Ok(frames)
        };
        let whole = vec![epoch(1, 1, 1), record(2, 1, 0, 2, 1), record(3, 1, 1, 2, 1)];
        assert_eq!(read(whole).unwrap(), [(1, vec![0, 1])]);
        let torn = vec![epoch(1, 1, 1), record(2, 1, 0, 2, 1), epoch(3, 2, 1)];
        let torn = [torn, vec![record(4, 2, 0, 1, 1)]].concat();
        assert_eq!(read(torn).unwrap(), [(1, vec![0])]);
        // Another frame instead of the second part; a gap; an old owner; events left out.
        for wrong in [
            vec![epoch(1, 1, 1), record(2, 1, 0, 2, 1), record(3, 1, 0, 1, 3)],
            vec![epoch(1, 1, 1), record(3, 1, 0, 1, 1)],
            vec![epoch(1, 2, 1), record(2, 1, 0, 1, 1)],
            vec![epoch(1, 1, 1), record(2, 2, 0, 1, 1)],
            vec![epoch(1, 1, 1), record(2, 1, 0, 1, 3)],
            vec![epoch(1, 1, 1), record(2, 1, 1, 2, 1)],
        ] {
            assert!(matches!(read(wrong), Err(JournalError::Damaged { .. })));
        }
    }
}
