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

/// A bar with an estimate of the remaining time, for all studies and for the running one; without a
/// terminal a line when a study begins, and one every few minutes.
pub struct Progress {
    /// The bar.
    pub bar: ProgressBar,
    study: Mutex<Study>,
    all: Mutex<Extent>,
}

/// How often a line is written where there is no terminal.
const LINES: Duration = Duration::from_secs(180);

/// Some work, how much of it is done, and how much of that was known before and took no time.
#[derive(Clone, Copy)]
struct Extent {
    work: u64,
    done: u64,
    known: u64,
    began: Instant,
    told: Instant,
}

/// The running study.
struct Study {
    name: String,
    extent: Extent,
    what: String,
}

impl Extent {
    fn new(work: u64) -> Self {
        let now = Instant::now();
        Self { work, done: 0, known: 0, began: now, told: now }
    }

    /// From 0 to 1.
    fn share(&self) -> f64 {
        (self.done as f64 / self.work.max(1) as f64).min(1.0)
    }

    /// About how long the rest takes, after `gone`: as long per work as what was not known before.
    fn left(&self, gone: Duration) -> Option<Duration> {
        let worked = self.done.saturating_sub(self.known);
        let rest = self.work.saturating_sub(self.done) as f64;
        (worked > 0 && gone.as_secs() >= 2)
            .then(|| Duration::from_secs_f64(gone.as_secs_f64() * rest / worked as f64))
    }

    /// `12 %, about 3 minutes left`
    fn sentence(&self) -> String {
        let share = format!("{:.0} %", 100.0 * self.share());
        match self.left(self.began.elapsed()) {
            Some(left) => format!("{share}, about {} left", HumanDuration(left)),
            None => share,
        }
    }
}

impl Progress {
    /// A bar with nothing planned yet.
    pub fn new() -> Self {
        let bar = ProgressBar::new(0);
        let style = "{bar:30} {percent:>3} %  {elapsed} gone  {msg}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        let study = Study { name: String::new(), extent: Extent::new(0), what: String::new() };
        Self { bar, study: Mutex::new(study), all: Mutex::new(Extent::new(0)) }
    }

    fn change(&self, change: impl Fn(&mut Extent)) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let mut study = self.study.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut all);
        change(&mut study.extent);
        let (whole, part) = (all.sentence(), study.extent.sentence());
        if self.bar.is_hidden() && all.told.elapsed() >= LINES {
            all.told = Instant::now();
            let gone = HumanDuration(all.began.elapsed());
            eprintln!("{}: {part}; all: {whole}, {gone} gone", study.name);
        }
        self.bar.set_message(format!("all: {whole}  {} ({part})", study.what));
    }
}

impl Watcher for Progress {
    fn planned(&self, work: u64) {
        self.bar.set_length(work);
        *self.all.lock().unwrap_or_else(PoisonError::into_inner) = Extent::new(work);
    }

    fn study(&self, name: &str, work: u64) {
        let all = *self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if self.bar.is_hidden() {
            let gone = HumanDuration(all.began.elapsed());
            eprintln!("{name} begins after {gone}; all: {}", all.sentence());
        }
        let mut study = self.study.lock().unwrap_or_else(PoisonError::into_inner);
        *study = Study { name: name.to_owned(), extent: Extent::new(work), what: name.to_owned() };
    }

    fn begins(&self, what: &str) {
        let mut study = self.study.lock().unwrap_or_else(PoisonError::into_inner);
        what.clone_into(&mut study.what);
    }

    fn done(&self, work: u64) {
        self.bar.inc(work);
        self.change(|extent| extent.done += work);
    }

    fn known(&self, work: u64) {
        self.bar.inc(work);
        self.change(|extent| {
            (extent.done, extent.known) = (extent.done + work, extent.known + work)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_from_before_takes_no_time() {
        let extent = Extent { done: 60, known: 50, ..Extent::new(100) };
        let left = extent.left(Duration::from_secs(60)).unwrap();
        assert_eq!(left, Duration::from_secs(240), "10 in a minute, 40 are left");
        let nothing_yet = Extent { done: 50, known: 50, ..Extent::new(100) };
        assert_eq!(nothing_yet.left(Duration::from_secs(60)), None);
    }
}
