//! One file of the journal, a segment: groups of events, one after the other.
//!
//! ```text
//! NUMBER.segment = head · mark · record* · zeros that were written in advance, or nothing
//! head   = "cohort segment 1" · first u64 · xxh3-64 of what is before
//! mark   = synced u64 · followed u64 (0 or 1) · xxh3-64 of (first · synced · followed)
//! record = length u32 · frame
//! ```
//!
//! `first` is the number of the segment's first event, and its name. The mark says up to which event
//! the segment was synced. It is written after a sync and not synced itself: after the end of the
//! process it is exact, after a loss of power it may be behind, and it is never ahead. So a record
//! that cannot be read is a write that was torn if it is behind the mark, and damage if it is not. Once
//! there is another segment after it, the mark says that too: so it is noticed when the last one is gone.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::{JournalError, Visit, frame};

const MAGIC: &[u8; 16] = b"cohort segment 1";
const HEAD_BYTES: usize = 32;
const MARK_BYTES: usize = 24;
/// Where records begin.
pub const RECORDS_AT: u64 = (HEAD_BYTES + MARK_BYTES) as u64;
/// The name of a segment that is being made.
pub const UNFINISHED: &str = "unfinished";
/// The name of a file whose room the next segment gets: also where the disk is full by then one can begin, so that the one
/// before it can go. It holds zeros, and is never read.
pub const SPARE: &str = "spare";
/// Zeros are written this far in advance: a sync after which the file is no longer than before has less
/// to write.
pub const AHEAD_BYTES: usize = 1 << 20;
/// What is written in advance.
pub static ZEROS: [u8; AHEAD_BYTES] = [0; AHEAD_BYTES];
const SPARE_BYTES: u64 = RECORDS_AT + AHEAD_BYTES as u64;
const BUFFER_BYTES: usize = 1 << 18;

/// The file of the segment that begins with an event. Twenty digits, so that names sort as numbers do.
pub fn path_of(folder: &Path, first: u64) -> PathBuf {
    folder.join(format!("{first:020}.segment"))
}

/// The first event by a file's name, if it is that of a segment.
pub fn first_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".segment")?;
    (digits.len() == 20).then(|| digits.parse().ok())?.filter(|first| *first > 0)
}

/// Makes a segment without events. It is there in full or not at all, whatever happens meanwhile.
pub fn create(folder: &Path, first: u64) -> io::Result<File> {
    let (file, _) = prepare(folder, first)?;
    finish(folder, first)?;
    Ok(file)
}

/// Makes a segment without events that has no name yet, from the [spare](SPARE) one if there is one: what has its room is
/// written over, which takes no more. Returns how long it is, too.
pub fn prepare(folder: &Path, first: u64) -> io::Result<(File, u64)> {
    let unfinished = folder.join(UNFINISHED);
    let is_spare = std::fs::rename(folder.join(SPARE), &unfinished).is_ok();
    let made = fill(&unfinished, first, !is_spare);
    if made.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    made
}

fn fill(path: &Path, first: u64, truncate: bool) -> io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    let file = options.create(true).truncate(truncate).read(true).write(true).open(path)?;
    let mut head = Vec::with_capacity(HEAD_BYTES);
    head.extend(MAGIC);
    head.extend(first.to_le_bytes());
    head.extend(xxh3_64(&head).to_le_bytes());
    file.write_all_at(&head, 0)?;
    mark(&file, first, Mark { synced: first - 1, followed: false })?;
    file.sync_all()?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

/// Gives a segment that was [prepared](prepare) its name.
pub fn finish(folder: &Path, first: u64) -> io::Result<()> {
    std::fs::rename(folder.join(UNFINISHED), path_of(folder, first))?;
    sync_folder(folder)
}

/// Takes room for the segment after this one, if there is any; says whether there is a spare one now.
pub fn keep_spare(folder: &Path) -> bool {
    let path = folder.join(SPARE);
    if std::fs::metadata(&path).is_ok_and(|found| found.len() == SPARE_BYTES) {
        return true;
    }
    let zeros = |file: File| {
        file.write_all_at(&ZEROS[..RECORDS_AT as usize], 0)?;
        file.write_all_at(&ZEROS, RECORDS_AT)
    };
    let made = File::create(&path).and_then(zeros);
    if made.is_err() {
        let _ = std::fs::remove_file(&path);
    }
    made.is_ok()
}

