//! A disk that is full (ENOSPC), fails (EIO) or opens no files (EMFILE), at every step: the calls of a short run that goes well
//! are counted, then it is done again for each of them, and that one fails. Whatever the service still acknowledged is there when the
//! disk is well again, also when power was lost in between.
//!
//! Two runs: the first start in an empty folder, and a later one, which reads a snapshot and the journal, and writes a snapshot,
//! begins a segment and removes the oldest of both. In the tests a call fails once or all from it on, in turns, and every other time with a
//! loss of power; with `COHORT_FAULT_DECISIONS` (scripts/torture) all four are done, with runs of that many decisions.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use super::Power;
use crate::connection::Connection;

const ERRORS: [(i32, &str); 3] = [(28, "ENOSPC"), (5, "EIO"), (24, "EMFILE")];
/// Long for anything that is done here.
const PATIENCE: Duration = Duration::from_secs(15);

/// Which call fails, and what happens then.
#[derive(Clone, Copy, Debug)]
struct Fault {
    error: (i32, &'static str),
    step: u64,
    /// All calls from this one on, or this one alone.
    lasts: bool,
    /// Whether power is lost, too.
    dark: bool,
}

/// What a client was told, over all runs on a folder.
#[derive(Clone, Debug, Default)]
struct Told {
    app: bool,
    /// The decisions whose reward was acknowledged; the reward is the place in this list, and 1.
    rewarded: Vec<String>,
    /// Whether a reward was sent whose answer did not come.
    unknown: bool,
}

fn command(folder: &Path, power: &Power) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cohort"));
    power.give(&mut command, folder);
    command
        .args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--snapshot-events",
            "0",
            "--log-level",
            "error",
        ])
        .args(["--journal-keep", "snapshots", "--durability", "always", "--data-dir"])
        .arg(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

/// Starts the service; its address is empty where it refused to start.
fn start(mut command: Command) -> (Child, String) {
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().rsplit("http://").next().unwrap().to_owned();
    (child, address)
}

/// One run: starts, decides and rewards until something is refused, and stops. Returns how long the longest answer took.
fn run(command: Command, decisions: usize, told: &mut Told) -> Duration {
    let (mut child, address) = start(command);
    let began = Instant::now();
    let went_well = !address.is_empty() && ask(&address, decisions, told).is_some();
    let longest = began.elapsed();
    if went_well {
        // A snapshot is written, and what it makes superfluous is removed.
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let since = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(since.elapsed() < PATIENCE, "the service does not stop");
            std::thread::sleep(Duration::from_millis(5));
        }
    } else {
        let _ = child.kill();
        child.wait().unwrap();
    }
    longest
}

/// `None` where something was refused, or there was no answer.
fn ask(address: &str, decisions: usize, told: &mut Told) -> Option<()> {
    let mut connection = Connection::open(address)?;
    let mut ask = |path: &str, body: serde_json::Value| {
        let (status, said) = connection.ask("POST", path, &body.to_string())?;
        match status {
            200 | 201 => Some(()),
            503 => None,
            _ => panic!("{path}: {status} {said}"),
        }
    };
    if !told.app {
        ask("/v1/apps", json!({"name": "shop", "dim": 2, "window_ms": 86_400_000}))?;
        told.app = true;
    }
    let items = json!([{"id": "a", "features": [1, 0]}, {"id": "b", "features": [0, 1]}]);
    for _ in 0..decisions {
        let place = told.rewarded.len() + 1;
        let id = format!("d{place}");
        let decide = json!({"user": format!("u{place}"), "decision_id": id, "items": items});
        ask("/v1/apps/shop/decide", decide)?;
        told.unknown = true;
        ask("/v1/apps/shop/reward", json!({"decision_id": id, "reward": place}))?;
        told.unknown = false;
        told.rewarded.push(id);
    }
    Some(())
}

