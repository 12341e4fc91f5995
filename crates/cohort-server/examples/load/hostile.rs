//! One app's decides among bad clients: connections that say nothing, one that reads slowly, one that writes
//! slowly, another app that sends the largest batches allowed, and a calendar that jumps.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::client::{self, Connection, open_loop};
use super::{DIM, figures, refits};

const USERS: usize = 2000;
const CLIENTS: usize = 32;
const SECONDS: f64 = 15.0;
const SILENT: usize = 2000;
/// Clients of the loud app; each waits for its answer.
const LOUD: usize = 4;
/// How far bad clients step back.
const OTHERS: i32 = 10;
/// Work that one request may bring by default.
const MOST_WORK: usize = 200_000_000;
/// Users that it may be for.
const MOST_USERS: usize = 1000;

/// What the largest requests consist of.
#[derive(Clone, Copy)]
pub struct Shape {
    name: &'static str,
    dim: usize,
    items: usize,
    asks: Asks,
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq)]
enum Asks {
    /// Decides for many users.
    Batch,
    /// Decides for many places: as many as there may be, and each with its part of the items.
    Slate,
    /// Items to register.
    Items,
}

impl Asks {
    fn route(self) -> &'static str {
        match self {
            Self::Batch => "decide-batch",
            Self::Slate => "slate",
            Self::Items => "items",
        }
    }
}

/// Places of a slate.
const PLACES: usize = 64;

/// Requests that are large in different ways.
const SHAPES: [Shape; 6] = [
    // Work: 488 users.
    Shape { name: "hostile", dim: 64, items: 100, asks: Asks::Batch },
    // Rankings and answers: 888 users, megabytes of JSON.
    Shape { name: "hostile_wide", dim: 15, items: 1000, asks: Asks::Batch },
    // Bodies: 3 users, and each takes long.
    Shape { name: "hostile_long", dim: 256, items: 1000, asks: Asks::Batch },
    // Decisions.
    Shape { name: "hostile_many", dim: 2, items: 2, asks: Asks::Batch },
    // Places: 64 of 760 items.
    Shape { name: "hostile_slate", dim: 64, items: 760, asks: Asks::Slate },
    // Items of a catalogue: megabytes of JSON, and an event for each.
    Shape { name: "hostile_items", dim: 4, items: 30_000, asks: Asks::Items },
];

impl Shape {
    /// By its name without `hostile_`, or the first.
    pub fn named(name: &str) -> Self {
        let is_it = |shape: &&Self| shape.name.trim_start_matches("hostile_") == name;
        *SHAPES.iter().find(is_it).unwrap_or(&SHAPES[0])
    }

    fn users(&self) -> usize {
        (MOST_WORK / (self.items * self.dim * self.dim)).min(MOST_USERS)
    }
}

pub async fn measure(address: &str, rate: f64, shape: Shape) {
    let mut admin = Connection::open(address).await;
    for (name, dim) in [("quiet", DIM), ("loud", shape.dim)] {
        let app = format!(r#"{{"name":"{name}","dim":{dim},"window_ms":20000}}"#);
        assert_eq!(admin.ask(&client::post("/v1/apps", &app)).await, 201);
    }
    refits::teach(address, "quiet", USERS, 2).await;
    let workload = refits::decide_and_reward("quiet", USERS);
    let quiet = open_loop(address, CLIENTS, SECONDS, rate, &workload).await;

    descriptors();
    let mut silent = Vec::new();
    for _ in 0..SILENT {
        silent.push(TcpStream::connect(address).await.expect("the service listens"));
    }
    let others = Others::start(address, shape);
    let hostile = open_loop(address, CLIENTS, SECONDS, rate, &workload).await;
    let still_there = others.stop();
    drop(silent);

    // Every reward that was acknowledged is there.
    let mut admin = Connection::open(address).await;
    let request = b"GET /v1/apps/quiet HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(admin.ask(request).await, 200);
    let answer = admin.answer();
    let found = answer.split_once(r#""rewards":"#).map_or("", |(_, rest)| rest);
    let found: f64 = found.split([',', '}']).next().and_then(|n| n.parse().ok()).unwrap_or(-1.0);
    let acknowledged = (2 * USERS + quiet.answered + hostile.answered) as f64;
    let batches = batches(&mut admin, shape.asks).await;
    figures::keep(
        shape.name,
        &[
            ("decides_per_second", rate, ""),
            ("silent_connections", SILENT as f64, ""),
            ("bad_clients_at_the_end", still_there as f64, ""),
            ("batches_of_the_other_app_per_second", batches / SECONDS, ""),
            ("p99_quiet_ms", quiet.p99_ms, ""),
            ("p99_among_bad_clients_ms", hostile.p99_ms, ""),
            ("p99_among_bad_clients_against_quiet", hostile.p99_ms / quiet.p99_ms, "at most 3"),
            ("rewards_acknowledged", acknowledged, ""),
            ("rewards_lost", acknowledged - found, "0"),
        ],
    );
}

/// Bad clients, on a thread of their own: what they do with their answers must not delay those that are measured. They
/// would be on other machines, so they leave this one to the service.
struct Others {
    stop: tokio::sync::oneshot::Sender<()>,
    thread: std::thread::JoinHandle<usize>,
}

impl Others {
    fn start(address: &str, shape: Shape) -> Self {
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let address = address.to_owned();
        let work = async move {
            let mut others = loud(&address, shape);
            others.extend([slow_reader(&address), slow_writer(&address)]);
            let _ = stopped.await;
            others.iter().filter(|other| !other.is_finished()).count()
        };
        let thread = std::thread::spawn(move || {
            rustix::process::nice(OTHERS).expect("a lower priority");
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(tokio::task::LocalSet::new().run_until(work))
        });
        Self { stop, thread }
    }

    /// How many there were until now.
    fn stop(self) -> usize {
        let _ = self.stop.send(());
        self.thread.join().expect("bad clients go on")
    }
}

/// As many files as the machine allows.
fn descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).expect("files up to the hard limit");
}

