//! The `cohort` command: parse, call, print.
//!
//! It is a library so that the Python package can ship the same command: [`run`] is its entry
//! point.

mod app;
mod arena;
mod backup;
mod claims_table;
mod cluster;
mod connection;
mod described;
mod evaluate;
mod failure;
mod features;
mod insight;
mod interrupt;
mod policies;
mod progress;
mod reproduce;
mod serve;
mod simulate;
mod summary_table;
mod theory;
mod warm_start;

use std::ffi::OsString;

use clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand as MissingSubcommand;
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
    Reproduce(reproduce::Reproduce),
    Arena(arena::Arena),
    Theory(theory::Theory),
    Evaluate(evaluate::Evaluate),
    Features(features::ShowFeatures),
    Serve(serve::Serve),
    Backup(backup::Backup),
    Restore(backup::Restore),
    App(app::App),
    Insight(insight::Insight),
}

/// Runs a command line, whose first word is the program's name; returns the exit code: 0 done, 1
/// failed, 2 bad input, 130 interrupted.
pub fn run(words: impl IntoIterator<Item = OsString>) -> u8 {
    let done = parse(words).and_then(|command| match command {
        Command::Simulate(simulate) => simulate.run(),
        Command::Policies(policies) => policies.run(),
        Command::Cluster(cluster) => cluster.run(),
        Command::Reproduce(reproduce) => reproduce.run(),
        Command::Arena(arena) => arena.run(),
        Command::Theory(theory) => theory.run(),
        Command::Evaluate(evaluate) => evaluate.run(),
        Command::Features(features) => features.run(),
        Command::Serve(serve) => serve.run(),
        Command::Backup(backup) => backup.run(),
        Command::Restore(restore) => restore.run(),
        Command::App(app) => app.run(),
        Command::Insight(insight) => insight.run(),
    });
    failure::exit_code(done)
}

fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Command, Failure> {
    match Cohort::try_parse_from(words) {
        Ok(cohort) => Ok(cohort.command),
        // Help that was asked for, or that is shown because no subcommand was given.
        Err(help) if !help.use_stderr() || help.kind() == MissingSubcommand => help.exit(),
        Err(error) => Err(error.into()),
    }
}
