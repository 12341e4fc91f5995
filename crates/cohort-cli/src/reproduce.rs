//! `cohort reproduce`: the paper's whole evaluation, and a verdict on every claim.

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;
use cohort_lab::datasets;
use cohort_lab::reproduce::{Halt, Report, Request, Watcher, reproduce};
use indicatif::{ProgressBar, ProgressStyle};

use crate::claims_table::claims_table;
use crate::failure::{Done, Failure, print};
use crate::interrupt;

const EXAMPLES: &str = "\
Examples:
  cohort reproduce --quick
      a real result in about a minute; opens with report/index.html
  cohort reproduce --full
      all repetitions and settings of the paper, for hours; interrupted, it goes on where it stopped
  cohort reproduce --only fig3 --full --data ../shared/data
      Last.FM alone
  cohort reproduce --only scaling
      every study whose name begins so";

/// Run the paper's whole evaluation and leave a report: every figure, a verdict on every claim
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Reproduce {
    /// Few repetitions and a smaller grid [default on a terminal]
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// All repetitions and settings of the paper [default in a script]
    #[arg(long)]
    full: bool,
    /// Only studies whose names begin so, with commas between: fig1, fig2, fig3, scaling, runtime, cohort
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    only: Vec<String>,
    /// Folder of data sets [default: COHORT_DATA, or data/]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Folder of the report
    #[arg(long, value_name = "DIR", default_value = "report")]
    out: PathBuf,
    /// Another seed than the experiments'
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Another number of repetitions than the experiments'
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    reps: Option<u32>,
    /// How many threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    threads: Option<u32>,
}

impl Reproduce {
    /// Run, write, print.
    pub fn run(self) -> Result<Done, Failure> {
        let request = self.request();
        let (mode, other) = if request.quick { ("quick", "--full") } else { ("full", "--quick") };
        eprintln!("{mode} run ({other} for the other) into {}", request.out.display());
        let progress = Progress::new();
        let report = reproduce(&request, &progress, &interrupt::flag());
        progress.0.finish_and_clear();
        match report {
            Ok(report) => {
                print(&summary(&request, &report))?;
                Ok(Done::Complete)
            }
            Err(Halt::Stopped) => {
                eprintln!("interrupted: what is done is kept, the same command goes on from there");
                Ok(Done::Interrupted)
            }
            Err(Halt::Failed(error)) => Err(error.into()),
        }
    }

    fn request(self) -> Request {
        let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
        Request {
            quick: self.quick || (!self.full && std::io::stdout().is_terminal()),
            only: self.only,
            data: datasets::folder(self.data.as_deref()),
            out: self.out,
            seed: self.seed,
            reps: self.reps.map(|reps| reps as usize),
            threads: self.threads.map_or_else(cores, |threads| threads as usize),
        }
    }
}

fn summary(request: &Request, report: &Report) -> String {
    let mut text = claims_table(request, &report.claims);
    for (name, _, why) in &report.left_out {
        text.push_str(&format!("{name} was not run: {why}\n"));
    }
    text.push_str(&format!("report: {}\n", report.page.display()));
    text
}

/// A bar with an estimate of the time left.
struct Progress(ProgressBar);

impl Progress {
    fn new() -> Self {
        let bar = ProgressBar::new(0);
        let style = "{bar:30} {percent:>3} %  {elapsed} gone, about {eta} left  {msg}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        Self(bar)
    }
}

impl Watcher for Progress {
    fn planned(&self, work: u64) {
        self.0.set_length(work);
    }

    fn begins(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }

    fn done(&self, work: u64) {
        self.0.inc(work);
    }
}
