//! The journal on disk: segments in a folder, the last of which is written to.
//!
//! A segment that has become large is marked as synced to its end and never written again, and the next
//! begins. So the beginning of the journal is forgotten by
//! removing files, and a copy of the files is a copy of the journal.
//!
//! Stores that were measured beside it (bench/RESULTS.md, section 11): an LSM tree takes about as many rewards a second, and
//! as much disk as before when half of it was removed; raft-engine takes fewer rewards, and opens sooner. Both take fewer lines
//! of our own.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::segment::{self, AHEAD_BYTES, Mark, RECORDS_AT, Scanned, ZEROS};
use super::{Group, Journal, JournalError, Pruner, Replay, Visit, old};

/// How large a segment becomes, unless something else is asked for.
pub const SEGMENT_BYTES: u64 = 64 << 20;
/// After how long another segment is begun where there was no room for one.
const TRIED_AGAIN: Duration = Duration::from_secs(1);

/// A journal in a folder.
pub struct SegmentJournal {
    shared: Arc<Shared>,
    segment_bytes: u64,
    /// The segment that is written to, its first event, where its records end, and how long the file is.
    file: File,
    first: u64,
    bytes: u64,
    file_bytes: u64,
    last: u64,
    record: Vec<u8>,
    failed: Option<String>,
    /// When there was no room for another segment.
    had_no_room: Option<Instant>,
}

/// What the thread that writes and those that read both see.
struct Shared {
    folder: PathBuf,
    /// All segments, the oldest first; there is always one.
    pieces: Mutex<Vec<Piece>>,
    /// One removes at a time.
    pruning: Mutex<()>,
    /// Whether the next group begins a segment.
    begins_another: AtomicBool,
    /// The first event of a segment that was read to its end, and when its last one happened.
    ended: Mutex<Option<(u64, u64)>>,
}

/// A segment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// Its first event.
    pub first: u64,
    /// How long it is.
    pub bytes: u64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn error(&self, action: &'static str, why: &dyn std::fmt::Display) -> JournalError {
        JournalError::store(&self.folder, action, why)
    }

    fn open(&self, first: u64) -> Result<File, JournalError> {
        let path = segment::path_of(&self.folder, first);
        File::open(&path).map_err(|why| JournalError::store(&path, "be opened", &why))
    }

    /// Visits events from number `from` on that are in some segments, each of which begins where the one
    /// before it ends. Returns the number after the last.
    fn read(&self, pieces: &[Piece], from: u64, visit: &mut Visit) -> Result<u64, JournalError> {
        let mut next = pieces.first().map_or(1, |piece| piece.first);
        for piece in pieces {
            if piece.first != next {
                return Err(not_there(next, piece.first));
            }
            let scanned = segment::scan(&self.open(next)?, next, piece.bytes, from, visit)?;
            if let Some(what) = scanned.stopped {
                return Err(JournalError::Damaged { event: scanned.next, what });
            }
            next = scanned.next;
        }
        Ok(next)
    }

    /// Visits events from number `from` on, which must be there. Returns the number after the last.
    fn read_from(&self, from: u64, visit: &mut Visit) -> Result<u64, JournalError> {
        let mut pieces = locked(&self.pieces).clone();
        let begun = pieces.partition_point(|piece| piece.first <= from);
        if begun == 0 {
            return Err(not_there(from, pieces[0].first));
        }
        pieces.drain(..begun - 1);
        self.read(&pieces, from, visit)
    }

    /// Removes segments all of whose events come before one, the oldest first. Returns how many.
    fn prune(&self, before: u64) -> Result<usize, JournalError> {
        let _alone = locked(&self.pruning);
        let pieces = locked(&self.pieces).clone();
        let gone = pieces.windows(2).take_while(|pair| pair[1].first <= before).count();
        for piece in &pieces[..gone] {
            let path = segment::path_of(&self.folder, piece.first);
            // In this order after any crash: what is left never has a hole.
            std::fs::remove_file(&path)
                .and_then(|()| segment::sync_folder(&self.folder))
                .map_err(|why| JournalError::store(&path, "be removed", &why))?;
            locked(&self.pieces).remove(0);
        }
        // What the segment that is written to has of it goes once there is another.
        if pieces[gone].first < before && gone + 1 == pieces.len() {
            self.begins_another.store(true, Ordering::Relaxed);
        }
        Ok(gone)
    }
}

fn not_there(from: u64, to: u64) -> JournalError {
    let what = match from < to {
        true => format!("events {from} to {} are not there", to - 1),
        false => format!("its segment begins before event {from}, where the one before it ends"),
    };
    JournalError::Damaged { event: to, what }
}

