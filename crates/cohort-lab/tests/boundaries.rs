//! Any bytes as a data file, any text as an experiment: read or refused, never a panic. These are
//! the counterparts in the ordinary suite of the fuzz targets, whose corpus is run too.
#![allow(missing_docs)]

use std::path::{Path, PathBuf};

use cohort_lab::boundaries;
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

type Boundary = fn(&Path, &[u8]) -> bool;
const BOUNDARIES: [(&str, Boundary); 4] = [
    ("npy", boundaries::npy),
    ("experiment", boundaries::experiment),
    ("dataset", boundaries::dataset),
    ("log", boundaries::log),
];

fn read(boundary: Boundary, bytes: &[u8]) -> bool {
    boundary(tempfile::tempdir().unwrap().path(), bytes)
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

/// Bytes that nothing is done with would be no test.
#[test]
fn the_corpus_is_read() {
    for (name, boundary) in BOUNDARIES {
        assert!(corpus(name).iter().filter(|bytes| read(boundary, bytes)).count() > 0, "{name}");
    }
    assert!(corpus("dataset").iter().all(|bytes| read(boundaries::dataset, bytes)));
    assert!(corpus("log").iter().all(|bytes| read(boundaries::log, bytes)));
}

proptest! {
    #[test]
    fn any_bytes_are_something_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for (_, boundary) in BOUNDARIES {
            read(boundary, &bytes);
        }
    }

    #[test]
    fn any_text_is_an_experiment_or_refused(text in ".{0,300}") {
        read(boundaries::experiment, text.as_bytes());
    }

    #[test]
    fn nearly_an_array_is_one_or_refused(bytes in changed("npy")) {
        read(boundaries::npy, &bytes);
    }

    #[test]
    fn nearly_an_experiment_is_one_or_refused(bytes in changed("experiment")) {
        read(boundaries::experiment, &bytes);
    }

    #[test]
    fn nearly_a_data_set_is_one_or_refused(bytes in changed("dataset")) {
        read(boundaries::dataset, &bytes);
    }

    #[test]
    fn nearly_a_log_is_one_or_refused(bytes in changed("log")) {
        read(boundaries::log, &bytes);
    }
}
