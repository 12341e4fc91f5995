//! A cluster of real nodes on real NATS servers, under load, while nodes and servers are killed, stopped, cut off and
//! damaged: no acknowledged reward is lost or counted twice, no decision is answered twice differently, every partition is
//! served again within ten seconds of a node's death, and a fresh process folds the streams to the owners' states.
//!
//! `COHORT_CLUSTER_FAULTS` sets how many faults there are (14 here, 200 in scripts/cluster-torture).
#![allow(missing_docs)]

mod machines;
#[path = "../../cohort-server/tests/nats/mod.rs"]
mod nats;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cohort_server::cluster::members::Shape;
use cohort_server::cluster::objects::{ObjectFolder, open_store};
use cohort_server::cluster::replica::fold;
use cohort_server::cluster::wire::{Call, Reply, Wire};
use cohort_server::snapshot::Snapshots;
use cohort_server::snapshot::disk::MemoryFolder;
use machines::{Addresses, Client, Node, Proxy, ask};
use nats::Servers;
use serde_json::{Value, json};

const PARTITIONS: u32 = 8;
const CLIENTS: usize = 4;
const NODES: usize = 3;

struct Cluster {
    servers: Servers,
    /// By node and server.
    proxies: Vec<Vec<Proxy>>,
    nodes: Vec<Option<Node>>,
    addresses: Addresses,
    more: Vec<&'static str>,
}

