//! Reads a log from a file.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`table`] | what do the columns of a log mean? (the service's export, and logs of others) |
//! | `cells` | how does a cell of CSV or Parquet become a word, a number or a list? |
//! | [`dsjson`] | how is a log of Vowpal Wabbit or Azure Personalizer read? |
//! | [`open_bandit`] | how is the Open Bandit Dataset read? |
//!
//! The format is detected: Parquet and gzip by their first bytes, `.dsjson` by its first `{`, Open Bandit by its columns.

mod cells;
pub mod dsjson;
pub mod open_bandit;
pub mod table;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::log::Log;
use crate::Error;

/// Reads a log in any known format.
pub fn read(path: &Path) -> Result<Log, Error> {
    let fails = |source| Error::Read { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(fails)?;
    let mut magic = [0; 4];
    let found = file.read(&mut magic).map_err(fails)?;
    file.rewind().map_err(fails)?;
    let log = match &magic[..found] {
        b"PAR1" => table::read_parquet(file),
        [0x1f, 0x8b, ..] => read_text(path, Box::new(MultiGzDecoder::new(BufReader::new(file)))),
        _ => read_text(path, Box::new(file)),
    };
    log.map_err(|error| match error {
        at @ (Error::In { .. } | Error::Read { .. }) => at,
        error => error.at(path),
    })
}

fn read_text(path: &Path, from: Box<dyn Read>) -> Result<Log, Error> {
    let fails = |source| Error::Read { path: path.to_owned(), source };
    let mut from = BufReader::new(from);
    let first = from.fill_buf().map_err(fails)?.iter().find(|byte| !byte.is_ascii_whitespace());
    match first {
        Some(b'{') => dsjson::read(from),
        _ => read_csv(path, Box::new(from)),
    }
}

fn read_csv(path: &Path, from: Box<dyn Read>) -> Result<Log, Error> {
    let mut csv = csv::ReaderBuilder::new().flexible(false).from_reader(from);
    let header = csv.headers().map_err(not_csv)?.clone();
    if open_bandit::is_its_header(&header) {
        open_bandit::read(path, &mut csv, &header)
    } else {
        table::read_csv(&mut csv, &header)
    }
}

/// The error for a file that is not CSV.
fn not_csv(error: csv::Error) -> Error {
    let line = error.position().map_or(1, csv::Position::line);
    let found = match error.kind() {
        csv::ErrorKind::UnequalLengths { len, expected_len, .. } => {
            format!("{len} columns where the header has {expected_len}")
        }
        other => format!("{other:?}").chars().take(60).collect(),
    };
    Error::unexpected(format!("line {line}"), found, "CSV with a header (or Parquet)")
}