/// Asks for the log and reads a byte a tenth of a second.
fn slow_reader(address: &str) -> JoinHandle<()> {
    let address = address.to_owned();
    tokio::task::spawn_local(async move {
        let stream = TcpStream::connect(&address).await.expect("the service listens");
        let request = b"GET /v1/apps/quiet/log.csv HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let _ = stream.writable().await.map(|()| stream.try_write(request));
        let mut byte = [0];
        while !matches!(stream.try_read(&mut byte), Ok(0)) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
}

/// Sends a body of which a byte comes every tenth of a second.
fn slow_writer(address: &str) -> JoinHandle<()> {
    let address = address.to_owned();
    tokio::task::spawn_local(async move {
        let stream = TcpStream::connect(&address).await.expect("the service listens");
        let head = b"POST /v1/apps/quiet/reward HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                     Content-Length: 100000\r\n\r\n{";
        let _ = stream.writable().await.map(|()| stream.try_write(head));
        while stream.try_write(b" ").is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
}

/// Large requests of the other app that were answered.
async fn batches(admin: &mut Connection, asks: Asks) -> f64 {
    assert_eq!(admin.ask(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").await, 200);
    let (route, status) = (asks.route(), if asks == Asks::Items { 204 } else { 200 });
    let of_batches =
        format!(r#"cohort_requests_total{{route="/v1/apps/{{app}}/{route}",status="{status}"}} "#);
    let text = admin.answer();
    let count = text.lines().find_map(|line| line.strip_prefix(of_batches.as_str()));
    // Those by which the users were taught are among them.
    let others = if asks == Asks::Batch { 2.0 * USERS as f64 / 1000.0 } else { 0.0 };
    count.and_then(|count| count.parse::<f64>().ok()).unwrap_or_default() - others
}

/// Clients of the other app that send the largest requests allowed, one after the other.
fn loud(address: &str, shape: Shape) -> Vec<JoinHandle<()>> {
    let features = vec!["0.01"; shape.dim].join(",");
    let item = |at: usize| format!(r#"{{"id":"item-{at}","features":[{features}]}}"#);
    let items = (0..shape.items).map(item).collect::<Vec<_>>().join(",");
    let client = |client: usize| {
        let (address, items) = (address.to_owned(), items.clone());
        tokio::task::spawn_local(async move {
            let mut connection = Connection::open(&address).await;
            let path = format!("/v1/apps/loud/{}", shape.asks.route());
            let request = match shape.asks {
                Asks::Batch => {
                    let user = |at: usize| format!(r#"{{"user":"user-{client}-{at}"}}"#);
                    let users = (0..shape.users()).map(user).collect::<Vec<_>>().join(",");
                    client::post(&path, &format!(r#"{{"items":[{items}],"users":[{users}]}}"#))
                }
                Asks::Slate => {
                    let slot = |at: usize| format!(r#"{{"id":"place-{at}"}}"#);
                    let slots = (0..PLACES).map(slot).collect::<Vec<_>>().join(",");
                    let user = format!("user-{client}");
                    client::post(
                        &path,
                        &format!(r#"{{"user":"{user}","items":[{items}],"slots":[{slots}]}}"#),
                    )
                }
                Asks::Items => client::send("PUT", &path, &format!(r#"{{"items":[{items}]}}"#)),
            };
            loop {
                let status = connection.ask(&request).await;
                assert!([200, 204, 429, 503].contains(&status), "{}", connection.answer());
            }
        })
    };
    (0..LOUD).map(client).collect()
}
