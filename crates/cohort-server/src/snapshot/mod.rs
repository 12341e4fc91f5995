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
use disk::Disk;

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
    /// It cannot be used.
    #[error("the snapshot {name} is damaged: {why}")]
    Damaged {
        /// Its file.
        name: String,
        /// What is wrong with it.
        why: Malformed,
    },
}

/// The snapshots on a disk.
pub struct Snapshots<D> {
    disk: D,
}

impl<D: Disk> Snapshots<D> {
    /// Those on this disk.
    pub fn new(disk: D) -> Self {
        Self { disk }
    }

    /// Writes the state after event `event`, and removes snapshots that are no longer needed.
    pub fn write(
        &self,
        event: u64,
        state: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    ) -> Result<(), SnapshotError> {
        let name = name_of(event);
        let fails = |why| SnapshotError::Write { name: name.clone(), why };
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
        let mut file = BufWriter::with_capacity(1 << 18, self.disk.create(&unfinished)?);
        file.write_all(MAGIC)?;
        file.put_u32(VERSION)?;
        let mut blocks = BlockWriter::new(&mut file, event);
        blocks.put_u64(event)?;
        state(&mut blocks)?;
        blocks.finish()?;
        file.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync()?;
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
