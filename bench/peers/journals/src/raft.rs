//! The journal in raft-engine: one entry a group, its index the number of the group, in a region of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cohort_server::journal::{Group, Journal, JournalError, Pruner, Visit, frame};
use protobuf::well_known_types::BytesValue;
use raft_engine::{Config, Engine, LogBatch, MessageExt, ReadableSize};

const REGION: u64 = 1;
/// Index of the group and number of its first event, before the frame.
const HEAD_BYTES: usize = 16;
const READ_BYTES: usize = 4 << 20;

/// An entry is bytes, which begin with its index.
#[derive(Clone)]
struct Entries;

impl MessageExt for Entries {
    type Entry = BytesValue;

    fn index(entry: &BytesValue) -> u64 {
        number(entry.get_value(), 0)
    }
}

fn number(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// A journal in a folder.
pub struct RaftJournal {
    path: PathBuf,
    engine: Arc<Engine>,
    index: u64,
    last: u64,
}

impl RaftJournal {
    /// Opens the journal in a folder.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let config = Config {
            dir: path.display().to_string(),
            // As large as segments are; what may go goes.
            target_file_size: ReadableSize(crate::FILE_BYTES),
            purge_threshold: ReadableSize(crate::FILE_BYTES),
            ..Config::default()
        };
        let engine = Engine::open(config).map_err(|why| failed(path, "be opened", &why))?;
        let index = engine.last_index(REGION).unwrap_or(0);
        let mut last = 0;
        if index > 0 {
            let entry = engine
                .get_entry::<Entries>(REGION, index)
                .map_err(|why| failed(path, "be read", &why))?
                .unwrap_or_default();
            let first = number(entry.get_value(), 8);
            let frame = &entry.get_value()[HEAD_BYTES..];
            last = first - 1 + frame::read(first, frame, u64::MAX, &mut |_, _| Ok(()))?;
        }
        Ok(Self { path: path.to_owned(), engine: Arc::new(engine), index, last })
    }
}

fn failed(path: &Path, action: &'static str, why: &dyn std::fmt::Display) -> JournalError {
    JournalError::Store { path: path.display().to_string(), action, why: why.to_string() }
}

impl Journal for RaftJournal {
    fn last(&self) -> u64 {
        self.last
    }

    fn append(&mut self, group: &Group) -> Result<(), JournalError> {
        let (index, first) = (self.index + 1, self.last + 1);
        let mut bytes = Vec::with_capacity(group.bytes() + 32);
        bytes.extend(index.to_le_bytes());
        bytes.extend(first.to_le_bytes());
        group.frame_into(first, &mut bytes);
        let mut entry = BytesValue::new();
        entry.set_value(bytes);
        let mut batch = LogBatch::default();
        // Synced with the write: `Engine::sync` writes an empty batch, which returns before anything is synced.
        batch
            .add_entries::<Entries>(REGION, &[entry])
            .and_then(|()| self.engine.write(&mut batch, true))
            .map_err(|why| failed(&self.path, "be written", &why))?;
        (self.index, self.last) = (index, self.last + group.events());
        Ok(())
    }

    fn sync(&mut self) -> Result<(), JournalError> {
        Ok(())
    }

    fn pruner(&self) -> Pruner {
        let (path, engine) = (self.path.clone(), self.engine.clone());
        Box::new(move |before| {
            let (mut low, mut high) =
                (engine.first_index(REGION).unwrap_or(1), engine.last_index(REGION).unwrap_or(1));
            // The group that holds the event.
            while low < high {
                let middle = low + (high - low).div_ceil(2);
                let entry = engine
                    .get_entry::<Entries>(REGION, middle)
                    .map_err(|why| failed(&path, "be read", &why))?
                    .unwrap_or_default();
                match number(entry.get_value(), 8) <= before {
                    true => low = middle,
                    false => high = middle - 1,
                }
            }
            engine.compact_to(REGION, low);
            engine.purge_expired_files().map(drop).map_err(|why| failed(&path, "be pruned", &why))
        })
    }

    fn read(&self, from: u64, visit: &mut Visit) -> Result<(), JournalError> {
        let mut index = self.engine.first_index(REGION).unwrap_or(1);
        while index <= self.index {
            let mut entries = Vec::new();
            self.engine
                .fetch_entries_to::<Entries>(
                    REGION,
                    index,
                    self.index + 1,
                    Some(READ_BYTES),
                    &mut entries,
                )
                .map_err(|why| failed(&self.path, "be read", &why))?;
            for entry in &entries {
                let first = number(entry.get_value(), 8);
                frame::read(first, &entry.get_value()[HEAD_BYTES..], from, visit)?;
            }
            index += entries.len() as u64;
        }
        Ok(())
    }
}
