//! Measures the service from a second process, as ratios in one run.
//!
//! ```text
//! cargo run --release -p cohort-server --example load             decides, rewards, refits
//! cargo run --release -p cohort-server --example load decides     decides alone
//! cargo run --release -p cohort-server --example load rewards     rewards alone
//! cargo run --release -p cohort-server --example load json        decides with JSON beside those with vectors
//! cargo run --release -p cohort-server --example load catalogue N decides among all of N items, with and without a context
//! cargo run --release -p cohort-server --example load refits R N  refits alone, at R/4 decides/s, N users
//! cargo run --release -p cohort-server --example load users N     memory and restart, N users
//! cargo run --release -p cohort-server --example load pauses N    how long the engine stands still, N users
//! cargo run --release -p cohort-server --example load pauses catalogue    the same of what is done with 100,000 items
//! cargo run --release -p cohort-server --example load hostile R   R decides/s of one app among bad clients;
//!                       behind R, which batches another app sends: wide, long, many; else such as mean much work
//! cargo run --release -p cohort-server --example load soak M R    M minutes at R decides/s, everything active;
//!                       without R at half of saturation, which is looked for first
//! cargo run --release -p cohort-server --example load binaries target/release/cohort target/dist/cohort
//!                                                                 how large they are, and how fast
//! ```
//!
//! Figures are shown as tables and kept in `bench/results/service.json`.
//!
//! The program starts itself once more as the service. Requests to compare take turns, several
//! times, and the best of each counts: the machine may be busy with other things.

use std::cell::RefCell;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cohort_server::clock::{Clock, SystemClock};
use cohort_server::config::Config;
use cohort_server::http::router_with_empty;
use cohort_server::journal::segments::SegmentJournal;
use cohort_server::journal::{Group, Journal};
use cohort_server::server::{self, Server};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

mod binaries;
mod catalogue;
mod client;
mod clocks;
mod figures;
mod hostile;
mod json;
mod pauses;
mod pauses_catalogue;
mod refits;
mod soak;
mod users;

use client::{Connection, Workload, closed_loop, open_loop};

/// As in the command.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

const DIM: usize = 15;
const ITEMS: usize = 25;
const USERS: usize = 10_000;
/// Enough to keep the service busy while the disk syncs.
const DECIDE_CLIENTS: usize = 256;
const REWARD_CLIENTS: usize = 64;
/// Decisions that are there to be rewarded: more than can be in the time.
const PREPARED: usize = 900_000;
const TURNS: usize = 8;
/// Turns of rewards, shorter and more than the others: disks differ from second to second.
const REWARD_TURNS: usize = 30;
const REWARD_SECONDS: f64 = 0.5;
const SECONDS: f64 = 2.0;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", folder, kind] => serve(folder, kind),
        ["users", users] => users::measure(users.parse().expect("a number of users")),
        ["pauses", "catalogue"] => pauses_catalogue::measure(),
        ["pauses", users] => pauses::measure(users.parse().expect("a number of users")),
        ["refits", saturation, users] => {
            let saturation = saturation.parse().expect("decides a second");
            let users = users.parse().expect("a number of users");
            run("plain", async move |address, _| {
                refits::measure(&address, saturation, users).await
            });
        }
        ["hostile", rate, ref shape @ ..] => {
            let rate = rate.parse().expect("decides a second");
            let shape = hostile::Shape::named(shape.first().unwrap_or(&"hostile"));
            run("hostile", async move |address, _| hostile::measure(&address, rate, shape).await);
        }
        ["soak", minutes, ref rate @ ..] => {
            let minutes = minutes.parse().expect("minutes");
            let rate = rate.first().map(|rate| rate.parse().expect("decides a second"));
            run("soak", async move |address, folder| {
                soak::measure(&address, &folder, minutes, rate).await
            });
        }
        ["binaries", one, other] => block_on(binaries::measure(one, other)),
        ["catalogue", items] => {
            let items = items.parse().expect("a number of items");
            run("plain", async move |address, _| catalogue::measure(&address, items).await);
        }
        ["rewards"] => run("plain", async move |address, folder| rewards(&address, &folder).await),
        ["json"] => run("plain", async move |address, _| json::measure(&address).await),
        ["decides"] => run("plain", async move |address, _| {
            decides(&address).await;
        }),
        _ => run("plain", async move |address, folder| {
            let saturation = decides(&address).await;
            rewards(&address, &folder).await;
            refits::measure(&address, saturation, USERS).await;
        }),
    }
}

