//! Nodes of a cluster as processes, the network between them and NATS, and clients with a tally of their own.
#![allow(dead_code, missing_docs)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

#[path = "../connection/mod.rs"]
mod connection;

pub use connection::Connection;

/// What all that a node says to NATS goes through, so that it can be cut.
pub struct Proxy {
    pub address: SocketAddr,
    state: Arc<ProxyState>,
}

#[derive(Default)]
struct ProxyState {
    cut: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::<ProxyState>::default();
        let shared = state.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if shared.cut.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                shared
                    .open
                    .lock()
                    .unwrap()
                    .extend([&client, &server].map(|one| one.try_clone().unwrap()));
                for (mut from, mut to) in
                    [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)]
                {
                    let state = shared.clone();
                    std::thread::spawn(move || {
                        let mut bytes = vec![0; 1 << 16];
                        while let Ok(read @ 1..) = from.read(&mut bytes) {
                            // What is under way when the network is cut is lost without a word.
                            while state.cut.load(Ordering::SeqCst) {
                                std::thread::sleep(Duration::from_millis(10));
                            }
                            if to.write_all(&bytes[..read]).is_err() {
                                break;
                            }
                        }
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        Self { address, state }
    }

    /// Nothing passes any more, and nobody is told.
    pub fn cut(&self) {
        self.state.cut.store(true, Ordering::SeqCst);
    }

    /// Connections that were cut are gone; new ones pass.
    pub fn mend(&self) {
        for stream in self.state.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.state.cut.store(false, Ordering::SeqCst);
    }
}

/// A node.
pub struct Node {
    pub name: String,
    pub address: String,
    child: Child,
    watch: Child,
}

impl Node {
    pub fn start(name: &str, nats: &str, more: &[&str]) -> Self {
        let log = std::env::var_os("COHORT_KEEP_NATS_LOGS").and_then(|folder| {
            let file = std::path::Path::new(&folder).join(format!("{name}.log"));
            std::fs::File::options().create(true).append(true).open(file).ok()
        });
        let mut child = Command::new(env!("CARGO_BIN_EXE_cohort"))
            .args(["serve", "--listen", "127.0.0.1:0", "--nats", nats, "--node-name", name])
            .args(["--log-level", if log.is_some() { "info" } else { "error" }])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(log.map_or_else(Stdio::null, Stdio::from))
            .spawn()
            .unwrap();
        let watch = super::nats::watch_over(child.id());
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let address = line.trim().rsplit("http://").next().unwrap().to_owned();
        assert!(!address.is_empty() && line.contains("http"), "node {name} did not start");
        // What it says more must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Self { name: name.to_owned(), address, child, watch }
    }

    pub fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// Asks it to stop, and waits.
    pub fn stop(mut self) {
        self.signal("-TERM");
        self.child.wait().unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.watch.kill();
        let _ = self.watch.wait();
    }
}

/// Asks a node once.
pub fn ask(address: &str, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    Connection::open(address)?.ask(method, path, &body)
}

/// Addresses of all nodes, which change when one is started again.
pub type Addresses = Arc<Mutex<Vec<String>>>;

/// One client: decides, then rewards, one decision after the other, at any node that answers.
pub struct Client {
    pub name: usize,
    pub decision: u64,
    /// What was answered to the decision that is being worked on.
    item: Option<Value>,
    pub rewards: u64,
    pub reward_sum: u64,
    pub retried: u64,
    pub progress: Arc<AtomicU64>,
    /// Rewards that were acknowledged for the first time.
    pub learned: Arc<AtomicU64>,
}

impl Client {
    pub fn new(name: usize, progress: Arc<AtomicU64>, learned: Arc<AtomicU64>) -> Self {
        let (decision, item, retried) = (0, None, 0);
        Self { name, decision, item, rewards: 0, reward_sum: 0, retried, progress, learned }
    }

    pub fn id(&self, decision: u64) -> String {
        format!("client-{}-decision-{decision}", self.name)
    }

    pub fn user(&self, decision: u64) -> String {
        format!("user-{}", (decision * 3 + self.name as u64) % 200)
    }

    /// A number of its own, so that sums tell.
    pub fn reward_of(decision: u64) -> u64 {
        decision % 97 + 1
    }

    /// Works until it is told to stop and has finished what it was at.
    pub fn work(&mut self, addresses: &Addresses, stop: &AtomicBool) {
        let mut turn = self.name;
        let mut finishing = Instant::now();
        loop {
            if stop.load(Ordering::Relaxed) && self.item.is_none() {
                return;
            }
            if !stop.load(Ordering::Relaxed) {
                finishing = Instant::now();
            }
            assert!(
                finishing.elapsed() < Duration::from_secs(90),
                "client {} never ends",
                self.name
            );
            turn += 1;
            let address = {
                let addresses = addresses.lock().unwrap();
                addresses[turn % addresses.len()].clone()
            };
            let Some(mut connection) = Connection::open(&address) else {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            };
            while self.step(&mut connection).is_some() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
            }
        }
    }

    /// `None` where the node does not answer, or cannot now; the step is done again elsewhere.
    fn step(&mut self, connection: &mut Connection) -> Option<()> {
        let (id, user) = (self.id(self.decision), self.user(self.decision));
        let items: Vec<Value> = (0..3)
            .map(|item| {
                let x = ((self.decision * 7 + item * 13) % 11) as f64 / 11.0;
                json!({"id": format!("i{item}"), "features": [x, 1.0 - x]})
            })
            .collect();
        let body = json!({"user": user, "items": items, "decision_id": id}).to_string();
        let (status, said) = self.tried(connection.ask("POST", "/v1/apps/shop/decide", &body))?;
        assert_eq!(status, 200, "{said}");
        if let Some(item) = &self.item {
            assert_eq!(&said["item"], item, "{id} was answered twice differently");
            self.retried += 1;
        }
        self.item = Some(said["item"].clone());
        let reward = Self::reward_of(self.decision);
        let mut body = json!({"decision_id": id, "reward": reward});
        if self.decision.is_multiple_of(2) {
            body["user"] = user.into();
        }
        let (status, said) =
            self.tried(connection.ask("POST", "/v1/apps/shop/reward", &body.to_string()))?;
        assert_eq!(status, 200, "{id}: {said}");
        self.rewards += 1;
        self.reward_sum += reward;
        self.decision += 1;
        self.item = None;
        self.progress.fetch_add(1, Ordering::Relaxed);
        // One that was safe before, and is asked for again, may be answered without servers.
        if said["outcome"] == "learned" {
            self.learned.fetch_add(1, Ordering::Relaxed);
        }
        Some(())
    }

    /// What can be tried again elsewhere is nothing.
    fn tried(&mut self, said: Option<(u16, Value)>) -> Option<(u16, Value)> {
        let said = said.filter(|(status, _)| *status != 503);
        if said.is_none() {
            std::thread::sleep(Duration::from_millis(20));
        }
        said
    }
}
