//! Journals that earlier versions left, in an LSM tree: converted once, whole, or refused.
#![allow(missing_docs)]

mod files;

use std::path::{Path, PathBuf};

use cohort_server::journal::segments::SegmentJournal;
use cohort_server::journal::{Journal, JournalError};
use files::{copy, files, used, write};

fn read_again(folder: &Path) -> Result<Vec<(u64, Vec<u8>)>, JournalError> {
    let journal = SegmentJournal::open_with(folder, 400)?;
    let mut found = Vec::new();
    journal.read(1, &mut |number, bytes| {
        found.push((number, bytes.to_vec()));
        Ok(())
    })?;
    Ok(found)
}

/// A journal as an earlier version left it, all of its files.
fn an_old_one() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compat/v4/journal");
    copy(&kept, folder.path());
    folder
}

#[test]
fn a_conversion_that_was_interrupted_is_done_again_or_finished() {
    let place = an_old_one();
    let expected = read_again(place.path()).unwrap();
    assert!(expected.len() > 500, "{}", expected.len());
    assert!(!place.path().join("store").exists() && !place.path().join("acknowledged").exists());

    let interrupted = an_old_one();
    let half = interrupted.path().join("converting");
    std::fs::create_dir(&half).unwrap();
    std::fs::write(half.join(format!("{:020}.segment", 1)), b"cohort seg").unwrap();
    assert_eq!(read_again(interrupted.path()).unwrap(), expected);
    assert!(!half.exists());

    // It was complete, and the store not removed yet.
    copy(an_old_one().path(), interrupted.path());
    assert_eq!(read_again(interrupted.path()).unwrap(), expected);
    assert!(!interrupted.path().join("store").exists());
}

#[test]
fn an_old_journal_whose_end_is_gone_is_refused_and_stays_as_it_is() {
    let place = an_old_one();
    // As if many more had been acknowledged.
    std::fs::write(place.path().join("acknowledged"), 1_000_000u64.to_le_bytes()).unwrap();
    for _ in 0..2 {
        let why = read_again(place.path()).err().map(|why| why.to_string()).unwrap_or_default();
        assert!(why.contains("event 1000000 was acknowledged"), "{why}");
        assert!(place.path().join("store").exists() && !place.path().join("segments").exists());
    }
}

/// All events of the journal in a folder, as text; `None` if it was refused. Another process reads
/// them, so that it is seen if damage to the old store's own files ends it: the store would believe a
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
    let events = read_again(&folder).unwrap_or_else(|why| panic!("{why}"));
    println!("EVENTS {events:?}");
}

/// The store of earlier versions cuts its log where it cannot read on. Wherever a byte is damaged,
/// the journal either still gives all events or says that it cannot.
#[test]
fn a_damaged_byte_of_an_old_journal_never_changes_what_is_read() {
    let expected = format!("{:?}", read_again(an_old_one().path()).unwrap());
    let (mut refused, mut tried) = (0, 0);
    let whole = an_old_one();
    for file in files(whole.path()) {
        let written = std::fs::read(&file).unwrap();
        let used = used(&written);
        for at in (0..used).step_by((used / 8).max(1)) {
            let damaged = an_old_one();
            let target = damaged.path().join(file.strip_prefix(whole.path()).unwrap());
            let mut bytes = written.clone();
            bytes[at] ^= 0x41;
            write(&target, &bytes);
            tried += 1;
            match read_in_another_process(damaged.path()) {
                Some(found) => assert_eq!(found, expected, "{file:?} byte {at}"),
                None => refused += 1,
            }
        }
    }
    assert!(tried > 30 && refused > 15, "{refused} of {tried} refused: nothing was damaged?");
}
