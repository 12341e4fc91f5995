//! `cohort arena`: all policies in the protocols of the field.

use std::path::PathBuf;

use clap::Args;
use cohort_lab::arena::{Report, Request, arena};
use cohort_lab::datasets;

use crate::failure::{Done, Failure, print};
use crate::interrupt;
use crate::reproduce::Progress;

const EXAMPLES: &str = "\
Examples:
  cohort arena --quick
      all policies in all protocols, small: some minutes
  cohort arena --data ../shared/data --out docs/arena
      the whole of it, for hours
  cohort arena --only clusters,mixture --policy cohort,club,hier-ts
      a part of it
What was stopped goes on with the same command: runs are kept in DIR/journal.jsonl.";

/// Run all policies in the protocols of the field and write a leaderboard: one page, tables, all
/// numbers
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arena {
    /// Fewer rounds, users, repetitions and tuned values
    #[arg(long)]
    quick: bool,
    /// Only protocols whose names begin with one of these, separated by commas
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    only: Vec<String>,
    /// Only these policies, separated by commas
    #[arg(long = "policy", value_name = "NAME,…", value_delimiter = ',')]
    policies: Vec<String>,
    /// Folder of data sets [default: COHORT_DATA, or data/]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Folder of the page
    #[arg(long, value_name = "DIR", default_value = "arena")]
    out: PathBuf,
    /// The number of repetitions [default: the protocols']
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    reps: Option<u32>,
    /// The number of threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    threads: Option<u32>,
    /// The processor time of one run of one policy, in seconds [default: 600, quick: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    seconds: Option<u32>,
    /// How many values besides the published one each policy is tuned over [default: 4, quick: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=4))]
    tune: Option<u32>,
    /// Also use runs that other versions of this program recorded in DIR
    #[arg(long)]
    keep: bool,
}

/// The default processor time of one run.
const SECONDS: u32 = 600;
const QUICK_SECONDS: u32 = 5;

impl Arena {
    /// Runs the arena, writes the page, prints the summary.
    pub fn run(self) -> Result<Done, Failure> {
        let request = self.request();
        let progress = Progress::new();
        let report = arena(&request, &progress, &interrupt::flag());
        progress.bar.finish_and_clear();
        let report = report?;
        print(&summary(&report))?;
        Ok(if report.interrupted { Done::Interrupted } else { Done::Complete })
    }

    fn request(self) -> Request {
        let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let seconds = if self.quick { QUICK_SECONDS } else { SECONDS };
        Request {
            quick: self.quick,
            only: self.only,
            policies: self.policies,
            out: self.out,
            data: datasets::folder(self.data.as_deref()),
            reps: self.reps.map(|reps| reps as usize),
            threads: self.threads.map_or_else(cores, |threads| threads as usize),
            seconds: f64::from(self.seconds.unwrap_or(seconds)),
            tuned_values: self.tune.map(|values| values as usize),
            keep: self.keep,
            guests: Vec::new(),
        }
    }
}

fn summary(report: &Report) -> String {
    let mut text = String::new();
    let versions = ["published parameters", "the best of a common tuning budget"];
    for (standings, version) in report.standings.iter().zip(versions) {
        text.push_str(&format!("mean rank at {version}\n"));
        for standing in standings {
            text.push_str(&format!(
                "  {:5.1}  {:18} beats {:3.0} % of its opponents, {:5.2} × the best, {:6.2} × at worst ({})\n",
                standing.mean_rank,
                standing.name,
                100.0 * standing.win_rate,
                standing.relative,
                standing.worst.0,
                standing.worst.1,
            ));
        }
    }
    for (name, why) in &report.left_out {
        text.push_str(&format!("{name} was not played: {why}\n"));
    }
    text.push_str(&format!("page: {}\n", report.page.display()));
    text
}
