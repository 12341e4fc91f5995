//! A stream in memory, for tests and simulations.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::log::{Bounds, Log, NotAcknowledged, Unreachable, Visit};
use crate::journal::JournalError;

/// A stream; clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct MemoryStream(Arc<Mutex<Messages>>);

#[derive(Debug, Default)]
struct Messages {
    kept: BTreeMap<u64, Vec<u8>>,
    last: u64,
}

impl MemoryStream {
    fn locked(&self) -> MutexGuard<'_, Messages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a message if it is to stand right after the last.
    pub fn take(&self, after: u64, bytes: &[u8]) -> Result<u64, NotAcknowledged> {
        let mut messages = self.locked();
        if messages.last != after {
            return Err(NotAcknowledged::WrongSequence);
        }
        messages.last += 1;
        let last = messages.last;
        messages.kept.insert(last, bytes.to_vec());
        Ok(last)
    }

    /// Changes the messages that are kept, as damage does.
    pub fn damage(&self, damage: impl FnOnce(&mut BTreeMap<u64, Vec<u8>>)) {
        damage(&mut self.locked().kept);
    }

    /// All messages.
    pub fn messages(&self) -> Vec<(u64, Vec<u8>)> {
        self.locked().kept.iter().map(|(sequence, bytes)| (*sequence, bytes.clone())).collect()
    }
}

impl Log for MemoryStream {
    type Ticket = Result<u64, NotAcknowledged>;

    fn publish(&self, after: u64, bytes: &[u8]) -> Self::Ticket {
        self.take(after, bytes)
    }

    fn wait(&self, ticket: Self::Ticket) -> Result<u64, NotAcknowledged> {
        ticket
    }

    fn get(&self, sequence: u64) -> Result<Option<Vec<u8>>, Unreachable> {
        Ok(self.locked().kept.get(&sequence).cloned())
    }

    fn bounds(&self) -> Result<Bounds, Unreachable> {
        let messages = self.locked();
        let first = messages.kept.keys().next().copied().unwrap_or(messages.last + 1);
        Ok(Bounds { first, last: messages.last })
    }

    fn scan(&self, from: u64, to: u64, visit: &mut Visit) -> Result<(), JournalError> {
        let messages = self.messages().into_iter();
        let wanted = messages.filter(|(sequence, _)| (from..=to).contains(sequence));
        wanted.into_iter().try_for_each(|(sequence, bytes)| visit(sequence, &bytes))
    }

    fn purge(&self, before: u64) -> Result<(), Unreachable> {
        self.locked().kept.retain(|sequence, _| *sequence >= before);
        Ok(())
    }

    fn pause(&self, _attempt: u32) -> bool {
        false
    }

    fn most_bytes(&self) -> usize {
        96
    }

    fn name(&self) -> &str {
        "in memory"
    }

    fn again(&self) -> Box<dyn Log<Ticket = Self::Ticket>> {
        Box::new(self.clone())
    }
}