impl SegmentJournal {
    /// Opens the journal in a folder, which is created where it does not exist; one that an earlier
    /// version of this program wrote is converted.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        Self::open_with(path, SEGMENT_BYTES)
    }

    /// The same with segments of another size.
    pub fn open_with(path: &Path, segment_bytes: u64) -> Result<Self, JournalError> {
        let folder = path.join("segments");
        let fails = |why: io::Error| JournalError::store(path, "be opened", &why);
        std::fs::create_dir_all(path).map_err(fails)?;
        old::convert(path, &folder)?;
        std::fs::create_dir_all(&folder)
            .and_then(|()| segment::sync_folder(path))
            .and_then(|()| path.parent().map_or(Ok(()), segment::sync_folder))
            .map_err(fails)?;
        Self::open_folder(folder, segment_bytes, 1)
    }

    /// Opens the segments in a folder; where there is none, one is made that begins with event `begin`.
    pub(super) fn open_folder(
        folder: PathBuf,
        segment_bytes: u64,
        begin: u64,
    ) -> Result<Self, JournalError> {
        let fails = |why: io::Error| JournalError::store(&folder, "be opened", &why);
        let mut firsts = listed(&folder).map_err(fails)?;
        if firsts.is_empty() {
            segment::create(&folder, begin).map_err(fails)?;
            firsts.push(begin);
        }
        let mut pieces = Vec::with_capacity(firsts.len());
        let mut mark = Mark { synced: firsts[0] - 1, followed: true };
        for first in &firsts {
            if mark.synced + 1 != *first {
                return Err(not_there(mark.synced + 1, *first));
            }
            let file = File::open(segment::path_of(&folder, *first)).map_err(fails)?;
            mark = segment::marked(&file, *first)?;
            let bytes = file.metadata().map_err(fails)?.len();
            pieces.push(Piece { first: *first, bytes });
        }
        let (first, Mark { synced, followed }) = (firsts[firsts.len() - 1], mark);
        if followed {
            let what = "the segment that begins with it is gone".to_owned();
            return Err(JournalError::Damaged { event: synced + 1, what });
        }
        let path = segment::path_of(&folder, first);
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(fails)?;
        let file_bytes = file.metadata().map_err(fails)?.len();
        let Scanned { next, bytes, stopped } =
            segment::scan(&file, first, file_bytes, u64::MAX, &mut |_, _| Ok(()))?;
        if next - 1 < synced {
            return Err(JournalError::Missing { last: next - 1, expected: synced });
        }
        if let Some(why) = stopped {
            // It was being written when power was lost, and nobody was told that it is safe.
            tracing::warn!(after = next - 1, why, "what was not written to its end was cut off");
        }
        let file_bytes = clear_behind(&file, bytes, file_bytes).map_err(fails)?;
        pieces.last_mut().expect("there is one").bytes = bytes;
        let shared = Arc::new(Shared {
            folder,
            pieces: Mutex::new(pieces),
            pruning: Mutex::default(),
            begins_another: AtomicBool::new(false),
            ended: Mutex::default(),
        });
        segment::keep_spare(&shared.folder);
        let last = next - 1;
        let (record, failed, had_no_room) = (Vec::new(), None, None);
        Ok(Self {
            shared,
            segment_bytes,
            file,
            first,
            bytes,
            file_bytes,
            last,
            record,
            failed,
            had_no_room,
        })
    }

    /// A reader for other threads.
    pub fn reader(&self) -> Reader {
        Reader(self.shared.clone())
    }

    /// Appends a frame of so many events that was made for the number after the last.
    pub(super) fn append_frame(&mut self, frame: &[u8], events: u64) -> Result<(), JournalError> {
        self.record.clear();
        self.record.extend([0; 4]);
        self.record.extend(frame);
        self.append_record(events)
    }

    fn append_record(&mut self, events: u64) -> Result<(), JournalError> {
        let written = self.write_record().map_err(|why| self.shared.error("be written", &why));
        self.or_fail(written)?;
        self.last += events;
        Ok(())
    }

    fn write_record(&mut self) -> io::Result<()> {
        let length = u32::try_from(self.record.len() - 4).map_err(io::Error::other)?;
        self.record[..4].copy_from_slice(&length.to_le_bytes());
        let end = self.bytes + self.record.len() as u64;
        if end > self.segment_bytes && self.bytes > RECORDS_AT {
            self.begin_another()?;
        }
        if let Err(why) = self.take_room() {
            // Where the disk is full there is room in the spare file at least.
            let is_full = why.kind() == io::ErrorKind::StorageFull && self.bytes > RECORDS_AT;
            if !is_full || !self.begin_another()? || self.take_room().is_err() {
                return Err(why);
            }
        }
        self.file.write_all_at(&self.record, self.bytes)?;
        self.bytes += self.record.len() as u64;
        if let Some(piece) = locked(&self.shared.pieces).last_mut() {
            piece.bytes = self.bytes;
        }
        Ok(())
    }

    /// Makes the file long enough for the record, and longer.
    fn take_room(&mut self) -> io::Result<()> {
        while self.bytes + self.record.len() as u64 > self.file_bytes {
            self.file.write_all_at(&ZEROS, self.file_bytes)?;
            self.file_bytes += AHEAD_BYTES as u64;
        }
        Ok(())
    }

    /// Seals the segment and begins the next. Where there is no room for one, which is found before anything is changed, this one
    /// goes on, as far as it has room: it is tried again later, and not taken for a journal that fails. Says whether it has begun.
    fn begin_another(&mut self) -> io::Result<bool> {
        if self.had_no_room.is_some_and(|at| at.elapsed() < TRIED_AGAIN) {
            return Ok(false);
        }
        let (first, synced) = (self.last + 1, self.last);
        let (next, file_bytes) = match segment::prepare(&self.shared.folder, first) {
            Ok(prepared) => prepared,
            Err(why) => {
                tracing::warn!(%why, "another file of the journal cannot be begun; it is tried again");
                self.had_no_room = Some(Instant::now());
                return Ok(false);
            }
        };
        self.had_no_room = None;
        self.file.sync_data()?;
        segment::mark(&self.file, self.first, Mark { synced, followed: false })?;
        self.file.set_len(self.bytes)?;
        self.file.sync_all()?;
        segment::finish(&self.shared.folder, first)?;
        segment::mark(&self.file, self.first, Mark { synced, followed: true })?;
        self.file = next;
        (self.first, self.bytes, self.file_bytes) = (first, RECORDS_AT, file_bytes);
        self.shared.begins_another.store(false, Ordering::Relaxed);
        locked(&self.shared.pieces).push(Piece { first, bytes: RECORDS_AT });
        segment::keep_spare(&self.shared.folder);
        Ok(true)
    }

    /// Remembers a failure: from then on nothing is taken.
    fn or_fail<T>(&mut self, result: Result<T, JournalError>) -> Result<T, JournalError> {
        result.inspect_err(|why| self.failed = Some(why.to_string()))
    }

    fn refuse_if_failed(&self) -> Result<(), JournalError> {
        self.failed.as_ref().map_or(Ok(()), |why| Err(JournalError::Failed(why.clone())))
    }
}

