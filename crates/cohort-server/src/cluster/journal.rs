//! A journal in a replicated stream, of which this process is the only writer until another one begins.
//!
//! Every message says which sequence must stand before it, and is sent when that one is acknowledged. The first message of
//! another owner takes the place that this one counts on: what it sends then is refused, and it steps down. Where an
//! acknowledgement does not come, the message is sent again with the same expectation: at most one of both can stand, and
//! what stands there is compared byte by byte.
//!
//! Sending several at once, each after the predicted sequence of the one before, would be faster and is wrong: where the first is
//! lost, a new owner's epoch record can take its place, and the second then stands after a record that it was never meant
//! to follow (`tests/cluster_race.rs` finds that within a few seeds).

use std::time::Duration;

use super::log::{self, Bounds, Log, Tail, insist};
use super::record::{Frame, Kind, RECORD_BYTES, Record};
use crate::journal::{Group, Journal, JournalError, Pruner, Visit, frame};

/// How often is looked whether a message stands, before what does is read.
const ARRIVES: u32 = 10;

/// For how long a group waits for more requests at most: a message costs servers and client as much processor time as some
/// dozen events, and a client under load waits longer than this for its answer in any case.
const GATHERS: Duration = Duration::from_millis(4);

/// A journal in a stream.
pub struct StreamJournal<L: Log> {
    log: L,
    epoch: u64,
    /// The last event that was appended.
    last: u64,
    /// The sequence of the last message that was sent.
    sequence: u64,
    /// Up to which number of the control stream the last frame had come.
    control: u64,
    /// The message that is not acknowledged yet.
    under_way: Option<UnderWay<L::Ticket>>,
    failed: Option<String>,
}

struct UnderWay<T> {
    sequence: u64,
    bytes: Vec<u8>,
    ticket: T,
}

impl<L: Log + 'static> StreamJournal<L>
where
    L::Ticket: 'static,
{
    /// Becomes the owner of a stream: from now on nobody who owned it before can write. A stream that ends before event
    /// `known`, of which somebody knows that it was acknowledged, is refused before anything is written; an epoch is larger
    /// than all before.
    pub fn open(mut log: L, epoch: u64, owner: &str, known: u64) -> Result<Self, JournalError> {
        loop {
            let bounds = insist(&log, |log| log.bounds())?;
            let tail = log::tail(&log, bounds)?;
            tail.reaches(known, log.name())?;
            let Tail { sequence, event, control, epoch: newest } = tail;
            if newest >= epoch {
                return Err(fenced(
                    log.name(),
                    &format!("an owner of epoch {newest}, not {epoch}"),
                ));
            }
            let record = Record {
                kind: Kind::Epoch,
                part: 0,
                parts: 1,
                sequence: sequence + 1,
                epoch,
                first: event + 1,
                events: 0,
                control,
                payload: owner.as_bytes().to_vec(),
            };
            let mut journal = Self {
                log,
                epoch,
                last: event,
                sequence: sequence + 1,
                control,
                under_way: None,
                failed: None,
            };
            let bytes = record.encode();
            let ticket = journal.log.publish(sequence, &bytes);
            journal.under_way = Some(UnderWay { sequence: sequence + 1, bytes, ticket });
            match journal.sync() {
                Ok(()) => return Ok(journal),
                // Whoever owned it wrote once more; what it wrote is before the epoch then.
                Err(JournalError::Fenced { .. }) => log = journal.log,
                Err(why) => return Err(why),
            }
        }
    }

    /// Up to which number of the control stream the last frame had come.
    pub fn control(&self) -> u64 {
        self.control
    }

    /// The sequence of the last message.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    fn check(&self) -> Result<(), JournalError> {
        match &self.failed {
            Some(why) => Err(JournalError::Failed(why.clone())),
            None => Ok(()),
        }
    }

    /// Remembers that it failed: nothing is taken after that.
    fn remember<T>(&mut self, done: Result<T, JournalError>) -> Result<T, JournalError> {
        done.inspect_err(|why| self.failed = Some(why.to_string()))
    }

    /// Waits for the message that is under way, if one is.
    fn settle(&mut self) -> Result<(), JournalError> {
        let Some(UnderWay { sequence, bytes, ticket }) = self.under_way.take() else {
            return Ok(());
        };
        let mut told = self.log.wait(ticket);
        for attempt in 1.. {
            match told {
                Ok(stands) if stands == sequence => return Ok(()),
                Ok(stands) => {
                    let what = format!("record {sequence} of its stream stands at {stands}");
                    return Err(JournalError::Damaged { event: self.last, what });
                }
                Err(_) => {}
            }
            // It may stand there although nobody said so; another may; or nothing does.
            let log = &self.log;
            match insist(log, |log| log.get(sequence))? {
                Some(found) if found == bytes => return Ok(()),
                Some(_) => return Err(fenced(log.name(), "another owner")),
                None => {}
            }
            let Bounds { last, .. } = insist(log, |log| log.bounds())?;
            if last + 1 < sequence {
                let before = sequence - 1;
                let what =
                    format!("it ends at record {last}, but record {before} was acknowledged");
                return Err(gone(log.name(), what));
            }
            if last >= sequence {
                // It came while we looked, or was there and is purged: then another owner has come far.
                match insist(log, |log| log.get(sequence))? {
                    Some(found) if found == bytes => return Ok(()),
                    _ => return Err(fenced(log.name(), "another owner")),
                }
            }
            if !log.pause(attempt) {
                let why = "its servers do not acknowledge".to_owned();
                return Err(log::store(log.name(), "be written", why));
            }
            told = log.wait(log.publish(sequence - 1, &bytes));
        }
        unreachable!("attempts do not end")
    }
}

