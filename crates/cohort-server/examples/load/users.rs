//! Many users: what they take in memory, and how fast they come back.

use std::io::Read;
use std::time::Instant;

use cohort_server::event::{Decided, Event, Ranking, What};
use cohort_server::settings::AppSettings;
use cohort_server::snapshot::Snapshots;
use cohort_server::snapshot::disk::Folder;
use cohort_server::state::State;

use super::DIM;

/// Numbers of a user's statistics: Σxxᵀ packed, Σxy, Σy², n.
const STATISTICS_BYTES: usize = 8 * (DIM * (DIM + 1) / 2 + DIM + 2);

pub fn measure(users: usize) {
    let before = resident_bytes();
    let mut state = learned(users);
    let taken = resident_bytes() - before;
    let statistics = users * STATISTICS_BYTES;
    let gib = |bytes: usize| bytes as f64 / f64::from(1 << 30);
    println!("{users} users, d={DIM}");
    println!("  statistics     {:.3} GiB", gib(statistics));
    println!(
        "  resident       {:.3} GiB, ratio {:.2}",
        gib(taken),
        taken as f64 / statistics as f64
    );

    let folder = tempfile::tempdir_in(".").expect("a folder");
    let snapshots = Snapshots::new(Folder::new(folder.path()).expect("a folder"));
    let event = state.last_event();
    let started = Instant::now();
    snapshots.write(event, &mut |out| state.save(out)).expect("a snapshot");
    println!("  snapshot       written in {:.2} s", started.elapsed().as_secs_f64());
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
    println!("  the disk       reads {read:.0} MiB/s in sequence");
    println!("  restart        reads {loaded:.0} MiB/s, ratio {:.2}", loaded / read);
}

/// A state in which every user has learned from two rewards and no decision waits.
fn learned(users: usize) -> State {
    let mut state = State::default();
    let mut at_ms = 0;
    let mut apply = |what: What, at_ms: u64| {
        state.apply(Event { app: "load".to_owned(), at_ms, what }).expect("it fits");
    };
    let policy = "linucb-ind".to_owned();
    let settings = AppSettings { policy, window_ms: 1, ..AppSettings::new(DIM) };
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
            apply(What::Rewarded { decision: id, reward: 0.5 }, at_ms);
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

/// Asks the operating system to forget what it has read of a file.
fn forget(file: &std::path::Path) {
    let forgot = std::process::Command::new("dd")
        .arg(format!("of={}", file.display()))
        .args(["oflag=nocache", "conv=notrunc,fdatasync", "count=0"])
        .stderr(std::process::Stdio::null())
        .status();
    forgot.expect("dd is there");
}
