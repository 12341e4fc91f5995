//! What was acknowledged and is not there any more must be told, and never look like something new; and what a node refuses
//! because of keys, rates, servers and memory.
#![allow(missing_docs)]

mod nats;
mod nodes;

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::http::{Method, header};
use cohort_server::cluster::front::partition_of;
use cohort_server::cluster::journal::StreamJournal;
use cohort_server::cluster::log::Log;
use cohort_server::cluster::members::{Bucket, View};
use cohort_server::cluster::moving::export;
use cohort_server::cluster::nats::Nats;
use cohort_server::cluster::objects::{ObjectFolder, open_store};
use cohort_server::cluster::server::ClusterServer;
use cohort_server::cluster::wire::{Call, Reply, Wire};
use cohort_server::config::Config;
use cohort_server::journal::{Group, Journal, JournalError};
use cohort_server::snapshot::Snapshots;
use cohort_server::snapshot::disk::{Disk, DiskFile, MemoryFolder};
use nats::Servers;
use nodes::{Node, config, items};
use serde_json::{Value, json};

const ADMIN: &str = "the admin of this test";
const MOST: Duration = Duration::from_secs(60);

/// A user of a partition of two.
fn user_of(partition: u32) -> String {
    (0..).map(|n| format!("u{n}")).find(|user| partition_of("shop", user, 2) == partition).unwrap()
}

fn decide(node: &Node, partition: u32) -> (u16, Value) {
    let body = json!({"user": user_of(partition), "items": items()});
    node.send("POST", "/v1/apps/shop/decide", &body)
}

