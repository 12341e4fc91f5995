//! The journal on disk, in the embedded store fjall: one entry a group, its key the number of its
//! first event (big-endian, so that keys are in order), its value the frame.
//!
//! The store repairs itself after a crash by cutting its own log at the first place that it cannot
//! read. That is right for a write that was torn, and wrong for one that was acknowledged and
//! damaged later: it would be gone without a word. So a file beside the store, `acknowledged`,
//! carries the number of the last synced event. It is written after every sync but not synced
//! itself: after a crash of the process it is exact, after a loss of power it may be behind, and it
//! is never ahead. A journal that ends before it is refused.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::{Group, Journal, JournalError, Visit, frame, store_files};

/// Memory for reading back; the journal is read once, in order, so little is enough.
const CACHE_BYTES: u64 = 8 << 20;
/// Tables that the store keeps open: descriptors are few, and tables are read only at the start and
/// for exports.
const OPEN_FILES: usize = 32;
/// Memory for events that the store has not sorted into tables yet.
const MEMTABLE_BYTES: u64 = 16 << 20;
/// Groups that are removed by one write.
const PRUNED_AT_ONCE: usize = 512;

/// A journal in a folder.
pub struct FjallJournal {
    path: PathBuf,
    store: Database,
    groups: Keyspace,
    acknowledged: File,
    last: u64,
    failed: Option<String>,
}

impl FjallJournal {
    /// Opens the journal in a folder, which is created where it does not exist.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let fails = |why: fjall::Error| store_error(path, "be opened", &why);
        let fails_io = |why: std::io::Error| store_error(path, "be opened", &why);
        std::fs::create_dir_all(path).map_err(fails_io)?;
        store_files::check(&path.join("store"))
            .map_err(fails_io)?
            .map_err(|what| store_error(path, "be read", &format!("{what}; restore a backup")))?;
        let (store, groups) = with_path(path, || {
            let store = Database::builder(path.join("store"))
                .cache_size(CACHE_BYTES)
                .max_cached_files(Some(OPEN_FILES))
                .worker_threads(1)
                .open()
                .map_err(fails)?;
            let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
            let groups = store.keyspace("groups", options).map_err(fails)?;
            Ok((store, groups))
        })?;
        let acknowledged = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path.join("acknowledged"))
            .map_err(fails_io)?;
        let path = path.to_owned();
        let mut journal = Self { path, store, groups, acknowledged, last: 0, failed: None };
        journal.last = journal.find_last()?;
        journal.compare_with_acknowledged()?;
        Ok(journal)
    }

    /// The last group tells where the journal ends.
    fn find_last(&self) -> Result<u64, JournalError> {
        with_path(&self.path, || self.last_of_last_group())
    }

    fn last_of_last_group(&self) -> Result<u64, JournalError> {
        let Some(entry) = self.groups.last_key_value() else { return Ok(0) };
        let (key, value) = entry.into_inner().map_err(|why| self.error("be read", &why))?;
        let first = number(&key)?;
        Ok(first - 1 + frame::read(first, &value, u64::MAX, &mut |_, _| Ok(()))?)
    }

    fn compare_with_acknowledged(&self) -> Result<(), JournalError> {
        let mut bytes = [0; 8];
        let expected = match self.acknowledged.read_exact_at(&mut bytes, 0) {
            Ok(()) => u64::from_le_bytes(bytes),
            // A new journal, or power was lost before the file's first write reached the disk.
            Err(_) => 0,
        };
        match self.last < expected {
            true => Err(JournalError::Missing { last: self.last, expected }),
            false => Ok(()),
        }
    }

    fn error(&self, action: &'static str, why: &dyn std::fmt::Display) -> JournalError {
        store_error(&self.path, action, why)
    }

    /// Remembers a failure: from then on nothing is taken.
    fn or_fail<T>(&mut self, result: Result<T, JournalError>) -> Result<T, JournalError> {
        result.inspect_err(|why| self.failed = Some(why.to_string()))
    }

    fn refuse_if_failed(&self) -> Result<(), JournalError> {
        self.failed.as_ref().map_or(Ok(()), |why| Err(JournalError::Failed(why.clone())))
    }
}

impl Journal for FjallJournal {
    fn last(&self) -> u64 {
        self.last
    }

    fn append(&mut self, group: &Group) -> Result<(), JournalError> {
        self.refuse_if_failed()?;
        if group.is_empty() {
            return Ok(());
        }
        let first = self.last + 1;
        // `Buffer` hands the bytes to the operating system: they outlive this process.
        let mut batch = self.store.batch().durability(Some(PersistMode::Buffer));
        batch.insert(&self.groups, first.to_be_bytes(), group.frame(first));
        let written = batch.commit().map_err(|why| self.error("be written", &why));
        self.or_fail(written)?;
        self.last += group.events();
        Ok(())
    }

    fn sync(&mut self) -> Result<(), JournalError> {
        self.refuse_if_failed()?;
        let synced = self.store.persist(PersistMode::SyncData);
        let synced = synced.map_err(|why| self.error("be synced", &why));
        self.or_fail(synced)?;
        let marked = self.acknowledged.write_all_at(&self.last.to_le_bytes(), 0);
        let marked = marked.map_err(|why| self.error("be marked as synced", &why));
        self.or_fail(marked)
    }

