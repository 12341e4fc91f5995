//! The commands of README.md and docs/command-line.md run as printed; ARCHITECTURE.md names what exists.

use crate::command::{called, cohort, command};

const README: &str = include_str!("../../../../README.md");
const COMMAND_LINE: &str = include_str!("../../../../docs/command-line.md");
const ARCHITECTURE: &str = include_str!("../../../../ARCHITECTURE.md");

/// The arguments of every line of a page that begins with `prompt`.
fn commands<'a>(page: &'a str, prompt: &str) -> Vec<Vec<&'a str>> {
    let lines = page.lines().filter_map(|line| line.strip_prefix(prompt));
    lines.map(|arguments| arguments.split_whitespace().collect()).collect()
}

#[test]
fn every_command_of_the_page_on_the_command_line_runs() {
    let folder = tempfile::tempdir().unwrap();
    // Files are named from the root of the repository.
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    std::os::unix::fs::symlink(format!("{root}/experiments"), folder.path().join("experiments"))
        .unwrap();
    let commands = commands(COMMAND_LINE, "$ cohort ");
    assert!(commands.len() >= 5, "the page shows {} commands", commands.len());
    for arguments in commands {
        let output = command(&arguments).current_dir(folder.path()).output().unwrap();
        let called = called(output);
        assert_eq!(called.code, 0, "{arguments:?}\n{}", called.err);
        assert!(!called.out.is_empty(), "{arguments:?}");
    }
    assert!(folder.path().join("runs/example/regret.parquet").exists());
}

/// They would run for long, or for ever: that their options exist is checked here.
#[test]
fn the_commands_of_the_readme_are_understood() {
    let commands = commands(README, "cargo run --release -- ");
    assert_eq!(commands.len(), 2, "the README shows two commands");
    for mut arguments in commands {
        arguments.push("--help");
        let called = cohort(&arguments);
        assert_eq!(called.code, 0, "{arguments:?}\n{}", called.err);
    }
}

#[test]
fn every_path_of_the_architecture_exists() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tops = ["crates/", "docs/", "bench/", "experiments/", "fuzz/", "scripts/"];
    let quoted = ARCHITECTURE.split('`').skip(1).step_by(2);
    let paths = quoted.filter(|text| tops.iter().any(|top| text.starts_with(top)));
    let paths: Vec<&str> = paths.filter(|path| !path.contains(['*', ' '])).collect();
    assert!(paths.len() > 50, "the document names {} paths", paths.len());
    for path in paths {
        assert!(root.join(path).exists(), "ARCHITECTURE.md names {path}, which does not exist");
    }
}
