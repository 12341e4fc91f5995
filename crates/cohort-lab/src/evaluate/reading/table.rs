//! Logs as tables: the service's export, and other logs with the same columns.
//!
//! | column | meaning |
//! | --- | --- |
//! | `item` | the id of the item that was chosen; the only column that must be there, with `reward` |
//! | `reward` | its reward; rows without are left out |
//! | `propensity` | the probability with which the item was chosen |
//! | `candidates` | the ids of all items that were offered; without it, all items of the log |
//! | `among` | how many items could have been chosen, where `candidates` are not all; rows with 0, not known, are left out, and so are rows without it whose only candidate has a propensity below 1 |
//! | `user` | the user's id; without it, all rows are of one user |
//! | `features` | the features of all candidates, one after the other |
//! | `context` | the features of the chosen item; used where `features` is not there |
//! | `position` | rows of different positions get reward models of their own |
//! | `decided_ms` | the time; rows are sorted by it |
//!
//! Other columns are ignored. Lists are JSON in CSV (`["tea","milk"]`, `[0.5,0.1]`) and lists in
//! Parquet.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use csv::StringRecord;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::cells::Cell;
use super::not_csv;
use crate::Error;
use crate::evaluate::log::{Interner, Log, Row};

/// One row, cell by cell.
#[derive(Default)]
struct Cells(HashMap<String, Cell>);

impl Cells {
    fn take(&mut self, column: &str) -> Cell {
        self.0.remove(column).unwrap_or_default()
    }
}

/// Reads CSV.
pub(super) fn read_csv(
    csv: &mut csv::Reader<Box<dyn Read>>,
    header: &StringRecord,
) -> Result<Log, Error> {
    check_columns(header.iter())?;
    let mut table = LogBuilder::default();
    for record in csv.records() {
        let record = record.map_err(not_csv)?;
        let line = record.position().map_or(0, csv::Position::line) as usize;
        let cells = header.iter().zip(&record);
        let cells = cells.map(|(name, field)| (name.to_owned(), Cell::from_csv(field)));
        table.add(line, Cells(cells.collect()))?;
    }
    table.finish()
}

/// Reads Parquet.
pub(super) fn read_parquet(file: File) -> Result<Log, Error> {
    // The Parquet library panics on some damaged files.
    std::panic::catch_unwind(|| read_sound_parquet(file))
        .unwrap_or_else(|_| Err(broken("damage inside")))
}

fn broken(why: impl ToString) -> Error {
    Error::unexpected("the file", why.to_string(), "Parquet that can be read")
}

fn read_sound_parquet(file: File) -> Result<Log, Error> {
    let reader = SerializedFileReader::new(file).map_err(broken)?;
    for column in reader.metadata().row_groups().iter().flat_map(|group| group.columns()) {
        let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        if start < 0 || column.compressed_size() < 0 {
            return Err(broken("a column that begins or ends before the file"));
        }
    }
    let schema = reader.metadata().file_metadata().schema_descr().root_schema().clone();
    check_columns(schema.get_fields().iter().map(|field| field.name()))?;
    let mut table = LogBuilder::default();
    for (at, row) in reader.get_row_iter(None).map_err(broken)?.enumerate() {
        let columns = row.map_err(broken)?.into_columns().into_iter();
        let cells = columns.map(|(name, field)| (name, Cell::from_parquet(field)));
        // As if there were a header, so that line numbers agree with CSV.
        table.add(at + 2, Cells(cells.collect()))?;
    }
    table.finish()
}

fn check_columns<'a>(columns: impl Iterator<Item = &'a str> + Clone) -> Result<(), Error> {
    for needed in ["item", "reward"] {
        if !columns.clone().any(|column| column == needed) {
            let found: Vec<&str> = columns.take(12).collect();
            let expected = format!(
                "a column `{needed}`: docs/evaluate.md lists the columns of a log (and those of \
                 the Open Bandit Dataset are known)"
            );
            return Err(Error::unexpected("the header", found.join(", "), expected));
        }
    }
    Ok(())
}

/// Whether it is not known among how many items a decision was made: a log says so, or its only candidate was chosen with
/// a probability below 1, as decisions of the past are listed by versions that did not keep what else could have been chosen.
fn is_unknown(among: Option<usize>, listed: Option<&[String]>, propensity: Option<f64>) -> bool {
    let is_alone = listed.is_some_and(|ids| ids.len() == 1);
    match among {
        Some(among) => among == 0,
        None => is_alone && propensity.is_some_and(|p| p < 1.0),
    }
}

