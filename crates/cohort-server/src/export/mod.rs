//! The decision log as a table, while the service runs.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`rows`] | what does the journal say of each decision? |
//! | `aside` | where are decisions until that is known? |
//! | [`csv`], [`parquet`] | how does that become a file? |
//!
//! The journal is read beside the threads that write it, from the beginning, group by group, and the
//! table is sent as it is made: neither the log nor the table is ever in memory as a whole, and neither are decisions that wait:
//! many of them, with the features of all candidates, lie in a file meanwhile. What is
//! on disk when the reading begins is what is told, but for what retention removes before its turn comes: of decisions
//! that waited then nothing is told, and the download does not end as one that is complete. Nothing is told either of what was
//! decided for a user before that user was forgotten.
//!
//! | column | meaning |
//! | --- | --- |
//! | `decision_id`, `user`, `decided_ms` | which, for whom, when |
//! | `item` | what was chosen |
//! | `propensity` | with what probability |
//! | `reward` | what was learned; nothing if nothing was |
//! | `status` | `rewarded`, `expired`, `open` or `not_shown` |
//! | `control` | whether it is of the control group |
//! | `candidates` | all that was offered, the chosen one first |
//! | `context` | the features of the chosen item |
//! | `features` | those of all candidates, one after the other; empty unless the app keeps them |
//! | `catalogue_version`, `among` | of a decision from the catalogue, whose `candidates` are the best of it: how often the catalogue had changed, and how many items could have been chosen |
//!
//! `cohort evaluate` reads these columns. Lists are JSON in CSV and lists in Parquet.

mod aside;
pub mod csv;
pub mod parquet;
pub mod rows;

use std::io::{self, Write};

pub use aside::Scratch;
use rows::{App, ExportRow};

use crate::journal::{EventReader, JournalError};

/// In which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// With a header.
    Csv,
    /// Row groups of some thousand decisions, or of 16 MiB.
    Parquet,
}

/// Something that takes rows and becomes a file.
pub(crate) trait Table {
    fn add(&mut self, row: ExportRow) -> io::Result<()>;

    /// Whether the features of all candidates are told.
    fn wants_features(&self) -> bool {
        true
    }

    fn finish(&mut self) -> io::Result<()>;
}

/// Writes the log of an app: of a cluster, partition by partition; it ends where that is not `wanted` any more. Returns how
/// many events were removed before their turn came.
pub fn export(
    journals: &[&dyn EventReader],
    app: &App,
    format: Format,
    to: &mut (impl Write + Send),
    wanted: &dyn Fn() -> bool,
) -> Result<u64, JournalError> {
    match format {
        Format::Csv => rows::fold(journals, app, &mut csv::CsvTable::new(to)?, wanted),
        Format::Parquet => rows::fold(journals, app, &mut parquet::ParquetTable::new(to)?, wanted),
    }
}

impl From<io::Error> for JournalError {
    fn from(why: io::Error) -> Self {
        Self::Store { path: "export".to_owned(), action: "be written out", why: why.to_string() }
    }
}
