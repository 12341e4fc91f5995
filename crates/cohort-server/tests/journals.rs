//! One suite for every journal: what is appended and synced is there, in order, once, after any
//! crash; what is damaged is named.
#![allow(missing_docs)]

mod files;
mod nats;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use cohort_server::cluster::journal::StreamJournal;
use cohort_server::cluster::memory::MemoryStream;
use cohort_server::cluster::nats::{Nats, NatsLog};

use cohort_server::journal::faulty::{Fault, FaultyJournal};
use cohort_server::journal::memory::{MemoryDisk, MemoryJournal};
use cohort_server::journal::segments::SegmentJournal;
use cohort_server::journal::{Group, Journal, JournalError};
use files::{files, used, write};
use proptest::prelude::*;

/// Somewhere a journal can be opened again and again.
trait Place {
    type Journal: Journal;
    /// Whether single groups can be forgotten.
    const FORGETS_GROUPS: bool = true;
    fn new() -> Self;
    fn open(&self) -> Result<Self::Journal, JournalError>;
}

struct InMemory(MemoryDisk);
struct InAFolder(tempfile::TempDir);
/// Every group begins a file.
struct InSmallFiles(tempfile::TempDir);
/// The fault-injecting one must be a good journal as long as nothing is injected.
struct Faultless(MemoryDisk);

impl Place for InMemory {
    type Journal = MemoryJournal;
    fn new() -> Self {
        Self(MemoryDisk::default())
    }
    fn open(&self) -> Result<MemoryJournal, JournalError> {
        MemoryJournal::open(&self.0)
    }
}

impl Place for InAFolder {
    type Journal = SegmentJournal;
    const FORGETS_GROUPS: bool = false;
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    fn open(&self) -> Result<SegmentJournal, JournalError> {
        SegmentJournal::open(self.0.path())
    }
}

impl Place for InSmallFiles {
    type Journal = SegmentJournal;
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    fn open(&self) -> Result<SegmentJournal, JournalError> {
        SegmentJournal::open_with(self.0.path(), 1)
    }
}

impl Place for Faultless {
    type Journal = FaultyJournal<MemoryJournal>;
    fn new() -> Self {
        Self(MemoryDisk::default())
    }
    fn open(&self) -> Result<Self::Journal, JournalError> {
        Ok(FaultyJournal::new(MemoryJournal::open(&self.0)?, usize::MAX, Fault::Before))
    }
}

/// In a replicated stream that is simulated, whose messages are so small that frames are cut.
struct InAStream(MemoryStream, AtomicU64);
/// In a stream of a real NATS server.
struct InJetStream(NatsLog, AtomicU64);

impl Place for InAStream {
    type Journal = StreamJournal<MemoryStream>;
    fn new() -> Self {
        Self(MemoryStream::default(), AtomicU64::new(0))
    }
    fn open(&self) -> Result<Self::Journal, JournalError> {
        let epoch = self.1.fetch_add(1, Ordering::Relaxed) + 1;
        StreamJournal::open(self.0.clone(), epoch, "test", 0)
    }
}

impl Place for InJetStream {
    type Journal = StreamJournal<NatsLog>;
    fn new() -> Self {
        static SERVERS: LazyLock<(nats::Servers, Nats)> = LazyLock::new(|| {
            let servers = nats::Servers::start(1);
            let nats = servers.connect();
            (servers, nats)
        });
        static STREAMS: AtomicU64 = AtomicU64::new(0);
        let name = format!("p{}", STREAMS.fetch_add(1, Ordering::Relaxed));
        Self(SERVERS.1.open_log(&name, 1).unwrap(), AtomicU64::new(0))
    }
    fn open(&self) -> Result<Self::Journal, JournalError> {
        let epoch = self.1.fetch_add(1, Ordering::Relaxed) + 1;
        StreamJournal::open(self.0.clone(), epoch, "test", 0)
    }
}

fn group(events: &[Vec<u8>]) -> Group {
    let mut group = Group::default();
    for event in events {
        group.push(|out| out.extend(event));
    }
    group
}

fn read_from(journal: &dyn Journal, from: u64) -> Result<Vec<(u64, Vec<u8>)>, JournalError> {
    let mut events = Vec::new();
    journal.read(from, &mut |number, bytes| {
        events.push((number, bytes.to_vec()));
        Ok(())
    })?;
    Ok(events)
}