/// A log under construction.
#[derive(Default)]
struct LogBuilder {
    log: Log,
    /// The time of each row.
    times: Vec<f64>,
    /// Rows without an offer, with their chosen item.
    open_offers: Vec<(usize, u32)>,
    /// The features of the chosen item, where those of all candidates are missing.
    chosen_features: Vec<Option<Vec<f64>>>,
    positions: Interner,
}

impl LogBuilder {
    fn add(&mut self, line: usize, mut cells: Cells) -> Result<(), Error> {
        let place = |column: &str| format!("line {line}, column {column}");
        let missing = |column: &str, expected: &str| {
            Error::unexpected(format!("line {line}, column {column}"), "nothing", expected)
        };
        let Some(reward) = cells.take("reward").number(&place("reward"))? else {
            self.log.unrewarded += 1;
            return Ok(());
        };
        let item = cells.take("item").word(&place("item"))?;
        let item = item.ok_or_else(|| missing("item", "the id of the item that was chosen"))?;
        let propensity = cells.take("propensity").number(&place("propensity"))?;
        if let Some(found) = propensity.filter(|p| !(*p > 0.0 && *p <= 1.0)) {
            let expected = "a probability above 0, at most 1: what was chosen can be chosen";
            return Err(Error::unexpected(place("propensity"), found.to_string(), expected));
        }
        let among = cells.take("among").number(&place("among"))?.map(|among| among as usize);
        let listed = cells.take("candidates").words(&place("candidates"))?;
        if is_unknown(among, listed.as_deref(), propensity) {
            self.log.unknown_choices += 1;
            return Ok(());
        }
        let user = cells.take("user").word(&place("user"))?.unwrap_or_default();
        let position = cells.take("position").word(&place("position"))?.unwrap_or_default();
        let number = self.log.items.number(&item) as u32;
        let (candidates, chosen) = match listed {
            Some(ids) => {
                let Some(chosen) = ids.iter().position(|id| *id == item) else {
                    let expected = format!("`{item}`, which was chosen, among them");
                    let found = format!("{} candidates", ids.len());
                    return Err(Error::unexpected(place("candidates"), found, expected));
                };
                let ids = ids.iter().map(|id| self.log.items.number(id) as u32);
                (ids.collect::<Arc<[u32]>>(), chosen)
            }
            None => {
                self.open_offers.push((self.log.rows.len(), number));
                (Arc::default(), 0)
            }
        };
        let features = cells.take("features").numbers(&place("features"))?.unwrap_or_default();
        let context = cells.take("context").numbers(&place("context"))?;
        self.check_features(line, features.len(), candidates.len(), context.as_deref())?;
        self.chosen_features.push(context.filter(|_| features.is_empty()));
        self.times.push(cells.take("decided_ms").number(&place("decided_ms"))?.unwrap_or(0.0));
        self.log.rows.push(Row {
            line,
            user: self.log.users.number(&user),
            candidates,
            among,
            chosen,
            propensity,
            reward,
            stratum: self.positions.number(&position),
            features: features.into(),
            context: Box::default(),
        });
        Ok(())
    }

    /// Checks that every candidate has the same number of features.
    fn check_features(
        &mut self,
        line: usize,
        features: usize,
        candidates: usize,
        context: Option<&[f64]>,
    ) -> Result<(), Error> {
        let dim = match (features, context) {
            (0, None) => return Ok(()),
            (0, Some(context)) => context.len(),
            (features, _) if candidates > 0 && features % candidates == 0 => features / candidates,
            (features, _) => {
                let expected = format!("as many for each of {candidates} candidates");
                let what = format!("line {line}, column features");
                return Err(Error::unexpected(what, format!("{features} numbers"), expected));
            }
        };
        if self.log.dim == 0 {
            self.log.dim = dim;
        }
        if dim == self.log.dim {
            Ok(())
        } else {
            Err(Error::unexpected(
                format!("line {line}"),
                format!("{dim} features"),
                format!("{}, as in the lines before", self.log.dim),
            ))
        }
    }

    fn finish(mut self) -> Result<Log, Error> {
        let all: Arc<[u32]> = (0..self.log.items.len() as u32).collect();
        for (row, item) in std::mem::take(&mut self.open_offers) {
            self.log.rows[row].candidates = all.clone();
            self.log.rows[row].chosen = item as usize;
        }
        self.complete_features();
        let mut order: Vec<usize> = (0..self.log.rows.len()).collect();
        order.sort_by(|a, b| self.times[*a].total_cmp(&self.times[*b]));
        let mut rows: Vec<Option<Row>> = self.log.rows.into_iter().map(Some).collect();
        self.log.rows = order.into_iter().filter_map(|at| rows[at].take()).collect();
        Ok(self.log)
    }

