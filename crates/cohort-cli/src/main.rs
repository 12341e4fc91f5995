//! The `cohort` command: parse, call, print.

mod cluster;
mod described;
mod failure;
mod interrupt;
mod policies;
mod progress;
mod simulate;
mod summary_table;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;

/// Decide for many users at once, and learn across them: collaborative linear bandits.
#[derive(Parser)]
#[command(name = "cohort", version, max_term_width = 100)]
struct Cohort {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Simulate(simulate::Simulate),
    Policies(policies::Policies),
    Cluster(cluster::Cluster),
}

fn main() -> ExitCode {
    let done = parse().and_then(|command| match command {
        Command::Simulate(simulate) => simulate.run(),
        Command::Policies(policies) => policies.run(),
        Command::Cluster(cluster) => cluster.run(),
    });
    failure::exit_code(done)
}

fn parse() -> Result<Command, Failure> {
    match Cohort::try_parse() {
        Ok(cohort) => Ok(cohort.command),
        Err(error) if error.use_stderr() => Err(error.into()),
        // --help and --version are no failures.
        Err(help) => help.exit(),
    }
}