/// Measures a service in a process of its own.
fn run(kind: &str, measure: impl AsyncFnOnce(String, std::path::PathBuf)) {
    block_on(with_service(kind, measure));
}

fn block_on(measure: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(tokio::task::LocalSet::new().run_until(measure));
}

/// The service, in a process of its own.
fn serve(folder: &str, kind: &str) {
    let mut config = Config {
        listen: "127.0.0.1:0".to_owned(),
        data_dir: folder.into(),
        log_level: "error".to_owned(),
        max_waiting: 100_000_000,
        ..Config::default()
    };
    let clock: Arc<dyn Clock + Sync> = match kind {
        "hostile" => Arc::new(clocks::Jumping),
        "soak" => {
            soak::configure(&mut config);
            Arc::new(clocks::Fast)
        }
        _ => Arc::new(SystemClock),
    };
    let server = Server::open_with_clock(config, clock).expect("the service starts");
    println!("{}", server.address());
    let runtime = server::request_threads().expect("a runtime");
    let for_ever = std::future::pending();
    runtime.block_on(server.serve_routes(router_with_empty, for_ever)).expect("it serves");
}

async fn with_service(kind: &str, measure: impl AsyncFnOnce(String, std::path::PathBuf)) {
    let folder = tempfile::tempdir_in(".").expect("a folder");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    let (_service, address) = start(command.arg("serve").arg(folder.path()).arg(kind));
    println!("K={ITEMS}, d={DIM}, policy cohort, durability always");
    measure(address, folder.path().to_owned()).await;
}

/// Starts a service that says where it listens in its first line; returns its process and its address.
fn start(command: &mut Command) -> (Running, String) {
    let service = command.stdout(Stdio::piped()).spawn().expect("the service starts");
    let mut service = Running(service);
    let mut line = String::new();
    BufReader::new(service.0.stdout.take().expect("its output"))
        .read_line(&mut line)
        .expect("its address");
    let address = line.trim().rsplit('/').next().unwrap_or_default().to_owned();
    (service, address)
}

/// The service's process, which ends with the measurement, also where that fails.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let ended = self.0.kill().and_then(|()| self.0.wait());
        if let Err(why) = ended {
            eprintln!("the service goes on: {why}");
        }
    }
}

