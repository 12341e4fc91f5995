//! Ctrl-C: complete repetitions are kept, the exit code is 130.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::command::{Called, called, command};

/// Starts `cohort simulate`, presses Ctrl-C after a while, and waits for the end.
fn interrupted(args: &[&str], after: Duration) -> Called {
    let mut command = command(&[&["simulate", "--json", "--threads", "1"], args].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(after);
    let pressed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(pressed.success());
    called(child.wait_with_output().unwrap())
}

#[test]
fn complete_repetitions_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let short_reps = ["--rounds", "10", "--users", "10", "--reps", "1000000"];
    let args = ["--policy", "random,linucb-ind", "--out", out.to_str().unwrap()];
    let called = interrupted(&[&short_reps[..], &args].concat(), Duration::from_millis(1500));
    assert_eq!(called.code, 130, "{}", called.err);
    assert!(called.err.starts_with("interrupted: "), "{}", called.err);

    let summary: serde_json::Value = serde_json::from_str(&called.out).unwrap();
    let reps = summary["reps"].as_u64().unwrap() as usize;
    assert!((1..1_000_000).contains(&reps), "{reps} repetitions");
    assert_eq!(summary["policies"][1]["regret_per_rep"].as_array().map(Vec::len), Some(reps));
    let table = std::fs::read_to_string(out.join("regret.csv")).unwrap();
    assert_eq!(table.lines().count(), 1 + 2 * 10 * reps);
    assert!(!has_partial_files(&out));
}

#[test]
fn without_a_complete_repetition_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let args = ["--rounds", "100000000", "--reps", "2", "--policy", "linucb-ind", "--out"];
    let called =
        interrupted(&[&args[..], &[out.to_str().unwrap()]].concat(), Duration::from_millis(800));
    assert_eq!((called.code, called.out.as_str()), (130, ""));
    assert_eq!(called.err, "interrupted: 0 of 2 repetitions are complete\n");
    assert!(!out.exists());
}

fn has_partial_files(folder: &Path) -> bool {
    std::fs::read_dir(folder)
        .unwrap()
        .any(|entry| entry.unwrap().file_name().to_string_lossy().contains("partial"))
}
