//! The README's commands do what it says they do.

use crate::command::{called, command};

const README: &str = include_str!("../../../../README.md");

#[test]
fn every_command_of_the_readme_runs() {
    let folder = tempfile::tempdir().unwrap();
    // Files are named from the root of the repository.
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    std::os::unix::fs::symlink(format!("{root}/experiments"), folder.path().join("experiments"))
        .unwrap();
    let mut commands = 0;
    for line in README.lines() {
        let Some(arguments) = line.strip_prefix("$ cohort ") else { continue };
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let output = command(&arguments).current_dir(folder.path()).output().unwrap();
        let called = called(output);
        assert_eq!(called.code, 0, "{line}\n{}", called.err);
        assert!(!called.out.is_empty(), "{line}");
        commands += 1;
    }
    assert!(commands >= 5, "the README shows {commands} commands");
    assert!(folder.path().join("runs/example/regret.parquet").exists());
}
