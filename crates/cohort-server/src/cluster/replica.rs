//! The control partition's state as every node has it: read from its snapshot and its stream, and followed from then on,
//! without writing anything. Keys are checked by it, and logs are read for whoever may read them.

use super::journal::read;
use super::log::{Log, Tail, insist, tail};
use super::nats::NatsLog;
use crate::engine::recovery::{Recovered, RecoveryError, recover};
use crate::journal::{Group, Journal, JournalError, Pruner, Visit, frame};
use crate::snapshot::Snapshots;
use crate::snapshot::disk::Disk;

/// A stream that somebody else writes, as it is now.
pub struct ReadOnly {
    log: NatsLog,
    tail: Tail,
}

impl ReadOnly {
    /// Of a stream that ends at an event that is known to have been acknowledged, or later.
    pub fn open(log: NatsLog, known: u64) -> Result<Self, JournalError> {
        let bounds = insist(&log, |log| log.bounds())?;
        let tail = tail(&log, bounds)?;
        tail.reaches(known, log.name())?;
        Ok(Self { log, tail })
    }

    /// Where it ends.
    pub fn tail(&self) -> Tail {
        self.tail
    }
}

fn refused() -> JournalError {
    JournalError::Failed("this process only reads it".to_owned())
}

impl Journal for ReadOnly {
    fn last(&self) -> u64 {
        self.tail.event
    }

    fn append(&mut self, _: &Group) -> Result<(), JournalError> {
        Err(refused())
    }

    fn sync(&mut self) -> Result<(), JournalError> {
        Err(refused())
    }

    fn pruner(&self) -> Pruner {
        Box::new(|_| Err(refused()))
    }

    fn read(&self, from: u64, visit: &mut Visit) -> Result<(), JournalError> {
        read(&self.log, from, self.tail.sequence, &mut |first, found| {
            frame::read(first, &found.bytes, from, visit).map(|_| ())
        })
    }
}

/// The state of a partition as its stream and its snapshots give it, and how far it had come in the control stream.
pub fn fold<D: Disk>(
    log: NatsLog,
    snapshots: &Snapshots<D>,
) -> Result<(Recovered, Tail), RecoveryError> {
    let journal = ReadOnly::open(log, snapshots.newest_event()?)?;
    let recovered = recover(&journal, snapshots)?;
    Ok((recovered, journal.tail))
}

/// A journal that keeps nothing: what is in it can be read elsewhere.
pub struct DiscardingJournal(pub u64);

impl Journal for DiscardingJournal {
    fn last(&self) -> u64 {
        self.0
    }

    fn append(&mut self, group: &Group) -> Result<(), JournalError> {
        self.0 += group.events();
        Ok(())
    }

    fn sync(&mut self) -> Result<(), JournalError> {
        Ok(())
    }

    fn pruner(&self) -> Pruner {
        Box::new(|_| Ok(()))
    }

    fn read(&self, _: u64, _: &mut Visit) -> Result<(), JournalError> {
        Ok(())
    }
}