/// Decides against an empty handler; returns how many a second there can be.
async fn decides(address: &str) -> f64 {
    let mut admin = Connection::open(address).await;
    // The window is short, so that what waits does not grow with the length of the measurement.
    let app = format!(r#"{{"name":"load","dim":{DIM},"window_ms":20000}}"#);
    assert_eq!(admin.ask(&client::post("/v1/apps", &app)).await, 201);
    refits::teach(address, "load", USERS, 5).await;
    let (empty, decide) = (decides_to("/empty/load"), decides_to("/v1/apps/load/decide"));
    let (mut best_empty, mut best_decide) = (0.0f64, 0.0f64);
    for _ in 0..TURNS {
        best_empty =
            best_empty.max(closed_loop(address, DECIDE_CLIENTS, SECONDS, &empty).await.rate);
        best_decide =
            best_decide.max(closed_loop(address, DECIDE_CLIENTS, SECONDS, &decide).await.rate);
    }
    let half = best_decide / 2.0;
    let (mut p99_empty, mut p99_decide) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..TURNS {
        p99_empty =
            p99_empty.min(open_loop(address, DECIDE_CLIENTS, SECONDS, half, &empty).await.p99_ms);
        p99_decide =
            p99_decide.min(open_loop(address, DECIDE_CLIENTS, SECONDS, half, &decide).await.p99_ms);
    }
    figures::keep(
        "decide",
        &[
            ("clients", DECIDE_CLIENTS as f64, ""),
            ("empty_handler_per_second", best_empty, ""),
            ("decide_per_second", best_decide, ""),
            ("decide_against_empty_handler", best_decide / best_empty, "at least 0.6"),
            ("half_of_saturation_per_second", half, ""),
            ("empty_handler_p99_ms", p99_empty, ""),
            ("decide_p99_ms", p99_decide, ""),
            ("decide_p99_against_empty_handler", p99_decide / p99_empty, "at most 3"),
        ],
    );
    best_decide
}

/// Decides, sent to a path.
fn decides_to(path: &'static str) -> Workload {
    let (bodies, next) = (bodies(), RefCell::new(0usize));
    Workload::new(move || {
        let at = next.replace_with(|at| *at + 1);
        client::post(path, &bodies[at % bodies.len()])
    })
}

/// Rewards, and what the raw store commits in groups of the same size.
async fn rewards(address: &str, folder: &std::path::Path) {
    let reward = prepare_rewards(address, PREPARED).await;
    let mut admin = Connection::open(address).await;
    let store = RawStore::open(&folder.join("raw"));
    // The disk is not as fast at one time as at another: what is compared is compared turn by turn.
    let mut turns = Vec::new();
    for _ in 0..REWARD_TURNS {
        let (events, groups) = admin.histogram("cohort_journal_group_events").await;
        let rate = closed_loop(address, REWARD_CLIENTS, REWARD_SECONDS, &reward).await.rate;
        let (events_after, groups_after) = admin.histogram("cohort_journal_group_events").await;
        let group = (events_after - events) / (groups_after - groups).max(1.0);
        let raw = store.commits(group.round().max(1.0) as usize);
        turns.push((rate / raw, rate, raw, group));
    }
    // What both did in the same time, all turns together.
    let mean = |of: fn(&(f64, f64, f64, f64)) -> f64| {
        turns.iter().map(of).sum::<f64>() / REWARD_TURNS as f64
    };
    let (rate, raw, group) = (mean(|turn| turn.1), mean(|turn| turn.2), mean(|turn| turn.3));
    turns.sort_by(|one, other| one.0.total_cmp(&other.0));
    figures::keep(
        "reward",
        &[
            ("clients", REWARD_CLIENTS as f64, ""),
            ("rewards_per_second", rate, ""),
            ("rewards_per_group", group, ""),
            ("raw_store_entries_per_second", raw, ""),
            ("lowest_of_the_turns", turns[0].0, ""),
            ("median_of_the_turns", turns[REWARD_TURNS / 2].0, ""),
            ("highest_of_the_turns", turns[REWARD_TURNS - 1].0, ""),
            ("reward_against_raw_store", rate / raw, "at least 0.5"),
        ],
    );
}

/// Rewards for so many decisions, which are made first.
async fn prepare_rewards(address: &str, count: usize) -> Workload {
    let prepared = (0..count).collect::<Vec<usize>>();
    let mut admin = Connection::open(address).await;
    let item = r#"{"id":"a","features":[0.1,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}"#;
    let app = format!(r#"{{"name":"rewards","dim":{DIM},"window_ms":86400000}}"#);
    assert_eq!(admin.ask(&client::post("/v1/apps", &app)).await, 201);
    for chunk in prepared.chunks(1000) {
        let users: Vec<String> = chunk
            .iter()
            .map(|n| format!(r#"{{"user":"user-{}","decision_id":"decision-{n}"}}"#, n % USERS))
            .collect();
        let body = format!(r#"{{"items":[{item}],"users":[{}]}}"#, users.join(","));
        assert_eq!(admin.ask(&client::post("/v1/apps/rewards/decide-batch", &body)).await, 200);
    }
    let next = RefCell::new(0usize);
    Workload::new(move || {
        let at = next.replace_with(|at| *at + 1);
        assert!(at < count, "a decision is rewarded once: more must be prepared");
        let body = format!(r#"{{"decision_id":"decision-{at}","reward":1}}"#);
        client::post("/v1/apps/rewards/reward", &body)
    })
}

/// The journal alone, without a service.
struct RawStore(RefCell<SegmentJournal>);

impl RawStore {
    fn open(folder: &std::path::Path) -> Self {
        Self(RefCell::new(SegmentJournal::open(folder).expect("a journal")))
    }

    /// What it appends and syncs in a second, in groups of so many events of 64 bytes.
    fn commits(&self, events: usize) -> f64 {
        let mut group = Group::default();
        (0..events).for_each(|_| group.push(|out| out.extend([7u8; 64])));
        let (mut journal, started, mut done) = (self.0.borrow_mut(), Instant::now(), 0);
        while started.elapsed() < Duration::from_secs_f64(REWARD_SECONDS) {
            journal.append(&group).and_then(|()| journal.sync()).expect("a commit");
            done += events;
        }
        done as f64 / started.elapsed().as_secs_f64()
    }
}

/// Bodies of decides, made once.
fn bodies() -> Vec<String> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut body = |user: usize| {
        let items = refits::items(&mut rng, ITEMS);
        format!(r#"{{"user":"user-{}","items":[{items}]}}"#, user * 7919 % USERS)
    };
    (0..2000).map(&mut body).collect()
}
