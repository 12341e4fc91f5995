//! The journal in fjall, an LSM tree, as it was before it became segments: one entry a group, the key the number
//! of its first event, and a file beside it with the number of the last synced event.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use cohort_server::journal::{Group, Journal, JournalError, Pruner, Visit, frame};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

const PRUNED_AT_ONCE: usize = 512;

/// A journal in a folder.
pub struct LsmJournal {
    path: PathBuf,
    store: Database,
    groups: Keyspace,
    acknowledged: File,
    last: u64,
}

impl LsmJournal {
    /// Opens the journal in a folder.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let fails = |why: fjall::Error| failed(path, "be opened", &why);
        let store = Database::builder(path.join("store"))
            .cache_size(8 << 20)
            .max_cached_files(Some(32))
            .worker_threads(1)
            .open()
            .map_err(fails)?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(16 << 20);
        let groups = store.keyspace("groups", options).map_err(fails)?;
        let acknowledged = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path.join("acknowledged"))
            .map_err(|why| failed(path, "be opened", &why))?;
        let mut last = 0;
        if let Some(entry) = groups.last_key_value() {
            let (key, value) = entry.into_inner().map_err(fails)?;
            let first = number(&key);
            last = first - 1 + frame::read(first, &value, u64::MAX, &mut |_, _| Ok(()))?;
        }
        Ok(Self { path: path.to_owned(), store, groups, acknowledged, last })
    }
}

fn failed(path: &Path, action: &'static str, why: &dyn std::fmt::Display) -> JournalError {
    JournalError::Store { path: path.display().to_string(), action, why: why.to_string() }
}

fn number(key: &[u8]) -> u64 {
    key.try_into().map_or(0, u64::from_be_bytes)
}

impl Journal for LsmJournal {
    fn last(&self) -> u64 {
        self.last
    }

    fn append(&mut self, group: &Group) -> Result<(), JournalError> {
        let first = self.last + 1;
        let mut batch = self.store.batch().durability(Some(PersistMode::Buffer));
        batch.insert(&self.groups, first.to_be_bytes(), group.frame(first));
        batch.commit().map_err(|why| failed(&self.path, "be written", &why))?;
        self.last += group.events();
        Ok(())
    }

    fn sync(&mut self) -> Result<(), JournalError> {
        let synced = self.store.persist(PersistMode::SyncData);
        synced.map_err(|why| failed(&self.path, "be synced", &why))?;
        let marked = self.acknowledged.write_all_at(&self.last.to_le_bytes(), 0);
        marked.map_err(|why| failed(&self.path, "be marked", &why))
    }

    fn pruner(&self) -> Pruner {
        let (path, store, groups) = (self.path.clone(), self.store.clone(), self.groups.clone());
        Box::new(move |before| {
            let mut keys = Vec::new();
            for entry in groups.range(..before.to_be_bytes()) {
                let key = entry.key().map_err(|why| failed(&path, "be read", &why))?;
                keys.push(number(&key).to_be_bytes());
            }
            keys.pop();
            for keys in keys.chunks(PRUNED_AT_ONCE) {
                let mut batch = store.batch().durability(Some(PersistMode::Buffer));
                keys.iter().for_each(|key| batch.remove(&groups, *key));
                batch.commit().map_err(|why| failed(&path, "be pruned", &why))?;
            }
            Ok(())
        })
    }

    fn read(&self, from: u64, visit: &mut Visit) -> Result<(), JournalError> {
        for entry in self.groups.iter() {
            let (key, value) =
                entry.into_inner().map_err(|why| failed(&self.path, "be read", &why))?;
            frame::read(number(&key), &value, from, visit)?;
        }
        Ok(())
    }
}