    /// Where only the chosen item's features were logged, those of the other candidates are known
    /// if items always have the same features and each was chosen at some time.
    fn complete_features(&mut self) {
        if self.chosen_features.iter().all(Option::is_none) {
            let every = self.log.rows.iter().all(|row| !row.features.is_empty());
            self.log.dim = if every { self.log.dim } else { 0 };
            return;
        }
        let mut of_item: Vec<Option<&[f64]>> = vec![None; self.log.items.len()];
        let mut same = true;
        for (row, features) in self.log.rows.iter().zip(&self.chosen_features) {
            let Some(features) = features.as_deref() else { continue };
            let known = of_item[row.item() as usize].get_or_insert(features);
            same &= *known == features;
        }
        let known = |row: &Row| row.candidates.iter().all(|item| of_item[*item as usize].is_some());
        if !same || !self.log.rows.iter().all(|row| !row.features.is_empty() || known(row)) {
            self.log.dim = 0;
            return;
        }
        for row in self.log.rows.iter_mut().filter(|row| row.features.is_empty()) {
            let candidates = row.candidates.iter();
            row.features = candidates
                .flat_map(|item| of_item[*item as usize].unwrap_or_default().iter().copied())
                .collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &'static str) -> Result<Log, Error> {
        let from: Box<dyn Read> = Box::new(text.as_bytes());
        let mut csv = csv::Reader::from_reader(from);
        let header = csv.headers().unwrap().clone();
        read_csv(&mut csv, &header)
    }

    #[test]
    fn the_least_that_a_log_can_be() {
        let log = read("item,reward,propensity\ntea,1,0.5\nmilk,0,0.5\ntea,,0.5\n").unwrap();
        assert_eq!((log.rows.len(), log.unrewarded), (2, 1));
        assert_eq!(log.rows[0].candidates.len(), 2, "without candidates, all items");
        assert_eq!((log.rows[1].chosen, log.rows[1].reward), (1, 0.0));
    }

    #[test]
    fn rows_come_in_the_order_of_time_with_their_candidates_features() {
        let log = read(
            "decided_ms,item,reward,propensity,candidates,features\n\
             2,b,1,0.5,\"[\"\"a\"\",\"\"b\"\"]\",\"[1,2,3,4]\"\n\
             1,a,0,0.25,\"[\"\"a\"\",\"\"c\"\"]\",\"[1,2,5,6]\"\n",
        )
        .unwrap();
        assert_eq!(log.dim, 2);
        assert_eq!(log.rows[0].propensity, Some(0.25));
        assert_eq!(log.rows[1].candidate(1, 2), [3.0, 4.0]);
    }

    #[test]
    fn features_of_items_that_never_change_are_completed() {
        let log =
            read("item,reward,context\na,1,\"[1,0]\"\nb,0,\"[0,1]\"\na,1,\"[1,0]\"\n").unwrap();
        assert_eq!(log.dim, 2);
        assert_eq!(&*log.rows[2].features, [1.0, 0.0, 0.0, 1.0]);
        let changing = read("item,reward,context\na,1,\"[1,0]\"\na,0,\"[0,1]\"\n").unwrap();
        assert_eq!(changing.dim, 0, "an item whose features change has none that are known");
    }

    #[test]
    fn rows_whose_number_of_choices_is_not_known_are_left_out_and_counted() {
        let log = read(
            "item,reward,propensity,candidates,among\n\
             a,1,0.25,\"[\"\"a\"\"]\",4\n\
             a,1,0.25,\"[\"\"a\"\"]\",0\n\
             a,1,1,\"[\"\"a\"\"]\",0\n\
             a,1,0.25,\"[\"\"a\"\"]\",\n\
             a,1,1,\"[\"\"a\"\"]\",\n\
             a,1,0.25,\"[\"\"a\"\",\"\"b\"\"]\",\n",
        )
        .unwrap();
        assert_eq!((log.rows.len(), log.unknown_choices), (3, 3));
        let choices: Vec<usize> = log.rows.iter().map(Row::choices).collect();
        assert_eq!(choices, [4, 1, 2]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let refused = |text| read(text).unwrap_err().to_string();
        assert!(refused("a,b\n1,2\n").contains("a column `item`"));
        assert_eq!(
            refused("item,reward,propensity\nx,1,1.5\n"),
            "line 2, column propensity: found 1.5, expected a probability above 0, at most 1: what \
             was chosen can be chosen"
        );
        assert!(refused("item,reward\nx,much\n").contains("line 2, column reward: found `much`"));
        let absent = refused("item,reward,candidates\nx,1,\"[\"\"y\"\"]\"\n");
        assert!(absent.contains("`x`, which was chosen"), "{absent}");
    }
}
