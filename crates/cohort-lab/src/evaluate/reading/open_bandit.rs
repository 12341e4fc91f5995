//! The Open Bandit Dataset: recommendations of a fashion shop, and clicks.
//!
//! `{campaign}.csv` (or `.csv.gz`) beside `item_context.csv`, as Saito, Aihara, Matsutani and
//! Narita, *Open Bandit Dataset and Pipeline*, 2020 (arXiv:2008.07146) publish it.
//!
//! - All items of `item_context.csv` are candidates in every row, in the order of their numbers.
//! - There are no users: rows with the same four user features count as one user.
//! - Features of a candidate, for policies that learn: 1, the affinity of user and item, and
//!   `item_feature_0`.
//! - Features of a row, for the reward model: the user features, one column for each category but
//!   the alphabetically first, as the Open Bandit Pipeline has them. Items are known by their names,
//!   and each position has a model of its own.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use csv::StringRecord;

use super::not_csv;
use crate::Error;
use crate::evaluate::log::{Log, Row};

const USER_FEATURES: [&str; 4] =
    ["user_feature_0", "user_feature_1", "user_feature_2", "user_feature_3"];
/// The number of features of a candidate: see above.
const DIM: usize = 3;

/// Whether these are the columns of the Open Bandit Dataset.
pub(super) fn is_its_header(header: &StringRecord) -> bool {
    ["item_id", "click", "propensity_score", "position"]
        .iter()
        .all(|name| header.iter().any(|column| column == *name))
}

/// Reads a campaign; `item_context.csv` must be beside it.
pub(super) fn read(
    path: &Path,
    csv: &mut csv::Reader<Box<dyn Read>>,
    header: &StringRecord,
) -> Result<Log, Error> {
    let items = read_items(&path.with_file_name("item_context.csv"))?;
    let columns = Columns::find(header, items.len())?;
    let mut records = Vec::new();
    for record in csv.records() {
        records.push(record.map_err(not_csv)?);
    }
    // Timestamps have one format, so that they sort as words.
    records.sort_by(|a, b| a[columns.timestamp].cmp(&b[columns.timestamp]));
    let categories = columns.user.map(|column| {
        let values: BTreeSet<String> = records.iter().map(|r| r[column].to_owned()).collect();
        values.into_iter().skip(1).collect::<Vec<_>>()
    });
    let mut log = Log {
        dim: DIM,
        context_dim: categories.iter().map(Vec::len).sum(),
        known_by_name: true,
        ..Log::default()
    };
    for item in 0..items.len() {
        log.items.number(&item.to_string());
    }
    let candidates: Arc<[u32]> = (0..items.len() as u32).collect();
    for record in &records {
        let row = columns.row(record, &items, &candidates, &categories, &mut log)?;
        log.rows.push(row);
    }
    Ok(log)
}

/// `item_feature_0` of every item, in the order of their numbers.
fn read_items(path: &Path) -> Result<Vec<f64>, Error> {
    let from = std::fs::File::open(path)
        .map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let mut csv = csv::Reader::from_reader(from);
    let wrong = |error: Error| error.at(path);
    let header = csv.headers().map_err(|why| wrong(not_csv(why)))?.clone();
    let (id, feature) = (
        column(&header, "item_id").map_err(wrong)?,
        column(&header, "item_feature_0").map_err(wrong)?,
    );
    let mut items = Vec::new();
    for record in csv.records() {
        let record = record.map_err(|why| wrong(not_csv(why)))?;
        if number(&record, id, "item_id").map_err(wrong)? as usize != items.len() {
            let expected = format!("{}, the next item", items.len());
            return Err(wrong(Error::unexpected(place(&record, "item_id"), &record[id], expected)));
        }
        items.push(number(&record, feature, "item_feature_0").map_err(wrong)?);
    }
    Ok(items)
}

/// The index of each column.
struct Columns {
    timestamp: usize,
    item: usize,
    position: usize,
    click: usize,
    propensity: usize,
    user: [usize; 4],
    affinity: Vec<Option<usize>>,
}

impl Columns {
    fn find(header: &StringRecord, items: usize) -> Result<Self, Error> {
        let mut user = [0; 4];
        for (at, name) in user.iter_mut().zip(USER_FEATURES) {
            *at = column(header, name)?;
        }
        let affinity = (0..items).map(|item| {
            header.iter().position(|name| name == format!("user-item_affinity_{item}"))
        });
        Ok(Self {
            timestamp: column(header, "timestamp")?,
            item: column(header, "item_id")?,
            position: column(header, "position")?,
            click: column(header, "click")?,
            propensity: column(header, "propensity_score")?,
            user,
            affinity: affinity.collect(),
        })
    }

    fn row(
        &self,
        record: &StringRecord,
        items: &[f64],
        candidates: &Arc<[u32]>,
        categories: &[Vec<String>; 4],
        log: &mut Log,
    ) -> Result<Row, Error> {
        let chosen = number(record, self.item, "item_id")? as usize;
        if chosen >= items.len() {
            let expected = format!("one of the {} items of item_context.csv", items.len());
            return Err(Error::unexpected(place(record, "item_id"), chosen.to_string(), expected));
        }
        let propensity = number(record, self.propensity, "propensity_score")?;
        if !(propensity > 0.0 && propensity <= 1.0) {
            let expected = "a probability above 0, at most 1";
            let found = propensity.to_string();
            return Err(Error::unexpected(place(record, "propensity_score"), found, expected));
        }
        let mut features = Vec::with_capacity(DIM * items.len());
        for (item, feature) in items.iter().enumerate() {
            let affinity = match self.affinity[item] {
                Some(column) => number(record, column, "user-item_affinity")?,
                None => 0.0,
            };
            features.extend([1.0, affinity, *feature]);
        }
        let users = self.user.map(|column| &record[column]);
        let context = users.iter().zip(categories).flat_map(|(found, known)| {
            known.iter().map(move |category| f64::from(u8::from(category == found)))
        });
        let context = context.collect();
        Ok(Row {
            among: None,
            line: record.position().map_or(0, csv::Position::line) as usize,
            user: log.users.number(&users.join(" ")),
            candidates: candidates.clone(),
            chosen,
            propensity: Some(propensity),
            reward: number(record, self.click, "click")?,
            stratum: (number(record, self.position, "position")? as usize).saturating_sub(1),
            features: features.into(),
            context,
        })
    }
}

fn column(header: &StringRecord, name: &str) -> Result<usize, Error> {
    header
        .iter()
        .position(|column| column == name)
        .ok_or_else(|| Error::unexpected("the header", "no such column", format!("`{name}`")))
}

fn number(record: &StringRecord, column: usize, name: &str) -> Result<f64, Error> {
    let field = record.get(column).unwrap_or_default();
    let number = field.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| Error::unexpected(place(record, name), format!("`{field}`"), "a number"))
}

fn place(record: &StringRecord, name: &str) -> String {
    format!("line {}, column {name}", record.position().map_or(0, csv::Position::line))
}
