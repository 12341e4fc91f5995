//! How does the state come back? The newest good snapshot, then the rest of the journal.

use std::collections::BTreeSet;
use std::io::Read;

use crate::event::Event;
use crate::journal::{Journal, JournalError, Replay};
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

/// Brings single apps back as they were after an event, beside the thread that writes the journal: the newest good snapshot,
/// and what the journal says of them since.
pub(super) fn recover_apps<D: Disk>(
    replay: &Replay,
    snapshots: &Snapshots<D>,
    apps: &BTreeSet<String>,
    event: u64,
) -> Result<State, RecoveryError> {
    let load = |from: &mut dyn Read| State::load_apps(from, |app| apps.contains(app));
    let (_, mut state) = snapshots.newest(load, |_| {})?.unwrap_or_default();
    replay(state.last_event() + 1, &mut |number, bytes| {
        if number <= event {
            let found = decode(number, bytes)?;
            match apps.contains(&found.app) {
                true => apply(&mut state, number, found)?,
                false => state.pass_over(),
            }
        }
        Ok(())
    })?;
    match state.last_event() == event {
        true => Ok(state),
        false => Err(JournalError::Missing { last: state.last_event(), expected: event }.into()),
    }
}

fn damaged(event: u64, what: &dyn std::fmt::Display) -> JournalError {
    JournalError::Damaged { event, what: what.to_string() }
}

fn decode(number: u64, bytes: &[u8]) -> Result<Event, JournalError> {
    Event::decode(bytes).map_err(|why| damaged(number, &why))
}

fn apply(state: &mut State, number: u64, event: Event) -> Result<(), JournalError> {
    state.apply(event).map_err(|why| damaged(number, &why))?;
    drop(state.take_gone());
    Ok(())
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
        apply(&mut state, number, decode(number, bytes)?)
    });
    if let Err(journal) = replayed {
        return Err(match passed_over.is_empty() {
            true => RecoveryError::Journal(journal),
            false => RecoveryError::NoneGood { journal, passed_over },
        });
    }
    Ok(Recovered { state, snapshot_event, passed_over })
}
