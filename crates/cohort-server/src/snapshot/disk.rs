//! What snapshots ask of a disk, on a real one and on one in memory that fails when told to.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// A folder of files.
pub trait Disk: Send {
    /// Makes an empty file, replacing one of that name.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file for reading.
    fn open(&self, name: &str) -> io::Result<Box<dyn Read>>;
    /// Gives a file another name, replacing the one that had it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// The names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Returns when names would survive a loss of power.
    fn sync_folder(&self) -> io::Result<()>;
    /// Whether a file that could not be read may be whole: its store is elsewhere, and did not answer.
    fn may_be_whole(&self, _why: &io::Error) -> bool {
        false
    }
    /// When a file was last written to, where the disk tells.
    fn changed(&self, _name: &str) -> Option<SystemTime> {
        None
    }
    /// How long a file is, where the disk tells.
    fn size(&self, _name: &str) -> Option<u64> {
        None
    }
    /// Bytes that are free, where the disk tells.
    fn free_bytes(&self) -> Option<u64> {
        None
    }
}

/// A file that is being written.
pub trait DiskFile: Write {
    /// Returns when its bytes would survive a loss of power.
    fn sync(&mut self) -> io::Result<()>;
}

/// A real folder.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// This folder, which is created where it does not exist.
    pub fn new(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        Ok(Self(path.to_owned()))
    }
}

impl Disk for Folder {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(File::create(self.0.join(name))?))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Read>> {
        Ok(Box::new(File::open(self.0.join(name))?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.0.join(from), self.0.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.0.join(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let entries = std::fs::read_dir(&self.0)?;
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()
    }

    fn changed(&self, name: &str) -> Option<SystemTime> {
        std::fs::metadata(self.0.join(name)).ok()?.modified().ok()
    }

    fn size(&self, name: &str) -> Option<u64> {
        Some(std::fs::metadata(self.0.join(name)).ok()?.len())
    }

    #[cfg(feature = "service")]
    fn free_bytes(&self) -> Option<u64> {
        let found = rustix::fs::statvfs(&self.0).ok()?;
        Some(found.f_bavail * found.f_frsize)
    }
}

impl DiskFile for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

/// Files in memory, all clones being the same folder, that can be told to fail.
#[derive(Clone, Debug, Default)]
pub struct MemoryFolder(Arc<Mutex<Files>>);

#[derive(Debug, Default)]
struct Files {
    files: BTreeMap<String, Vec<u8>>,
    /// How many operations go well before every one fails.
    healthy: Option<usize>,
    /// How many bytes all of them may have together.
    room: Option<u64>,
}

impl Files {
    fn bytes(&self) -> u64 {
        self.files.values().map(|bytes| bytes.len() as u64).sum()
    }
}

impl MemoryFolder {
    fn with<T>(&self, work: impl FnOnce(&mut Files) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts one operation that changes something.
    fn change<T>(&self, work: impl FnOnce(&mut Files) -> T) -> io::Result<T> {
        self.with(|files| match &mut files.healthy {
            Some(0) => Err(io::Error::other("injected fault")),
            Some(healthy) => {
                *healthy -= 1;
                Ok(work(files))
            }
            None => Ok(work(files)),
        })
    }

    /// Lets that many changes pass, then fails every one; `None` lets all pass again.
    pub fn fail_after(&self, healthy: Option<usize>) {
        self.with(|files| files.healthy = healthy);
    }

    /// Bytes that all files may have together; as many as come with `None`.
    pub fn set_room(&self, room: Option<u64>) {
        self.with(|files| files.room = room);
    }

    /// Changes the bytes of every file.
    pub fn damage(&self, mut damage: impl FnMut(&str, &mut Vec<u8>)) {
        self.with(|files| files.files.iter_mut().for_each(|(name, bytes)| damage(name, bytes)));
    }
}

struct MemoryFile {
    folder: MemoryFolder,
    name: String,
}

impl Write for MemoryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.folder.change(|files| {
            files.files.entry(self.name.clone()).or_default().extend_from_slice(bytes);
            bytes.len()
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for MemoryFile {
    fn sync(&mut self) -> io::Result<()> {
        self.folder.change(|_| ())
    }
}

impl Disk for MemoryFolder {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.change(|files| files.files.insert(name.to_owned(), Vec::new()))?;
        Ok(Box::new(MemoryFile { folder: self.clone(), name: name.to_owned() }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Read>> {
        let bytes = self.with(|files| files.files.get(name).cloned());
        Ok(Box::new(Cursor::new(bytes.ok_or(io::ErrorKind::NotFound)?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.change(|files| {
            let bytes = files.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
            files.files.insert(to.to_owned(), bytes);
            Ok(())
        })?
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.change(|files| files.files.remove(name)).map(|_| ())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.with(|files| files.files.keys().cloned().collect()))
    }

    fn size(&self, name: &str) -> Option<u64> {
        self.with(|files| files.files.get(name).map(|bytes| bytes.len() as u64))
    }

    fn free_bytes(&self) -> Option<u64> {
        self.with(|files| files.room.map(|room| room.saturating_sub(files.bytes())))
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.change(|_| ())
    }
}