/// Appends groups, opening the journal anew before some of them, and reads from everywhere.
fn what_is_appended_is_read(place: &impl Place, groups: &[(Vec<Vec<u8>>, bool)]) {
    let mut journal = place.open().unwrap();
    let mut expected = Vec::new();
    for (events, reopen) in groups {
        if *reopen {
            drop(journal);
            journal = place.open().unwrap();
        }
        journal.append(&group(events)).unwrap();
        journal.sync().unwrap();
        expected.extend(events.iter().cloned());
        assert_eq!(journal.last(), expected.len() as u64);
    }
    drop(journal);
    let journal = place.open().unwrap();
    assert_eq!(journal.last(), expected.len() as u64);
    for from in 1..=expected.len() as u64 + 1 {
        let numbered = (from..).zip(expected[from as usize - 1..].iter().cloned());
        assert_eq!(read_from(&journal, from).unwrap(), numbered.collect::<Vec<_>>());
    }
}

/// A visitor that refuses an event stops the reading, and its reason comes out.
fn a_visitor_can_stop(place: &impl Place) {
    let mut journal = place.open().unwrap();
    journal.append(&group(&[vec![1], vec![2], vec![3]])).unwrap();
    let mut seen = 0;
    let stopped = journal.read(1, &mut |event, _| {
        seen = event;
        match event {
            2 => Err(JournalError::Damaged { event, what: "no".to_owned() }),
            _ => Ok(()),
        }
    });
    assert!(matches!(stopped, Err(JournalError::Damaged { event: 2, .. })));
    assert_eq!(seen, 2);
}

/// Forgetting the beginning changes nothing for those who read on, and is told to all others.
fn the_beginning_can_be_forgotten<P: Place>(place: &P, groups: &[(Vec<Vec<u8>>, bool)]) {
    let whole: Vec<Vec<u8>> = groups.iter().flat_map(|(events, _)| events.clone()).collect();
    let last = whole.len() as u64;
    let mut journal = place.open().unwrap();
    for (events, _) in groups {
        journal.append(&group(events)).unwrap();
        journal.sync().unwrap();
    }
    for before in [1, last / 2 + 1, last + 1] {
        journal.prune(before).unwrap();
        drop(journal);
        journal = place.open().unwrap();
        assert_eq!(journal.last(), last);
        for from in before..=last + 1 {
            let numbered = (from..).zip(whole[from as usize - 1..].iter().cloned());
            assert_eq!(read_from(&journal, from).unwrap(), numbered.collect::<Vec<_>>());
        }
    }
    if groups.len() > 1 && P::FORGETS_GROUPS {
        let refused = read_from(&journal, 1).err().map(|why| why.to_string()).unwrap_or_default();
        assert!(refused.contains("are not there"), "{refused}");
    }
    journal.append(&group(&[vec![7]])).unwrap();
    assert_eq!(read_from(&journal, last + 1).unwrap(), [(last + 1, vec![7])]);
}

fn groups() -> impl Strategy<Value = Vec<(Vec<Vec<u8>>, bool)>> {
    let event = prop::collection::vec(any::<u8>(), 0..50);
    let events = prop::collection::vec(event, 1..6);
    prop::collection::vec((events, prop::bool::weighted(0.2)), 1..8)
}

macro_rules! suite {
    ($name:ident, $place:ty, $cases:expr) => {
        mod $name {
            use super::*;
            proptest! {
                #![proptest_config(ProptestConfig::with_cases($cases))]
                #[test]
                fn what_is_appended_is_read(groups in groups()) {
                    super::what_is_appended_is_read(&<$place>::new(), &groups);
                }
                #[test]
                fn the_beginning_can_be_forgotten(groups in groups()) {
                    super::the_beginning_can_be_forgotten(&<$place>::new(), &groups);
                }
            }
            #[test]
            fn a_visitor_can_stop() {
                super::a_visitor_can_stop(&<$place>::new());
            }
        }
    };
}
suite!(memory, InMemory, 64);
suite!(faulty, Faultless, 64);
suite!(folder, InAFolder, 8);
suite!(small_files, InSmallFiles, 8);
suite!(stream, InAStream, 64);
suite!(jetstream, InJetStream, 8);

#[test]
fn power_lost_before_a_sync_takes_what_was_not_synced_and_nothing_else() {
    for kept in 0..=2 {
        let place = InMemory::new();
        let mut journal = place.open().unwrap();
        journal.append(&group(&[vec![1], vec![2]])).unwrap();
        journal.sync().unwrap();
        journal.append(&group(&[vec![3]])).unwrap();
        journal.append(&group(&[vec![4], vec![5]])).unwrap();
        place.0.lose_power(kept);
        let found = place.open().unwrap().last();
        assert_eq!(found, [2, 3, 5][kept]);
    }
}

