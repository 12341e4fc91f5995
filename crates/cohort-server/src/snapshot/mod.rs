//! The state at one moment, in one file, so that a restart need not read the whole journal.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`blocks`] | how does a stream become a file that damage cannot hide in? |
//! | [`disk`] | what is asked of a disk? (the seam where tests let it fail) |
//! | [`single`] | what of a snapshot outside a service? |
//! | [`Snapshots`] | which files are there, and which is the newest good one? |
//!
//! A snapshot is written beside the others under a name that nobody looks for, synced, and only
//! then given its own name, `NUMBER.snapshot`, the number of the last event in it: it is there in
//! full or not at all. The two newest are kept. A damaged one is named and passed over; the one
//! before it, or the whole journal, gives the same state. Once it has, the damaged one is given
//! another name, so that it does not count as one of the two.

pub mod blocks;
pub mod disk;
pub mod single;

use std::io::{BufReader, BufWriter, Read, Write};
use std::time::{Duration, SystemTime};

use blocks::{BlockReader, BlockWriter};
use disk::{Disk, DiskFile};

use crate::bytes::{Malformed, Put, Take};

const MAGIC: &[u8; 16] = b"cohort snapshot\n";
/// The layout of the file and of the state in it.
const VERSION: u32 = 1;
/// How many are kept.
pub(crate) const KEPT: usize = 2;
/// How the name of a file ends that is being written, or was when the service ended.
pub(crate) const UNFINISHED: &str = ".unfinished";
/// How the name of one ends that was damaged and is not needed.
const DAMAGED: &str = ".damaged";

/// What can go wrong with a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// It could not be written; the ones before it are untouched.
    #[error("the snapshot {name} cannot be written: {why}")]
    Write {
        /// Its file.
        name: String,
        /// What the disk says.
        why: std::io::Error,
    },
    /// There is no room for it; the ones before it are untouched.
    #[error("the snapshot {name} waits for room on the disk: {why}")]
    NoRoom {
        /// Its file.
        name: String,
        /// How much is missing.
        why: std::io::Error,
    },
    /// It cannot be used.
    #[error("the snapshot {name} is damaged: {why}")]
    Damaged {
        /// Its file.
        name: String,
        /// What is wrong with it.
        why: Malformed,
    },
}

/// While one is written the disk is asked how much is free whenever so many bytes have been added.
const ROOM_BYTES: u64 = 4 << 20;

/// The snapshots on a disk.
pub struct Snapshots<D> {
    disk: D,
    /// Bytes of the disk that are not theirs.
    reserve: u64,
}

/// What a snapshot is written to as long as the disk has room for others.
struct InRoom<'a, D> {
    file: Box<dyn DiskFile>,
    disk: &'a D,
    reserve: u64,
    unasked: u64,
}

impl<D: Disk> Write for InRoom<'_, D> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.unasked += written as u64;
        if self.unasked >= ROOM_BYTES {
            self.unasked = 0;
            expect_room(self.disk, self.reserve)?;
        }
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

/// A disk that has not failed, and is left alone before it does.
#[derive(Debug, thiserror::Error)]
#[error("{free} bytes are free and {needed} are needed")]
struct TooLittle {
    free: u64,
    needed: u64,
}

/// Refuses where the disk has less than this; one that does not tell has enough.
fn expect_room(disk: &impl Disk, needed: u64) -> std::io::Result<()> {
    match disk.free_bytes() {
        Some(free) if free < needed => {
            Err(std::io::Error::new(std::io::ErrorKind::StorageFull, TooLittle { free, needed }))
        }
        _ => Ok(()),
    }
}

impl<D: Disk> Snapshots<D> {
    /// Those on this disk.
    pub fn new(disk: D) -> Self {
        Self { disk, reserve: 0 }
    }

    /// Leaves so many bytes of the disk to others, of which the journal is one.
    pub fn with_reserve(self, reserve: u64) -> Self {
        Self { reserve, ..self }
    }

    /// Whether there is room for one that is a quarter larger than the newest. One that grows beyond that stops when it
    /// comes to what is left to others.
    fn expect_room(&self) -> std::io::Result<()> {
        let newest = self.events()?.first().and_then(|event| self.disk.size(&name_of(*event)));
        let newest = newest.unwrap_or(0);
        expect_room(&self.disk, newest + newest / 4 + self.reserve)
    }

    /// Writes the state after event `event`, and removes snapshots that are no longer needed.
    pub fn write(
        &self,
        event: u64,
        state: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    ) -> Result<(), SnapshotError> {
        let name = name_of(event);
        let fails =
            |why: std::io::Error| match why.get_ref().is_some_and(|why| why.is::<TooLittle>()) {
                true => SnapshotError::NoRoom { name: name.clone(), why },
                false => SnapshotError::Write { name: name.clone(), why },
            };
        self.expect_room().map_err(fails)?;
        self.write_file(&name, event, state).map_err(|why| {
            // Perhaps the disk is full; if this fails too, the next start removes it.
            let _ = self.disk.remove(&format!("{name}{UNFINISHED}"));
            fails(why)
        })?;
        for old in self.events().map_err(fails)?.into_iter().skip(KEPT) {
            self.disk.remove(&name_of(old)).map_err(fails)?;
        }
        Ok(())
    }

