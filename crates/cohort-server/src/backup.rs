//! A copy of a data folder, taken while the service runs, and put back.
//!
//! Files of the journal are only appended to, removed from the beginning, and never changed otherwise;
//! snapshots appear whole. So copying files is enough: snapshots first, then the journal, which has all
//! that happened after them. What was being written at the end of the last file is cut off when it is
//! opened, as after a crash. A copy is opened, and all of it read, before it gets its name.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::engine::recovery::{RecoveryError, recover};
use crate::journal::segments::SegmentJournal;
use crate::journal::{JournalError, segment};
use crate::snapshot::Snapshots;
use crate::snapshot::disk::Folder;

/// How often a copy is begun anew because the service removed what was being copied.
const ATTEMPTS: usize = 5;

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// There is something where the copy should be.
    #[error("{0} is there already and is not empty; name a folder that does not exist")]
    Taken(String),
    /// There is nothing to copy.
    #[error(
        "{0} is not a data folder of the service, nor a copy of one: it has no journal/segments"
    )]
    NoData(String),
    /// The journal is of an earlier version.
    #[error(
        "{0} was written by an earlier version, whose journal cannot be copied while it is used; start \
         the service once, which converts it"
    )]
    Old(String),
    /// A file could not be read or written.
    #[error("{path} cannot be copied: {why}")]
    Copy {
        /// Which.
        path: String,
        /// What the disk says.
        why: io::Error,
    },
    /// The service removes events faster than they can be copied.
    #[error(
        "the service removed parts of its journal while they were copied, {ATTEMPTS} times; try again, \
         or keep more of it (journal_keep, journal_max_bytes)"
    )]
    Busy,
    /// The copy could not be opened.
    #[error("what was copied cannot be opened: {0}")]
    Journal(#[from] JournalError),
    /// The copy does not give a state.
    #[error("what was copied cannot be opened: {0}")]
    Recovery(#[from] RecoveryError),
}

/// What was copied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copied {
    /// The last event.
    pub last_event: u64,
    /// The event up to which a snapshot was used to open it, 0 if none was.
    pub snapshot_event: u64,
    /// How many apps there are.
    pub apps: usize,
    /// How many bytes were copied.
    pub bytes: u64,
}

/// Copies a data folder, which may be in use, to a folder that does not exist, and opens the copy.
pub fn copy(from: &Path, to: &Path) -> Result<Copied, BackupError> {
    if fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_some()) || to.is_file() {
        return Err(BackupError::Taken(to.display().to_string()));
    }
    if from.join("journal/store").exists() {
        return Err(BackupError::Old(from.display().to_string()));
    }
    if !from.join("journal/segments").is_dir() {
        return Err(BackupError::NoData(from.display().to_string()));
    }
    let mut name = to.file_name().unwrap_or_default().to_owned();
    name.push(".unfinished");
    let unfinished = to.with_file_name(name);
    let parent = match to.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let copied = copy_and_open(from, &unfinished).inspect_err(|_| {
        let _ = fs::remove_dir_all(&unfinished);
    })?;
    fs::rename(&unfinished, to).and_then(|()| segment::sync_folder(&parent)).map_err(fails(to))?;
    Ok(copied)
}

fn fails(path: &Path) -> impl Fn(io::Error) -> BackupError {
    let path = path.display().to_string();
    move |why| BackupError::Copy { path: path.clone(), why }
}

fn copy_and_open(from: &Path, to: &Path) -> Result<Copied, BackupError> {
    for _ in 0..ATTEMPTS {
        match fs::remove_dir_all(to) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(fails(to)(why)),
            _ => {}
        }
        if let Some(bytes) = copy_files(from, to)? {
            return Ok(Copied { bytes, ..open(to)? });
        }
    }
    Err(BackupError::Busy)
}

/// Opens a data folder and reads all of it.
fn open(folder: &Path) -> Result<Copied, BackupError> {
    let journal = SegmentJournal::open(&folder.join("journal"))?;
    journal.reader().read(&mut |_, _| Ok(()))?;
    let snapshots = folder.join("snapshots");
    let snapshots = Snapshots::new(Folder::new(&snapshots).map_err(fails(&snapshots))?);
    let recovered = recover(&journal, &snapshots)?;
    for damaged in &recovered.passed_over {
        tracing::warn!(%damaged, "a snapshot was passed over; the copy is whole without it");
    }
    let (last_event, apps) = (recovered.state.last_event(), recovered.state.apps().len());
    Ok(Copied { last_event, snapshot_event: recovered.snapshot_event, apps, bytes: 0 })
}

/// Copies snapshots and journal. `None` where some of it was removed meanwhile.
fn copy_files(from: &Path, to: &Path) -> Result<Option<u64>, BackupError> {
    let [snapshots, segments] = ["snapshots", "journal/segments"];
    for folder in [snapshots, segments] {
        fs::create_dir_all(to.join(folder)).map_err(fails(to))?;
    }
    let mut bytes = 0;
    for name in names(&from.join(snapshots), |name| name.ends_with(".snapshot"))? {
        match copy_file(&from.join(snapshots).join(&name), &to.join(snapshots).join(&name))? {
            Some(copied) => bytes += copied,
            None => return Ok(None),
        }
    }
    // Files may be begun while others are copied.
    let mut done = String::new();
    loop {
        let listed = names(&from.join(segments), |name| segment::first_of(name).is_some())?;
        let new: Vec<String> = listed.into_iter().filter(|name| *name > done).collect();
        let Some(last) = new.last().cloned() else { break };
        for name in new {
            match copy_file(&from.join(segments).join(&name), &to.join(segments).join(&name))? {
                Some(copied) => bytes += copied,
                None => return Ok(None),
            }
        }
        done = last;
    }
    for folder in [snapshots, segments, "journal", ""] {
        segment::sync_folder(&to.join(folder)).map_err(fails(to))?;
    }
    Ok(Some(bytes))
}

/// Names in a folder that are of some kind, in order; none where there is no folder.
fn names(folder: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<String>, BackupError> {
    let entries = match fs::read_dir(folder) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(fails(folder))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(fails(folder))?.file_name().to_string_lossy().into_owned();
        if is_wanted(&name) {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Copies a file that may be appended to; returns how long it is. `None` where there is none any more.
fn copy_file(from: &Path, to: &Path) -> Result<Option<u64>, BackupError> {
    let mut source = match File::open(from) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
        source => source.map_err(fails(from))?,
    };
    let mut copied = || -> io::Result<u64> {
        let mut target = File::create_new(to)?;
        // What a file says of itself comes first, so that it never says more than is copied.
        let mut head = vec![0; segment::RECORDS_AT as usize];
        let length = read_up_to(&mut source, &mut head)?;
        target.write_all(&head[..length])?;
        source.seek(SeekFrom::Start(length as u64))?;
        let rest = io::copy(&mut source, &mut target)?;
        target.sync_all()?;
        Ok(length as u64 + rest)
    };
    copied().map(Some).map_err(fails(to))
}

fn read_up_to(from: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < bytes.len() {
        match from.read(&mut bytes[length..])? {
            0 => break,
            read => length += read,
        }
    }
    Ok(length)
}