/// Writes zeros behind the end of the records, or the next one would be followed by what is there. The room that was taken in
/// advance stays taken: where the disk has become full meanwhile the first groups fit there. Returns how long the file is.
fn clear_behind(file: &File, bytes: u64, file_bytes: u64) -> io::Result<u64> {
    let file_bytes = file_bytes.min(bytes + AHEAD_BYTES as u64);
    file.set_len(file_bytes)?;
    file.write_all_at(&ZEROS[..(file_bytes - bytes) as usize], bytes)?;
    Ok(file_bytes)
}

/// The first events of all segments in a folder, in order. What was being made when the process ended is
/// removed.
fn listed(folder: &Path) -> io::Result<Vec<u64>> {
    let mut firsts = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        match segment::first_of(&name) {
            Some(first) => firsts.push(first),
            None if name == segment::UNFINISHED => std::fs::remove_file(folder.join(&*name))?,
            None => {}
        }
    }
    firsts.sort_unstable();
    Ok(firsts)
}

impl Journal for SegmentJournal {
    fn last(&self) -> u64 {
        self.last
    }

    fn append(&mut self, group: &Group) -> Result<(), JournalError> {
        self.refuse_if_failed()?;
        if group.is_empty() {
            return Ok(());
        }
        self.record.clear();
        self.record.extend([0; 4]);
        group.frame_into(self.last + 1, &mut self.record);
        self.append_record(group.events())
    }

    fn sync(&mut self) -> Result<(), JournalError> {
        self.refuse_if_failed()?;
        let synced = self.file.sync_data().map_err(|why| self.shared.error("be synced", &why));
        self.or_fail(synced)?;
        let mark = Mark { synced: self.last, followed: false };
        let marked = segment::mark(&self.file, self.first, mark)
            .map_err(|why| self.shared.error("be marked as synced", &why));
        self.or_fail(marked)
    }

    /// Begins another segment where that is asked for, also when nothing is appended.
    fn tend(&mut self) -> Result<(), JournalError> {
        self.refuse_if_failed()?;
        if !self.shared.begins_another.load(Ordering::Relaxed) || self.bytes == RECORDS_AT {
            return Ok(());
        }
        let begun = self.begin_another().map_err(|why| self.shared.error("be written", &why));
        self.or_fail(begun.map(drop))
    }

