//! Numbers for the code that decides what comes of a run, so that results that were kept are used
//! again only by the same code. One for the learning library without `cohort`, and of the lab the
//! worlds and the loop; one for what only the policy `cohort` uses; one for the probes. A change of
//! `cohort` leaves everybody else's results as they are.

use std::fs;
use std::path::{Path, PathBuf};

const EVERYBODY: [&str; 5] =
    ["../cohort/src", "src/environments", "src/datasets", "src/seed.rs", "src/runner.rs"];

/// What no other policy uses.
const OWN: [&str; 3] = [
    "../cohort/src/population",
    "../cohort/src/policies/cohort",
    "../cohort/src/policies/cohort.rs",
];

const PROBES: [&str; 1] = ["src/reproduce/probes"];

fn main() {
    let of_cohort = |file: &Path| OWN.iter().any(|own| file.starts_with(own));
    name("COHORT_CODE", &EVERYBODY, |file| !of_cohort(file));
    name("COHORT_POLICY_CODE", &OWN, |_| true);
    name("COHORT_PROBE_CODE", &PROBES, |_| true);
}

/// Sets a variable to a number for what the files hold.
fn name(variable: &str, sources: &[&str], counts: impl Fn(&Path) -> bool) {
    let mut files = Vec::new();
    for source in sources {
        println!("cargo::rerun-if-changed={source}");
        collect(Path::new(source), &mut files);
    }
    files.retain(|file| counts(file));
    files.sort();
    // FNV-1a, 64 bits.
    let mut hash: u64 = 0xcbf29ce484222325;
    for file in files {
        for byte in fs::read(&file).unwrap_or_default() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100000001b3);
        }
    }
    println!("cargo::rustc-env={variable}={hash:016x}");
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    match fs::read_dir(path) {
        Ok(entries) => {
            entries.flatten().for_each(|entry| collect(&entry.path(), files));
        }
        Err(_) => files.push(path.to_owned()),
    }
}
