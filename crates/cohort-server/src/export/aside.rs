//! Where do rows lie that wait? In memory while they are few; the rest in a file without a name, since many decisions that wait
//! with the features of all their candidates take gigabytes, and others download, too.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::rows::ExportRow;
use crate::bytes::{Malformed, Put, Take};
use crate::snapshot::disk::{Disk, Folder};
use crate::trial::TrialDecision;

/// What rows of one reading take in memory, at most.
const MEMORY_BYTES: usize = 16 << 20;
/// Places in the file are so many bytes long, or a multiple: what one row has left the next can take.
const PLACE_BYTES: u64 = 4096;
/// The disk is asked how much is free whenever so many bytes were added.
const ASKED_BYTES: u64 = 4 << 20;

/// Where there is room for rows that wait.
#[derive(Clone, Debug)]
pub struct Scratch {
    /// A folder that can be written to.
    pub folder: PathBuf,
    /// Bytes of its disk that are left to others.
    pub reserve: u64,
}

/// Rows of one reading.
pub(super) struct Aside {
    scratch: Scratch,
    file: Option<File>,
    /// Where the file ends, and places before that are free, by their length.
    end: u64,
    free: BTreeMap<u64, Vec<u64>>,
    in_memory: usize,
    unasked: u64,
    bytes: Vec<u8>,
}

/// A row that was put aside.
pub(super) enum Kept {
    Here(Box<ExportRow>),
    There { at: u64, bytes: usize },
}

/// A file that nobody else sees, and that is gone with the process.
fn unnamed(folder: &Path) -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!("download-{}-{number}.unfinished", std::process::id()));
    // One of that name is of a process that ended before it was removed.
    let _ = std::fs::remove_file(&path);
    let file = OpenOptions::new().create_new(true).read(true).write(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

fn place_of(bytes: usize) -> u64 {
    (bytes as u64).next_multiple_of(PLACE_BYTES)
}

impl Aside {
    pub fn new(scratch: Scratch) -> Self {
        let (file, free, bytes) = (None, BTreeMap::new(), Vec::new());
        Self { scratch, file, end: 0, free, in_memory: 0, unasked: 0, bytes }
    }

    /// Puts a row aside.
    pub fn put(&mut self, row: ExportRow) -> io::Result<Kept> {
        let bytes = row.bytes();
        if self.in_memory + bytes <= MEMORY_BYTES {
            self.in_memory += bytes;
            return Ok(Kept::Here(Box::new(row)));
        }
        self.bytes.clear();
        write(row, &mut self.bytes)?;
        let (bytes, place) = (self.bytes.len(), place_of(self.bytes.len()));
        let at = match self.free.get_mut(&place).and_then(Vec::pop) {
            Some(at) => at,
            None => self.grow(place)?,
        };
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(unnamed(&self.scratch.folder)?),
        };
        file.write_all_at(&self.bytes, at)?;
        Ok(Kept::There { at, bytes })
    }

    /// A place at the end of the file, as long as the disk has room for others.
    fn grow(&mut self, place: u64) -> io::Result<u64> {
        self.unasked += place;
        if self.end == 0 || self.unasked >= ASKED_BYTES {
            self.unasked = 0;
            let free = Folder::new(&self.scratch.folder)?.free_bytes();
            if free.is_some_and(|free| free < self.scratch.reserve) {
                let why = "the disk has too little room for what is put aside for a download";
                return Err(io::Error::new(io::ErrorKind::StorageFull, why));
            }
        }
        let at = self.end;
        self.end += place;
        Ok(at)
    }

    /// Takes a row back.
    pub fn take(&mut self, kept: Kept) -> io::Result<ExportRow> {
        let (at, bytes) = match kept {
            Kept::Here(row) => {
                self.in_memory -= row.bytes();
                return Ok(*row);
            }
            Kept::There { at, bytes } => (at, bytes),
        };
        self.bytes.resize(bytes, 0);
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        file.read_exact_at(&mut self.bytes, at)?;
        self.leave(at, bytes);
        read(&self.bytes).map_err(|why| io::Error::other(why.to_string()))
    }

    /// Drops a row.
    pub fn discard(&mut self, kept: Kept) {
        match kept {
            Kept::Here(row) => self.in_memory -= row.bytes(),
            Kept::There { at, bytes } => self.leave(at, bytes),
        }
    }

    fn leave(&mut self, at: u64, bytes: usize) {
        self.free.entry(place_of(bytes)).or_default().push(at);
    }
}