/// Waits until the node's health says all of this.
fn wait_until_told(node: &Node, words: &[&str]) -> String {
    let started = Instant::now();
    loop {
        let (status, said) = node.send("GET", "/healthz", &Value::Null);
        let said = said.to_string();
        if status == 503 && words.iter().all(|word| said.contains(word)) {
            return said;
        }
        assert!(started.elapsed() < MOST, "{words:?} is not told: {status} {said}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn quick(servers: &Servers, name: &str) -> Config {
    Config { request_timeout_ms: 3000, ..config(servers, name, 2) }
}

#[test]
fn a_stream_that_is_lost_does_not_look_like_a_new_one() {
    let servers = Servers::start(1);
    let nats = servers.connect();
    let a = Node::start(quick(&servers, "a"));
    a.wait_until_even(1);
    a.post("/v1/apps", &json!({"name": "shop", "dim": 2}));
    assert_eq!((decide(&a, 0).0, decide(&a, 1).0), (200, 200));
    nats.wait(nats.context().delete_stream("cohort-p0")).unwrap();
    assert_eq!(decide(&a, 0).0, 503);
    let said = wait_until_told(&a, &["p0 cannot be served by a", "cohort-p0", "backup"]);
    assert!(!said.contains("p1 "), "{said}");
    assert_eq!((decide(&a, 0).0, decide(&a, 1).0), (503, 200));
    // It is not made anew, by this process or the next, which knows only what is kept.
    drop(a);
    let a = Node::start(quick(&servers, "a"));
    wait_until_told(&a, &["p0 cannot be served by a", "cohort-p0"]);
    assert!(nats.wait(nats.context().get_stream("cohort-p0")).is_err());
    let store = open_store(&nats, 1).unwrap();
    let folder = ObjectFolder::new(&nats, store, "p0");
    // Without any snapshot either: an owner has written there.
    for name in folder.list().unwrap() {
        folder.remove(&name).unwrap();
    }
    std::thread::sleep(Duration::from_secs(1));
    wait_until_told(&a, &["p0 cannot be served by a"]);
    drop(a);
    let data_dir = tempfile::tempdir().unwrap();
    let whole = Config { data_dir: data_dir.path().join("all"), ..config(&servers, "a", 2) };
    let refused = export(&whole).err().map(|why| why.to_string()).unwrap_or_default();
    assert!(refused.contains("cohort-p0"), "{refused}");
}

/// Puts a stream there that lacks the newest records.
fn shorten(nats: &Nats, name: &str, by: u64) {
    let log = nats.log(name);
    let bounds = log.bounds().unwrap();
    let records: Vec<Vec<u8>> =
        (1..=bounds.last).map(|sequence| log.get(sequence).unwrap().unwrap()).collect();
    nats.wait(nats.context().delete_stream(nats.named(name))).unwrap();
    let log = nats.open_log(name, 1).unwrap();
    for (after, record) in (0..).zip(&records[..records.len() - by as usize]) {
        log.wait(log.publish(after, record)).unwrap();
    }
}

#[test]
fn a_stream_that_lost_its_end_is_refused_by_whoever_knows_it_was_longer() {
    let servers = Servers::start(1);
    let nats = servers.connect();
    let never = quick(&servers, "a");
    let a = Node::start(never.clone());
    a.wait_until_even(1);
    a.post("/v1/apps", &json!({"name": "shop", "dim": 2}));
    (0..5).for_each(|_| assert_eq!(decide(&a, 0).0, 200));
    // While it is served: the owner notices, and does not take it over again as if nothing had been.
    shorten(&nats, "p0", 2);
    assert_eq!(decide(&a, 0).0, 503);
    wait_until_told(&a, &["p0 cannot be served by a", "cohort-p0", "was acknowledged"]);
    drop(a);
    // Another process, that has only heard of it, and no snapshot: those who gave it up said how far they had come.
    let b = Node::start(Config { node_name: "b".to_owned(), ..never });
    wait_until_told(&b, &["p0 cannot be served by b", "was acknowledged"]);
    assert_eq!(decide(&b, 1).0, 200);
}

#[test]
fn two_owners_race_for_a_stream_of_a_real_server() {
    let servers = Servers::start(1);
    let nats = servers.connect();
    nats.open_log("p0", 1).unwrap();
    let epochs = AtomicU64::new(0);
    let acknowledged = Mutex::new(Vec::<(u64, Vec<u8>)>::new());
    std::thread::scope(|scope| {
        for me in 0..2 {
            let (epochs, acknowledged, nats) = (&epochs, &acknowledged, nats.clone());
            scope.spawn(move || {
                for turn in 0..12 {
                    let epoch = epochs.fetch_add(1, Ordering::Relaxed) + 1;
                    let log = nats.log("p0");
                    let Ok(mut journal) = StreamJournal::open(log, epoch, "owner", 0) else {
                        continue;
                    };
                    for number in 0..40 {
                        let event = format!("{me} {turn} {number}").into_bytes();
                        let mut group = Group::default();
                        group.push(|out| out.extend(&event));
                        match journal.append(&group).and_then(|()| journal.sync()) {
                            Ok(()) => acknowledged.lock().unwrap().push((journal.last(), event)),
                            Err(JournalError::Fenced { .. }) => break,
                            Err(why) => panic!("{why}"),
                        }
                    }
                }
            });
        }
    });
    let journal = StreamJournal::open(nats.log("p0"), 1000, "reader", 0).unwrap();
    let mut read = Vec::new();
    let mut visit = |number: u64, bytes: &[u8]| {
        read.push((number, bytes.to_vec()));
        Ok(())
    };
    journal.read(1, &mut visit).unwrap();
    let acknowledged = acknowledged.into_inner().unwrap();
    assert!(acknowledged.len() > 40);
    // Each acknowledged event stands once, under its number; at most one group of each epoch is there without a word.
    for (number, event) in &acknowledged {
        assert_eq!(&read[*number as usize - 1], &(*number, event.clone()));
    }
    assert!(read.len() <= acknowledged.len() + epochs.load(Ordering::Relaxed) as usize);
    // Whoever knows of more than there is does not begin.
    let refused = StreamJournal::open(nats.log("p0"), 1001, "late", read.len() as u64 + 1).err();
    assert!(matches!(refused, Some(JournalError::Gone { .. })));
}

/// Asks a node's partition past its front, with a key or without.
fn ask_partition(nats: &Nats, node: &str, partition: u32, key: Option<&str>) -> u16 {
    let wire = nats.wait(Wire::open(nats.client(), "cohort", "tester")).unwrap();
    let bearer = key.map(|key| (header::AUTHORIZATION, format!("Bearer {key}").parse().unwrap()));
    let call = Call {
        partition,
        patience_ms: 3000,
        method: Method::GET,
        target: "/v1/apps".to_owned(),
        headers: bearer.into_iter().collect(),
        ..Call::default()
    };
    match nats.wait(wire.ask(node, &call, Duration::from_secs(5))) {
        Reply::Answered { status, .. } => status,
        other => panic!("{other:?}"),
    }
}

/// Keys are those that the node has read last, in all partitions, and none where they cannot be read.
#[test]
fn keys_that_are_withdrawn_open_no_partition_and_neither_does_a_missing_file() {
    let servers = Servers::start(1);
    let nats = servers.connect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    std::fs::write(&file, ADMIN).unwrap();
    let with_keys =
        |name: &str| Config { admin_key_file: file.clone(), ..config(&servers, name, 2) };
    let a = Node::start(with_keys("a"));
    let wait = |node: &Node, owns: u64| {
        let started = Instant::now();
        let of = |status: &Value| {
            status["nodes"].as_array().unwrap().iter().map(|n| n["owns"].as_u64().unwrap()).max()
        };
        while node.send("GET", "/healthz", &Value::Null).0 != 200
            || of(&node.get("/v1/cluster")) != Some(owns)
        {
            assert!(started.elapsed() < MOST);
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    wait(&a, 3);
    assert_eq!(ask_partition(&nats, "a", 0, Some(ADMIN)), 200);
    assert_eq!(ask_partition(&nats, "a", 0, None), 401);
    // Another key: the old one opens nothing any more, at the front and behind it.
    let other = "another admin of this test";
    std::fs::write(&file, other).unwrap();
    let started = Instant::now();
    while ask_partition(&nats, "a", 0, Some(ADMIN)) != 403 {
        assert!(started.elapsed() < MOST, "the old key still opens a partition");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(ask_partition(&nats, "a", 1, Some(other)), 200);
    // Partitions that are taken over while the file is not there have the keys that were read last.
    let b = Node::start(with_keys("b"));
    wait(&a, 2);
    std::fs::remove_file(&file).unwrap();
    drop(b);
    wait(&a, 3);
    for partition in 0..=2 {
        assert_eq!(ask_partition(&nats, "a", partition, None), 401, "{partition}");
        assert_eq!(ask_partition(&nats, "a", partition, Some(other)), 200, "{partition}");
    }
}

#[test]
fn keys_and_rates_are_looked_at_before_the_body_and_memory_before_the_work() {
    let servers = Servers::start(1);
    let limited =
        Config { rate_per_second: 2, admin_key: ADMIN.to_owned(), ..config(&servers, "a", 2) };
    let a = Node::start(limited);
    let raw = |head: &str, body: &str| {
        let mut stream = TcpStream::connect(a.url.strip_prefix("http://").unwrap()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        write!(stream, "{head}\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\r\n{body}").unwrap();
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    };
    // Of a body that never comes nothing is waited for.
    for route in
        ["/v1/apps/shop/decide", "/v1/apps", "/personalizer/v1.0/rank", "/v1/cluster/drain"]
    {
        let began = Instant::now();
        let said = raw(&format!("POST {route} HTTP/1.1\r\nContent-Length: 1000000"), "{");
        assert!(said.starts_with("HTTP/1.1 401"), "{route}: {said}");
        assert!(began.elapsed() < Duration::from_secs(2), "{route}");
    }
    let ask = |method: &str, path: &str, body: &Value| {
        let body = body.to_string();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nAuthorization: Bearer {ADMIN}\r\nContent-Length: {}",
            body.len()
        );
        raw(&head, &body)
    };
    let started = Instant::now();
    while !ask("POST", "/v1/apps", &json!({"name": "shop", "dim": 2})).starts_with("HTTP/1.1 201") {
        assert!(started.elapsed() < MOST);
        std::thread::sleep(Duration::from_millis(200));
    }
    let body = json!({"user": "ann", "items": items()});
    let said: Vec<String> = (0..8).map(|_| ask("POST", "/v1/apps/shop/decide", &body)).collect();
    assert!(said[0].starts_with("HTTP/1.1 200"), "{}", said[0]);
    assert!(said.iter().any(|said| said.starts_with("HTTP/1.1 429")), "{said:?}");
    drop(a);
    // A node that has no memory left takes no new work.
    let full = Config { max_memory_bytes: 1, ..config(&servers, "b", 2) };
    let b = Node::start(full);
    b.wait_until_even(1);
    let started = Instant::now();
    loop {
        let (status, said) = decide(&b, 0);
        if status == 503 && said["error"]["code"] == "memory_low" {
            break;
        }
        assert!(started.elapsed() < MOST, "{status} {said}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A server's monitoring as far as it is looked at.
fn monitor(says: Arc<Mutex<Option<&'static str>>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let said = *says.lock().unwrap();
            // All of the request: a connection that is closed before that is reset, and the answer lost.
            let mut head = Vec::new();
            let mut part = [0; 1024];
            while !head.ends_with(b"\r\n\r\n") {
                match stream.read(&mut part) {
                    Ok(read) if read > 0 => head.extend_from_slice(&part[..read]),
                    _ => break,
                }
            }
            if let Some(said) = said {
                let _ = write!(stream, "HTTP/1.0 200 OK\r\n\r\n{said}");
            }
        }
    });
    url
}

#[test]
fn silent_servers_are_named_and_asked_again_and_none_that_tells_is_not_enough() {
    let servers = Servers::start(1);
    let refused = |monitor: &str, replicated: bool| {
        let durability = if replicated { "replicated" } else { "always" };
        let (nats_monitor, durability) = (monitor.to_owned(), durability.to_owned());
        let config = Config { nats_monitor, durability, ..config(&servers, "a", 2) };
        ClusterServer::open(config).err().map(|why| why.to_string())
    };
    let silent = monitor(Arc::default());
    for (monitor, word) in [
        (silent.as_str(), "durability = \"replicated\""),
        ("http://127.0.0.1:1", "8222"),
        ("127.0.0.1:1", "http://"),
    ] {
        let why = refused(monitor, false).unwrap_or_default();
        assert!(why.contains(word), "{why}");
    }
    assert_eq!(refused(&silent, true), None);
    // One of three is away: the node starts, and says so; when that one turns out not to sync it says that, too.
    let says = Arc::<Mutex<Option<&'static str>>>::default();
    let late = monitor(says.clone());
    let monitors = format!("{},{late}", servers.monitor());
    let with_late = Config { nats_monitor: monitors, ..config(&servers, "a", 2) };
    assert_eq!(
        ClusterServer::open(with_late.clone()).unwrap().silent(),
        std::slice::from_ref(&late)
    );
    let a = Node::start(with_late);
    a.wait_until_even(1);
    let lazy = r#"{"version": "2.15.1", "jetstream": {"config": {"store_dir": "/x", "sync_always": false}}}"#;
    *says.lock().unwrap() = Some(lazy);
    wait_until_told(&a, &["sync_interval", &late]);
    *says.lock().unwrap() = Some(
        r#"{"version": "2.15.1", "jetstream": {"config": {"store_dir": "/x", "sync_always": true}}}"#,
    );
    a.wait_until_even(1);
}

/// A node that takes long to leave lives until it has given up everything, and what it gives up is in a snapshot before.
#[test]
fn a_node_that_leaves_lives_until_the_end() {
    let servers = Servers::start(1);
    let nats = servers.connect();
    let bucket = Bucket::open(&nats, 1).unwrap();
    let a = Node::start(config(&servers, "a", 2));
    a.wait_until_even(1);
    a.post("/v1/apps", &json!({"name": "shop", "dim": 2}));
    // Somebody waits for a long time for what a partition does not have yet: it cannot end before.
    let call = Call {
        partition: 0,
        control: u64::MAX,
        patience_ms: 7000,
        method: Method::GET,
        target: "/v1/apps".to_owned(),
        ..Call::default()
    };
    let asking = {
        let nats = nats.clone();
        std::thread::spawn(move || {
            let wire = nats.wait(Wire::open(nats.client(), "cohort", "tester")).unwrap();
            nats.wait(wire.ask("a", &call, Duration::from_secs(9)))
        })
    };
    std::thread::sleep(Duration::from_millis(300));
    let leaving = std::thread::spawn(move || drop(a));
    let beat = || {
        let view = Mutex::new(View::default());
        nats.wait(bucket.read_all(&view)).unwrap();
        view.into_inner().unwrap().node("a", Instant::now()).map(|(state, _)| state.beat)
    };
    std::thread::sleep(Duration::from_secs(3));
    let before = beat().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    assert!(beat().unwrap() > before, "a node that still gives up partitions looks dead");
    asking.join().unwrap();
    leaving.join().unwrap();
    assert_eq!(beat(), None);
}

/// A folder that is elsewhere and cannot be read now.
struct Away(MemoryFolder);

impl Disk for Away {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.0.create(name)
    }
    fn open(&self, _: &str) -> io::Result<Box<dyn Read>> {
        Err(io::ErrorKind::TimedOut.into())
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }
    fn sync_folder(&self) -> io::Result<()> {
        self.0.sync_folder()
    }
    fn may_be_whole(&self, why: &io::Error) -> bool {
        why.kind() == io::ErrorKind::TimedOut
    }
}

#[test]
fn a_snapshot_that_cannot_be_read_now_is_not_taken_for_damaged() {
    let folder = MemoryFolder::default();
    let snapshots = Snapshots::new(folder.clone());
    snapshots.write(7, |out| out.write_all(b"state")).unwrap();
    let mut passed_over = 0;
    let mut load = |snapshots: &Snapshots<Away>| {
        snapshots
            .newest(|_| Ok(()), |_| passed_over += 1)
            .map(|found| found.map(|(event, ())| event))
    };
    let why = load(&Snapshots::new(Away(folder))).unwrap_err();
    assert!(
        why.kind() == io::ErrorKind::TimedOut && why.to_string().contains("7.snapshot"),
        "{why}"
    );
    assert_eq!(passed_over, 0);
}

#[test]
fn whoever_reads_a_log_is_told_within_a_while_that_its_servers_are_away() {
    let mut servers = Servers::start(1);
    let a = Node::start(Config { request_timeout_ms: 60_000, ..config(&servers, "a", 2) });
    a.wait_until_even(1);
    a.post("/v1/apps", &json!({"name": "shop", "dim": 2}));
    assert_eq!(decide(&a, 0).0, 200);
    servers.kill(0);
    let mut stream = TcpStream::connect(a.url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(MOST)).unwrap();
    write!(
        stream,
        "GET /v1/apps/shop/log.csv HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let (began, mut said) = (Instant::now(), Vec::new());
    let read = stream.read_to_end(&mut said);
    let said = String::from_utf8_lossy(&said).into_owned();
    println!("{:?} after {:?}: {read:?} {said}", began.elapsed(), said.len());
    assert!(began.elapsed() < Duration::from_secs(40), "it waits for ever");
    // What is not whole does not look so.
    assert!(said.contains("cohort-p") || !said.ends_with("0\r\n\r\n"), "{said}");
    servers.start_again(0);
}

/// What nobody can read of the control stream is told, and does not end whoever follows it.
#[test]
fn a_damaged_control_record_is_told() {
    let servers = Servers::start(1);
    let nats = servers.connect();
    let a = Node::start(quick(&servers, "a"));
    a.wait_until_even(1);
    a.post("/v1/apps", &json!({"name": "shop", "dim": 2}));
    let mut journal = StreamJournal::open(nats.log("control"), 50, "test", 0).unwrap();
    let mut group = Group::default();
    group.push(|out| out.extend(b"no event"));
    journal.append(&group).unwrap();
    journal.sync().unwrap();
    wait_until_told(&a, &["p0 does not follow the control stream", "node a does not follow"]);
}
