//! A group of events as bytes.
//!
//! ```text
//! frame = version u8 · events u32 · { length · event }* · xxh3-64 of (first number · all before)
//! ```
//!
//! The checksum covers the number of the first event, so that a frame in the wrong place is as
//! damaged as one with a flipped bit.

use xxhash_rust::xxh3::Xxh3;

use super::{JournalError, Visit};
use crate::bytes::{Malformed, Put, Take};

/// The layout above.
const VERSION: u8 = 1;

/// Events that are appended together.
#[derive(Clone, Debug, Default)]
pub struct Group {
    events: u32,
    body: Vec<u8>,
    scratch: Vec<u8>,
    control: u64,
}

impl Group {
    /// Adds an event, whose bytes `encode` appends to what it is given.
    pub fn push(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        self.scratch.clear();
        encode(&mut self.scratch);
        self.body.put_bytes(&self.scratch).expect("memory takes all bytes");
        self.events += 1;
    }

    /// Says up to which number of a cluster's control stream the state has come with it.
    pub fn set_control(&mut self, number: u64) {
        self.control = number;
    }

    /// That number; 0 outside a cluster.
    pub fn control(&self) -> u64 {
        self.control
    }

    /// How many events it has.
    pub fn events(&self) -> u64 {
        self.events.into()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.events == 0
    }

    /// How many bytes its events take.
    pub fn bytes(&self) -> usize {
        self.body.len()
    }

    /// Where it ends now, for [`Group::rewind`].
    pub fn mark(&self) -> (u32, usize) {
        (self.events, self.body.len())
    }

    /// Forgets all events since a mark.
    pub fn rewind(&mut self, (events, bytes): (u32, usize)) {
        self.events = events;
        self.body.truncate(bytes);
    }

    /// The frame of this group when its first event has the number `first`.
    pub fn frame(&self, first: u64) -> Vec<u8> {
        let mut frame = Vec::with_capacity(self.body.len() + 16);
        self.frame_into(first, &mut frame);
        frame
    }

    /// The same at the end of what is there.
    pub fn frame_into(&self, first: u64, out: &mut Vec<u8>) {
        let begin = out.len();
        out.push(VERSION);
        out.extend(self.events.to_le_bytes());
        out.extend(&self.body);
        let sum = checksum(first, &out[begin..]);
        out.extend(sum.to_le_bytes());
    }
}

/// Checks a frame and visits its events from number `from` on. Returns how many it holds.
pub fn read(first: u64, frame: &[u8], from: u64, visit: &mut Visit) -> Result<u64, JournalError> {
    let whole = whole(first, frame);
    let whole = whole.map_err(|what| JournalError::Damaged { event: first, what })?;
    events(first, whole, from, visit)
}

/// What a frame holds, if it is what was written; otherwise what is wrong.
pub(super) fn whole(first: u64, frame: &[u8]) -> Result<&[u8], String> {
    let Some((checked, sum)) = frame.split_last_chunk::<8>() else {
        return Err(format!("a group of {} bytes", frame.len()));
    };
    match u64::from_le_bytes(*sum) == checksum(first, checked) {
        true => Ok(checked),
        false => Err("the checksum of its group does not match".to_owned()),
    }
}

/// Visits the events from number `from` on of a group that is whole. Returns how many it holds.
pub(super) fn events(
    first: u64,
    whole: &[u8],
    from: u64,
    visit: &mut Visit,
) -> Result<u64, JournalError> {
    let damaged = |what: String| JournalError::Damaged { event: first, what };
    // From here on the bytes are those that were written; what is odd was written by somebody else.
    let mut rest = whole;
    let mut head = || -> Result<(u8, u32), Malformed> { Ok((rest.take_u8()?, rest.take_u32()?)) };
    let (version, events) = head().map_err(|why| damaged(why.to_string()))?;
    if version != VERSION {
        return Err(damaged(format!(
            "its group has layout version {version}, this program knows {VERSION}: a newer one wrote it"
        )));
    }
    for event in first..first.saturating_add(events.into()) {
        let damaged = |why: Malformed| JournalError::Damaged { event, what: why.to_string() };
        let len = rest.take_len().map_err(damaged)?;
        let Some((bytes, after)) = rest.split_at_checked(len) else {
            return Err(damaged(Malformed::odd("its group ends inside it")));
        };
        rest = after;
        if event >= from {
            visit(event, bytes)?;
        }
    }
    match rest.len() {
        0 => Ok(events.into()),
        extra => Err(damaged(format!("{extra} bytes after the end of its group"))),
    }
}

fn checksum(first: u64, bytes: &[u8]) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(&first.to_le_bytes());
    hasher.update(bytes);
    hasher.digest()
}
