//! One app among bad clients: connections that say nothing, one that reads slowly, one that writes slowly, an app
//! that sends the largest requests of each kind, and a calendar that jumps. `cargo run --release --example load hostile`
//! measures the same with more of them.
#![allow(missing_docs)]

mod running;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cohort_server::clock::{Clock, SystemClock};
use cohort_server::server::Server;
use running::Running;
use serde_json::json;

const SILENT: usize = 300;
const REWARDS: usize = 150;
/// Work of one batch is users × candidates × dim².
const LOUD: (usize, usize, usize) = (100, 50, 20);
const MAX_WORK: u64 = (LOUD.0 * LOUD.1 * LOUD.2 * LOUD.2) as u64;

/// A day ahead in one half of a second, right in the next, a day behind in the one after.
struct Jumping;

impl Clock for Jumping {
    fn now_ms(&self) -> u64 {
        let now_ms = SystemClock.now_ms();
        match self.steady_ms() / 500 % 4 {
            1 => now_ms + 86_400_000,
            3 => now_ms - 86_400_000,
            _ => now_ms,
        }
    }

    fn steady_ms(&self) -> u64 {
        SystemClock.steady_ms()
    }
}

/// Decides and rewards; returns how long decides took, in order.
fn visit(service: &Running, salt: &str) -> Vec<Duration> {
    let items = json!([{"id": "a", "features": [1.0, 0.0]}, {"id": "b", "features": [0.0, 1.0]}]);
    let mut took: Vec<Duration> = (0..REWARDS)
        .map(|n| {
            let id = format!("{salt}{n}");
            let body = json!({"user": format!("u{}", n % 20), "decision_id": id, "items": items});
            let began = Instant::now();
            service.post("/v1/apps/quiet/decide", body);
            let took = began.elapsed();
            let said =
                service.post("/v1/apps/quiet/reward", json!({"decision_id": id, "reward": 1.0}));
            assert_eq!(said["outcome"], "learned");
            took
        })
        .collect();
    took.sort_unstable();
    took
}

fn is_over(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed)
}

#[test]
fn one_app_is_served_among_bad_clients_and_no_acknowledged_reward_is_lost() {
    let open = |config| Server::open_with_clock(config, Arc::new(Jumping));
    let service = Running::start_by(|config| config.max_work = MAX_WORK, open);
    service.post("/v1/apps", json!({"name": "quiet", "dim": 2, "window_ms": 600_000}));
    service.post("/v1/apps", json!({"name": "loud", "dim": LOUD.2}));
    let quiet = visit(&service, "quiet");

    let address = service.url.strip_prefix("http://").unwrap();
    let silent: Vec<_> = (0..SILENT).map(|_| TcpStream::connect(address).unwrap()).collect();
    let stop = AtomicBool::new(false);
    let hostile = std::thread::scope(|scope| {
        let slow = |head: &'static str, step: fn(&mut TcpStream) -> bool| {
            let stop = &stop;
            scope.spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
                stream.write_all(head.as_bytes()).unwrap();
                while !is_over(stop) && step(&mut stream) {
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
        };
        slow("GET /v1/apps/quiet/log.csv HTTP/1.1\r\nHost: localhost\r\n\r\n", |stream| {
            let _ = stream.read(&mut [0]);
            true
        });
        slow(
            "POST /v1/apps/quiet/reward HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: 100000\r\n\r\n{",
            |stream| stream.write_all(b" ").is_ok(),
        );
        for client in 0..2 {
            let (service, stop) = (&service, &stop);
            scope.spawn(move || {
                let item = |n| json!({"id": format!("i{n}"), "features": vec![0.1; LOUD.2]});
                let items: Vec<_> = (0..LOUD.1).map(item).collect();
                let user = |n| json!({"user": format!("u{client}-{n}")});
                let users: Vec<_> = (0..LOUD.0).map(user).collect();
                let slots: Vec<_> = (0..40).map(|n| json!({"id": format!("place-{n}")})).collect();
                let all: Vec<_> = (0..4000).map(item).collect();
                let past = |n| {
                    json!({"user": format!("p{n}"), "item": "i0", "reward": 1.0,
                    "features": vec![0.1; LOUD.2]})
                };
                let past: Vec<_> = (0..1000).map(past).collect();
                let user = format!("u{client}");
                // Whatever is large in a way of its own.
                let shapes = [
                    ("POST", "decide-batch", json!({"items": items, "users": users})),
                    ("POST", "slate", json!({"user": user, "items": items, "slots": slots})),
                    ("PUT", "items", json!({"items": all})),
                    ("POST", "history", json!({"decisions": past})),
                ];
                for (method, what, body) in shapes.iter().cycle() {
                    let path = format!("/v1/apps/loud/{what}");
                    let (status, said) = service.send(method, &path, body);
                    assert!([200, 204, 422, 429, 503].contains(&status), "{what}: {said}");
                    if is_over(stop) {
                        break;
                    }
                }
            });
        }
        let took = visit(&service, "hostile");
        stop.store(true, Ordering::Relaxed);
        took
    });
    drop(silent);
    let (quiet, hostile) = (quiet[REWARDS * 95 / 100], hostile[REWARDS * 95 / 100]);
    // How fast the machine is at this moment is not known here: what must not be is waiting for all the others.
    assert!(hostile < quiet * 3 + Duration::from_secs(2), "{hostile:?}, {quiet:?} without");
    let service = service.restart();
    assert_eq!(service.get("/v1/apps/quiet")["rewards"], 2 * REWARDS);
}