    fn pruner(&self) -> Pruner {
        let shared = self.shared.clone();
        Box::new(move |before| shared.prune(before).map(drop))
    }

    fn replay(&self) -> Option<Replay> {
        let shared = self.shared.clone();
        Some(Box::new(move |from, visit| shared.read_from(from, visit).map(drop)))
    }

    fn read(&self, from: u64, visit: &mut Visit) -> Result<(), JournalError> {
        let next = self.shared.read_from(from, visit)?;
        match next - 1 == self.last {
            true => Ok(()),
            false => Err(JournalError::Missing { last: next - 1, expected: self.last }),
        }
    }
}

/// Reads the journal while it is being written, and removes its beginning, beside the thread that writes.
#[derive(Clone)]
pub struct Reader(Arc<Shared>);

impl Reader {
    /// What the journal takes on disk.
    pub fn bytes(&self) -> u64 {
        locked(&self.0.pieces).iter().map(|piece| piece.bytes).sum()
    }

    /// Its segments, the oldest first, the one that is written to last.
    pub fn pieces(&self) -> Vec<Piece> {
        locked(&self.0.pieces).clone()
    }

    /// When the first event of a segment happened; nothing if it has none.
    pub fn time_of(&self, piece: &Piece) -> Result<Option<u64>, JournalError> {
        let (file, mut at_ms) = (self.0.open(piece.first)?, None);
        // One event is enough, and the reading is not done for the rest.
        let seen =
            segment::scan(&file, piece.first, piece.bytes, piece.first, &mut |event, bytes| {
                at_ms = crate::event::time_of(bytes).ok();
                Err(JournalError::Damaged { event, what: String::new() })
            });
        match at_ms {
            Some(at_ms) => Ok(Some(at_ms)),
            None => seen.map(|_| None),
        }
    }

    /// When the last event of a segment that nothing is added to happened; nothing if it has none. It is read for that, and
    /// not again while the same one is asked for.
    pub fn end_of(&self, piece: &Piece) -> Result<Option<u64>, JournalError> {
        if let Some((first, at_ms)) = *locked(&self.0.ended)
            && first == piece.first
        {
            return Ok(Some(at_ms));
        }
        let mut last_ms = None;
        self.0.read(&[*piece], 0, &mut |_, bytes| {
            last_ms = last_ms.max(crate::event::time_of(bytes).ok());
            Ok(())
        })?;
        *locked(&self.0.ended) = last_ms.map(|at_ms| (piece.first, at_ms));
        Ok(last_ms)
    }

    /// Removes segments all of whose events come before one. Returns how many.
    pub fn prune(&self, before: u64) -> Result<usize, JournalError> {
        self.0.prune(before)
    }

    /// Has the next group begin a segment.
    pub fn begin_another(&self) {
        self.0.begins_another.store(true, Ordering::Relaxed);
    }

    /// Visits every event that is there now, in order, from the first that the journal still holds. Segments that are
    /// removed before their turn comes are left out: nobody who reads slowly keeps the disk full. Returns how many events
    /// were left out after one that was visited; what is removed before that is as if it had never been there.
    pub fn read(&self, visit: &mut Visit) -> Result<u64, JournalError> {
        let (pieces, mut next, mut left_out, mut begun) = (self.pieces(), None, 0, false);
        for (at, piece) in pieces.iter().enumerate() {
            if let Some(next) = next
                && next != piece.first
            {
                return Err(not_there(next, piece.first));
            }
            next = match self.0.read(&[*piece], 0, visit) {
                Ok(after) => {
                    begun = true;
                    Some(after)
                }
                Err(_) if self.has_removed(piece) => {
                    let after =
                        pieces.get(at + 1).map_or_else(|| self.oldest(), |after| after.first);
                    left_out += if begun { after - piece.first } else { 0 };
                    None
                }
                Err(why) => return Err(why),
            };
        }
        Ok(left_out)
    }

    /// The first event that the journal still holds.
    fn oldest(&self) -> u64 {
        locked(&self.0.pieces).first().map_or(u64::MAX, |oldest| oldest.first)
    }

    /// Whether a segment was removed; waits for a removal that is under way.
    fn has_removed(&self, piece: &Piece) -> bool {
        let _alone = locked(&self.0.pruning);
        self.oldest() > piece.first
    }
}

impl super::EventReader for Reader {
    fn read(&self, visit: &mut Visit) -> Result<u64, JournalError> {
        Reader::read(self, visit)
    }
}
