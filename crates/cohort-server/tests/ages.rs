//! What ends by age: users who do not come, and events of the journal. Hours pass when the test says so.
#![allow(missing_docs)]

mod running;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cohort_server::clock::{Clock, SystemClock};
use cohort_server::server::Server;
use running::Running;
use serde_json::{Value, json};

/// The machine's clocks, and hours that the test adds to both.
struct Later(&'static AtomicU64);

impl Later {
    fn hours_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed) * 3_600_000
    }
}

impl Clock for Later {
    fn now_ms(&self) -> u64 {
        SystemClock.now_ms() + self.hours_ms()
    }

    fn steady_ms(&self) -> u64 {
        SystemClock.steady_ms() + self.hours_ms()
    }
}

fn visit(service: &Running, user: &str, id: &str) {
    let items = json!([{"id": "a", "features": [1.0, 0.0]}, {"id": "b", "features": [0.0, 1.0]}]);
    let body = json!({"user": user, "decision_id": id, "items": items});
    service.post("/v1/apps/shop/decide", body);
    service.post("/v1/apps/shop/reward", json!({"decision_id": id, "reward": 1.0}));
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn users_who_do_not_come_for_long_are_forgotten() {
    static HOURS: AtomicU64 = AtomicU64::new(0);
    let service = Running::start_by(
        |config| config.user_expiry_hours = 24,
        |config| Server::open_with_clock(config, Arc::new(Later(&HOURS))),
    );
    service.post("/v1/apps", json!({"name": "shop", "dim": 2}));
    for user in ["ann", "bob", "eve"] {
        visit(&service, user, user);
    }
    HOURS.fetch_add(23, Ordering::Relaxed);
    visit(&service, "bob", "again");
    assert_eq!(service.get("/v1/apps/shop")["users"], 3, "nobody has gone yet");
    HOURS.fetch_add(2, Ordering::Relaxed);
    wait_until("those who did not come stay", || service.get("/v1/apps/shop")["users"] == 1);
    let status =
        |user: &str| service.send("GET", &format!("/v1/apps/shop/users/{user}"), &Value::Null).0;
    assert_eq!((status("ann"), status("bob"), status("eve")), (404, 200, 404));
}

#[test]
fn events_older_than_the_journal_may_keep_go_and_a_restart_needs_none_of_them() {
    static HOURS: AtomicU64 = AtomicU64::new(0);
    let service = Running::start_by(
        |config| {
            (config.journal_max_hours, config.retention_interval_ms) = (48, 50);
            config.snapshot_events = 10;
        },
        |config| Server::open_with_clock(config, Arc::new(Later(&HOURS))),
    );
    service.post("/v1/apps", json!({"name": "shop", "dim": 2}));
    let folder = tempfile::tempdir().unwrap();
    let log = || {
        let file = folder.path().join("log.csv");
        service.download("/v1/apps/shop/log.csv", &file);
        std::fs::read_to_string(file).unwrap()
    };
    for n in 0..20 {
        visit(&service, "ann", &format!("old-{n}"));
    }
    // The file that is written to ends when it is some hours old, though nothing more happens.
    HOURS.fetch_add(4, Ordering::Relaxed);
    wait_until("the file does not end", || service.journal_files() > 1);
    HOURS.fetch_add(16, Ordering::Relaxed);
    // What comes long after it is in another, and snapshots have what was in the first.
    for n in 0..20 {
        visit(&service, "bob", &format!("young-{n}"));
    }
    std::thread::sleep(Duration::from_millis(1500));
    assert!(log().contains("old-0"), "20 hours are not 48");
    HOURS.fetch_add(31, Ordering::Relaxed);
    wait_until("what is older than it may be stays", || !log().contains("old-"));
    assert!(log().contains("young-"), "what is younger stays");
    let rewards = service.get("/v1/apps/shop")["rewards"].clone();
    let service = service.restart();
    assert_eq!(service.get("/v1/apps/shop")["rewards"], rewards);
}
