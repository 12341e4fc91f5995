//! `cohort backup` and `cohort restore`: a copy of a data folder, and back.

use std::path::{Path, PathBuf};

use clap::Args;
use cohort_server::backup::{BackupError, copy};

use crate::failure::{Done, Failure, print};

/// Copy the data of a service, which may keep running, and verify the copy by opening it
#[derive(Args)]
pub struct Backup {
    /// Folder of the copy; is created, and must not exist
    #[arg(value_name = "TO")]
    to: PathBuf,
    /// Folder of the service's data, as configured
    #[arg(long, value_name = "DIR", default_value = "cohort-data")]
    data_dir: PathBuf,
}

/// Put a copy made by `cohort backup` where a service finds it, and verify it by opening it
#[derive(Args)]
pub struct Restore {
    /// Folder of the copy
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// Folder of the service's data, as configured; is created, and must not exist
    #[arg(long, value_name = "DIR", default_value = "cohort-data")]
    data_dir: PathBuf,
}

impl Backup {
    /// Copies and verifies.
    pub fn run(self) -> Result<Done, Failure> {
        run(&self.data_dir, &self.to, "copied")
    }
}

impl Restore {
    /// Copies and verifies.
    pub fn run(self) -> Result<Done, Failure> {
        run(&self.from, &self.data_dir, "restored")
    }
}

fn run(from: &Path, to: &Path, what: &str) -> Result<Done, Failure> {
    let copied = copy(from, to).map_err(|why| match why {
        BackupError::Taken(_) | BackupError::NoData(_) | BackupError::Old(_) => {
            Failure::bad_input(why.to_string())
        }
        why => Failure::failed(why.to_string()),
    })?;
    print(&format!(
        "{what} to {}: {} events, {} apps, {:.1} MB; it was opened and is whole\n",
        to.display(),
        copied.last_event,
        copied.apps,
        copied.bytes as f64 / 1e6
    ))?;
    Ok(Done::Complete)
}
