//! The log as CSV.

use std::io::{self, Write};

use super::Table;
use super::rows::ExportRow;

const HEADER: [&str; 13] = [
    "decision_id",
    "user",
    "decided_ms",
    "item",
    "propensity",
    "reward",
    "status",
    "control",
    "candidates",
    "context",
    "features",
    "catalogue_version",
    "among",
];

/// Rows become lines.
pub struct CsvTable<W: Write> {
    writer: csv::Writer<W>,
}

impl<W: Write> CsvTable<W> {
    /// Begins with the header.
    pub fn new(to: W) -> io::Result<Self> {
        let mut writer = csv::Writer::from_writer(to);
        writer.write_record(HEADER)?;
        Ok(Self { writer })
    }
}

impl<W: Write> Table for CsvTable<W> {
    fn add(&mut self, row: ExportRow) -> io::Result<()> {
        let candidates: Vec<&str> = row.made.ranking.iter().collect();
        let item = candidates.first().copied().unwrap_or_default().to_owned();
        let features = match row.features.is_empty() {
            true => String::new(),
            false => serde_json::to_string(&row.features)?,
        };
        self.writer.write_record([
            row.made.id.clone(),
            row.made.user.clone(),
            row.decided_ms.to_string(),
            item,
            row.made.probability.to_string(),
            row.reward.map_or_else(String::new, |reward| reward.to_string()),
            row.status.to_owned(),
            row.control.to_string(),
            serde_json::to_string(&candidates)?,
            serde_json::to_string(&row.made.context)?,
            features,
            row.catalogue.map_or_else(String::new, |(version, _)| version.to_string()),
            row.catalogue.map_or_else(String::new, |(_, among)| among.to_string()),
        ])?;
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}