#[test]
fn a_flipped_bit_in_memory_is_named_wherever_it_is() {
    let whole = [vec![vec![1, 2, 3], vec![4]], vec![vec![5; 20]], vec![vec![]]];
    for bit in 0..8 * 80 {
        let place = InMemory::new();
        let mut journal = place.open().unwrap();
        for events in &whole {
            journal.append(&group(events)).unwrap();
        }
        place.0.flip_bit(bit);
        let found = place.open().err().map(|why| why.to_string()).unwrap_or_default();
        assert!(found.contains("damaged at event"), "bit {bit}: {found}");
    }
}

/// Several files with ten groups in all, the last of which is synced, or not.
fn some_files(last_is_synced: bool) -> (tempfile::TempDir, Vec<(u64, Vec<u8>)>) {
    let folder = tempfile::tempdir().unwrap();
    let events: Vec<Vec<u8>> = (0..40u8).map(|n| vec![n; usize::from(n)]).collect();
    let mut journal = SegmentJournal::open_with(folder.path(), 400).unwrap();
    for (at, events) in events.chunks(4).enumerate() {
        journal.append(&group(events)).unwrap();
        if at < 9 || last_is_synced {
            journal.sync().unwrap();
        }
    }
    (folder, (1..).zip(events).collect())
}

fn read_again(folder: &Path) -> Result<Vec<(u64, Vec<u8>)>, JournalError> {
    read_from(&SegmentJournal::open_with(folder, 400)?, 1)
}

/// Wherever a byte is damaged, the journal either still gives all events or says that it cannot: it
/// never gives fewer, or others, in silence.
#[test]
fn a_damaged_byte_on_disk_never_changes_what_is_read() {
    let (place, expected) = some_files(true);
    let (mut refused, mut tried) = (0, 0);
    for file in files(place.path()) {
        let written = std::fs::read(&file).unwrap();
        for at in 0..used(&written) {
            let mut bytes = written.clone();
            bytes[at] ^= 0x41;
            write(&file, &bytes);
            tried += 1;
            match read_again(place.path()) {
                Ok(found) => assert_eq!(found, expected, "{file:?} byte {at}"),
                Err(JournalError::Damaged { .. } | JournalError::Missing { .. }) => refused += 1,
                Err(other) => panic!("{file:?} byte {at}: {other}"),
            }
            write(&file, &written);
        }
    }
    assert!(files(place.path()).len() >= 3);
    assert!(tried > 1000 && refused == tried, "{refused} of {tried} refused");
}

/// A file that is shorter than it was is refused, or has lost only what nobody was told is safe.
#[test]
fn a_torn_end_is_cut_off_and_an_acknowledged_one_is_missed() {
    for last_is_synced in [true, false] {
        let (place, expected) = some_files(last_is_synced);
        let files = files(place.path());
        for (nth, file) in files.iter().enumerate() {
            let written = std::fs::read(file).unwrap();
            for length in (0..used(&written)).step_by(7) {
                for zeros in [0, 100] {
                    let mut bytes = written[..length].to_vec();
                    bytes.resize(length + zeros, 0);
                    std::fs::write(file, &bytes).unwrap();
                    match read_again(place.path()) {
                        Ok(found) => {
                            assert!(nth + 1 == files.len() && !last_is_synced, "{file:?} {length}");
                            assert_eq!(found, expected[..36], "{file:?} {length}");
                            // It goes on from there.
                            let mut journal = SegmentJournal::open_with(place.path(), 400).unwrap();
                            journal.append(&group(&[vec![9; 300], vec![]])).unwrap();
                            drop(journal);
                            let again = read_again(place.path()).unwrap();
                            assert_eq!(again[36..], [(37, vec![9; 300]), (38, vec![])]);
                            place_back(place.path(), &files);
                        }
                        Err(why) => assert!(
                            matches!(
                                why,
                                JournalError::Damaged { .. } | JournalError::Missing { .. }
                            ),
                            "{why}"
                        ),
                    }
                    write(file, &written);
                }
            }
        }
        assert_eq!(read_again(place.path()).unwrap(), expected);
    }
}

/// Removes files that came after some.
fn place_back(folder: &Path, files_before: &[PathBuf]) {
    for file in files(folder) {
        if !files_before.contains(&file) {
            std::fs::remove_file(file).unwrap();
        }
    }
}

