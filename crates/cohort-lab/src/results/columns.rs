//! Tables by column, and writing them as CSV and Parquet.

use std::io::{Error, Result, Write};
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

/// A table in chunks of rows; every chunk has the same columns.
pub struct Table<'a> {
    /// Rows, column by column.
    pub chunks: Vec<Vec<(&'static str, Column<'a>)>>,
}

/// One column of a chunk.
pub enum Column<'a> {
    /// The same text in this many rows.
    Text(&'a str, usize),
    /// Whole numbers.
    Int(Vec<i64>),
    /// Numbers.
    Real(Vec<f64>),
    /// Optional whole numbers.
    MaybeInt(Vec<Option<i64>>),
    /// Optional numbers.
    MaybeReal(Vec<Option<f64>>),
}

impl Column<'_> {
    fn rows(&self) -> usize {
        match self {
            Column::Text(_, rows) => *rows,
            Column::Int(values) => values.len(),
            Column::Real(values) => values.len(),
            Column::MaybeInt(values) => values.len(),
            Column::MaybeReal(values) => values.len(),
        }
    }

    /// One field of a CSV; a missing value is the empty field.
    fn field(&self, row: usize) -> String {
        match self {
            Column::Text(text, _) => (*text).to_owned(),
            Column::Int(values) => values[row].to_string(),
            Column::Real(values) => values[row].to_string(),
            Column::MaybeInt(values) => values[row].map_or(String::new(), |v| v.to_string()),
            Column::MaybeReal(values) => values[row].map_or(String::new(), |v| v.to_string()),
        }
    }

    fn parquet_type(&self, name: &str) -> parquet::errors::Result<TypePtr> {
        let (physical, converted, repetition) = match self {
            Column::Text(..) => (Physical::BYTE_ARRAY, ConvertedType::UTF8, Repetition::REQUIRED),
            Column::Int(_) => (Physical::INT64, ConvertedType::NONE, Repetition::REQUIRED),
            Column::Real(_) => (Physical::DOUBLE, ConvertedType::NONE, Repetition::REQUIRED),
            Column::MaybeInt(_) => (Physical::INT64, ConvertedType::NONE, Repetition::OPTIONAL),
            Column::MaybeReal(_) => (Physical::DOUBLE, ConvertedType::NONE, Repetition::OPTIONAL),
        };
        let builder = Type::primitive_type_builder(name, physical);
        let builder = builder.with_converted_type(converted).with_repetition(repetition);
        Ok(Arc::new(builder.build()?))
    }
}

/// Writes a table as CSV with a header.
pub fn write_csv(to: &mut impl Write, table: &Table) -> Result<()> {
    let mut csv = csv::Writer::from_writer(to);
    if let Some(first) = table.chunks.first() {
        csv.write_record(first.iter().map(|(name, _)| name))?;
    }
    for chunk in &table.chunks {
        for row in 0..chunk.first().map_or(0, |(_, column)| column.rows()) {
            csv.write_record(chunk.iter().map(|(_, column)| column.field(row)))?;
        }
    }
    csv.flush()
}

/// Writes a table as Parquet, one row group per chunk.
pub fn write_parquet(to: &mut (impl Write + Send), table: &Table) -> Result<()> {
    let mut write = || -> parquet::errors::Result<()> {
        let first = table.chunks.first().map(Vec::as_slice).unwrap_or_default();
        let fields: parquet::errors::Result<Vec<TypePtr>> =
            first.iter().map(|(name, column)| column.parquet_type(name)).collect();
        let schema = Type::group_type_builder("schema").with_fields(fields?).build()?;
        let properties =
            Arc::new(WriterProperties::builder().set_compression(Compression::SNAPPY).build());
        let mut file = SerializedFileWriter::new(&mut *to, Arc::new(schema), properties)?;
        for chunk in &table.chunks {
            let mut group = file.next_row_group()?;
            for (_, column) in chunk {
                write_column(&mut group, column)?;
            }
            group.close()?;
        }
        file.close()?;
        Ok(())
    };
    write().map_err(|error| match error {
        ParquetError::External(error) => Error::other(error),
        error => Error::other(error.to_string()),
    })
}

fn write_column<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<W>,
    column: &Column,
) -> parquet::errors::Result<()> {
    let Some(mut writer) = group.next_column()? else {
        return Err(ParquetError::General("more columns than the schema has".into()));
    };
    match column {
        Column::Text(text, rows) => {
            let values = vec![ByteArray::from(*text); *rows];
            writer.typed::<ByteArrayType>().write_batch(&values, None, None)?;
        }
        Column::Int(values) => {
            writer.typed::<Int64Type>().write_batch(values, None, None)?;
        }
        Column::Real(values) => {
            writer.typed::<DoubleType>().write_batch(values, None, None)?;
        }
        Column::MaybeInt(values) => {
            let (present, levels) = split(values);
            writer.typed::<Int64Type>().write_batch(&present, Some(&levels), None)?;
        }
        Column::MaybeReal(values) => {
            let (present, levels) = split(values);
            writer.typed::<DoubleType>().write_batch(&present, Some(&levels), None)?;
        }
    }
    writer.close()
}

/// The present values, and Parquet's definition levels.
fn split<T: Copy>(values: &[Option<T>]) -> (Vec<T>, Vec<i16>) {
    let present = values.iter().flatten().copied().collect();
    (present, values.iter().map(|value| i16::from(value.is_some())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    fn table() -> Table<'static> {
        let chunk = |label, clusters| {
            vec![
                ("policy", Column::Text(label, 2)),
                ("round", Column::Int(vec![1, 2])),
                ("regret", Column::Real(vec![0.1, 1.0 / 3.0])),
                ("clusters", Column::MaybeInt(vec![None, clusters])),
                ("adjusted_rand", Column::MaybeReal(vec![Some(0.5), None])),
            ]
        };
        Table { chunks: vec![chunk("a, b", Some(4)), chunk("c", None)] }
    }

    #[test]
    fn csv_has_every_digit_and_an_empty_field_for_nothing() {
        let mut text = Vec::new();
        write_csv(&mut text, &table()).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "policy,round,regret,clusters,adjusted_rand\n\
             \"a, b\",1,0.1,,0.5\n\
             \"a, b\",2,0.3333333333333333,4,\n\
             c,1,0.1,,0.5\n\
             c,2,0.3333333333333333,,\n"
        );
    }

    #[test]
    fn parquet_is_read_back_as_it_was() {
        let mut file = tempfile::tempfile().unwrap();
        write_parquet(&mut file, &table()).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        assert_eq!(reader.num_row_groups(), 2);
        let rows: Vec<String> =
            reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(
            rows[1],
            "{policy: \"a, b\", round: 2, regret: 0.3333333333333333, clusters: 4, \
             adjusted_rand: null}"
        );
        assert_eq!(rows.len(), 4);
        assert!(rows[3].contains("clusters: null"));
    }
}
