//! How does the state come back? The newest good snapshot, then the rest of the journal.

use crate::event::Event;
use crate::journal::{Journal, JournalError};
use crate::snapshot::disk::Disk;
use crate::snapshot::{SnapshotError, Snapshots};
use crate::state::State;

/// Why the service cannot start.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// The journal is not what it was.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// No snapshot is good, and the journal alone does not do.
    #[error("{journal}; {}", told(.passed_over))]
    NoneGood {
        /// What is wrong with the journal.
        journal: JournalError,
        /// What is wrong with the snapshots, the newest first.
        passed_over: Vec<SnapshotError>,
    },
    /// The folder of snapshots cannot be read.
    #[error("the snapshots cannot be read: {0}")]
    Snapshots(#[from] std::io::Error),
}

/// What recovery found.
pub struct Recovered {
    /// The state after the last event of the journal.
    pub state: State,
    /// The event up to which a snapshot was used, 0 if none was.
    pub snapshot_event: u64,
    /// Snapshots that were damaged and passed over.
    pub passed_over: Vec<SnapshotError>,
}

fn told(passed_over: &[SnapshotError]) -> String {
    passed_over.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Brings the state back.
pub fn recover<D: Disk>(
    journal: &dyn Journal,
    snapshots: &Snapshots<D>,
) -> Result<Recovered, RecoveryError> {
    let mut passed_over = Vec::new();
    let newest = snapshots.newest(State::load, |damaged| passed_over.push(damaged))?;
    let (snapshot_event, mut state) = newest.unwrap_or_default();
    // A snapshot is only written of events that were synced: a journal that ends before it has
    // lost some.
    if journal.last() < state.last_event() {
        let (last, expected) = (journal.last(), state.last_event());
        return Err(JournalError::Missing { last, expected }.into());
    }
    let replayed = journal.read(state.last_event() + 1, &mut |number, bytes| {
        let damaged = |what: String| JournalError::Damaged { event: number, what };
        let event = Event::decode(bytes).map_err(|why| damaged(why.to_string()))?;
        state.apply(event).map_err(|why| damaged(why.to_string()))?;
        drop(state.take_gone());
        Ok(())
    });
    if let Err(journal) = replayed {
        return Err(match passed_over.is_empty() {
            true => RecoveryError::Journal(journal),
            false => RecoveryError::NoneGood { journal, passed_over },
        });
    }
    Ok(Recovered { state, snapshot_event, passed_over })
}