pub(super) fn gone(name: &str, what: String) -> JournalError {
    JournalError::Gone { stream: name.to_owned(), what }
}

pub(super) fn fenced(name: &str, by: &str) -> JournalError {
    JournalError::Fenced { stream: name.to_owned(), by: by.to_owned() }
}

impl<L: Log + 'static> Journal for StreamJournal<L>
where
    L::Ticket: 'static,
{
    fn last(&self) -> u64 {
        self.last
    }

    fn append(&mut self, group: &Group) -> Result<(), JournalError> {
        self.check()?;
        let first = self.last + 1;
        self.control = self.control.max(group.control());
        let whole = group.frame(first);
        let most = self.log.most_bytes().saturating_sub(RECORD_BYTES).max(1);
        let parts = whole.len().div_ceil(most) as u32;
        for (part, payload) in whole.chunks(most).enumerate() {
            let settled = self.settle();
            self.remember(settled)?;
            let record = Record {
                kind: Kind::Frame,
                part: part as u32,
                parts,
                sequence: self.sequence + 1,
                epoch: self.epoch,
                first,
                events: group.events() as u32,
                control: self.control,
                payload: payload.to_vec(),
            };
            let bytes = record.encode();
            let ticket = self.log.publish(self.sequence, &bytes);
            self.sequence += 1;
            self.under_way = Some(UnderWay { sequence: self.sequence, bytes, ticket });
        }
        self.last += group.events();
        Ok(())
    }

    fn gathers(&self) -> Option<Duration> {
        Some(GATHERS)
    }

    fn sync(&mut self) -> Result<(), JournalError> {
        self.check()?;
        let settled = self.settle();
        self.remember(settled)
    }

    fn pruner(&self) -> Pruner {
        let log = self.log.again();
        Box::new(move |before| {
            let bounds = insist(&*log, |log| log.bounds())?;
            if bounds.first > bounds.last {
                return Ok(());
            }
            // The frame with the event before it stays, and with it the last one.
            let until = log::locate(&*log, bounds, before.saturating_sub(1))?;
            match until > bounds.first {
                true => insist(&*log, |log| log.purge(until)),
                false => Ok(()),
            }
        })
    }

    fn read(&self, from: u64, visit: &mut Visit) -> Result<(), JournalError> {
        // A message that is under way may take a moment until it stands.
        for attempt in 1..=ARRIVES {
            let stands = insist(&self.log, |log| log.bounds())?.last >= self.sequence;
            if stands || !self.log.pause(attempt) {
                break;
            }
        }
        read(&self.log, from, self.sequence, &mut |first, frame| {
            frame::read(first, &frame.bytes, from, visit).map(|_| ())
        })
    }
}

/// Visits the frames that have events from number `from` on, as far as sequence `to`.
pub fn read<L: Log + ?Sized>(
    log: &L,
    from: u64,
    to: u64,
    visit: &mut dyn FnMut(u64, Frame) -> Result<(), JournalError>,
) -> Result<(), JournalError> {
    let bounds = insist(log, |log| log.bounds())?;
    let bounds = Bounds { last: bounds.last.min(to), ..bounds };
    if bounds.first > bounds.last {
        return Ok(());
    }
    let start = log::locate(log, bounds, from)?;
    let mut next = None;
    log::frames(log, start, bounds.last, &mut |_, frame| {
        let first = frame.first;
        if next.is_none() && first > from {
            let what = format!("events {from} to {} are not there", first - 1);
            return Err(JournalError::Damaged { event: first, what });
        }
        next = Some(first + u64::from(frame.events));
        visit(first, frame)
    })?;
    // Where only an epoch is left, it says which events there were.
    let told = log::tail(log, bounds)?.event;
    match next {
        None if told >= from => {
            let what = format!("events {from} to {told} are not there");
            Err(JournalError::Damaged { event: from, what })
        }
        _ => Ok(()),
    }
}
