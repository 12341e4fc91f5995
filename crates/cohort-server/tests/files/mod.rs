//! Files of a journal, to be copied and damaged.
#![allow(dead_code, missing_docs)]

use std::path::{Path, PathBuf};

/// All files of a folder and of the folders in it, but for room that is kept for the next: that is never read.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false if path.ends_with("spare") => {}
            false => found.push(path),
        }
    }
    found.sort();
    found
}

/// Copies all files of a folder.
pub fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        write(&target, &std::fs::read(file).unwrap());
    }
}

/// Writes a file without the zeros at its end, of which there may be many in advance.
pub fn write(target: &Path, bytes: &[u8]) {
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    std::fs::write(target, &bytes[..used]).unwrap();
    std::fs::File::options().write(true).open(target).unwrap().set_len(bytes.len() as u64).unwrap();
}

/// How many bytes there are before the zeros at the end.
pub fn used(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}