/// Starts on a disk that is well, and looks for everything that was acknowledged.
fn check(folder: &Path, power: &Power, told: &Told, fault: Fault) {
    let (mut child, address) = start(command(folder, power));
    assert!(!address.is_empty(), "{fault:?}: the service does not start any more");
    let mut connection = Connection::open(&address).unwrap();
    let mut ask = |path: &str| connection.ask("GET", path, "").unwrap();
    let (status, app) = ask("/v1/apps/shop");
    if told.app {
        assert_eq!(status, 200, "{fault:?}: {app}");
        let (found, sent) = (app["rewards"].as_u64().unwrap(), told.rewarded.len() as u64);
        assert!(
            (sent..=sent + u64::from(told.unknown)).contains(&found),
            "{fault:?}: {app} {told:?}"
        );
        for (place, id) in told.rewarded.iter().enumerate() {
            let (status, said) = ask(&format!("/v1/apps/shop/decisions/{id}"));
            assert_eq!(
                (status, &said["status"]),
                (200, &json!("rewarded")),
                "{fault:?}: {id} {said}"
            );
            assert_eq!(said["reward"].as_f64(), Some((place + 1) as f64), "{fault:?}: {id}");
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_folder(&path, &target)
        } else {
            super::copy(&path, &target).unwrap()
        }
    }
}

#[test]
fn a_disk_that_fails_at_any_step_takes_nothing_that_was_acknowledged() {
    let asked = std::env::var("COHORT_FAULT_DECISIONS").ok();
    let decisions = asked.as_ref().map_or(2, |decisions| decisions.parse().unwrap());
    let library = Power::new();
    let empty = tempfile::tempdir().unwrap();
    // A folder with two snapshots, and the events after the older one.
    let used = tempfile::tempdir().unwrap();
    let mut told = Told::default();
    for _ in 0..2 {
        run(command(used.path(), &library), decisions, &mut told);
    }
    assert_eq!(told.rewarded.len(), 2 * decisions);
    let begins = [(empty.path(), Told::default()), (used.path(), told)];

    let mut faults = Vec::new();
    for (begin, (from, told)) in begins.iter().enumerate() {
        for error in ERRORS {
            let (power, folder) = (library.another(), tempfile::tempdir().unwrap());
            copy_folder(from, folder.path());
            let mut clean = command(folder.path(), &power);
            power.count(&mut clean, error.0);
            run(clean, decisions, &mut told.clone());
            let steps = power.counted();
            println!("{} calls of run {begin} can fail with {}", steps, error.1);
            assert!(steps >= 5, "{} of {begin}: {steps} steps", error.1);
            for step in 0..steps {
                let all = [(false, false), (false, true), (true, false), (true, true)];
                let some = match asked {
                    Some(_) => &all[..],
                    None => &all[step as usize % 4..][..1],
                };
                let of = some.iter().map(|&(lasts, dark)| Fault { error, step, lasts, dark });
                faults.extend(of.map(|fault| (begin, fault)));
            }
        }
    }
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let work = || {
            while let Some((begin, fault)) = faults.get(next.fetch_add(1, Ordering::Relaxed)) {
                let (from, told) = &begins[*begin];
                fails_at(*fault, from, told.clone(), decisions, &library.another());
            }
        };
        let workers: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
    println!("{} faults", faults.len());
}

fn fails_at(fault: Fault, from: &Path, mut told: Told, decisions: usize, power: &Power) {
    let folder = tempfile::tempdir().unwrap();
    copy_folder(from, folder.path());
    power.adopt(folder.path());
    let mut failing = command(folder.path(), power);
    let count = if fault.lasts { u64::MAX >> 1 } else { 1 };
    power.fail(&mut failing, fault.error.0, fault.step, count);
    let longest = run(failing, decisions, &mut told);
    assert!(longest < PATIENCE, "{fault:?}: an answer took {longest:?}");
    if fault.dark {
        power.lose(folder.path());
    }
    check(folder.path(), power, &told, fault);
}
