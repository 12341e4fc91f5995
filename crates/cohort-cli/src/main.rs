//! The `cohort` command: parse, call, print.

mod app;
mod arena;
mod backup;
mod claims_table;
mod cluster;
mod connection;
mod described;
mod evaluate;
mod failure;
mod insight;
mod interrupt;
mod policies;
mod progress;
mod reproduce;
mod serve;
mod simulate;
mod summary_table;
mod theory;

use std::process::ExitCode;

use clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand as MissingSubcommand;
use clap::{Parser, Subcommand};

use failure::Failure;

/// Requests are read by some threads, decided by another and answered by a third: memory that one
/// thread takes and another gives back is what this allocator is made for.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
    Serve(serve::Serve),
    Backup(backup::Backup),
    Restore(backup::Restore),
    App(app::App),
    Insight(insight::Insight),
}

fn main() -> ExitCode {
    let done = parse().and_then(|command| match command {
        Command::Simulate(simulate) => simulate.run(),
        Command::Policies(policies) => policies.run(),
        Command::Cluster(cluster) => cluster.run(),
        Command::Reproduce(reproduce) => reproduce.run(),
        Command::Arena(arena) => arena.run(),
        Command::Theory(theory) => theory.run(),
        Command::Evaluate(evaluate) => evaluate.run(),
        Command::Serve(serve) => serve.run(),
        Command::Backup(backup) => backup.run(),
        Command::Restore(restore) => restore.run(),
        Command::App(app) => app.run(),
        Command::Insight(insight) => insight.run(),
    });
    failure::exit_code(done)
}

fn parse() -> Result<Command, Failure> {
    match Cohort::try_parse() {
        Ok(cohort) => Ok(cohort.command),
        // Help that was asked for, or that was needed because nothing was.
        Err(help) if !help.use_stderr() || help.kind() == MissingSubcommand => help.exit(),
        Err(error) => Err(error.into()),
    }
}
