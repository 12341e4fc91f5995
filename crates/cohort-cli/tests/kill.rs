//! `kill -9` under load, again and again: no acknowledged reward is lost, none is counted twice.
//!
//! Clients keep a tally of their own. A request whose answer was lost with the process is sent
//! again after the restart, under the same id. Every second cycle the journal is pruned to what
//! snapshots do not cover, every third cycle it is synced at intervals: a killed process loses
//! nothing by either. Every tenth cycle lasts long enough for a snapshot. `COHORT_KILL_CYCLES` sets
//! the number of cycles (200 here, 1,000 in scripts/torture).
//!
//! Then the same with a loss of power: what was not synced is gone (`COHORT_POWER_CYCLES`, 30 here,
//! 200 in scripts/torture); and with a disk that is full, fails, or opens no files, at every step of a run
//! (`power/faults.rs`), or has no room at all (`power/full.rs`).
#![allow(missing_docs)]

mod connection;
mod power;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use connection::Connection;
use power::Power;
use serde_json::{Value, json};

const CLIENTS: usize = 4;

/// How the service is run, and how it ends.
struct How<'a> {
    power: Option<&'a Power>,
    durability: fn(u64) -> &'static str,
    interval_ms: &'static str,
}

/// The service as a process of its own.
struct Service {
    child: Child,
    address: String,
}

