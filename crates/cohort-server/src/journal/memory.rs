//! A journal in memory that knows what a loss of power would leave of it.

use std::sync::{Arc, Mutex, PoisonError};

use super::frame;
use super::{Group, Journal, JournalError, Pruner, Replay, Visit};

/// The disk of a journal in memory. Clones are the same disk: it outlives the journals that were
/// opened on it, as a disk outlives processes.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk(Arc<Mutex<Frames>>);

#[derive(Debug, Default)]
struct Frames {
    /// Number of the first event, frame.
    frames: Vec<(u64, Vec<u8>)>,
    /// How many of them are synced.
    synced: usize,
}

impl MemoryDisk {
    fn with<T>(&self, work: impl FnOnce(&mut Frames) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Power is lost: of the groups that were not synced only the first `kept` are found again.
    pub fn lose_power(&self, kept: usize) {
        self.with(|disk| {
            disk.frames.truncate(disk.synced + kept);
            disk.synced = disk.frames.len();
        });
    }

    /// Flips one bit of everything that is kept, `at` taken modulo its size. Says whether there
    /// was anything to damage.
    pub fn flip_bit(&self, at: usize) -> bool {
        self.with(|disk| {
            let bits: usize = disk.frames.iter().map(|(_, frame)| 8 * frame.len()).sum();
            if bits == 0 {
                return false;
            }
            let mut at = at % bits;
            for (_, frame) in &mut disk.frames {
                if at < 8 * frame.len() {
                    frame[at / 8] ^= 1 << (at % 8);
                    return true;
                }
                at -= 8 * frame.len();
            }
            false
        })
    }
}

/// A journal on a [`MemoryDisk`].
#[derive(Debug)]
pub struct MemoryJournal {
    disk: MemoryDisk,
    last: u64,
}

impl MemoryJournal {
    /// Opens the disk, checking everything on it.
    pub fn open(disk: &MemoryDisk) -> Result<Self, JournalError> {
        let mut journal = Self { disk: disk.clone(), last: 0 };
        let mut last = 0;
        let begin = disk.with(|disk| disk.frames.first().map_or(1, |(first, _)| *first));
        journal.read(begin, &mut |event, _| {
            last = event;
            Ok(())
        })?;
        journal.last = last;
        Ok(journal)
    }
}

impl Journal for MemoryJournal {
    fn last(&self) -> u64 {
        self.last
    }

    fn append(&mut self, group: &Group) -> Result<(), JournalError> {
        let first = self.last + 1;
        self.disk.with(|disk| disk.frames.push((first, group.frame(first))));
        self.last += group.events();
        Ok(())
    }

    fn sync(&mut self) -> Result<(), JournalError> {
        self.disk.with(|disk| disk.synced = disk.frames.len());
        Ok(())
    }

    fn pruner(&self) -> Pruner {
        let disk = self.disk.clone();
        Box::new(move |before| {
            disk.with(|disk| {
                // The last group that begins before it stays: it may hold it, or be the last.
                let begun = disk.frames.partition_point(|(first, _)| *first < before);
                let gone = begun.saturating_sub(1).min(disk.synced);
                disk.frames.drain(..gone);
                disk.synced -= gone;
            });
            Ok(())
        })
    }

    fn replay(&self) -> Option<Replay> {
        let beside = Self { disk: self.disk.clone(), last: self.last };
        Some(Box::new(move |from, visit| beside.read(from, visit)))
    }

    fn read(&self, from: u64, visit: &mut Visit) -> Result<(), JournalError> {
        let frames = self.disk.with(|disk| disk.frames.clone());
        let start = frames.iter().rev().map(|(first, _)| *first).find(|first| *first <= from);
        let start = start.unwrap_or(1);
        let mut next = start;
        for (first, bytes) in frames.into_iter().skip_while(|(first, _)| *first < start) {
            if first != next {
                let what = format!("events {next} to {} are not there", first - 1);
                return Err(JournalError::Damaged { event: first, what });
            }
            next += frame::read(first, &bytes, from, visit)?;
        }
        Ok(())
    }
}
