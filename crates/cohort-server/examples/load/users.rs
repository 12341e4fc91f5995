//! Many users: what they take in memory, and how fast they come back.

use std::io::Read;
use std::time::Instant;

use cohort_server::event::{Decided, Event, Ranking, What};
use cohort_server::settings::AppSettings;
use cohort_server::snapshot::Snapshots;
use cohort_server::snapshot::disk::Folder;
use cohort_server::state::State;

use super::{DIM, figures};

/// Numbers of a user's statistics: Σxxᵀ packed, Σxy, Σy², n.
const STATISTICS_BYTES: usize = 8 * (DIM * (DIM + 1) / 2 + DIM + 2);

/// The memory of the process with so many users against that of their statistics, and how fast a
/// snapshot of them is written and read.
///
/// Resident memory is looked at before and after users came, and again after a refit. It has all
/// that the service keeps of an app: statistics, names, the population and caches.
pub fn measure(users: usize) {
    let before = resident_bytes();
    let mut state = learned(users);
    let taken = (resident_bytes() - before) as f64;
    let started = Instant::now();
    let (copying_ms, installing_ms) = refit(&mut state);
    let refit_seconds = started.elapsed().as_secs_f64();
    let after_refit = (resident_bytes() - before) as f64;
    let peak = (peak_bytes() - before) as f64;
    let statistics = (users * STATISTICS_BYTES) as f64;

    let folder = tempfile::tempdir_in(".").expect("a folder");
    let snapshots = Snapshots::new(Folder::new(folder.path()).expect("a folder"));
    let event = state.last_event();
    let started = Instant::now();
    let frozen = state.freeze().expect("it can be saved");
    let pause_ms = started.elapsed().as_secs_f64() * 1e3;
    snapshots.write(event, |out| frozen.write(out)).expect("a snapshot");
    let written_seconds = started.elapsed().as_secs_f64();
    drop(state);
    let file = folder.path().join(format!("{event:020}.snapshot"));
    let size = std::fs::metadata(&file).expect("it is there").len() as f64 / f64::from(1 << 20);

    let (mut read, mut loaded) = (0.0f64, 0.0f64);
    for _ in 0..3 {
        forget(&file);
        let started = Instant::now();
        let mut bytes = vec![0; 1 << 20];
        let mut plain = std::fs::File::open(&file).expect("it is there");
        while plain.read(&mut bytes).expect("it is read") > 0 {}
        read = read.max(size / started.elapsed().as_secs_f64());

        forget(&file);
        let started = Instant::now();
        let (_, state) =
            snapshots.newest(State::load, |why| panic!("{why}")).expect("a folder").expect("one");
        loaded = loaded.max(size / started.elapsed().as_secs_f64());
        assert_eq!(state.app("load").map(|app| app.users().len()), Some(users));
    }
    let gib = |bytes: f64| bytes / f64::from(1 << 30);
    figures::keep(
        "users",
        &[
            ("users", users as f64, ""),
            ("statistics_gib", gib(statistics), ""),
            ("resident_gib", gib(taken), ""),
            ("resident_against_statistics", taken / statistics, "at most 1.3"),
            ("resident_after_refit_against_statistics", after_refit / statistics, "at most 1.3"),
            ("peak_while_refitting_against_statistics", peak / statistics, ""),
            ("refit_seconds", refit_seconds, ""),
            ("refit_copying_ms", copying_ms, ""),
            ("refit_installing_ms", installing_ms, ""),
            ("snapshot_mib", size, ""),
            ("snapshot_pause_ms", pause_ms, ""),
            ("snapshot_seconds", written_seconds, ""),
            ("disk_reads_mib_per_second", read, ""),
            ("restart_reads_mib_per_second", loaded, ""),
            ("restart_against_disk", loaded / read, "at least 0.333"),
        ],
    );
}

/// As the service does it: the job on a copy, then its result as an event. Returns how long
/// decisions had to wait, in milliseconds: while the copy was taken, and for the result.
fn refit(state: &mut State) -> (f64, f64) {
    let started = Instant::now();
    let job = state.app_mut("load").and_then(|app| app.job()).expect("a refit is due");
    let copying = started.elapsed().as_secs_f64();
    let what = What::Refitted(job());
    let at_ms = state.app("load").map_or(0, |app| app.now_ms());
    let started = Instant::now();
    state.apply(Event { app: "load".to_owned(), at_ms, what }).expect("it fits");
    (copying * 1e3, started.elapsed().as_secs_f64() * 1e3)
}

/// A state in which every user has learned from two rewards and no decision waits.
fn learned(users: usize) -> State {
    let mut state = State::default();
    let mut at_ms = 0;
    let mut apply = |what: What, at_ms: u64| {
        state.apply(Event { app: "load".to_owned(), at_ms, what }).expect("it fits");
    };
    let settings = AppSettings { window_ms: 1, ..AppSettings::new(DIM) };
    apply(What::Created(settings), at_ms);
    for round in 0..2 {
        for user in 0..users {
            let id = format!("decision-{round}-{user}");
            let value = |k: usize| ((user * 31 + k * 17 + round) % 1000) as f64 / 4000.0;
            let decided = Decided {
                id: id.clone(),
                user: format!("user-{user:012}"),
                ranking: Ranking::new(["a"]),
                context: (0..DIM).map(value).collect(),
                probability: 1.0,
                shown: true,
            };
            apply(What::Decided(decided), at_ms);
            let reward = (user % 10) as f64 / 10.0;
            apply(What::Rewarded { decision: id, reward }, at_ms);
            if user % 1000 == 999 {
                at_ms += 10;
                apply(What::TimePassed, at_ms);
            }
        }
    }
    apply(What::TimePassed, at_ms + 10);
    state
}

/// What the process takes of the machine's memory.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: usize = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("pages");
    pages * 4096
}

/// The most it ever took.
fn peak_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib * 1024
}

/// Asks the operating system to forget what it has read of a file.
fn forget(file: &std::path::Path) {
    let forgot = std::process::Command::new("dd")
        .arg(format!("of={}", file.display()))
        .args(["oflag=nocache", "conv=notrunc,fdatasync", "count=0"])
        .stderr(std::process::Stdio::null())
        .status();
    forgot.expect("dd is there");
}
