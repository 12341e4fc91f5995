//! What does the journal do where the disk has no room for another file?
#![allow(missing_docs)]

use cohort_server::journal::segments::SegmentJournal;
use cohort_server::journal::{Group, Journal};
use std::path::Path;

fn group(bytes: &[u8]) -> Group {
    let mut group = Group::default();
    group.push(|out| out.extend(bytes));
    group
}

fn read_again(folder: &Path) -> Vec<(u64, Vec<u8>)> {
    let mut events = Vec::new();
    let visit = &mut |number: u64, bytes: &[u8]| {
        events.push((number, bytes.to_vec()));
        Ok(())
    };
    SegmentJournal::open(folder).unwrap().read(1, visit).unwrap();
    events
}

/// Where another file of the journal cannot be made nothing has failed: this one goes on, and the other is begun once it can be.
#[test]
fn a_file_that_cannot_be_begun_now_is_begun_later() {
    let place = tempfile::tempdir().unwrap();
    let mut journal = SegmentJournal::open_with(place.path(), 4000).unwrap();
    // As on a disk without any room, neither is there a spare file, nor can one be made.
    let segments = place.path().join("segments");
    let _ = std::fs::remove_file(segments.join("spare"));
    let in_the_way = ["unfinished", "spare"].map(|name| segments.join(name).join("it"));
    in_the_way.iter().for_each(|path| std::fs::create_dir_all(path).unwrap());
    let mut written = Vec::new();
    let append = |journal: &mut SegmentJournal, written: &mut Vec<(u64, Vec<u8>)>| {
        written.push((written.len() as u64 + 1, vec![7; 300]));
        journal.append(&group(&[7; 300])).unwrap();
        journal.sync().unwrap();
    };
    append(&mut journal, &mut written);
    // Because something is to go, …
    journal.reader().begin_another();
    journal.tend().unwrap();
    // … and because it is as long as it should be.
    for _ in 0..40 {
        append(&mut journal, &mut written);
        journal.tend().unwrap();
    }
    assert_eq!(journal.reader().pieces().len(), 1);
    let mut read = Vec::new();
    let visit = &mut |number: u64, bytes: &[u8]| {
        read.push((number, bytes.to_vec()));
        Ok(())
    };
    journal.read(1, visit).unwrap();
    assert_eq!(read, written);

    in_the_way.iter().for_each(|path| std::fs::remove_dir_all(path.parent().unwrap()).unwrap());
    for _ in 0..100 {
        journal.tend().unwrap();
        if journal.reader().pieces().len() > 1 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    append(&mut journal, &mut written);
    assert_eq!(journal.reader().prune(42).unwrap(), 1);
    assert_eq!(journal.reader().pieces()[0].first, 42);
}

/// The next file of the journal gets room that was taken before: it can begin where the disk is full.
#[test]
fn another_file_begins_in_room_that_was_kept_for_it() {
    use std::os::unix::fs::MetadataExt;
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str| std::fs::metadata(place.path().join("segments").join(name)).unwrap();
    let mut journal = SegmentJournal::open(place.path()).unwrap();
    for first in [2, 3] {
        journal.append(&group(&[7; 300])).unwrap();
        journal.sync().unwrap();
        let spare = file("spare");
        assert!(spare.blocks() * 512 >= 1 << 20, "{}", spare.blocks());
        journal.reader().begin_another();
        journal.tend().unwrap();
        let next = file(&format!("{first:020}.segment"));
        assert_eq!((next.ino(), next.len()), (spare.ino(), spare.len()));
    }
    journal.append(&group(&[7; 300])).unwrap();
    assert_eq!(file(&format!("{:020}.segment", 3)).len(), file("spare").len(), "it has room");
    drop(journal);
    assert_eq!(read_again(place.path()).len(), 3);
}
