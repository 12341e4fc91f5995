//! A disk without any room: what is small is still taken, and what would make room later goes on.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::Power;
use crate::connection::Connection;

/// Long for anything that is done here.
const PATIENCE: Duration = Duration::from_secs(40);

fn listed(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|found| found == ending)).collect();
    found.sort();
    found
}

/// The journal may keep nothing that two snapshots have, and the disk becomes full before that is looked at: another file of
/// the journal is begun all the same, and whoever asks to be forgotten is. Snapshots need room: when there is some again what
/// the file before it had goes.
#[test]
fn on_a_disk_that_is_full_users_are_forgotten_and_the_journal_can_be_shortened() {
    let (power, folder) = (Power::new(), tempfile::tempdir().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_cohort"));
    power.give(&mut command, folder.path());
    power.may_be_full(&mut command);
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--log-level", "error"])
        .args(["--snapshot-events", "30", "--journal-max-bytes", "1"])
        .args(["--retention-interval-ms", "3000", "--data-dir"])
        .arg(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().rsplit("http://").next().unwrap().to_owned();
    let mut connection = Connection::open(&address).unwrap();
    let mut ask = |method: &str, path: &str, body: serde_json::Value| {
        let (status, said) = connection.ask(method, path, &body.to_string()).unwrap();
        assert!((200..300).contains(&status), "{method} {path}: {status} {said}");
    };
    ask("POST", "/v1/apps", json!({"name": "shop", "dim": 2}));
    let items = json!([{"id": "a", "features": [1, 0]}, {"id": "b", "features": [0, 1]}]);
    let (snapshots, segments) =
        (folder.path().join("snapshots"), folder.path().join("journal/segments"));
    let (began, mut number) = (Instant::now(), 0);
    let mut visit = |ask: &mut dyn FnMut(&str, &str, serde_json::Value)| {
        number += 1;
        let user = format!("u{number}");
        ask("POST", "/v1/apps/shop/decide", json!({"user": user, "items": items}));
        user
    };
    let before = loop {
        // Two snapshots that have all of the present file but its end.
        power.set_full(false);
        let (newest, mut user) = (|| listed(&snapshots, "snapshot").last().cloned(), String::new());
        for _ in 0..2 {
            let before = newest();
            while newest() == before && began.elapsed() < PATIENCE {
                user = visit(&mut ask);
            }
        }
        power.set_full(true);
        let last = || listed(&segments, "segment").last().cloned().unwrap();
        let (present, since) = (last(), Instant::now());
        while last() == present && since.elapsed() < Duration::from_secs(8) {
            ask("DELETE", &format!("/v1/apps/shop/users/{user}"), json!({}));
            std::thread::sleep(Duration::from_millis(50));
        }
        // Where one was begun a moment before nothing of it is in two snapshots.
        if last() != present {
            break present;
        }
        assert!(began.elapsed() < PATIENCE, "no other file is begun");
    };
    ask("DELETE", "/v1/apps/shop/users/u1", json!({}));
    power.set_full(false);
    let since = Instant::now();
    while before.exists() {
        visit(&mut ask);
        assert!(since.elapsed() < PATIENCE, "the journal is as long as it was");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}
