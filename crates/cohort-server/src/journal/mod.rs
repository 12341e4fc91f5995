//! What happened, in order, on disk: the only truth there is.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`Journal`] | what must a journal do? |
//! | [`frame`] | how does a group of events become bytes that damage cannot hide in? |
//! | [`segments`] | how are they kept on disk, and read while they are written? |
//! | [`segment`] | what is in one file of it, and what is torn, what damaged? |
//! | `old`, `store_files` | how does a journal of an earlier version become that? |
//! | [`memory`] | how are they kept in a test that crashes a thousand times a second? |
//! | [`faulty`] | what if a write or a sync fails? |
//!
//! Events are numbered 1, 2, 3, … without gaps. They are appended in groups and are safe once the
//! group has been synced. A journal that has failed once refuses everything from then on: after a
//! failed sync nobody knows what is on disk until it is read again.

pub mod faulty;
pub mod frame;
pub mod memory;
mod old;
pub mod segment;
pub mod segments;
mod store_files;

pub use frame::Group;

use std::time::Duration;

/// An append-only, numbered record of events.
pub trait Journal: Send {
    /// The number of the last event, 0 if there is none.
    fn last(&self) -> u64;

    /// Appends a group: its events get the numbers after [`Journal::last`]. The group survives the
    /// end of this process (not of the machine) when this returns.
    fn append(&mut self, group: &Group) -> Result<(), JournalError>;

    /// Returns when everything appended would survive a loss of power.
    fn sync(&mut self) -> Result<(), JournalError>;

    /// For how long a group may wait for more requests before it is appended, where every group costs other processes
    /// much; `None` where groups are to be as small as they are.
    fn gathers(&self) -> Option<Duration> {
        None
    }

    /// Does what is due beside appending; called often.
    fn tend(&mut self) -> Result<(), JournalError> {
        Ok(())
    }

    /// What forgets events before a number, as far as they can be removed by groups or whole files, and
    /// never the last group. Whoever reads on from there finds the same as before; reading from further
    /// back is refused. It may be used beside the thread that writes.
    fn pruner(&self) -> Pruner;

    /// Forgets events before number `before`.
    fn prune(&mut self, before: u64) -> Result<(), JournalError> {
        self.pruner()(before)
    }

    /// Visits every event from number `from` on, in order, with its number; stops at the first
    /// error. Numbers are checked to be contiguous, and events to be what was appended.
    fn read(&self, from: u64, visit: &mut Visit) -> Result<(), JournalError>;

    /// What reads it so beside the thread that writes, as far as it is written when the reading begins; `None` where that
    /// cannot be done.
    fn replay(&self) -> Option<Replay> {
        None
    }
}

/// A journal that is read beside whoever writes it, from the first event that is there.
pub trait EventReader: Send + Sync {
    /// Visits every event that is there when the reading begins, in order, with its number. Those that are removed
    /// before their turn comes are left out; returns how many.
    fn read(&self, visit: &mut Visit) -> Result<u64, JournalError>;
}

/// Forgets events of a journal before a number.
pub type Pruner = Box<dyn FnMut(u64) -> Result<(), JournalError> + Send>;

/// Reads a journal from an event on, beside the thread that writes.
pub type Replay = Box<dyn Fn(u64, &mut Visit) -> Result<(), JournalError> + Send>;

/// What is done with each event that is read.
pub type Visit<'a> = dyn FnMut(u64, &[u8]) -> Result<(), JournalError> + 'a;

/// What can go wrong with a journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The store underneath failed.
    #[error("the journal {path} cannot {action}: {why}")]
    Store {
        /// Where it is.
        path: String,
        /// What was being done.
        action: &'static str,
        /// What the store says.
        why: String,
    },
    /// Bytes are not what was written.
    #[error(
        "the journal is damaged at event {event}: {what}; restore the data folder from a backup"
    )]
    Damaged {
        /// The event, or the first of its group.
        event: u64,
        /// What is wrong there.
        what: String,
    },
    /// Events that were acknowledged are not there.
    #[error(
        "the journal ends at event {last}, but event {expected} was acknowledged: its end is \
         damaged or gone; restore the data folder from a backup"
    )]
    Missing {
        /// The last event found.
        last: u64,
        /// The last event that must be there.
        expected: u64,
    },
    /// Another process writes it now.
    #[error("the stream {stream} is written by {by} now: this process owns it no longer")]
    Fenced {
        /// The stream.
        stream: String,
        /// Who writes it.
        by: String,
    },
    /// A stream lacks what was acknowledged.
    #[error(
        "the stream {stream} is not what it was: {what}. Its partition is not served until that is mended: start the \
         servers that have it again, or restore the streams from a backup (docs/cluster.md, Restoring)"
    )]
    Gone {
        /// The stream.
        stream: String,
        /// What is not there.
        what: String,
    },
    /// It failed before.
    #[error("the journal failed before ({0}) and takes nothing more; restart the service")]
    Failed(String),
}

impl JournalError {
    /// Something at a path could not be done.
    fn store(path: &std::path::Path, action: &'static str, why: &dyn std::fmt::Display) -> Self {
        Self::Store { path: path.display().to_string(), action, why: why.to_string() }
    }
}
