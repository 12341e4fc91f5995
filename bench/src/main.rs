//! Runs the benchmarks section by section and writes the results as tables. `bench/run` calls it.

mod forms;
mod machine;
mod race;
mod report;
#[cfg(feature = "peers")]
mod rust_peers;
mod sections;
mod store;
mod world;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use sections::{Effort, clubs, components, growth, limit, peers, phases, policies, refits};
use store::Store;

#[derive(Parser)]
#[command(version, about)]
struct Args {
    #[command(subcommand)]
    what: What,
    /// Smaller sizes and fewer repeats: to see that it works, not to quote
    #[arg(long, global = true)]
    quick: bool,
    /// A Python that has the peers
    #[arg(long, global = true, default_value = "python3")]
    python: PathBuf,
    /// How long a peer may take for one clustering
    #[arg(long, global = true, default_value_t = 600.0)]
    time_limit_s: f64,
    /// Where the numbers are kept
    #[arg(long, global = true, default_value = "bench/results")]
    results: PathBuf,
}

#[derive(Subcommand)]
enum What {
    /// Every policy: user-rounds per second
    Policies,
    /// The kernels beside the machine's peak and beside other forms
    Limit,
    /// LinUCB per user beside other libraries
    Peers,
    /// The two phases of cmlb
    Phases,
    /// club and sclub beside full recomputation
    Clubs,
    /// MAXIMAL-CLUSTER beside other libraries
    Components,
    /// What learning the population costs the cohort policy
    Refits,
    /// Time and memory against the number of users
    Growth,
    /// RESULTS.md from all numbers kept
    Report {
        /// Where to
        #[arg(long, default_value = "bench/RESULTS.md")]
        to: PathBuf,
    },
    /// One size of growth, in a process of its own
    #[command(hide = true)]
    GrowthChild { users: usize, rounds: usize },
    /// One clustering, in a process of its own
    #[command(hide = true)]
    ComponentsChild { points: PathBuf, gamma: f64, labels: PathBuf },
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let effort = Effort { quick: args.quick, python: args.python, time_limit_s: args.time_limit_s };
    let store = Store::new(args.results, args.quick);
    match args.what {
        What::Policies => store.keep(policies::NAME, &policies::measure(&effort)?),
        What::Limit => store.keep(limit::NAME, &limit::measure(&effort)),
        What::Peers => store.keep(peers::NAME, &peers::measure(&effort)),
        What::Phases => store.keep(phases::NAME, &phases::measure(&effort)?),
        What::Clubs => store.keep(clubs::NAME, &clubs::measure(&effort)?),
        What::Components => {
            components::measure(&effort, |measured| store.keep(components::NAME, &measured))
        }
        What::Refits => store.keep(refits::NAME, &refits::measure(&effort)?),
        What::Growth => store.keep(growth::NAME, &growth::measure(&effort)?),
        What::Report { to } => Ok(std::fs::write(to, report::markdown(&store)?)?),
        What::GrowthChild { users, rounds } => growth::child(users, rounds),
        What::ComponentsChild { points, gamma, labels } => {
            components::child(&points, gamma, &labels)
        }
    }
}
