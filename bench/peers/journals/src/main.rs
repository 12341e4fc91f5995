//! Three stores for the journal, in turns: the engine with 64 clients that send rewards, then opening and reading
//! all of it, then removing its first half.
//!
//! ```text
//! cargo run --release --manifest-path bench/peers/journals/Cargo.toml [SECONDS]
//! ```
//!
//! Figures are shown and kept in `bench/results/journals.json`.

mod lsm;
mod raft;

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cohort_server::clock::SystemClock;
use cohort_server::engine::request::{ForUser, Offer};
use cohort_server::engine::runtime::{Durability, Handle, Options, Runtime};
use cohort_server::engine::{Engine, Limits, Request};
use cohort_server::journal::Journal;
use cohort_server::journal::segments::SegmentJournal;
use cohort_server::settings::AppSettings;
use cohort_server::snapshot::Snapshots;
use cohort_server::snapshot::disk::MemoryFolder;
use cohort_server::state::State;
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;
use serde_json::{Value, json};

const CLIENTS: usize = 64;
const TURNS: usize = 10;
const PREPARED: usize = 1000;
/// How large files of a journal become, where that can be said: small, so that some can be removed.
const FILE_BYTES: u64 = 4 << 20;
const LIMITS: Limits = Limits {
    apps: 10,
    dim: 16,
    items: 100,
    waiting: 1 << 30,
    decision_bytes: 1 << 40,
    window_work: 1 << 30,
    users: 1 << 30,
    user_age_ms: 0,
    work: 1 << 40,
    journal_bytes: 1 << 30,
    answer_bytes: 1 << 30,
};

/// A store: its name, how it is opened, and the lines of our own that it takes.
struct Store {
    name: &'static str,
    open: fn(&Path) -> Box<dyn Journal>,
    own: &'static [&'static str],
}

const STORES: [Store; 3] = [
    Store {
        name: "segments",
        open: |path| Box::new(SegmentJournal::open_with(path, FILE_BYTES).expect("it opens")),
        own: &[
            include_str!("../../../../crates/cohort-server/src/journal/segment.rs"),
            include_str!("../../../../crates/cohort-server/src/journal/segments.rs"),
        ],
    },
    Store {
        name: "fjall",
        open: |path| Box::new(lsm::LsmJournal::open(path).expect("it opens")),
        own: &[
            include_str!("lsm.rs"),
            // Without it damage to the store's own files ends the process.
            include_str!("../../../../crates/cohort-server/src/journal/store_files.rs"),
        ],
    },
    Store {
        name: "raft_engine",
        open: |path| Box::new(raft::RaftJournal::open(path).expect("it opens")),
        own: &[include_str!("raft.rs")],
    },
];

/// A running engine on a store.
struct Running {
    runtime: Runtime,
    decided: Rc<Cell<usize>>,
    rewarded: Rc<Cell<usize>>,
    seconds: f64,
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).map_or(1.0, |word| word.parse().expect("seconds"));
    let asker = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let local = tokio::task::LocalSet::new();
    let folder = tempfile::tempdir_in(".").expect("a folder");
    let (mut services, mut descriptors) = (Vec::new(), Vec::new());
    for store in &STORES {
        let path = folder.path().join(store.name);
        std::fs::create_dir(&path).expect("a folder");
        let before = open_files();
        let journal = (store.open)(&path);
        services.push(start(journal, &asker, &local));
        descriptors.push(open_files() - before);
    }
    for turn in 0..TURNS {
        for at in 0..STORES.len() {
            let at = (at + turn) % STORES.len();
            local.block_on(&asker, work(&mut services[at], seconds));
        }
    }
    let mut figures = serde_json::Map::new();
    for ((store, service), descriptors) in STORES.iter().zip(services).zip(descriptors) {
        let rate = service.rewarded.get() as f64 / service.seconds;
        service.runtime.stop();
        figures.insert(store.name.to_owned(), measure(store, folder.path(), rate, descriptors));
    }
    let figures = Value::Object(figures);
    println!("{figures:#}");
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results/journals.json");
    let text = format!("{figures:#}\n");
    std::fs::write(place, text).expect("the figures are kept");
}

