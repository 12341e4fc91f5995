//! Entry points for fuzzing: every place where the lab reads foreign files, as a function that
//! takes any bytes and must not panic. The fuzz targets and the property tests call the same
//! functions. Each returns whether the bytes were valid.

use std::path::Path;

use crate::datasets::{Centring, Choices, lastfm, movielens};
use crate::{evaluate, experiment, npy};

/// Reads an array of any supported type.
pub fn npy(folder: &Path, bytes: &[u8]) -> bool {
    let file = folder.join("array.npy");
    write(&file, bytes);
    let table = npy::read::<f64>(&file, &["rounds", "users"]);
    let labels = npy::read::<i64>(&file, &["users"]);
    table.is_ok() || labels.is_ok()
}

/// Reads an experiment.
pub fn experiment(_: &Path, bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| experiment::Draft::parse(text).is_ok())
}

/// Reads a data set: its files one after the other, each after a line `=== NAME`.
pub fn dataset(folder: &Path, bytes: &[u8]) -> bool {
    const NAMES: [&str; 7] = [
        "artists.dat",
        "user_artists.dat",
        "tags.dat",
        "user_taggedartists.dat",
        "movies.csv",
        "ratings.csv",
        "tags.csv",
    ];
    unpack(folder, &NAMES, bytes);
    let choices = Choices { dim: 2, centring: Centring::Centred, ..Choices::default() };
    [lastfm::read(folder), movielens::read(folder)]
        .into_iter()
        .flatten()
        .map(|tables| tables.catalogue(choices))
        .fold(false, |any, made| any | made.is_ok())
}

/// Reads a log of decisions, as bytes or in files like those of a data set.
pub fn log(folder: &Path, bytes: &[u8]) -> bool {
    if bytes.starts_with(b"=== ") {
        unpack(folder, &["log.csv", "item_context.csv"], bytes)
    } else {
        write(&folder.join("log.csv"), bytes)
    }
    evaluate::reading::read(&folder.join("log.csv")).is_ok()
}

/// Writes what comes after `=== NAME` to the file of that name, and removes the other files in
/// `names`.
fn unpack(folder: &Path, names: &[&str], bytes: &[u8]) {
    for name in names {
        let _ = std::fs::remove_file(folder.join(name));
    }
    let mut open: Option<(&str, Vec<u8>)> = None;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let title = line.strip_prefix(b"=== ").map(<[u8]>::trim_ascii);
        let named = names.iter().find(|name| title == Some(name.as_bytes()));
        match (named, &mut open) {
            (Some(name), open) => {
                if let Some((name, bytes)) = open.replace((*name, Vec::new())) {
                    write(&folder.join(name), &bytes);
                }
            }
            (None, Some((_, bytes))) => bytes.extend_from_slice(line),
            (None, None) => {}
        }
    }
    if let Some((name, bytes)) = open {
        write(&folder.join(name), &bytes);
    }
}

fn write(file: &Path, bytes: &[u8]) {
    std::fs::write(file, bytes).expect("a folder that can be written");
}