impl Service {
    fn start(folder: &std::path::Path, cycle: u64, how: &How) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cohort"));
        if let Some(power) = how.power {
            power.give(&mut command, folder);
        }
        let mut child = command
            .args(["serve", "--listen", "127.0.0.1:0", "--snapshot-events", "300"])
            .args(["--journal-keep", if cycle % 2 == 1 { "snapshots" } else { "all" }])
            .args(["--durability", (how.durability)(cycle), "--sync-interval-ms", how.interval_ms])
            .args(["--log-level", "error", "--data-dir"])
            .arg(folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit("http://").next().unwrap().to_owned();
        assert!(!address.is_empty(), "the service did not start");
        Self { child, address }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A client: decides, then rewards, one decision after the other.
#[derive(Default)]
struct Client {
    name: usize,
    /// The current decision.
    decision: u64,
    /// The service's answer to it, if it came.
    item: Option<Value>,
    /// Acknowledged rewards, and their sum.
    rewards: u64,
    reward_sum: u64,
    retried: u64,
}

impl Client {
    fn id(&self, decision: u64) -> String {
        format!("client-{}-decision-{decision}", self.name)
    }

    /// The reward of a decision: a number of its own, so that sums identify errors.
    fn reward_of(decision: u64) -> u64 {
        decision % 97 + 1
    }

    fn work(&mut self, address: &str, stop: &AtomicBool) {
        let Some(mut connection) = Connection::open(address) else { return };
        while !stop.load(Ordering::Relaxed) {
            if self.step(&mut connection).is_none() {
                return;
            }
        }
    }

    /// `None` where the service is gone; the step is then repeated.
    fn step(&mut self, connection: &mut Connection) -> Option<()> {
        let id = self.id(self.decision);
        let user = format!("user-{}", (self.decision + self.name as u64) % 50);
        let items: Vec<Value> = (0..3)
            .map(|item| {
                let x = ((self.decision * 7 + item * 13) % 11) as f64 / 11.0;
                json!({"id": format!("i{item}"), "features": [x, 1.0 - x]})
            })
            .collect();
        let body = json!({"user": user, "items": items, "decision_id": id}).to_string();
        let (status, said) = connection.ask("POST", "/v1/apps/shop/decide", &body)?;
        if status == 404 {
            return None;
        }
        assert_eq!(status, 200, "{said}");
        // A decision that was acknowledged once never changes.
        if let Some(item) = &self.item {
            assert_eq!(&said["item"], item, "{id}");
            self.retried += 1;
        }
        self.item = Some(said["item"].clone());

        let reward = Self::reward_of(self.decision);
        let body = json!({"decision_id": id, "reward": reward}).to_string();
        let (status, said) = connection.ask("POST", "/v1/apps/shop/reward", &body)?;
        assert_eq!(status, 200, "{said}");
        self.rewards += 1;
        self.reward_sum += reward;
        self.decision += 1;
        self.item = None;
        Some(())
    }
}

/// The number of rewards and their sum; zero where the app itself was lost.
fn counts(address: &str) -> (u64, u64) {
    let (status, app) = Connection::open(address).unwrap().ask("GET", "/v1/apps/shop", "").unwrap();
    if status == 404 {
        return (0, 0);
    }
    (app["rewards"].as_u64().unwrap(), app["reward_sum"].as_f64().unwrap() as u64)
}

fn cycles(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |cycles| cycles.parse().unwrap())
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_is_counted_twice() {
    let durability = |cycle| if cycle % 3 == 2 { "interval" } else { "always" };
    let how = How { power: None, durability, interval_ms: "100" };
    assert_eq!(torture(cycles("COHORT_KILL_CYCLES", 200), &how), 0);
}

/// Without the syncs of the journal this fails: see the next test.
#[test]
fn a_loss_of_power_takes_nothing_that_was_acknowledged() {
    let power = Power::new();
    let how = How { power: Some(&power), durability: |_| "always", interval_ms: "100" };
    assert_eq!(torture(cycles("COHORT_POWER_CYCLES", 30), &how), 0);
}

#[test]
fn a_journal_that_does_not_sync_loses_what_was_acknowledged_and_is_found_out() {
    let power = Power::new();
    let how = How { power: Some(&power), durability: |_| "interval", interval_ms: "60000" };
    assert!(torture(6, &how) > 0, "the disk of this test does not forget");
}

/// Whoever supervises the process is told by its code, whoever asks by `/healthz`, and clients by their answers.
#[test]
fn a_service_whose_journal_fails_says_why_and_ends_with_a_code() {
    let power = Power::new();
    for (error, step) in [(28, 120), (5, 120), (28, 200), (5, 200)] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_cohort"));
        power.give(&mut command, folder.path());
        power.fail(&mut command, error, step, u64::MAX >> 1);
        command.args(["serve", "--listen", "127.0.0.1:0", "--log-level", "error", "--data-dir"]);
        let mut child = command
            .arg(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit("http://").next().unwrap().to_owned();
        let mut connection = Connection::open(&address).unwrap();
        let mut ask = |method, path: &str, body: Value| {
            let body = if body.is_null() { String::new() } else { body.to_string() };
            connection.ask(method, path, &body).unwrap()
        };
        assert_eq!(ask("POST", "/v1/apps", json!({"name": "shop", "dim": 1})).0, 201);
        assert_eq!(ask("GET", "/healthz", Value::Null).0, 200);
        let items = json!([{"id": "a", "features": [1]}, {"id": "b", "features": [0]}]);
        let refused = (0..2000).find_map(|n| {
            let decide = json!({"user": format!("user-{n}"), "items": items});
            let (status, said) = ask("POST", "/v1/apps/shop/decide", decide);
            (status != 200).then_some((status, said))
        });
        let (status, said) = refused.expect("the disk fails sooner or later");
        assert_eq!((status, &said["error"]["code"]), (503, &json!("journal_failed")), "{said}");
        let (status, said) = ask("GET", "/healthz", Value::Null);
        assert_eq!((status, &said["error"]["code"]), (503, &json!("unwell")), "{said}");
        assert!(
            said["error"]["message"].as_str().unwrap().contains("the journal failed"),
            "{said}"
        );
        assert_eq!(child.wait().unwrap().code(), Some(1));
    }
}

/// Runs clients and ends the service, again and again. Returns how many acknowledged rewards were
/// lost; ends after the first loss.
fn torture(cycles: u64, how: &How) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(folder.path(), 0, how);
    let create = json!({"name": "shop", "dim": 2, "window_ms": 86_400_000}).to_string();
    let mut connection = Connection::open(&service.address).unwrap();
    assert_eq!(connection.ask("POST", "/v1/apps", &create).unwrap().0, 201);
    let mut clients: Vec<Client> =
        (0..CLIENTS).map(|name| Client { name, ..Client::default() }).collect();
    let mut service = Some(service);
    for cycle in 0..cycles {
        let running = service.take().unwrap_or_else(|| Service::start(folder.path(), cycle, how));
        let tally = |clients: &[Client]| {
            let sum = |of: fn(&Client) -> u64| clients.iter().map(of).sum::<u64>();
            (sum(|client| client.rewards), sum(|client| client.reward_sum))
        };
        // At most one reward of each client may have been learned without its answer arriving.
        let acknowledged = tally(&clients).0;
        let found = counts(&running.address).0;
        if found < acknowledged {
            running.kill();
            return acknowledged - found;
        }
        assert!(found <= acknowledged + CLIENTS as u64, "cycle {cycle}");

        let stop = Arc::new(AtomicBool::new(false));
        let working: Vec<_> = std::mem::take(&mut clients)
            .into_iter()
            .map(|mut client| {
                let (address, stop) = (running.address.clone(), stop.clone());
                std::thread::spawn(move || {
                    client.work(&address, &stop);
                    client
                })
            })
            .collect();
        let lives_ms = if cycle % 10 == 9 { 400 } else { 20 + cycle * 37 % 90 };
        std::thread::sleep(Duration::from_millis(lives_ms));
        // In the last cycle clients finish their current step, so that the tally must be exact.
        let last = cycle + 1 == cycles;
        stop.store(last, Ordering::Relaxed);
        let join = |working: Vec<JoinHandle<Client>>| -> Vec<Client> {
            working.into_iter().map(|client| client.join().unwrap()).collect()
        };
        if cycle % 100 == 99 && !last {
            println!("{} kills of {cycles}, {found} rewards", cycle + 1);
        }
        if last {
            clients = join(working);
            assert_eq!(counts(&running.address), tally(&clients));
            every_reward_is_there(&running.address, &clients);
            running.kill();
        } else {
            running.kill();
            clients = join(working);
            how.power.iter().for_each(|power| power.lose(folder.path()));
        }
    }
    let rewards: u64 = clients.iter().map(|client| client.rewards).sum();
    let retried: u64 = clients.iter().map(|client| client.retried).sum();
    println!("{cycles} kills, {rewards} rewards, {retried} decisions asked for again");
    assert!(rewards > cycles && (cycles < 50 || retried > 0), "{rewards} {retried}");
    0
}

/// Looks up every acknowledged decision: its reward is the one that was sent.
fn every_reward_is_there(address: &str, clients: &[Client]) {
    let mut connection = Connection::open(address).unwrap();
    for client in clients {
        for decision in 0..client.decision {
            let path = format!("/v1/apps/shop/decisions/{}", client.id(decision));
            let (status, said) = connection.ask("GET", &path, "").unwrap();
            assert_eq!((status, &said["status"]), (200, &json!("rewarded")), "{path}");
            assert_eq!(said["reward"].as_f64(), Some(Client::reward_of(decision) as f64), "{path}");
        }
    }
}