    fn write_file(
        &self,
        name: &str,
        event: u64,
        state: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let unfinished = format!("{name}{UNFINISHED}");
        let file = self.disk.create(&unfinished)?;
        let file = InRoom { file, disk: &self.disk, reserve: self.reserve, unasked: 0 };
        let mut file = BufWriter::with_capacity(1 << 18, file);
        file.write_all(MAGIC)?;
        file.put_u32(VERSION)?;
        let mut blocks = BlockWriter::new(&mut file, event);
        blocks.put_u64(event)?;
        state(&mut blocks)?;
        blocks.finish()?;
        file.into_inner().map_err(std::io::IntoInnerError::into_error)?.file.sync()?;
        self.disk.rename(&unfinished, name)?;
        self.disk.sync_folder()
    }

    /// Loads the newest snapshot that is good. `load` makes a state from a stream, which is
    /// checked block by block before it is given out; what is wrong with the ones that had to be
    /// passed over is told to `passed_over`. `None` if there is no good one.
    pub fn newest<T>(
        &self,
        mut load: impl FnMut(&mut dyn Read) -> Result<T, Malformed>,
        mut passed_over: impl FnMut(SnapshotError),
    ) -> std::io::Result<Option<(u64, T)>> {
        for event in self.events()? {
            let name = name_of(event);
            match self.load_file(&name, event, &mut load) {
                Ok(state) => return Ok(Some((event, state))),
                Err(Malformed::Short(why)) if self.disk.may_be_whole(&why) => {
                    return Err(std::io::Error::new(why.kind(), format!("{name}: {why}")));
                }
                Err(why) => passed_over(SnapshotError::Damaged { name, why }),
            }
        }
        Ok(None)
    }

    fn load_file<T>(
        &self,
        name: &str,
        event: u64,
        load: &mut dyn FnMut(&mut dyn Read) -> Result<T, Malformed>,
    ) -> Result<T, Malformed> {
        let mut file = BufReader::with_capacity(1 << 18, self.disk.open(name)?);
        if file.take_array::<16>()? != *MAGIC {
            return Err(Malformed::odd("it does not begin as a snapshot does"));
        }
        match file.take_u32()? {
            VERSION => {}
            version => {
                let what = format!("its layout version is {version}, this program knows {VERSION}");
                return Err(Malformed::Odd(what));
            }
        }
        let mut blocks = BlockReader::new(file, event);
        if blocks.take_u64()? != event {
            return Err(Malformed::odd("its name does not fit what is in it"));
        }
        let state = load(&mut blocks)?;
        blocks.finish()?;
        Ok(state)
    }

    /// After a start that needed neither: gives damaged snapshots another name, and removes what
    /// was being written when the service ended.
    pub fn tidy(&self, passed_over: &[SnapshotError]) -> std::io::Result<()> {
        for damaged in passed_over {
            if let SnapshotError::Damaged { name, .. } = damaged {
                self.disk.rename(name, &format!("{name}{DAMAGED}"))?;
            }
        }
        let names = self.disk.list()?;
        names
            .iter()
            .filter(|name| name.ends_with(UNFINISHED))
            .try_for_each(|name| self.disk.remove(name))
    }

    /// The event up to which the newest snapshot reaches; 0 if there is none.
    pub fn newest_event(&self) -> std::io::Result<u64> {
        Ok(self.events()?.first().copied().unwrap_or(0))
    }

    /// How old the newest snapshot is by the calendar; `None` if there is none, or the disk does not tell.
    pub fn newest_age(&self) -> std::io::Result<Option<Duration>> {
        let Some(event) = self.events()?.first().copied() else { return Ok(None) };
        let changed = self.disk.changed(&name_of(event));
        Ok(changed.map(|at| SystemTime::now().duration_since(at).unwrap_or_default()))
    }

    /// The event up to which the oldest snapshot that is kept reaches; `None` until there are as
    /// many as are kept. What came before it no restart needs again.
    pub fn oldest_kept(&self) -> std::io::Result<Option<u64>> {
        Ok(self.events()?.get(KEPT - 1).copied())
    }

    /// The events of all snapshots, newest first.
    fn events(&self) -> std::io::Result<Vec<u64>> {
        let names = self.disk.list()?;
        let mut events: Vec<u64> =
            names.iter().filter_map(|name| name.strip_suffix(".snapshot")?.parse().ok()).collect();
        events.sort_unstable_by(|a, b| b.cmp(a));
        Ok(events)
    }
}

/// Twenty digits, so that names sort as numbers do.
fn name_of(event: u64) -> String {
    format!("{event:020}.snapshot")
}

#[cfg(test)]
mod tests {
    use super::disk::MemoryFolder;
    use super::*;

    #[test]
    fn a_snapshot_takes_no_room_that_is_kept_for_the_journal() {
        let folder = MemoryFolder::default();
        let snapshots = Snapshots::new(folder.clone()).with_reserve(3 << 20);
        let write = |event: u64, mebibytes: usize| {
            snapshots.write(event, |out| out.write_all(&vec![7; mebibytes << 20]))
        };
        folder.set_room(Some(40 << 20));
        // The first one has nothing to be compared with: it ends where the room of others begins.
        assert!(matches!(write(1, 45), Err(SnapshotError::NoRoom { .. })));
        assert!(folder.list().unwrap().is_empty(), "what was begun is removed");
        write(1, 16).unwrap();
        // 23 are free, and 3 of them are not for snapshots: another one that is a quarter larger fits.
        write(2, 16).unwrap();
        let refused = write(3, 1).unwrap_err().to_string();
        assert!(refused.contains("waits for room") && refused.contains("are free"), "{refused}");
        assert_eq!(folder.list().unwrap().len(), 2);
        folder.set_room(None);
        write(3, 1).unwrap();
    }
}
