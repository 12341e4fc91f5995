//! Fingerprints of the code that determines results, so that stored results are reused only by the
//! same code: one of the learning library without the policy `cohort`, with the lab's environments
//! and runner; one of what only `cohort` uses; one of the probes. A change of `cohort` leaves the
//! results of all other policies valid, and a change of comments all results.

use std::fs;
use std::path::{Path, PathBuf};

const ENGINE: [&str; 5] =
    ["../cohort/src", "src/environments", "src/datasets", "src/seed.rs", "src/runner.rs"];

/// The sources that only the policy `cohort` uses.
const OWN: [&str; 3] = [
    "../cohort/src/population",
    "../cohort/src/policies/cohort",
    "../cohort/src/policies/cohort.rs",
];

const PROBES: [&str; 1] = ["src/reproduce/probes"];

fn main() {
    let of_cohort = |file: &Path| OWN.iter().any(|own| file.starts_with(own));
    name("COHORT_CODE", &ENGINE, |file| !of_cohort(file));
    name("COHORT_POLICY_CODE", &OWN, |_| true);
    name("COHORT_PROBE_CODE", &PROBES, |_| true);
}

/// Sets a variable to the fingerprint of the files.
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
        let text = fs::read_to_string(&file).unwrap_or_default();
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for byte in line.bytes().chain([b'\n']) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x100000001b3);
            }
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
