//! Journals of earlier versions, which were in the embedded store fjall: one entry a group, its key the
//! number of its first event (big-endian), its value the frame. They are only read, once, and become
//! segments; frames are the same.
//!
//! ```text
//! journal/store         the store
//! journal/acknowledged  the number of the last synced event: a store that ends before it is damaged
//! ```

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions};

use super::segments::{SEGMENT_BYTES, SegmentJournal};
use super::{Journal, JournalError, frame, segment, store_files};

/// Memory for reading: everything is read once, in order.
const CACHE_BYTES: u64 = 8 << 20;
const OPEN_FILES: usize = 32;
/// Frames between syncs, so that what waits for the disk does not grow with the journal.
const SYNC_BYTES: usize = 32 << 20;

/// Where there is a store of an earlier version, makes segments of it in `segments`, and removes it. A
/// conversion that was interrupted is begun anew; until it is complete the store stays as it is.
pub(super) fn convert(path: &Path, segments: &Path) -> Result<(), JournalError> {
    let (store, acknowledged) = (path.join("store"), path.join("acknowledged"));
    if !store.exists() {
        return Ok(());
    }
    let fails = |why: std::io::Error| JournalError::store(path, "be converted", &why);
    if !segments.exists() {
        let converting = path.join("converting");
        match std::fs::remove_dir_all(&converting) {
            Err(why) if why.kind() != std::io::ErrorKind::NotFound => return Err(fails(why)),
            _ => std::fs::create_dir(&converting).map_err(fails)?,
        }
        tracing::info!("the journal of an earlier version is converted, once");
        let last = with_path(path, || copy(path, &store, &converting))?;
        let expected = std::fs::read(&acknowledged).unwrap_or_default();
        let expected = expected.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        if last < expected {
            return Err(JournalError::Missing { last, expected });
        }
        std::fs::rename(&converting, segments)
            .and_then(|()| segment::sync_folder(path))
            .map_err(fails)?;
        tracing::info!(events = last, "the journal was converted");
    }
    std::fs::remove_dir_all(&store).map_err(fails)?;
    match std::fs::remove_file(&acknowledged) {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => Err(fails(why)),
        _ => Ok(()),
    }
}

/// Makes segments of all groups of a store. Returns the number of the last event.
fn copy(path: &Path, store: &Path, to: &Path) -> Result<u64, JournalError> {
    let fails = |why: fjall::Error| JournalError::store(path, "be read", &why);
    store_files::check(store).map_err(|why| JournalError::store(path, "be read", &why))?.map_err(
        |what| JournalError::store(path, "be read", &format!("{what}; restore a backup")),
    )?;
    let store = Database::builder(store)
        .cache_size(CACHE_BYTES)
        .max_cached_files(Some(OPEN_FILES))
        .worker_threads(1)
        .open()
        .map_err(fails)?;
    let groups: Keyspace =
        store.keyspace("groups", KeyspaceCreateOptions::default).map_err(fails)?;
    let (mut journal, mut unsynced) = (None, 0);
    for entry in groups.iter() {
        let (key, frame) = entry.into_inner().map_err(fails)?;
        let first = number(&key)?;
        let journal = match &mut journal {
            Some(journal) => journal,
            none => none.insert(SegmentJournal::open_folder(to.to_owned(), SEGMENT_BYTES, first)?),
        };
        if first != journal.last() + 1 {
            let what = format!("events {} to {} are not there", journal.last() + 1, first - 1);
            return Err(JournalError::Damaged { event: first, what });
        }
        let events = frame::read(first, &frame, u64::MAX, &mut |_, _| Ok(()))?;
        journal.append_frame(&frame, events)?;
        unsynced += frame.len();
        if unsynced > SYNC_BYTES {
            journal.sync()?;
            unsynced = 0;
        }
    }
    let Some(mut journal) = journal else { return Ok(0) };
    journal.sync()?;
    Ok(journal.last())
}

/// The store panics on some damage to its own files; that, too, is told with a name. Nothing is
/// used afterwards of what was being worked on.
fn with_path<T>(
    path: &Path,
    work: impl FnOnce() -> Result<T, JournalError>,
) -> Result<T, JournalError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let why = "the store's own files are damaged; restore a backup";
        Err(JournalError::store(path, "be read", &why))
    })
}

/// The number in a key.
fn number(key: &[u8]) -> Result<u64, JournalError> {
    let number = key.try_into().map_or(0, u64::from_be_bytes);
    match number {
        0 => Err(JournalError::Damaged { event: 0, what: format!("a group has the key {key:?}") }),
        number => Ok(number),
    }
}