impl Cluster {
    fn start(servers: usize, nodes: usize, more: &[&'static str]) -> Self {
        let servers = Servers::start(servers);
        let proxies: Vec<Vec<Proxy>> = (0..nodes)
            .map(|_| (0..servers.count()).map(|server| Proxy::to(servers.port(server))).collect())
            .collect();
        let addresses = Arc::new(Mutex::new(vec![String::new(); nodes]));
        let nodes = (0..nodes).map(|_| None).collect::<Vec<_>>();
        let mut cluster = Self { servers, proxies, nodes, addresses, more: more.to_vec() };
        (0..cluster.nodes.len()).for_each(|node| cluster.start_node(node));
        cluster.wait_until_served(Duration::from_secs(60));
        cluster
    }

    fn start_node(&mut self, node: usize) {
        let urls = self.proxies[node].iter().map(|proxy| format!("nats://{}", proxy.address));
        let urls = urls.collect::<Vec<_>>().join(",");
        let monitor = self.servers.monitor();
        let partitions = PARTITIONS.to_string();
        // They are divided by the number of partitions.
        let mut more = vec!["--partitions", &partitions, "--snapshot-events", "4000"];
        more.extend(["--nats-monitor", &monitor]);
        more.extend(&self.more);
        let started = Node::start(&format!("n{node}"), &urls, &more);
        self.addresses.lock().unwrap()[node] = started.address.clone();
        self.nodes[node] = Some(started);
    }

    fn address(&self) -> String {
        let addresses = self.addresses.lock().unwrap();
        let running = (0..addresses.len()).find(|node| self.nodes[*node].is_some()).unwrap();
        addresses[running].clone()
    }

    /// Waits until every partition has an owner that answers; says how long that took.
    fn wait_until_served(&self, most: Duration) -> Duration {
        let started = Instant::now();
        loop {
            let healthy = ask(&self.address(), "GET", "/healthz", &Value::Null);
            if healthy.is_some_and(|(status, _)| status == 200) {
                return started.elapsed();
            }
            assert!(
                started.elapsed() < most,
                "partitions are not served after {most:?}: {:?}, {:?}",
                ask(&self.address(), "GET", "/healthz", &Value::Null),
                ask(&self.address(), "GET", "/v1/cluster", &Value::Null)
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Decides for users of all partitions at one node until all were answered; says how long that took.
    fn decide_everywhere(&self, most: Duration) -> Duration {
        let started = Instant::now();
        let mut left: Vec<u32> = (0..4 * PARTITIONS).collect();
        while !left.is_empty() {
            let address = self.address();
            left.retain(|user| {
                let body = json!({"user": format!("probe-{user}"), "items": [{"id": "a", "features": [0.5, 0.5]}]});
                ask(&address, "POST", "/v1/apps/probe/decide", &body)
                    .is_none_or(|(status, _)| status != 200)
            });
            assert!(started.elapsed() < most, "users {left:?} are not served after {most:?}");
        }
        started.elapsed()
    }
}

/// Lets clients work, makes faults happen, and compares all tallies at the end.
struct Load {
    stop: Arc<AtomicBool>,
    progress: Arc<AtomicU64>,
    learned: Arc<AtomicU64>,
    working: Vec<std::thread::JoinHandle<Client>>,
}

impl Load {
    fn start(cluster: &Cluster) -> Self {
        for app in ["shop", "probe"] {
            let create = json!({"name": app, "dim": 2, "window_ms": 86_400_000});
            let created = ask(&cluster.address(), "POST", "/v1/apps", &create).unwrap();
            assert_eq!(created.0, 201, "{created:?}");
        }
        let stop = Arc::new(AtomicBool::new(false));
        let progress = Arc::<AtomicU64>::default();
        let learned = Arc::<AtomicU64>::default();
        let working = (0..CLIENTS).map(|name| {
            let mut client = Client::new(name, progress.clone(), learned.clone());
            let (addresses, stop) = (cluster.addresses.clone(), stop.clone());
            std::thread::spawn(move || {
                client.work(&addresses, &stop);
                client
            })
        });
        let working = working.collect();
        Self { stop, progress, learned, working }
    }

    /// Waits until clients have come further.
    fn wait_for(&self, rewards: u64, most: Duration) {
        let (started, before) = (Instant::now(), self.progress.load(Ordering::Relaxed));
        while self.progress.load(Ordering::Relaxed) < before + rewards {
            assert!(started.elapsed() < most, "clients come no further");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn end(self, cluster: &Cluster) {
        self.stop.store(true, Ordering::Relaxed);
        let clients: Vec<Client> =
            self.working.into_iter().map(|client| client.join().unwrap()).collect();
        let (status, app) = ask(&cluster.address(), "GET", "/v1/apps/shop", &Value::Null).unwrap();
        assert_eq!(status, 200, "{app}");
        assert!(app.get("missing_partitions").is_none(), "{app}");
        let rewards: u64 = clients.iter().map(|client| client.rewards).sum();
        let sum: u64 = clients.iter().map(|client| client.reward_sum).sum();
        assert_eq!(
            (app["rewards"].as_u64(), app["reward_sum"].as_f64()),
            (Some(rewards), Some(sum as f64))
        );
        let mut connection = machines::Connection::open(&cluster.address()).unwrap();
        for client in &clients {
            for decision in 0..client.decision {
                let path = format!("/v1/apps/shop/decisions/{}", client.id(decision));
                let (status, said) = connection.ask("GET", &path, "").unwrap();
                assert_eq!((status, &said["status"]), (200, &json!("rewarded")), "{path}: {said}");
                assert_eq!(
                    said["reward"].as_f64(),
                    Some(Client::reward_of(decision) as f64),
                    "{path}"
                );
            }
        }
        let retried: u64 = clients.iter().map(|client| client.retried).sum();
        println!("{rewards} rewards, {retried} decisions asked for again");
    }
}

/// A fresh process folds the streams, with snapshots and where nothing was pruned without, and has the owners' states.
fn folds_to_the_owners_states(cluster: &Cluster) {
    let nats = cluster.servers.connect();
    let shape = Shape { partitions: PARTITIONS, replicas: cluster.servers.count() };
    let store = open_store(&nats, shape.replicas).unwrap();
    let wire = nats.wait(Wire::open(nats.client(), "cohort", "tester")).unwrap();
    let (_, status) = ask(&cluster.address(), "GET", "/v1/cluster", &Value::Null).unwrap();
    for partition in 0..=PARTITIONS {
        let owner = status["owners"][partition as usize]["owner"].as_str().unwrap().to_owned();
        let call = Call {
            partition,
            patience_ms: 9000,
            target: "/internal/digest".into(),
            ..Call::default()
        };
        let name = shape.name_of(partition);
        let told = |reply| match reply {
            Reply::Answered { status: 200, body, .. } => {
                String::from_utf8_lossy(&body).into_owned()
            }
            other => panic!("{name}: {other:?}"),
        };
        let mut same = false;
        for _ in 0..20 {
            let owners = told(nats.wait(wire.ask(&owner, &call, Duration::from_secs(10))));
            let snapshots = Snapshots::new(ObjectFolder::new(&nats, store.clone(), &name));
            let (mut folded, _) = fold(nats.log(&name), &snapshots).unwrap();
            let mine =
                format!("{} {:016x}", folded.state.last_event(), folded.state.digest().unwrap());
            let (mut whole, _) =
                fold(nats.log(&name), &Snapshots::new(MemoryFolder::default())).unwrap();
            let from_all =
                format!("{} {:016x}", whole.state.last_event(), whole.state.digest().unwrap());
            // Time passes for owners, too: what is compared must be of the same event.
            same = owners == mine && mine == from_all;
            if same {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(same, "{name}: a fresh fold is not what its owner has");
    }
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    KillNode,
    KillServer,
    KillTwoServers,
    StopOwner,
    StopServer,
    CutNode,
    Truncate,
    LeaveNode,
    RestartServerAndNode,
    SlowServer,
    FullDisk,
}

const FAULTS: [Fault; 14] = [
    Fault::KillNode,
    Fault::KillServer,
    Fault::StopOwner,
    Fault::CutNode,
    Fault::KillTwoServers,
    Fault::LeaveNode,
    Fault::StopServer,
    Fault::Truncate,
    Fault::KillNode,
    Fault::RestartServerAndNode,
    Fault::CutNode,
    Fault::SlowServer,
    Fault::FullDisk,
    Fault::KillServer,
];

/// Past the lease of a node, which others take for dead after three seconds.
const PAST_LEASE: Duration = Duration::from_millis(4500);

impl Cluster {
    /// Makes a fault happen and mends it. Returns how long partitions were not served, where a node died.
    fn suffer(&mut self, fault: Fault, turn: usize, load: &Load) -> Option<Duration> {
        let (node, server) = (turn % NODES, (turn / 2) % self.servers.count());
        match fault {
            Fault::KillNode => {
                self.nodes[node] = None;
                let unserved = self.decide_everywhere(Duration::from_secs(10));
                load.wait_for(5, Duration::from_secs(30));
                self.start_node(node);
                return Some(unserved);
            }
            Fault::LeaveNode => {
                if let Some(node) = self.nodes[node].take() {
                    node.stop();
                }
                let unserved = self.decide_everywhere(Duration::from_secs(10));
                self.start_node(node);
                return Some(unserved);
            }
            Fault::KillServer => {
                self.servers.kill(server);
                load.wait_for(5, Duration::from_secs(30));
                self.servers.start_again(server);
            }
            Fault::KillTwoServers => {
                let other = (server + 1) % self.servers.count();
                self.servers.kill(server);
                self.servers.kill(other);
                std::thread::sleep(Duration::from_secs(2));
                let before = load.learned.load(Ordering::Relaxed);
                std::thread::sleep(Duration::from_secs(2));
                let after = load.learned.load(Ordering::Relaxed);
                assert_eq!(before, after, "a reward was acknowledged without a quorum");
                self.servers.start_again(server);
                self.servers.start_again(other);
            }
            Fault::StopOwner => {
                let stopped = self.nodes[node].as_ref().unwrap();
                stopped.signal("-STOP");
                std::thread::sleep(PAST_LEASE);
                stopped.signal("-CONT");
            }
            Fault::StopServer => {
                let process = self.servers.process(server).unwrap().to_string();
                signal("-STOP", &process);
                std::thread::sleep(Duration::from_secs(3));
                signal("-CONT", &process);
            }
            Fault::SlowServer => {
                // It runs a tenth of the time: all it does is slow, syncing too.
                let process = self.servers.process(server).unwrap().to_string();
                let until = Instant::now() + Duration::from_secs(4);
                while Instant::now() < until {
                    signal("-STOP", &process);
                    std::thread::sleep(Duration::from_millis(90));
                    signal("-CONT", &process);
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
            Fault::FullDisk => {
                // No file may grow: every write fails, as on a disk that is full.
                let process = self.servers.process(server).unwrap().to_string();
                let limit = ["--pid", &process, "--fsize=0:unlimited"];
                let limited = std::process::Command::new("prlimit").args(limit).status().unwrap();
                assert!(limited.success());
                // Streams that it leads may stand still, as long as NATS does not take it for dead.
                std::thread::sleep(Duration::from_secs(4));
                // There is room again, and whoever looks after it starts it anew.
                self.servers.kill(server);
                self.servers.start_again(server);
            }
            Fault::CutNode => {
                self.proxies[node].iter().for_each(Proxy::cut);
                std::thread::sleep(PAST_LEASE);
                self.proxies[node].iter().for_each(Proxy::mend);
            }
            Fault::Truncate => {
                self.servers.kill(server);
                truncate_something(&self.servers.folder(server), turn);
                self.servers.start_again(server);
            }
            Fault::RestartServerAndNode => {
                self.servers.kill(server);
                self.nodes[node] = None;
                // Streams elect leaders first.
                let unserved = self.decide_everywhere(Duration::from_secs(20));
                load.wait_for(5, Duration::from_secs(40));
                // It starts while one server is away, which cannot be asked whether it syncs.
                self.start_node(node);
                self.servers.start_again(server);
                self.servers.wait_until_ready();
                return Some(unserved);
            }
        }
        None
    }
}

fn signal(signal: &str, process: &str) {
    std::process::Command::new("kill").args([signal, process]).status().unwrap();
}

/// Cuts off a quarter of a file of messages of one partition's stream.
fn truncate_something(folder: &std::path::Path, turn: usize) {
    let streams = folder.join("jetstream/$G/streams");
    let blocks = streams.join(format!("cohort-p{}", turn % PARTITIONS as usize)).join("msgs");
    let files = std::fs::read_dir(&blocks).into_iter().flatten().flatten();
    let mut files: Vec<_> =
        files.filter(|file| file.path().extension().is_some_and(|end| end == "blk")).collect();
    files.sort_by_key(|file| file.path());
    if let Some(file) = files.last() {
        let length = file.metadata().unwrap().len();
        let file = std::fs::File::options().write(true).open(file.path()).unwrap();
        file.set_len(length - length / 4).unwrap();
    }
}

#[test]
fn nothing_acknowledged_is_lost_whatever_dies() {
    let faults = std::env::var("COHORT_CLUSTER_FAULTS")
        .map_or(FAULTS.len(), |faults| faults.parse().unwrap());
    let mut cluster = Cluster::start(3, NODES, &[]);
    let load = Load::start(&cluster);
    let mut worst = Duration::ZERO;
    for turn in 0..faults {
        let fault = FAULTS[turn % FAULTS.len()];
        load.wait_for(5, Duration::from_secs(60));
        let began = Instant::now();
        let unserved = cluster.suffer(fault, turn, &load);
        worst = worst.max(unserved.unwrap_or_default());
        cluster.wait_until_served(Duration::from_secs(30));
        // Servers that were killed elect leaders of their streams first: the next fault meets a cluster that serves everybody.
        cluster.decide_everywhere(Duration::from_secs(60));
        load.wait_for(5, Duration::from_secs(60));
        println!(
            "fault {} of {faults}: {fault:?}, unserved {unserved:?}, {:.1?} in all",
            turn + 1,
            began.elapsed()
        );
    }
    println!("{faults} faults; after a node's death all partitions were served within {worst:.1?}");
    load.end(&cluster);
    folds_to_the_owners_states(&cluster);
}
