//! A journal that fails when it is told to: on its n-th write, sync or pruning, before doing it, or
//! after having done it.

use super::{Group, Journal, JournalError, Pruner, Replay, Visit};

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// Nothing is done, and an error is returned.
    Before,
    /// It is done, and an error is returned all the same.
    After,
}

/// Fails one operation of another journal, and from then on every one.
#[derive(Debug)]
pub struct FaultyJournal<J> {
    inner: J,
    /// How many writes and syncs go well first.
    healthy: usize,
    fault: Fault,
    failed: bool,
}

impl<J: Journal> FaultyJournal<J> {
    /// Lets `healthy` writes and syncs pass, then fails.
    pub fn new(inner: J, healthy: usize, fault: Fault) -> Self {
        Self { inner, healthy, fault, failed: false }
    }

    /// Whether it has failed yet.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    fn run(
        &mut self,
        action: &'static str,
        work: impl FnOnce(&mut J) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        if self.failed {
            return Err(JournalError::Failed("injected fault".to_owned()));
        }
        if self.healthy > 0 {
            self.healthy -= 1;
            return work(&mut self.inner);
        }
        self.failed = true;
        if self.fault == Fault::After {
            work(&mut self.inner)?;
        }
        let (path, why) = ("in memory".to_owned(), "injected fault".to_owned());
        Err(JournalError::Store { path, action, why })
    }
}

impl<J: Journal> Journal for FaultyJournal<J> {
    fn last(&self) -> u64 {
        self.inner.last()
    }

    fn append(&mut self, group: &Group) -> Result<(), JournalError> {
        self.run("append", |inner| inner.append(group))
    }

    fn sync(&mut self) -> Result<(), JournalError> {
        self.run("sync", Journal::sync)
    }

    fn tend(&mut self) -> Result<(), JournalError> {
        self.inner.tend()
    }

    fn pruner(&self) -> Pruner {
        self.inner.pruner()
    }

    fn prune(&mut self, before: u64) -> Result<(), JournalError> {
        self.run("prune", |inner| inner.prune(before))
    }

    fn replay(&self) -> Option<Replay> {
        self.inner.replay()
    }

    fn read(&self, from: u64, visit: &mut Visit) -> Result<(), JournalError> {
        self.inner.read(from, visit)
    }
}
