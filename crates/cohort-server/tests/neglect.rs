//! A service that is left alone for years: clocks that jump, snapshots that fail, connections without end. What needs
//! a look inside is in `src/server/neglected.rs`.
#![allow(missing_docs)]

mod running;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use cohort_server::clock::{Clock, SystemClock};
use cohort_server::config::Config;
use cohort_server::server::{ServeError, Server};
use running::Running;
use serde_json::{Value, json};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// The machine's clocks, with a calendar that is set by hand.
struct Set(&'static AtomicI64);

impl Clock for Set {
    fn now_ms(&self) -> u64 {
        SystemClock.now_ms().saturating_add_signed(self.0.load(Ordering::Relaxed))
    }

    fn steady_ms(&self) -> u64 {
        SystemClock.steady_ms()
    }
}

fn items() -> Value {
    json!([{"id": "a", "features": [1.0, 0.0]}, {"id": "b", "features": [0.0, 1.0]}])
}

fn visit(service: &Running, from: usize, to: usize) {
    for user in from..to {
        let id = format!("d{user}");
        let body = json!({"user": format!("u{}", user % 20), "decision_id": id, "items": items()});
        service.post("/v1/apps/shop/decide", body);
        service.post("/v1/apps/shop/reward", json!({"decision_id": id, "reward": 1.0}));
    }
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_clock_that_jumps_ahead_removes_nothing_of_the_log() {
    static AHEAD: AtomicI64 = AtomicI64::new(0);
    let configure = |config: &mut Config| {
        (config.retention_interval_ms, config.snapshot_events) = (50, 40);
    };
    let service = Running::start_by(configure, |config| {
        Server::open_with_clock(config, Arc::new(Set(&AHEAD)))
    });
    service.post("/v1/apps", json!({"name": "shop", "dim": 2}));
    visit(&service, 0, 100);
    AHEAD.store(365 * DAY_MS, Ordering::Relaxed);
    // By the raw calendar all of this is older than 90 days, and two snapshots have it.
    for round in 1..5 {
        visit(&service, round * 100, round * 100 + 100);
        std::thread::sleep(Duration::from_millis(300));
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.csv");
    service.download("/v1/apps/shop/log.csv", &log);
    assert_eq!(std::fs::read_to_string(log).unwrap().lines().count(), 501);
    assert_eq!(service.journal_files(), 1, "no file was begun because of the jump either");
}

#[test]
fn keys_expire_by_the_time_of_the_service_which_does_not_jump() {
    static AHEAD: AtomicI64 = AtomicI64::new(DAY_MS);
    const ADMIN: &str = "the admin's own key";
    let service = Running::start_by(
        |config| config.admin_key = ADMIN.to_owned(),
        |config| Server::open_with_clock(config, Arc::new(Set(&AHEAD))),
    );
    let create = json!({"name": "shop", "dim": 2});
    assert_eq!(service.send_with_key("POST", "/v1/apps", &create, ADMIN).0, 201);
    let key = |in_ms: i64| {
        let terms = json!({"expires_ms": SystemClock.now_ms().saturating_add_signed(in_ms)});
        let made = service.send_with_key("POST", "/v1/apps/shop/keys", &terms, ADMIN).1;
        made["key"].as_str().unwrap().to_owned()
    };
    let (ended, open) = (key(DAY_MS / 2), key(2 * DAY_MS));
    let ask = |key: &str| service.send_with_key("GET", "/v1/apps/shop", &Value::Null, key).0;
    assert_eq!((ask(&ended), ask(&open)), (403, 200), "the service's day is the next");
    for ahead_ms in [5 * DAY_MS, 0] {
        AHEAD.store(ahead_ms, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(600));
        assert_eq!((ask(&ended), ask(&open)), (403, 200), "a jump changes nothing at once");
    }
}

#[test]
fn where_all_connections_are_being_served_a_newcomer_is_told_to_come_back() {
    let service = Running::start_with(|config| config.max_connections = 2);
    let address = service.url.strip_prefix("http://").unwrap().to_owned();
    let busy = || {
        let mut stream = TcpStream::connect(&address).unwrap();
        let head = "POST /v1/apps HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                    Content-Length: 1000\r\n\r\n{";
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    let (mut held, mut said) = (Vec::new(), String::new());
    wait_until("nobody is turned away", || {
        // One that came while an idle connection of the start had its place was turned away itself.
        held.push(busy());
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let _ = stream
            .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        said.clear();
        let _ = stream.read_to_string(&mut said);
        said.contains("too_many_connections")
    });
    assert!(said.starts_with("HTTP/1.1 503 ") && said.contains("Retry-After: 1\r\n"), "{said}");
}

/// What a supervisor sees: `cohort serve` ends with code 1 where this is an error.
#[test]
fn an_engine_that_panics_ends_the_service_with_an_error() {
    static BREAKS: AtomicBool = AtomicBool::new(false);
    struct Broken;
    impl Clock for Broken {
        fn now_ms(&self) -> u64 {
            assert!(!BREAKS.load(Ordering::Relaxed), "a bug, made for this test");
            SystemClock.now_ms()
        }
        fn steady_ms(&self) -> u64 {
            SystemClock.steady_ms()
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let (data_dir, listen) = (folder.path().into(), "127.0.0.1:0".to_owned());
    let config = Config { data_dir, listen, shutdown_ms: 500, ..Config::default() };
    let server = Server::open_with_clock(config, Arc::new(Broken)).unwrap();
    let breaks = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        BREAKS.store(true, Ordering::Relaxed);
        std::future::pending::<()>().await;
    };
    let ended = tokio::runtime::Runtime::new().unwrap().block_on(server.serve(breaks));
    assert!(matches!(&ended, Err(ServeError::Ended { why }) if why.contains("a bug")), "{ended:?}");
}

#[test]
fn a_configuration_that_is_logged_shows_no_key() {
    let config = Config { admin_key: "very secret words".to_owned(), ..Config::default() };
    let shown = format!("{config:?} {config:#?}");
    assert!(!shown.contains("secret") && shown.contains("needs_keys: true"), "{shown}");
}

/// The value of a metric.
fn metric(service: &Running, name: &str) -> Option<f64> {
    let mut said = ureq::get(format!("{}/metrics", service.url)).call().unwrap();
    let text = said.body_mut().read_to_string().unwrap();
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// The age of snapshots is that of one on disk: it goes on over a restart and over snapshots that fail. (Other services
/// of this process have the same metrics: values that only this one can have are waited for.)
#[test]
fn the_age_of_snapshots_is_that_of_the_newest_on_disk() {
    let service = Running::start_with(|config| config.snapshot_events = 30);
    service.post("/v1/apps", json!({"name": "shop", "dim": 2}));
    visit(&service, 0, 40);
    let age = |service: &Running| metric(service, "cohort_snapshot_age_seconds").unwrap_or(-1.0);
    wait_until("no age", || (0.0..60.0).contains(&age(&service)));
    wait_until("no size", || {
        metric(&service, "cohort_journal_bytes").is_some_and(|bytes| bytes > 1000.0)
    });
    assert!(metric(&service, "cohort_snapshot_failures_total").is_some());
    let service = service.restart_after(|folder| {
        let hours_ago = SystemTime::now() - Duration::from_secs(30 * 3600);
        for file in std::fs::read_dir(folder.join("snapshots")).unwrap() {
            let file = std::fs::File::options().write(true).open(file.unwrap().path()).unwrap();
            file.set_modified(hours_ago).unwrap();
        }
    });
    let is_old = |service: &Running| age(service) > 29.0 * 3600.0;
    wait_until("the age is that of the process", || is_old(&service));
    // A folder in which nothing can be written.
    let (folder, away) = (service.data_dir().join("snapshots"), service.data_dir().join("away"));
    std::fs::rename(&folder, &away).unwrap();
    std::fs::write(&folder, "").unwrap();
    let before = metric(&service, "cohort_snapshot_failures_total").unwrap();
    visit(&service, 100, 140);
    wait_until("nothing fails", || {
        metric(&service, "cohort_snapshot_failures_total").unwrap() > before
    });
    std::thread::sleep(Duration::from_millis(1500));
    wait_until("one that failed made it young", || is_old(&service));
    std::fs::remove_file(&folder).unwrap();
    std::fs::rename(&away, &folder).unwrap();
}

#[test]
fn learning_a_history_leaves_a_line_in_the_audit() {
    let heard = running::hear();
    let service = Running::start();
    service.post("/v1/apps", json!({"name": "shop", "dim": 2}));
    let past = json!([{"user": "ann", "item": "tea", "features": [0.5, 0.5], "reward": 1.0}]);
    service.post("/v1/apps/shop/history", json!({"decisions": past}));
    let said = heard();
    let line = said.lines().find(|line| line.contains("history learned"));
    let line = line.unwrap_or_else(|| panic!("{said}"));
    for part in ["cohort_server::audit", "anybody", "shop", "1 of 1"] {
        assert!(line.contains(part), "{line}");
    }
}
