//! What do live pages cost? Decides a second with and without five pages open, in turns, from a second
//! process.
//!
//! ```text
//! cargo run --release -p cohort-server --example live -- bench/results/live.json
//! ```
//!
//! The program starts itself once more as the service. Turns with pages and without alternate, so that
//! whatever else the machine does meets both alike; what counts is the mean of the differences between
//! neighbours, with its standard error. The time that looks take on the engine's thread is told too:
//! it bounds what they can cost there.

#[allow(dead_code)]
#[path = "../load/client.rs"]
mod client;

use std::cell::RefCell;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::rc::Rc;

use client::{Connection, Workload, closed_loop};
use cohort_server::config::Config;
use cohort_server::server::{self, Server};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::net::TcpStream;

/// As in the command.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

const DIM: usize = 15;
const ITEMS: usize = 25;
const USERS: usize = 10_000;
const CLIENTS: usize = 256;
const PAGES: usize = 5;
const TURNS: usize = 40;
const SECONDS: f64 = 2.5;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", folder] => serve(folder),
        [out] => tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime")
            .block_on(tokio::task::LocalSet::new().run_until(measure(out))),
        _ => eprintln!("expected where to write: bench/results/live.json"),
    }
}

/// The service, in a process of its own.
fn serve(folder: &str) {
    let config = Config {
        listen: "127.0.0.1:0".to_owned(),
        data_dir: folder.into(),
        log_level: "error".to_owned(),
        max_waiting: 100_000_000,
        ..Config::default()
    };
    let server = Server::open(config).expect("the service starts");
    println!("{}", server.address());
    let runtime = server::request_threads().expect("a runtime");
    runtime.block_on(server.serve(std::future::pending())).expect("it serves");
}

async fn measure(out: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut service = Command::new(std::env::current_exe().expect("this program"))
        .arg("serve")
        .arg(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the service starts");
    let mut address = String::new();
    BufReader::new(service.stdout.take().expect("its output"))
        .read_line(&mut address)
        .expect("its address");
    let address = address.trim().to_owned();
    let mut admin = Connection::open(&address).await;
    prepare(&mut admin).await;

    let bodies = Rc::new(bodies());
    let next = RefCell::new(0usize);
    let decide = Workload::new(move || {
        let at = next.replace_with(|at| *at + 1);
        client::post("/v1/apps/live/decide", &bodies[at % bodies.len()])
    });
    // The first turn warms caches, and is not counted.
    closed_loop(&address, CLIENTS, SECONDS, &decide).await;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for turn in 0..TURNS {
        // Which comes first changes, so that a machine that gets slower or faster favours neither.
        for pages in [turn % 2 == 0, turn % 2 == 1] {
            let open = if pages { PAGES } else { 0 };
            let watching: Vec<_> =
                (0..open).map(|_| tokio::task::spawn_local(watch(address.clone()))).collect();
            let rate = closed_loop(&address, CLIENTS, SECONDS, &decide).await.rate;
            watching.iter().for_each(tokio::task::JoinHandle::abort);
            if pages { with.push(rate) } else { without.push(rate) }
        }
    }
    // The service has closed the first connection, which was idle for so long.
    let mut admin = Connection::open(&address).await;
    let (seconds, looks) = admin.histogram("cohort_look_seconds").await;
    service.kill().expect("it ends");
    service.wait().expect("it ended");

    let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / numbers.len() as f64;
    let costs: Vec<f64> = without.iter().zip(&with).map(|(a, b)| 1.0 - b / a).collect();
    let cost = mean(&costs);
    let spread = costs.iter().map(|one| (one - cost).powi(2)).sum::<f64>();
    let error = (spread / (costs.len() * (costs.len() - 1)) as f64).sqrt();
    let result = serde_json::json!({
        "users": USERS, "dim": DIM, "candidates": ITEMS, "clients": CLIENTS, "pages": PAGES,
        "turns": TURNS, "seconds_per_turn": SECONDS,
        "decides_per_second_without": mean(&without),
        "decides_per_second_with": mean(&with),
        "cost": cost, "cost_standard_error": error,
        "looks": looks, "milliseconds_per_look": 1e3 * seconds / looks.max(1.0),
    });
    println!("{result:#}");
    std::fs::write(out, format!("{result:#}\n")).expect("the result is written");
}

/// An app with users of whom something is known, so that pages have something to show.
async fn prepare(admin: &mut Connection) {
    let app = format!(r#"{{"name":"live","dim":{DIM},"window_ms":20000,"control":0.05}}"#);
    assert_eq!(admin.ask(&client::post("/v1/apps", &app)).await, 201);
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for first in (0..USERS).step_by(500) {
        let items: Vec<String> = (0..4).map(|item| candidate(item, &mut rng)).collect();
        let users: Vec<String> = (first..first + 500)
            .map(|user| format!(r#"{{"user":"user-{user}","decision_id":"first-{user}"}}"#))
            .collect();
        let body = format!(r#"{{"items":[{}],"users":[{}]}}"#, items.join(","), users.join(","));
        assert_eq!(admin.ask(&client::post("/v1/apps/live/decide-batch", &body)).await, 200);
        let rewards: Vec<String> = (first..first + 500)
            .map(|user| {
                let reward = rng.random::<f64>();
                format!(r#"{{"decision_id":"first-{user}","reward":{reward}}}"#)
            })
            .collect();
        let body = format!(r#"{{"rewards":[{}]}}"#, rewards.join(","));
        assert_eq!(admin.ask(&client::post("/v1/apps/live/rewards", &body)).await, 200);
    }
}

/// A page: reads what it is sent, for as long as it is open.
async fn watch(address: String) {
    let stream = TcpStream::connect(&address).await.expect("the service listens");
    let request = b"GET /v1/apps/live/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.writable().await.expect("the service reads");
    stream.try_write(request).expect("a short request fits");
    let mut some = vec![0; 1 << 16];
    loop {
        stream.readable().await.expect("the service sends");
        match stream.try_read(&mut some) {
            Ok(0) => panic!("the page was closed"),
            Ok(_) => {}
            Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(why) => panic!("the page was closed: {why}"),
        }
    }
}

fn candidate(item: usize, rng: &mut ChaCha8Rng) -> String {
    let bound = 1.0 / (DIM as f64).sqrt();
    let features: Vec<String> =
        (0..DIM).map(|_| rng.random_range(-bound..bound).to_string()).collect();
    format!(r#"{{"id":"item-{item}","features":[{}]}}"#, features.join(","))
}

/// Bodies of decides, made once.
fn bodies() -> Vec<String> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut body = |user: usize| {
        let items: Vec<String> = (0..ITEMS).map(|item| candidate(item, &mut rng)).collect();
        format!(r#"{{"user":"user-{}","items":[{}]}}"#, user * 7919 % USERS, items.join(","))
    };
    (0..2000).map(&mut body).collect()
}
