//! The decision log over HTTP, while retention removes what it is made of.
//!
//! | question |
//! | --- |
//! | is a download that retention overtook told from one that is complete? |
//! | do slow readers of one app's log keep others from theirs, and for how long? |
#![allow(missing_docs)]

mod running;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use running::Running;
use serde_json::{Value, json};

const DIM: usize = 8;
const USERS: usize = 250;

/// Decisions of some two kilobytes each in the journal, four in the log, one in two of them rewarded.
fn fill(service: &Running, batches: std::ops::Range<usize>) {
    fill_app(service, "shop", batches);
}

fn fill_app(service: &Running, app: &str, batches: std::ops::Range<usize>) {
    let items: Vec<Value> = (0..25)
        .map(|item| json!({"id": format!("item-{item}"), "features": vec![1.0 / f64::from(item + 3); DIM]}))
        .collect();
    for batch in batches {
        let user =
            |user| json!({"user": format!("u{user}"), "decision_id": format!("d{batch}-{user}")});
        let users: Vec<Value> = (0..USERS).map(user).collect();
        service
            .post(&format!("/v1/apps/{app}/decide-batch"), json!({"users": users, "items": items}));
        let reward = |user| json!({"decision_id": format!("d{batch}-{user}"), "reward": 1});
        let rewards: Vec<Value> = (0..USERS).step_by(2).map(reward).collect();
        service.post(&format!("/v1/apps/{app}/rewards"), json!({"rewards": rewards}));
    }
}

/// Asks for the log of an app as CSV and reads the beginning of the answer: how it is refused, if it is.
fn ask_for_log(service: &Running, app: &str) -> Result<TcpStream, String> {
    let mut stream = TcpStream::connect(service.url.rsplit('/').next().unwrap()).unwrap();
    let request = format!(
        "GET /v1/apps/{app}/log.csv HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).unwrap();
    match &first {
        b"HTTP/1.1 200" => Ok(stream),
        other => Err(String::from_utf8_lossy(other).into_owned()),
    }
}

/// Asks for the log as CSV, does something before it reads on, and reads to the end: all bytes of the answer.
fn read_log(service: &Running, meanwhile: impl FnOnce()) -> String {
    let stream = ask_for_log(service, "shop").unwrap();
    meanwhile();
    rest_of(stream)
}

fn rest_of(mut stream: TcpStream) -> String {
    let mut rest = Vec::new();
    // A connection that is reset ends it as well.
    let _ = stream.read_to_end(&mut rest);
    String::from_utf8_lossy(&rest).into_owned()
}

/// Whether the last piece of a chunked body came.
fn is_complete(answer: &str) -> bool {
    answer.ends_with("\r\n0\r\n\r\n")
}

fn metrics(service: &Running) -> String {
    let metrics = ureq::get(format!("{}/metrics", service.url)).call().unwrap();
    metrics.into_body().read_to_string().unwrap()
}

/// Lines of one status. A line that is cut by the border of two chunks is not counted.
fn rows(answer: &str, status: &str) -> usize {
    answer.lines().filter(|line| line.contains(&format!(",{status},false,"))).count()
}

#[test]
fn a_download_that_retention_overtakes_does_not_end_as_if_it_were_complete() {
    let service = Running::start_with(|config| {
        (config.journal_max_bytes, config.retention_interval_ms) = (16 << 20, 100);
        config.snapshot_events = 5000;
        // Its reader rests.
        config.min_download_bytes_per_second = 0;
    });
    let settings =
        json!({"name": "shop", "dim": DIM, "log_candidates": true, "window_ms": 86_400_000});
    service.post("/v1/apps", settings);
    fill(&service, 0..30);
    let whole = read_log(&service, || {});
    assert!(is_complete(&whole));
    assert!(rows(&whole, "rewarded") > 30 * USERS / 2 - 500, "{}", rows(&whole, "rewarded"));

    // Far more is written than the journal may have, while nobody reads what was asked for.
    let overtaken = read_log(&service, || {
        let began = Instant::now();
        fill(&service, 30..110);
        let oldest = || {
            let folder = service.data_dir().join("journal/segments");
            let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
            names.map(|name| name.into_string().unwrap()).min().unwrap()
        };
        while oldest() < format!("{:020}", 28 * USERS * 3 / 2) {
            assert!(began.elapsed() < Duration::from_secs(100), "nothing is removed: {}", oldest());
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    assert!(overtaken.len() < whole.len() * 9 / 10, "{} of {}", overtaken.len(), whole.len());
    assert!(!is_complete(&overtaken), "a log with a hole must not look whole");
    assert!(rows(&overtaken, "rewarded") > 100);
    // What became of decisions before the hole is not known, and nothing is made up.
    let metrics = metrics(&service);
    assert!(metrics.contains("cohort_log_events_removed_total"), "{metrics}");
}

#[test]
fn slow_readers_of_one_app_neither_keep_others_waiting_nor_stay() {
    // Of each, some 64 KiB must be taken in two seconds.
    let service = Running::start_with(|config| config.min_download_bytes_per_second = 32 << 10);
    for app in ["shop", "blog"] {
        service.post("/v1/apps", json!({"name": app, "dim": DIM, "log_candidates": true}));
    }
    // More than the buffers of connections hold.
    fill(&service, 0..40);
    fill_app(&service, "blog", 100..102);
    let began = Instant::now();
    let asked: Vec<_> = (0..40).map(|_| ask_for_log(&service, "shop")).collect();
    let slow: Vec<TcpStream> = asked.into_iter().flatten().collect();
    assert!((1..40).contains(&slow.len()), "{} are read at once", slow.len());
    let of_blog = rest_of(ask_for_log(&service, "blog").expect("another app's log"));
    assert!(is_complete(&of_blog) && of_blog.lines().count() > 2 * USERS);
    // Who reads slowly is ended, and not as if that were all.
    let again = loop {
        match ask_for_log(&service, "shop") {
            Ok(stream) => break rest_of(stream),
            Err(why) => assert!(began.elapsed() < Duration::from_secs(60), "{why}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(is_complete(&again) && again.lines().count() > 40 * USERS);
    let ended = format!("cohort_downloads_too_slow_total {}", slow.len());
    while !metrics(&service).lines().any(|line| line == ended) {
        assert!(began.elapsed() < Duration::from_secs(90), "{ended}: {}", metrics(&service));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(slow.into_iter().all(|stream| !is_complete(&rest_of(stream))));
}