fn start(
    journal: Box<dyn Journal>,
    asker: &tokio::runtime::Runtime,
    local: &tokio::task::LocalSet,
) -> Running {
    let engine = Engine::new(State::default(), LIMITS, ChaCha12Rng::seed_from_u64(1));
    let options = Options {
        durability: Durability::Always,
        queue: 4096,
        snapshot_events: 0,
        snapshot_interval: Duration::ZERO,
        prunes: false,
    };
    let snapshots = Snapshots::new(MemoryFolder::default());
    let clock = Box::new(SystemClock);
    let runtime = Runtime::start(engine, journal, snapshots, clock, options).expect("it starts");
    let settings = AppSettings { window_ms: 86_400_000, ..AppSettings::new(2) };
    let app = Request::CreateApp {
        app: "shop".to_owned(),
        settings,
        trial: Box::default(),
        learning: Box::default(),
        key: None,
    };
    let created = local.block_on(asker, runtime.handle().ask(app));
    assert!(created.is_ok(), "the app is created");
    Running { runtime, decided: Rc::default(), rewarded: Rc::default(), seconds: 0.0 }
}

/// Decisions that can be rewarded.
async fn prepare(handle: &Handle, decided: &Cell<usize>) {
    let first = decided.replace(decided.get() + PREPARED);
    let users = (first..first + PREPARED).map(|n| ForUser {
        user: format!("user-{}", n % 1000),
        decision: Some(format!("decision-{n}")),
        shown: true,
    });
    let offer = Offer::new(vec!["a".to_owned()], vec![Some(vec![0.1, 0.2])]);
    let users = users.collect();
    let asked = Request::Decide { app: "shop".to_owned(), offer, users, explain: false };
    assert!(handle.ask(asked).await.is_ok(), "decisions are taken");
}

/// Clients that send rewards, one after the other, for some seconds; decisions are made before.
async fn work(service: &mut Running, seconds: f64) {
    let handle = service.runtime.handle();
    let wanted = service.rewarded.get() + (60_000.0 * seconds) as usize;
    while service.decided.get() < wanted {
        prepare(&handle, &service.decided).await;
    }
    let started = Instant::now();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (handle, rewarded, decided) =
                (handle.clone(), service.rewarded.clone(), service.decided.get());
            tokio::task::spawn_local(async move {
                while started.elapsed().as_secs_f64() < seconds && rewarded.get() < decided {
                    let at = rewarded.replace(rewarded.get() + 1);
                    let rewards = vec![(format!("decision-{at}"), 1.0)];
                    let asked = Request::Reward { app: "shop".to_owned(), rewards };
                    assert!(handle.ask(asked).await.is_ok(), "rewards are taken");
                }
            })
        })
        .collect();
    for client in clients {
        client.await.expect("a client");
    }
    service.seconds += started.elapsed().as_secs_f64();
}

/// What is measured of a store once it is full.
fn measure(store: &Store, folder: &Path, rate: f64, descriptors: usize) -> Value {
    let path = folder.join(store.name);
    let started = Instant::now();
    let mut journal = (store.open)(&path);
    let mut events = 0u64;
    let read = journal.read(1, &mut |_, _| {
        events += 1;
        Ok(())
    });
    read.expect("it is read");
    let recovery = started.elapsed().as_secs_f64();
    assert_eq!(events, journal.last());
    let bytes = disk_bytes(&path);
    let started = Instant::now();
    journal.prune(events / 2).expect("it is pruned");
    let pruning = started.elapsed().as_secs_f64();
    drop(journal);
    let left = disk_bytes(&path);
    let lines: usize = store.own.iter().map(|text| lines_of_code(text)).sum();
    json!({
        "rewards_per_second": rate,
        "events": events,
        "megabytes": bytes as f64 / 1e6,
        "open_and_read_seconds_per_million_events": recovery * 1e6 / events as f64,
        "removing_the_first_half_ms": pruning * 1e3,
        "left_on_disk_after_that": left as f64 / bytes as f64,
        "descriptors": descriptors,
        "own_lines_of_code": lines,
    })
}

fn lines_of_code(text: &str) -> usize {
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    text.lines().filter(is_code).count()
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// What a folder takes on disk, holes not counted.
fn disk_bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(folder).expect("a folder");
    let sizes = entries.map(|entry| {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => disk_bytes(&path),
            false => std::fs::metadata(&path).map_or(0, |found| found.blocks() * 512),
        }
    });
    sizes.sum()
}