    fn prune(&mut self, before: u64) -> Result<(), JournalError> {
        self.refuse_if_failed()?;
        let pruned = self.reader().prune(before);
        self.or_fail(pruned).map(drop)
    }

    fn read(&self, from: u64, visit: &mut Visit) -> Result<(), JournalError> {
        with_path(&self.path, || self.read_groups(from, visit))
    }
}

impl FjallJournal {
    fn read_groups(&self, from: u64, visit: &mut Visit) -> Result<(), JournalError> {
        // The group that holds `from` begins at or before it.
        let start = match self.groups.range(..=from.to_be_bytes()).next_back() {
            Some(entry) => number(&entry.key().map_err(|why| self.error("be read", &why))?)?,
            None => 1,
        };
        let mut next = start;
        for entry in self.groups.range(start.to_be_bytes()..) {
            let (key, value) = entry.into_inner().map_err(|why| self.error("be read", &why))?;
            let first = number(&key)?;
            if first != next {
                let what = format!("events {next} to {} are not there", first - 1);
                return Err(JournalError::Damaged { event: first, what });
            }
            next += frame::read(first, &value, from, visit)?;
        }
        match next - 1 == self.last {
            true => Ok(()),
            false => Err(JournalError::Missing { last: next - 1, expected: self.last }),
        }
    }
}

/// Reads the journal while it is being written, beside the thread that writes it.
#[derive(Clone)]
pub struct Reader {
    path: PathBuf,
    store: Database,
    groups: Keyspace,
}

impl FjallJournal {
    /// A reader for other threads.
    pub fn reader(&self) -> Reader {
        let (path, store) = (self.path.clone(), self.store.clone());
        Reader { path, store, groups: self.groups.clone() }
    }
}

impl Reader {
    /// What the journal takes on disk, roughly.
    pub fn bytes(&self) -> u64 {
        self.store.disk_space().unwrap_or_else(|_| self.groups.disk_space())
    }

    /// The first event of the first group and of the last.
    pub fn span(&self) -> Result<Option<(u64, u64)>, JournalError> {
        with_path(&self.path, || {
            let key = |entry: Option<fjall::Guard>| -> Result<Option<u64>, JournalError> {
                let Some(entry) = entry else { return Ok(None) };
                let key = entry.key().map_err(|why| store_error(&self.path, "be read", &why))?;
                number(&key).map(Some)
            };
            let (first, last) =
                (key(self.groups.first_key_value())?, key(self.groups.last_key_value())?);
            Ok(first.zip(last))
        })
    }

    /// When the first event of the group happened that holds an event, or of the next.
    pub fn time_of(&self, event: u64) -> Result<Option<u64>, JournalError> {
        with_path(&self.path, || {
            let Some(entry) = self.groups.range(event.to_be_bytes()..).next() else {
                return Ok(None);
            };
            let (key, value) =
                entry.into_inner().map_err(|why| store_error(&self.path, "be read", &why))?;
            let (first, mut at_ms) = (number(&key)?, None);
            frame::read(first, &value, first, &mut |_, bytes| {
                at_ms = at_ms.or(crate::event::time_of(bytes).ok());
                Ok(())
            })?;
            Ok(at_ms)
        })
    }

    /// Removes groups that end before an event, beside the thread that writes. Returns how many.
    pub fn prune(&self, before: u64) -> Result<usize, JournalError> {
        with_path(&self.path, || {
            let mut keys = Vec::new();
            for entry in self.groups.range(..before.to_be_bytes()) {
                let key = entry.key().map_err(|why| store_error(&self.path, "be read", &why))?;
                keys.push(number(&key)?.to_be_bytes());
            }
            // It may hold the event, or be the last of all.
            keys.pop();
            for keys in keys.chunks(PRUNED_AT_ONCE) {
                let mut batch = self.store.batch().durability(Some(PersistMode::Buffer));
                keys.iter().for_each(|key| batch.remove(&self.groups, *key));
                batch.commit().map_err(|why| store_error(&self.path, "be pruned", &why))?;
            }
            Ok(keys.len())
        })
    }

    /// Visits every event that is there now, in order, from the first that the journal still holds.
    pub fn read(&self, visit: &mut Visit) -> Result<(), JournalError> {
        with_path(&self.path, || {
            let mut next = None;
            for entry in self.groups.iter() {
                let (key, value) =
                    entry.into_inner().map_err(|why| store_error(&self.path, "be read", &why))?;
                let first = number(&key)?;
                if next.is_some_and(|next| next != first) {
                    let what = "the events before it are not there".to_owned();
                    return Err(JournalError::Damaged { event: first, what });
                }
                next = Some(first + frame::read(first, &value, first, visit)?);
            }
            Ok(())
        })
    }
}

fn store_error(path: &Path, action: &'static str, why: &dyn std::fmt::Display) -> JournalError {
    JournalError::Store { path: path.display().to_string(), action, why: why.to_string() }
}

/// The store panics on some damage to its own files; that, too, is told with a name. Nothing is
/// used afterwards of what was being worked on.
fn with_path<T>(
    path: &Path,
    work: impl FnOnce() -> Result<T, JournalError>,
) -> Result<T, JournalError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(store_error(path, "be read", &"the store's own files are damaged; restore a backup"))
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
