//! Measures the service on several machines, all of them this one, as ratios in one run.
//!
//! ```text
//! cargo run --release -p cohort-server --example cluster speed [SERVERS PARTITIONS]   beside the embedded service
//! cargo run --release -p cohort-server --example cluster take-over USERS [USERS …]    a partition's owner dies
//! cargo run --release -p cohort-server --example cluster regret [USERS KINDS REWARDS SEEDS PARTITIONS NODES]
//! ```
//!
//! NATS servers and nodes are processes of their own. Figures are shown as tables and kept in
//! `bench/results/cluster.json`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cohort_server::cluster::server::ClusterServer;
use cohort_server::config::Config;
use cohort_server::server::{self, Server};

#[path = "../load/client.rs"]
#[allow(dead_code)]
mod client;
#[path = "../load/figures.rs"]
mod figures;
#[path = "../../tests/nats/mod.rs"]
mod nats;
mod regret;
mod speed;
mod take_over;

use client::Connection;
use nats::Servers;

/// As in the command.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |word: &str| word.parse::<usize>().expect("a number");
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["embedded", folder] => embedded(folder),
        ["node", nats, monitor, name, partitions] => node(nats, monitor, name, partitions),
        ["speed", ref more @ ..] => {
            let of = |at: usize, usual| more.get(at).map_or(usual, |word| number(word));
            block_on(speed::measure(of(0, 1), of(1, 8)));
        }
        ["take-over", ref users @ ..] if !users.is_empty() => {
            let users: Vec<usize> = users.iter().map(|word| number(word)).collect();
            block_on(take_over::measure(&users));
        }
        ["regret", ref more @ ..] => {
            let of = |at: usize, usual| more.get(at).map_or(usual, |word| number(word));
            let world =
                regret::World { users: of(0, 400), kinds: of(1, 5), rewards: of(2, 12_000) };
            block_on(regret::measure(&world, of(3, 4), of(4, 8), of(5, 3)));
        }
        _ => eprintln!("expected one of: speed, take-over USERS, regret"),
    }
}

fn block_on(measure: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(tokio::task::LocalSet::new().run_until(measure));
}

/// What blocks is done on a thread of its own: the client of NATS brings a runtime.
pub fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::spawn(work).join().expect("it does not panic")
}

fn config() -> Config {
    Config {
        listen: "127.0.0.1:0".to_owned(),
        log_level: "error".to_owned(),
        max_waiting: 100_000_000,
        max_batch: 10_000,
        ..Config::default()
    }
}

/// The embedded service, in a process of its own.
fn embedded(folder: &str) {
    let server = Server::open(Config { data_dir: folder.into(), ..config() }).expect("it starts");
    println!("{}", server.address());
    let runtime = server::request_threads().expect("a runtime");
    runtime.block_on(server.serve(std::future::pending())).expect("it serves");
}

/// A node, in a process of its own.
fn node(nats: &str, monitor: &str, name: &str, partitions: &str) {
    let config = Config {
        nats: nats.to_owned(),
        nats_monitor: monitor.to_owned(),
        node_name: name.to_owned(),
        partitions: partitions.parse().expect("how many partitions"),
        ..config()
    };
    let server = ClusterServer::open(config).expect("it starts");
    println!("{}", server.address());
    let runtime = server::request_threads().expect("a runtime");
    runtime.block_on(server.serve(std::future::pending())).expect("it serves");
}

/// A process of this program, which ends with the measurement, also where that fails.
pub struct Running {
    child: Child,
    /// Where it listens.
    pub address: String,
}

impl Running {
    fn start(words: &[&str]) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new(program)
            .args(words)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process starts");
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().expect("its output"));
        said.read_line(&mut line).expect("its address");
        Self { child, address: line.trim().to_owned() }
    }

    /// The embedded service.
    pub fn embedded(folder: &std::path::Path) -> Self {
        Self::start(&["embedded", &folder.display().to_string()])
    }

    /// A node.
    pub fn node(servers: &Servers, name: &str, partitions: usize) -> Self {
        let partitions = partitions.to_string();
        Self::start(&["node", &servers.url(), &servers.monitor(), name, &partitions])
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        let ended = self.child.kill().and_then(|()| self.child.wait());
        if let Err(why) = ended {
            eprintln!("a process goes on: {why}");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Asks once, and wants this status.
pub async fn ask(address: &str, method: &str, path: &str, body: &str, status: u16) -> String {
    let mut connection = Connection::open(address).await;
    let found = connection.ask(&client::send(method, path, body)).await;
    assert_eq!(found, status, "{path}: {}", connection.answer());
    connection.answer()
}

/// The body of an answer.
pub fn json(answer: &str) -> serde_json::Value {
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).unwrap_or_default()
}

/// Waits until all partitions are served, and spread over so many nodes.
pub async fn wait_until_served(address: &str, nodes: usize) {
    let started = Instant::now();
    loop {
        let mut connection = Connection::open(address).await;
        let healthy = connection.ask(&client::send("GET", "/healthz", "")).await == 200;
        let status = json(&ask(address, "GET", "/v1/cluster", "", 200).await);
        let of = |key: &str| status[key].as_array().cloned().unwrap_or_default();
        let owning = of("nodes").iter().filter(|node| node["owns"].as_u64() > Some(0)).count();
        if healthy && owning == nodes && of("owners").iter().all(|one| !one["owner"].is_null()) {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{status}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
