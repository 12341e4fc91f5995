//! Any bytes as a data file, any text as an experiment: read or refused, never a panic. These are
//! the counterparts in the ordinary suite of the fuzz targets, whose corpus is run too.
#![allow(missing_docs)]

use std::path::PathBuf;

use cohort_lab::{experiment, npy};
use proptest::prelude::*;

/// The files of a fuzz target's corpus.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files: Vec<Vec<u8>> = std::fs::read_dir(&folder)
        .unwrap_or_else(|why| panic!("{}: {why}", folder.display()))
        .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
        .collect();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files
}

/// Reads bytes as every kind of array; says whether any was one.
fn read_npy(bytes: &[u8]) -> bool {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let table = npy::read::<f64>(file.path(), &["rounds", "users"]);
    let labels = npy::read::<i64>(file.path(), &["users"]);
    table.is_ok() || labels.is_ok()
}

fn read_experiment(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| experiment::Draft::parse(text).is_ok())
}

/// A file of the corpus with a few bytes changed, cut off or added: this reaches further than bytes
/// at random.
fn changed(target: &'static str) -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    let tail = prop::collection::vec(any::<u8>(), 0..40);
    (prop::sample::select(corpus(target)), changes, any::<prop::sample::Index>(), tail).prop_map(
        |(mut bytes, changes, cut, tail)| {
            for (at, byte) in changes {
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] = byte;
                }
            }
            if tail.len() % 2 == 1 {
                bytes.truncate(cut.index(bytes.len() + 1));
                bytes.extend(tail);
            }
            bytes
        },
    )
}

#[test]
fn the_corpus_has_files_that_are_read() {
    assert!(corpus("npy").iter().any(|bytes| read_npy(bytes)));
    assert!(corpus("experiment").iter().any(|bytes| read_experiment(bytes)));
}

proptest! {
    #[test]
    fn any_bytes_are_an_array_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read_npy(&bytes);
    }

    #[test]
    fn nearly_an_array_is_one_or_refused(bytes in changed("npy")) {
        read_npy(&bytes);
    }

    #[test]
    fn any_text_is_an_experiment_or_refused(text in ".{0,300}") {
        read_experiment(text.as_bytes());
    }

    #[test]
    fn nearly_an_experiment_is_one_or_refused(bytes in changed("experiment")) {
        read_experiment(&bytes);
    }
}