/// Returns when the names in a folder would survive a loss of power.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// What a segment says of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mark {
    /// The event up to which it was synced.
    pub synced: u64,
    /// Whether another segment comes after it.
    pub followed: bool,
}

impl Mark {
    fn to_bytes(self, first: u64) -> [u8; MARK_BYTES] {
        let (mut summed, followed) = ([0; 24], u64::from(self.followed));
        for (at, number) in [first, self.synced, followed].into_iter().enumerate() {
            summed[8 * at..][..8].copy_from_slice(&number.to_le_bytes());
        }
        let mut bytes = [0; MARK_BYTES];
        bytes[..16].copy_from_slice(&summed[8..]);
        bytes[16..].copy_from_slice(&xxh3_64(&summed).to_le_bytes());
        bytes
    }
}

/// Writes the mark of the segment that begins with `first`.
pub fn mark(file: &File, first: u64, mark: Mark) -> io::Result<()> {
    file.write_all_at(&mark.to_bytes(first), HEAD_BYTES as u64)
}

/// The mark of the segment that begins with `first`.
pub fn marked(file: &File, first: u64) -> Result<Mark, JournalError> {
    let damaged = |what: &str| JournalError::Damaged { event: first, what: what.to_owned() };
    let mut bytes = [0; HEAD_BYTES + MARK_BYTES];
    file.read_exact_at(&mut bytes, 0).map_err(|_| damaged("its segment is too short"))?;
    let number = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
    if &bytes[..16] != MAGIC {
        return Err(damaged(
            "its segment does not begin as this program writes it (perhaps a newer one wrote it)",
        ));
    }
    if number(16) != first || number(24) != xxh3_64(&bytes[..24]) {
        return Err(damaged("the head of its segment does not match its name or its checksum"));
    }
    let mark = Mark { synced: number(HEAD_BYTES), followed: number(HEAD_BYTES + 8) == 1 };
    match mark.to_bytes(first) == bytes[HEAD_BYTES..] && mark.synced >= first - 1 {
        true => Ok(mark),
        false => Err(damaged("the mark of its segment does not match its checksum")),
    }
}

/// What reading a segment came to.
#[derive(Debug)]
pub struct Scanned {
    /// The number after its last event.
    pub next: u64,
    /// Where its last record ends.
    pub bytes: u64,
    /// Why it was not read to the end, if what is there is no record.
    pub stopped: Option<String>,
}

/// Visits the events of a segment from number `from` on, as far as its first `end` bytes can be read.
/// Zeros are the end.
pub fn scan(
    file: &File,
    first: u64,
    end: u64,
    from: u64,
    visit: &mut Visit,
) -> Result<Scanned, JournalError> {
    let unreadable = |why: io::Error| JournalError::Damaged {
        event: first,
        what: format!("its segment cannot be read: {why}"),
    };
    let mut file = file;
    file.seek(SeekFrom::Start(RECORDS_AT)).map_err(unreadable)?;
    let mut reader =
        BufReader::with_capacity(BUFFER_BYTES, file.take(end.saturating_sub(RECORDS_AT)));
    let (mut scanned, mut frame) =
        (Scanned { next: first, bytes: RECORDS_AT, stopped: None }, Vec::new());
    let stop = |mut scanned: Scanned, why: String| {
        scanned.stopped = Some(why);
        Ok(scanned)
    };
    while !reader.fill_buf().map_err(unreadable)?.is_empty() {
        let left = end - scanned.bytes;
        let mut length = [0; 4];
        if left < 4 {
            break;
        }
        reader.read_exact(&mut length).map_err(unreadable)?;
        let length = u64::from(u32::from_le_bytes(length));
        if length == 0 {
            break;
        }
        if length > left - 4 {
            return stop(scanned, "its group is cut off".to_owned());
        }
        frame.resize(length as usize, 0);
        reader.read_exact(&mut frame).map_err(unreadable)?;
        match frame::whole(scanned.next, &frame) {
            Ok(whole) => scanned.next += frame::events(scanned.next, whole, from, visit)?,
            Err(why) => return stop(scanned, why),
        }
        scanned.bytes += 4 + length;
    }
    Ok(scanned)
}
