//! A number for the code that decides what comes of a run, so that results that were kept are
//! used again only by the same code: the learning library, and of the lab the worlds and the loop.

use std::fs;
use std::path::{Path, PathBuf};

const SOURCES: [&str; 5] =
    ["../cohort/src", "src/environments", "src/datasets", "src/seed.rs", "src/runner.rs"];

fn main() {
    let mut files = Vec::new();
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
        collect(Path::new(source), &mut files);
    }
    files.sort();
    // FNV-1a, 64 bits.
    let mut hash: u64 = 0xcbf29ce484222325;
    for file in files {
        for byte in fs::read(&file).unwrap_or_default() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100000001b3);
        }
    }
    println!("cargo::rustc-env=COHORT_CODE={hash:016x}");
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    match fs::read_dir(path) {
        Ok(entries) => {
            entries.flatten().for_each(|entry| collect(&entry.path(), files));
        }
        Err(_) => files.push(path.to_owned()),
    }
}
