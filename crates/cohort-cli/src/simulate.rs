//! `cohort simulate`: runs policies in an environment.

use std::path::PathBuf;

use clap::Args;
use cohort_lab::experiment::{Draft, Experiment};
use cohort_lab::npy;
use cohort_lab::results::{self, Folder, Summary};
use cohort_lab::runner::{self, Runs};

use crate::described::{EnvironmentFlags, RunFlags};
use crate::failure::{Done, Failure, print};
use crate::progress::Progress;
use crate::{interrupt, summary_table};

const EXAMPLES: &str = "\
Examples:
  cohort simulate
      a small comparison in a few seconds
  cohort simulate --policy linucb-ind,narrow=linucb-ind --set narrow.exploration=0.1
      the same policy twice, the second time exploring less
  cohort simulate --env gaussian --spread 0.05 --unit-ball --rounds 5000 --out runs/gaussian
      another environment, every round kept as Parquet and CSV
  cohort simulate experiments/example.toml --reps 20
      an experiment from a file (it documents every key), one of them overridden
  cohort simulate --env table --contexts X.npy --thetas TH.npy --noise-table E.npy \\
      --policy linucb-ind --reps 1 --arms-out A.npy
      nothing random: the arms played can be compared with another implementation's";

/// Run policies in an environment and compare their regret
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Simulate {
    /// An experiment file; flags override it
    #[arg(value_name = "FILE.toml")]
    file: Option<PathBuf>,
    /// The policies: names separated by commas, or LABEL=NAME for another name in results [`cohort
    /// policies` lists them]
    #[arg(long, value_name = "NAME,…")]
    policy: Option<String>,
    /// A parameter of a policy (by label, or by name for all of that name); may be repeated
    #[arg(long, value_name = "POLICY.PARAM=VALUE")]
    set: Vec<String>,
    /// Print an experiment file that documents every key, and exit
    #[arg(long)]
    example: bool,
    /// Print the summary as JSON, and nothing else
    #[arg(long)]
    json: bool,
    /// Write the arms played as (T, N) int64; one policy and one repetition
    #[arg(long, value_name = "A.npy")]
    arms_out: Option<PathBuf>,
    #[command(flatten)]
    run: RunFlags,
    #[command(flatten)]
    environment: EnvironmentFlags,
}

impl Simulate {
    /// Checks, runs, writes, prints.
    pub fn run(self) -> Result<Done, Failure> {
        if self.example {
            print(&cohort_lab::experiment::example())?;
            return Ok(Done::Complete);
        }
        let experiment = self.draft()?.resolve()?;
        let folder = experiment.out.as_deref().map(Folder::new).transpose()?;
        self.check_arms_out(&experiment)?;

        let progress = Progress::new(&experiment.plan);
        let runs = runner::run(&experiment.plan, &progress, &interrupt::flag());
        progress.clear();
        let runs = runs?;
        if runs.interrupted {
            let (complete, all) = (runs.repetitions.len(), experiment.plan.repetitions);
            eprintln!("interrupted: {complete} of {all} repetitions are complete");
        }
        if !runs.repetitions.is_empty() {
            let summary = Summary::new(&experiment, &runs);
            if let Some(folder) = folder {
                results::write(&folder, &experiment, &runs, &summary)?;
            }
            self.write_arms(&experiment, &runs)?;
            self.print(&experiment, &summary)?;
        }
        Ok(if runs.interrupted { Done::Interrupted } else { Done::Complete })
    }

    /// The file, overridden by the flags.
    fn draft(&self) -> Result<Draft, Failure> {
        let mut draft = match &self.file {
            Some(path) => Draft::read(path)?,
            None => Draft::default(),
        };
        draft.run.extend(self.run.given.clone());
        if let Some(name) = &self.environment.name {
            draft.set_environment(name)?;
        }
        draft.options.extend(self.environment.given.clone());
        if let Some(list) = &self.policy {
            draft.set_policies(list);
        }
        for assignment in &self.set {
            draft.set_param(assignment)?;
        }
        draft.keep_arms = self.arms_out.is_some();
        Ok(draft)
    }

    fn check_arms_out(&self, experiment: &Experiment) -> Result<(), Failure> {
        let Some(path) = &self.arms_out else { return Ok(()) };
        let (policies, reps) = (experiment.plan.contenders.len(), experiment.plan.repetitions);
        if (policies, reps) != (1, 1) {
            return Err(Failure::bad_input(format!(
                "--arms-out: found {policies} policies and {reps} repetitions, expected one of \
                 each: add --policy NAME --reps 1"
            )));
        }
        Ok(results::check_place(path)?)
    }

    fn write_arms(&self, experiment: &Experiment, runs: &Runs) -> Result<(), Failure> {
        let Some(path) = &self.arms_out else { return Ok(()) };
        let shape = [experiment.plan.rounds, experiment.plan.environment.size().users];
        let arms: Vec<i64> =
            runs.repetitions[0].runs[0].arms.iter().map(|arm| *arm as i64).collect();
        Ok(results::write_whole(path, |file| npy::write(file, &shape, &arms))?)
    }

    fn print(&self, experiment: &Experiment, summary: &Summary) -> Result<(), Failure> {
        print(&if self.json {
            summary.to_json()
        } else {
            summary_table::summary_table(experiment, summary)
        })
    }
}
