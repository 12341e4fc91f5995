//! `cohort reproduce`: the evaluation of the paper, and a verdict on every claim.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use cohort_lab::datasets;
use cohort_lab::reproduce::{Halt, Report, Request, Watcher, reproduce};
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

use crate::claims_table::claims_table;
use crate::failure::{Done, Failure, print};
use crate::interrupt;

const EXAMPLES: &str = "\
Examples:
  cohort reproduce --quick
      a real result in a few minutes; opens with report/index.html
  cohort reproduce --full
      all repetitions and settings of the paper, for an hour or two; interrupted, it goes on where it stopped
  cohort reproduce --only fig3 --full --data ../shared/data
      Last.FM alone
  cohort reproduce --full --quick-for fig3,cohort-lastfm,cohort-movielens
      the paper's synthetic studies in full, real data for a look
  cohort reproduce --full --so-far
      run nothing, show what an interrupted run has
  cohort reproduce --only scaling
      every study whose name begins so
  cohort reproduce --full --docs docs/reproduction --data ../shared/data
      all of it, and the page that is in the repository";

/// Run the evaluation of the paper and write a report: every figure, a verdict on every claim
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Reproduce {
    /// Few repetitions and a smaller grid [default on a terminal]
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// All repetitions and settings of the paper [default in a script]
    #[arg(long)]
    full: bool,
    /// Run these studies quick although the others are full: names as for --only
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    quick_for: Vec<String>,
    /// Run nothing: report on the repetitions that are already there
    #[arg(long)]
    so_far: bool,
    /// Only studies whose names begin with one of these, separated by commas: fig1, fig2, fig3,
    /// scaling, probe, theory, readings, runtime, cohort
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    only: Vec<String>,
    /// Without these policies, separated by commas
    #[arg(long, value_name = "POLICY,…", value_delimiter = ',')]
    without: Vec<String>,
    /// Folder of data sets [default: COHORT_DATA, or data/]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Folder of the report
    #[arg(long, value_name = "DIR", default_value = "report")]
    out: PathBuf,
    /// The seed [default: the experiments']
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The number of repetitions [default: the experiments']
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    reps: Option<u32>,
    /// Also write a Markdown page for the repository there, with figures and small tables
    #[arg(long, value_name = "DIR")]
    docs: Option<PathBuf>,
    /// The number of threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    threads: Option<u32>,
}

impl Reproduce {
    /// Runs the studies, writes the report, prints the claims.
    pub fn run(self) -> Result<Done, Failure> {
        let request = self.request();
        let other = if request.quick { "--full" } else { "--quick" };
        eprintln!("{} run ({other} for the other) into {}", request.mode(), request.out.display());
        let progress = Progress::new();
        let report = reproduce(&request, &progress, &interrupt::flag());
        progress.bar.finish_and_clear();
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
            quick_for: self.quick_for,
            so_far: self.so_far,
            only: self.only,
            without: self.without,
            data: datasets::folder(self.data.as_deref()),
            out: self.out,
            seed: self.seed,
            reps: self.reps.map(|reps| reps as usize),
            threads: self.threads.map_or_else(cores, |threads| threads as usize),
            docs: self.docs,
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

/// A bar with an estimate of the remaining time, for all studies and for the running one.
pub struct Progress {
    /// The bar.
    pub bar: ProgressBar,
    study: Mutex<Study>,
}

/// The running study.
struct Study {
    work: u64,
    done: u64,
    began: Instant,
    what: String,
}

impl Progress {
    /// A bar with nothing planned yet.
    pub fn new() -> Self {
        let bar = ProgressBar::new(0);
        let style = "{bar:30} {percent:>3} %  {elapsed} gone, about {eta} left  {msg}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        let study = Study { work: 0, done: 0, began: Instant::now(), what: String::new() };
        Self { bar, study: Mutex::new(study) }
    }

    fn change(&self, change: impl FnOnce(&mut Study)) {
        let mut study = self.study.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut study);
        self.bar.set_message(study.message());
    }
}

impl Study {
    /// The name of the study, and about how long it still takes.
    fn message(&self) -> String {
        let share = self.done as f64 / self.work.max(1) as f64;
        let gone = self.began.elapsed();
        if share <= 0.0 || gone.as_secs() < 2 {
            return self.what.clone();
        }
        let left = Duration::from_secs_f64(gone.as_secs_f64() * (1.0 / share.min(1.0) - 1.0));
        format!("{} ({:.0} %, about {} left)", self.what, 100.0 * share, HumanDuration(left))
    }
}

impl Watcher for Progress {
    fn planned(&self, work: u64) {
        self.bar.set_length(work);
    }

    fn study(&self, name: &str, work: u64) {
        // Without a terminal there is no bar: one line per study shows the progress.
        if self.bar.is_hidden() {
            eprintln!("{name} begins after {}", HumanDuration(self.bar.elapsed()));
        }
        self.change(|study| {
            *study = Study { work, done: 0, began: Instant::now(), what: name.to_owned() };
        });
    }

    fn begins(&self, what: &str) {
        self.change(|study| what.clone_into(&mut study.what));
    }

    fn done(&self, work: u64) {
        self.bar.inc(work);
        self.change(|study| study.done += work);
    }
}
