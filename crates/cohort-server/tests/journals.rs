//! One suite for every journal: what is appended and synced is there, in order, once, after any
//! crash; what is damaged is named.
#![allow(missing_docs)]

use std::path::{Path, PathBuf};

use cohort_server::journal::faulty::{Fault, FaultyJournal};
use cohort_server::journal::fjall::FjallJournal;
use cohort_server::journal::memory::{MemoryDisk, MemoryJournal};
use cohort_server::journal::{Group, Journal, JournalError};
use proptest::prelude::*;

/// Somewhere a journal can be opened again and again.
trait Place {
    type Journal: Journal;
    fn new() -> Self;
    fn open(&self) -> Result<Self::Journal, JournalError>;
}

struct InMemory(MemoryDisk);
struct InAFolder(tempfile::TempDir);
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
    type Journal = FjallJournal;
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    fn open(&self) -> Result<FjallJournal, JournalError> {
        FjallJournal::open(self.0.path())
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
fn the_beginning_can_be_forgotten(place: &impl Place, groups: &[(Vec<Vec<u8>>, bool)]) {
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
    if groups.len() > 1 {
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
suite!(fjall, InAFolder, 8);

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

/// All files of a folder and of the folders in it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        write(&target, &std::fs::read(file).unwrap());
    }
}

/// Writes a file without the zeros at its end, of which the store's log has 64 MiB in advance.
fn write(target: &Path, bytes: &[u8]) {
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    std::fs::write(target, &bytes[..used]).unwrap();
    std::fs::File::options().write(true).open(target).unwrap().set_len(bytes.len() as u64).unwrap();
}

/// All events of the journal in a folder, as text; `None` if it was refused. Another process reads
/// them, so that it is seen if damage to the store's own files ends it: the store would believe a
/// damaged count and ask for more memory than there is.
fn read_in_another_process(folder: &Path) -> Option<String> {
    let read = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "read_a_folder", "--ignored", "--nocapture"])
        .env("COHORT_TEST_FOLDER", folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&read.stdout).into_owned();
    assert!(read.status.code().is_some(), "it is refused, not ended: {said}");
    let events = said.lines().find_map(|line| line.split_once("EVENTS "))?.1.to_owned();
    read.status.success().then_some(events)
}

#[test]
#[ignore = "run by the test of damaged bytes, in a process of its own"]
fn read_a_folder() {
    let folder = PathBuf::from(std::env::var("COHORT_TEST_FOLDER").unwrap());
    let journal = FjallJournal::open(&folder).unwrap_or_else(|why| panic!("{why}"));
    let events = read_from(&journal, 1).unwrap_or_else(|why| panic!("{why}"));
    println!("EVENTS {events:?}");
}

/// The store cuts its log where it cannot read on. Wherever a byte is damaged, the journal either
/// still gives all events or says that it cannot: it never gives fewer, or others, in silence.
#[test]
fn a_damaged_byte_on_disk_never_changes_what_is_read() {
    let place = InAFolder::new();
    let events: Vec<Vec<u8>> = (0..40u8).map(|n| vec![n; usize::from(n)]).collect();
    {
        let mut journal = place.open().unwrap();
        for events in events.chunks(4) {
            journal.append(&group(events)).unwrap();
            journal.sync().unwrap();
        }
    }
    let expected: Vec<(u64, Vec<u8>)> = (1..).zip(events).collect();
    let mut refused = 0;
    let mut tried = 0;
    for file in files(place.0.path()) {
        let written = std::fs::read(&file).unwrap();
        // The store makes its log longer in advance; only what was written is of interest.
        let used = written.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        for at in (0..used).step_by((used / 16).max(1)) {
            let damaged = tempfile::tempdir().unwrap();
            copy(place.0.path(), damaged.path());
            let target = damaged.path().join(file.strip_prefix(place.0.path()).unwrap());
            let mut bytes = written.clone();
            bytes[at] ^= 0x41;
            write(&target, &bytes);
            tried += 1;
            match read_in_another_process(damaged.path()) {
                Some(found) => assert_eq!(found, format!("{expected:?}"), "{file:?} byte {at}"),
                None => refused += 1,
            }
        }
    }
    assert!(tried > 40 && refused > 20, "{refused} of {tried} refused: nothing was damaged?");
}

#[test]
fn a_journal_whose_end_is_gone_is_refused() {
    let place = InAFolder::new();
    {
        let mut journal = place.open().unwrap();
        journal.append(&group(&[vec![1]])).unwrap();
        journal.sync().unwrap();
    }
    // As if one more had been acknowledged.
    std::fs::write(place.0.path().join("acknowledged"), 2u64.to_le_bytes()).unwrap();
    let why = place.open().err().map(|why| why.to_string()).unwrap_or_default();
    assert!(why.contains("ends at event 1") && why.contains("event 2 was acknowledged"), "{why}");
}