#[test]
fn a_file_that_is_gone_is_missed_unless_it_was_the_first() {
    let many = files(some_files(true).0.path()).len();
    assert!(many >= 3);
    for gone in 0..many {
        let (place, expected) = some_files(true);
        std::fs::remove_file(&files(place.path())[gone]).unwrap();
        match SegmentJournal::open_with(place.path(), 400) {
            // As after pruning.
            Ok(journal) => {
                assert_eq!(gone, 0);
                let from = read_from(&journal, 1).err().map(|why| why.to_string());
                assert!(from.is_some_and(|why| why.contains("are not there")));
                assert_eq!(journal.last(), expected.len() as u64);
            }
            Err(why) => {
                let why = why.to_string();
                let told = if gone + 1 < many { "are not there" } else { "is gone" };
                assert!(gone > 0 && why.contains(told), "{why}");
            }
        }
    }
}

/// Others read while the journal is written and its beginning removed.
#[test]
fn a_reader_sees_what_is_there_while_more_comes_and_some_goes() {
    let place = tempfile::tempdir().unwrap();
    let mut journal = SegmentJournal::open_with(place.path(), 2000).unwrap();
    let reader = journal.reader();
    let reading = std::thread::spawn(move || {
        let (mut rounds, mut seen) = (0, 0);
        while seen < 3000 {
            let mut next = None;
            let read = reader.read(&mut |number: u64, bytes: &[u8]| {
                // What is removed before its turn comes is left out.
                assert!(next.is_none_or(|next| next <= number), "{next:?} {number}");
                assert_eq!(bytes, number.to_le_bytes());
                (next, seen) = (Some(number + 1), number);
                Ok(())
            });
            read.unwrap();
            rounds += 1;
        }
        rounds
    });
    for number in 1..=3000u64 {
        journal.append(&group(&[number.to_le_bytes().to_vec()])).unwrap();
        if number % 300 == 0 {
            journal.prune(number - 200).unwrap();
        }
    }
    assert!(reading.join().unwrap() > 1);
    assert!(journal.reader().bytes() < 3000 * 25);
}

/// Whoever reads slowly goes on with what is left, and is told how much is missing.
#[test]
fn a_segment_that_is_removed_before_its_turn_is_left_out() {
    let place = tempfile::tempdir().unwrap();
    let mut journal = SegmentJournal::open_with(place.path(), 400).unwrap();
    for number in 1..=300u64 {
        journal.append(&group(&[number.to_le_bytes().to_vec()])).unwrap();
    }
    let (reader, mut seen) = (journal.reader(), Vec::new());
    let segments = reader.pieces();
    assert!(segments.len() > 6);
    let before = segments[4].first;
    let left_out = reader
        .read(&mut |number, _| {
            if seen.is_empty() {
                assert_eq!(journal.reader().prune(before).unwrap(), 4);
            }
            seen.push(number);
            Ok(())
        })
        .unwrap();
    // The first was open when it was removed; the three after it were not.
    let expected: Vec<u64> = (1..segments[1].first).chain(before..=300).collect();
    assert_eq!(seen, expected);
    assert_eq!(left_out, before - segments[1].first);
    // What is removed before anything was read is no hole, nor is what was read already.
    let (mut first, newest) = (None, reader.pieces().last().unwrap().first);
    let left_out = reader.read(&mut |number, _| {
        if number == newest {
            assert!(journal.reader().prune(newest).unwrap() > 0);
        }
        first = first.or(Some(number));
        Ok(())
    });
    assert_eq!((left_out.unwrap(), first), (0, Some(before)));
    // A file that is not there and was not removed by the journal is a fault.
    let newest = reader.pieces().last().unwrap().first;
    let path = place.path().join("segments").join(format!("{newest:020}.segment"));
    std::fs::remove_file(path).unwrap();
    assert!(reader.read(&mut |_, _| Ok(())).is_err());
}

/// Where the disk has become full meanwhile the first groups after a start fit into what was taken in advance.
#[test]
fn what_was_taken_in_advance_is_still_there_after_opening() {
    let place = tempfile::tempdir().unwrap();
    let mut journal = SegmentJournal::open(place.path()).unwrap();
    journal.append(&group(&[vec![1; 100]])).unwrap();
    journal.sync().unwrap();
    drop(journal);
    let path = place.path().join("segments").join(format!("{:020}.segment", 1));
    let taken = || std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&path).unwrap()) * 512;
    let before = taken();
    assert!(before >= 1 << 20, "{before}");
    // A group that was torn, and what is left of a later one behind it.
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[9; 700_000], 400).unwrap();
    let mut journal = SegmentJournal::open(place.path()).unwrap();
    assert!(taken() >= before, "{} of {before} are left", taken());
    journal.append(&group(&[vec![2; 300]])).unwrap();
    journal.sync().unwrap();
    let read = read_again(place.path()).unwrap();
    assert_eq!(read, [(1, vec![1; 100]), (2, vec![2; 300])]);
    assert!(taken() >= before);
}