fn write(row: ExportRow, out: &mut Vec<u8>) -> io::Result<()> {
    let ExportRow { made, decided_ms, control, features, catalogue, .. } = row;
    TrialDecision { made, control, candidates: features }.write(out)?;
    out.put_u64(decided_ms)?;
    out.put_u8(catalogue.is_some().into())?;
    let (version, among) = catalogue.unwrap_or_default();
    out.put_u64(version)?;
    out.put_u64(among)
}

/// What becomes of it is said by whoever takes it.
fn read(mut bytes: &[u8]) -> Result<ExportRow, Malformed> {
    let from = &mut bytes;
    let TrialDecision { made, control, candidates: features } = TrialDecision::read(from)?;
    let (decided_ms, is_from_catalogue) = (from.take_u64()?, from.take_bool()?);
    let catalogue = (from.take_u64()?, from.take_u64()?);
    let catalogue = is_from_catalogue.then_some(catalogue);
    let (status, reward) = ("open", None);
    Ok(ExportRow { made, decided_ms, control, features, catalogue, status, reward })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Decided, Ranking};

    fn row(number: usize, features: usize) -> ExportRow {
        let made = Decided {
            id: number.to_string(),
            user: "ann".to_owned(),
            ranking: Ranking::new(["tea", "coffee"]),
            context: Box::new([number as f64]),
            probability: 0.5,
            shown: true,
        };
        let (control, features) = (number.is_multiple_of(3), vec![number as f64; features].into());
        let catalogue = number.is_multiple_of(2).then_some((number as u64, 7));
        let (status, reward) = ("open", None);
        let decided_ms = number as u64;
        ExportRow { made, decided_ms, control, features, catalogue, status, reward }
    }

    /// Rows come back as they were, and what some have left others take.
    #[test]
    fn rows_are_what_they_were_and_take_no_more_room_than_those_that_wait() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch { folder: folder.path().to_owned(), reserve: 0 };
        let mut aside = Aside::new(scratch);
        // Half a mebibyte each, but for some.
        let features = |number: usize| if number.is_multiple_of(5) { 3 } else { 1 << 16 };
        let mut kept: Vec<(usize, Kept)> = Vec::new();
        for number in 0..100 {
            kept.push((number, aside.put(row(number, features(number))).unwrap()));
        }
        assert!(aside.in_memory <= MEMORY_BYTES && aside.end > 20 << 20);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let end = aside.end;
        for round in 0..4 {
            for (number, one) in kept.split_off(50) {
                match number.is_multiple_of(7) {
                    true => aside.discard(one),
                    false => assert_eq!(aside.take(one).unwrap(), row(number, features(number))),
                }
            }
            for number in 50..100 {
                let number = 100 * round + number;
                kept.push((number, aside.put(row(number, features(number))).unwrap()));
            }
        }
        assert_eq!(aside.end, end);
        for (number, one) in kept {
            assert_eq!(aside.take(one).unwrap(), row(number, features(number)));
        }
        assert_eq!(aside.in_memory, 0);
    }

    #[test]
    fn nothing_is_put_where_the_disk_has_no_room_left_for_others() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch { folder: folder.path().to_owned(), reserve: u64::MAX };
        let mut aside = Aside::new(scratch);
        let refused = (0..20).find_map(|number| aside.put(row(number, 1 << 18)).err()).unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
    }
}
