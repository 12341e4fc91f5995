//! The log as Parquet, one row group for some thousand decisions, or for fewer that are large.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::Table;
use super::rows::ExportRow;

/// Decisions in a row group.
const GROUP: usize = 8192;
/// A row group ends when its decisions take this much memory: those with the features of all candidates have megabytes.
const GROUP_BYTES: usize = 16 << 20;

const SCHEMA: &str = "
message decisions {
  required binary decision_id (UTF8);
  required binary user (UTF8);
  required int64 decided_ms;
  required binary item (UTF8);
  required double propensity;
  optional double reward;
  required binary status (UTF8);
  required boolean control;
  required group candidates (LIST) { repeated group list { required binary element (UTF8); } }
  required group context (LIST) { repeated group list { required double element; } }
  required group features (LIST) { repeated group list { required double element; } }
  optional int64 catalogue_version;
  optional int64 among;
}";

/// Rows become row groups.
pub struct ParquetTable<W: Write + Send> {
    /// `None` once it is finished.
    file: Option<SerializedFileWriter<W>>,
    rows: Vec<ExportRow>,
    /// How much memory these take.
    bytes: usize,
}

impl<W: Write + Send> ParquetTable<W> {
    /// Begins with nothing.
    pub fn new(to: W) -> io::Result<Self> {
        let schema = Arc::new(parse_message_type(SCHEMA).map_err(failed)?);
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let file = SerializedFileWriter::new(to, schema, Arc::new(properties)).map_err(failed)?;
        Ok(Self { file: Some(file), rows: Vec::new(), bytes: 0 })
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        let Some(file) = self.file.as_mut().filter(|_| !rows.is_empty()) else { return Ok(()) };
        let mut group = file.next_row_group()?;
        let text = |text: &str| ByteArray::from(text);
        let column = |of: &dyn Fn(&ExportRow) -> ByteArray| rows.iter().map(of).collect::<Vec<_>>();
        let plain =
            |group: &mut _, values: &[ByteArray]| write::<ByteArrayType, W>(group, values, None);
        plain(&mut group, &column(&|row| text(&row.made.id)))?;
        plain(&mut group, &column(&|row| text(&row.made.user)))?;
        let times: Vec<i64> = rows.iter().map(|row| row.decided_ms as i64).collect();
        write::<Int64Type, W>(&mut group, &times, None)?;
        let first = |row: &ExportRow| text(row.made.ranking.iter().next().unwrap_or_default());
        plain(&mut group, &column(&first))?;
        let propensities: Vec<f64> = rows.iter().map(|row| row.made.probability).collect();
        write::<DoubleType, W>(&mut group, &propensities, None)?;
        let rewards: Vec<f64> = rows.iter().filter_map(|row| row.reward).collect();
        let there: Vec<i16> = rows.iter().map(|row| row.reward.is_some().into()).collect();
        write::<DoubleType, W>(&mut group, &rewards, Some((&there, None)))?;
        plain(&mut group, &column(&|row| text(row.status)))?;
        let controls: Vec<bool> = rows.iter().map(|row| row.control).collect();
        write::<BoolType, W>(&mut group, &controls, None)?;
        let words = |row: &ExportRow| row.made.ranking.iter().map(text).collect::<Vec<_>>();
        write_lists::<ByteArrayType, W>(&mut group, rows.iter().map(words))?;
        let of_chosen = |row: &ExportRow| row.made.context.to_vec();
        write_lists::<DoubleType, W>(&mut group, rows.iter().map(of_chosen))?;
        let of_all = |row: &ExportRow| row.features.to_vec();
        write_lists::<DoubleType, W>(&mut group, rows.iter().map(of_all))?;
        let there: Vec<i16> = rows.iter().map(|row| row.catalogue.is_some().into()).collect();
        let chosen_from = rows.iter().filter_map(|row| row.catalogue);
        let (versions, among): (Vec<i64>, Vec<i64>) =
            chosen_from.map(|(version, among)| (version as i64, among as i64)).unzip();
        write::<Int64Type, W>(&mut group, &versions, Some((&there, None)))?;
        write::<Int64Type, W>(&mut group, &among, Some((&there, None)))?;
        group.close()?;
        Ok(())
    }
}

impl<W: Write + Send> Table for ParquetTable<W> {
    fn add(&mut self, row: ExportRow) -> io::Result<()> {
        self.bytes += row.bytes();
        self.rows.push(row);
        match self.rows.len() < GROUP && self.bytes < GROUP_BYTES {
            true => Ok(()),
            false => self.write_group().map_err(failed),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.write_group().map_err(failed)?;
        if let Some(file) = self.file.take() {
            file.close().map_err(failed)?;
        }
        Ok(())
    }
}

/// Writes the next column; levels say where values are and where lists begin.
fn write<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<W>,
    values: &[T::T],
    levels: Option<(&[i16], Option<&[i16]>)>,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("more columns than the schema has".into()));
    };
    let (there, begins) = levels.map_or((None, None), |(there, begins)| (Some(there), begins));
    column.typed::<T>().write_batch(values, there, begins)?;
    column.close()
}

/// Writes the next column, one list a row.
fn write_lists<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<W>,
    lists: impl Iterator<Item = Vec<T::T>>,
) -> Result<(), ParquetError> {
    let (mut values, mut there, mut begins) = (Vec::new(), Vec::new(), Vec::new());
    for list in lists {
        // A list of nothing has a place, but no value.
        there.extend(std::iter::repeat_n(i16::from(!list.is_empty()), list.len().max(1)));
        begins.extend((0..list.len().max(1)).map(|at| i16::from(at > 0)));
        values.extend(list);
    }
    write::<T, W>(group, &values, Some((&there, Some(&begins))))
}

fn failed(why: ParquetError) -> io::Error {
    match why {
        ParquetError::External(why) => io::Error::other(why),
        why => io::Error::other(why.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Decided, Ranking};
    use parquet::file::reader::{FileReader, SerializedFileReader};

    /// How many rows each group has, where each row has so many features of its candidates.
    fn groups(rows: usize, features: usize) -> Vec<i64> {
        let mut file = Vec::new();
        let mut table = ParquetTable::new(&mut file).unwrap();
        for at in 0..rows {
            let made = Decided {
                id: at.to_string(),
                user: "ann".to_owned(),
                ranking: Ranking::new(["tea", "coffee"]),
                context: Box::new([1.0]),
                probability: 1.0,
                shown: true,
            };
            let features = vec![at as f64; features].into();
            let (status, catalogue, reward) = ("open", None, None);
            let (decided_ms, control) = (0, false);
            let row = ExportRow { made, decided_ms, control, features, catalogue, status, reward };
            table.add(row).unwrap();
        }
        table.finish().unwrap();
        drop(table);
        let file = SerializedFileReader::new(axum::body::Bytes::from(file)).unwrap();
        let groups = file.metadata().row_groups();
        groups.iter().map(|group| group.num_rows()).collect()
    }

    #[test]
    fn a_row_group_ends_by_its_rows_or_by_what_they_take() {
        assert_eq!(groups(GROUP + 5, 0), [GROUP as i64, 5]);
        // Two megabytes each.
        assert_eq!(groups(20, 1 << 18), [8, 8, 4]);
    }
}
