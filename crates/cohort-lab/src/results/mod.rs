//! Results of an experiment: tables of every round, and a summary with one line per policy.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`Summary`] | how well did each policy do, with what interval? |
//! | `tables` | what happened round by round? |
//! | [`chart`] | how does regret grow? |
//! | `columns` | how does a table become CSV or Parquet? |
//! | [`Folder`], [`write_whole`] | how is a file written atomically? |

mod chart;
pub(crate) mod columns;
mod folder;
mod student;
mod summary;
mod tables;

pub use chart::chart;
pub use folder::{Folder, check_place, write_whole};
pub use student::{half_width_95, t_two_sided_95};
pub use summary::{PolicySummary, Summary};

use std::io::Write;

use crate::Error;
use crate::experiment::Experiment;
use crate::runner::Runs;

/// Writes everything about an experiment into its folder: `regret`, `clusters` (each as .parquet
/// and .csv), `timing.csv`, `summary.json` and `experiment.toml`.
pub fn write(
    folder: &Folder,
    experiment: &Experiment,
    runs: &Runs,
    summary: &Summary,
) -> Result<(), Error> {
    let mut staged = folder.stage()?;
    let labels: Vec<&str> = experiment.plan.players().map(|player| player.label()).collect();
    let users = experiment.plan.environment.size().users;
    let regret = tables::regret(&labels, runs);
    staged.write("regret.parquet", |file| columns::write_parquet(file, &regret))?;
    staged.write("regret.csv", |file| columns::write_csv(file, &regret))?;
    let clusters = tables::clusters(&labels, runs);
    staged.write("clusters.parquet", |file| columns::write_parquet(file, &clusters))?;
    staged.write("clusters.csv", |file| columns::write_csv(file, &clusters))?;
    let timing = tables::timing(&labels, users, runs);
    staged.write("timing.csv", |file| columns::write_csv(file, &timing))?;
    staged.write("summary.json", |file| file.write_all(summary.to_json().as_bytes()))?;
    staged.write("experiment.toml", |file| file.write_all(experiment.to_toml().as_bytes()))?;
    staged.publish()
}
