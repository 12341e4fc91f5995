//! Runs the command and captures its output.

use std::process::{Command, Output};

/// The result of one call.
pub struct Called {
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
    /// The exit code.
    pub code: i32,
}

/// The command, not yet started.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cohort"));
    command.args(args);
    command
}

/// Calls `cohort` with these arguments.
pub fn cohort(args: &[&str]) -> Called {
    called(command(args).output().expect("the command starts"))
}

/// The result from the process's output.
pub fn called(output: Output) -> Called {
    Called {
        out: String::from_utf8(output.stdout).expect("UTF-8"),
        err: String::from_utf8(output.stderr).expect("UTF-8"),
        code: output.status.code().expect("it ended by itself"),
    }
}

/// Calls `cohort … --json`, which must succeed.
pub fn json(args: &[&str]) -> serde_json::Value {
    let called = cohort(&[args, &["--json"]].concat());
    assert_eq!((called.code, called.err.as_str()), (0, ""), "cohort {}", args.join(" "));
    serde_json::from_str(&called.out).expect("nothing but JSON")
}

/// The total regrets of one policy in a summary.
pub fn regrets(summary: &serde_json::Value, policy: usize) -> Vec<f64> {
    let list = summary["policies"][policy]["regret_per_rep"].as_array().expect("a list");
    list.iter().map(|regret| regret.as_f64().expect("a number")).collect()
}
