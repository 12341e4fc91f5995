//! What an owner asks of a replicated stream, and nothing about which one: the seam where a simulation lets messages
//! be late, doubled or lost.

use super::record::{Assembler, Frame, Record};
use crate::journal::JournalError;

/// Why a message was not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAcknowledged {
    /// Another message stands where it should.
    WrongSequence,
    /// Nobody knows whether it arrived.
    Unknown,
}

/// A stream that did not answer. It may be asked again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream does not answer: {0}")]
pub struct Unreachable(pub String);

/// The messages that a stream holds: from the first to the last, without those that were purged before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The first that is there; one more than `last` where none is.
    pub first: u64,
    /// The last that ever was there, 0 if there was none.
    pub last: u64,
}

/// What is done with a message and its sequence.
pub type Visit<'a> = dyn FnMut(u64, &[u8]) -> Result<(), JournalError> + 'a;

/// A stream of numbered messages, replicated and synced by others.
pub trait Log: Send {
    /// A message under way.
    type Ticket: Send;

    /// Sends a message that shall stand right after sequence `after`, and does not wait.
    fn publish(&self, after: u64, bytes: &[u8]) -> Self::Ticket;

    /// Waits until it is safe; returns where it stands.
    fn wait(&self, ticket: Self::Ticket) -> Result<u64, NotAcknowledged>;

    /// The message of a sequence as the leader has it; `None` if there is none.
    fn get(&self, sequence: u64) -> Result<Option<Vec<u8>>, Unreachable>;

    /// Which messages there are.
    fn bounds(&self) -> Result<Bounds, Unreachable>;

    /// Visits messages in order, from one sequence to another. Some may be missing.
    fn scan(&self, from: u64, to: u64, visit: &mut Visit) -> Result<(), JournalError>;

    /// Forgets messages before a sequence.
    fn purge(&self, before: u64) -> Result<(), Unreachable>;

    /// Waits before the `attempt`-th try. `false` if nobody wants it any more.
    fn pause(&self, attempt: u32) -> bool;

    /// The most bytes that a message may have.
    fn most_bytes(&self) -> usize;

    /// What people call it.
    fn name(&self) -> &str;

    /// Another handle on the same stream.
    fn again(&self) -> Box<dyn Log<Ticket = Self::Ticket>>;
}

/// Where a stream ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// The last sequence.
    pub sequence: u64,
    /// The last event of the last frame that is complete.
    pub event: u64,
    /// Up to which number of the control stream that frame had come.
    pub control: u64,
    /// The last owner's epoch.
    pub epoch: u64,
}

impl Tail {
    /// Refuses a stream that ends before an event that was acknowledged.
    pub(super) fn reaches(&self, known: u64, name: &str) -> Result<(), JournalError> {
        match self.event < known {
            true => {
                let last = self.event;
                let what = format!("it ends at event {last}, but event {known} was acknowledged");
                Err(super::journal::gone(name, what))
            }
            false => Ok(()),
        }
    }
}

/// Asks until there is an answer, or nobody wants one.
pub(super) fn insist<T, L: Log + ?Sized>(
    log: &L,
    mut ask: impl FnMut(&L) -> Result<T, Unreachable>,
) -> Result<T, JournalError> {
    for attempt in 1.. {
        match ask(log) {
            Ok(answer) => return Ok(answer),
            Err(Unreachable(why)) if !log.pause(attempt) => {
                return Err(store(log.name(), "be reached", why));
            }
            Err(_) => {}
        }
    }
    unreachable!("attempts do not end")
}

pub(super) fn store(name: &str, action: &'static str, why: String) -> JournalError {
    JournalError::Store { path: format!("in the stream {name}"), action, why }
}

/// The record of a sequence; `None` if it is not there.
pub(super) fn record<L: Log + ?Sized>(
    log: &L,
    sequence: u64,
) -> Result<Option<Record>, JournalError> {
    let Some(bytes) = insist(log, |log| log.get(sequence))? else { return Ok(None) };
    decode(sequence, &bytes).map(Some)
}

fn decode(sequence: u64, bytes: &[u8]) -> Result<Record, JournalError> {
    Record::decode(sequence, bytes).map_err(|why| {
        let what = format!("record {sequence} of its stream: {why}");
        JournalError::Damaged { event: 0, what }
    })
}

/// Where the stream ends, from its last records.
pub(super) fn tail<L: Log + ?Sized>(log: &L, bounds: Bounds) -> Result<Tail, JournalError> {
    let Bounds { first, last } = bounds;
    let missing = |sequence: u64| {
        let what = format!("record {sequence} of its stream is not there");
        JournalError::Damaged { event: 0, what }
    };
    let mut at = last;
    let mut tail = Tail { sequence: last, ..Tail::default() };
    while at >= first && at > 0 {
        let found = record(log, at)?.ok_or_else(|| missing(at))?;
        tail.epoch = tail.epoch.max(found.epoch);
        // A frame without its end was never acknowledged; what counts is what is before it.
        if found.kind == super::record::Kind::Epoch || found.ends_frame() {
            (tail.event, tail.control) = (found.next() - 1, found.control);
            return Ok(tail);
        }
        at = at.saturating_sub(u64::from(found.part) + 1);
    }
    Ok(tail)
}

/// The sequence of the record that begins the frame with an event, or of an epoch record before it.
pub(super) fn locate<L: Log + ?Sized>(
    log: &L,
    bounds: Bounds,
    event: u64,
) -> Result<u64, JournalError> {
    let (mut low, mut high) = (bounds.first, bounds.last + 1);
    // Invariant: the record at `low` begins at or before the event, or is the first; that at `high` begins after it.
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        let what = || format!("record {middle} of its stream is not there");
        let found =
            record(log, middle)?.ok_or_else(|| JournalError::Damaged { event, what: what() })?;
        match found.first <= event {
            true => low = middle,
            false => high = middle,
        }
    }
    // Several may begin with the same event: a frame, its parts, one that was torn, epochs. The first of them counts,
    // and the one that holds the event may begin before it.
    let Some(found) = record(log, low)? else { return Ok(low) };
    let mut begin = low;
    while begin > bounds.first {
        match record(log, begin - 1)? {
            Some(before) if before.first == found.first => begin -= 1,
            _ => break,
        }
    }
    Ok(begin)
}

/// Visits complete frames whose records stand from one sequence to another, checking all of them. What one replica
/// gives that is damaged is asked of the leader.
pub fn frames<L: Log + ?Sized>(
    log: &L,
    from: u64,
    to: u64,
    visit: &mut dyn FnMut(u64, Frame) -> Result<(), JournalError>,
) -> Result<(), JournalError> {
    let mut assembler = Assembler::default();
    let mut next = from;
    let mut failed = None;
    let scanned = log.scan(from, to, &mut |sequence, bytes| {
        if sequence < next {
            return Ok(());
        }
        if let Ok(found) = Record::decode(sequence, bytes)
            && sequence == next
        {
            next += 1;
            let frame = assembler.push(found).and_then(|frame| match frame {
                Some(frame) => visit(sequence, frame),
                None => Ok(()),
            });
            return frame.inspect_err(|_| failed = Some(()));
        }
        Err(JournalError::Failed("a record is damaged or not there".to_owned()))
    });
    if failed.is_some() {
        return scanned;
    }
    while next <= to {
        let what = format!("record {next} of its stream is not there");
        let damaged = JournalError::Damaged { event: assembler.next_event(), what };
        let found = record(log, next)?.ok_or(damaged)?;
        if let Some(frame) = assembler.push(found)? {
            visit(next, frame)?;
        }
        next += 1;
    }
    Ok(())
}
