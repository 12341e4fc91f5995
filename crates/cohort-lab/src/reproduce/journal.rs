//! Results that are already there: one line a job in a file that only grows. A run that was
//! interrupted, even in the middle of a line, goes on from there.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::job::JobOutcome;
use crate::Error;

/// The finished jobs of all runs into one folder.
pub struct Journal<T = JobOutcome> {
    path: PathBuf,
    file: Mutex<File>,
    known: Mutex<HashMap<String, T>>,
}

#[derive(Serialize, Deserialize)]
struct JournalLine<T> {
    key: String,
    outcome: T,
}

impl<T: Serialize + DeserializeOwned + Clone> Journal<T> {
    /// Opens the journal, or begins one. Lines that are not whole are passed over.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Write { path: path.to_owned(), source };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut options = OpenOptions::new();
        let mut file = options.read(true).append(true).create(true).open(path).map_err(failed)?;
        let mut text = String::new();
        file.rewind().and_then(|()| file.read_to_string(&mut text)).map_err(failed)?;
        let lines =
            text.lines().filter_map(|line| serde_json::from_str::<JournalLine<T>>(line).ok());
        let known = lines.map(|line| (line.key, line.outcome)).collect();
        if !text.is_empty() && !text.ends_with('\n') {
            file.write_all(b"\n").map_err(failed)?;
        }
        Ok(Self { path: path.to_owned(), file: Mutex::new(file), known: Mutex::new(known) })
    }

    /// The result of a job, if it is there.
    pub fn get(&self, key: &str) -> Option<T> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Keeps the result of a job.
    pub fn put(&self, key: String, outcome: T) -> Result<(), Error> {
        let line = JournalLine { key, outcome };
        let mut text = serde_json::to_string(&line).expect("numbers and words have a JSON form");
        text.push('\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(text.as_bytes())
            .map_err(|source| Error::Write { path: self.path.clone(), source })?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(line.key, line.outcome);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_there_again_to_the_last_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let outcome = |x: f64| JobOutcome {
            regret: vec![x, x / 3.0],
            clusters: Some(3),
            seconds: 0.1,
            users: vec![x as f32],
            values: vec![x, f64::INFINITY].into_iter().filter(|x| x.is_finite()).collect(),
            ..JobOutcome::default()
        };
        Journal::<JobOutcome>::open(&path).unwrap().put("a".into(), outcome(0.1 + 0.2)).unwrap();
        // Interrupted while writing.
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"key\":\"b\",\"outc").unwrap();
        let journal = Journal::<JobOutcome>::open(&path).unwrap();
        assert_eq!(journal.get("a"), Some(outcome(0.1 + 0.2)));
        assert_eq!(journal.get("b"), None);
        journal.put("b".into(), outcome(1e-17)).unwrap();
        assert_eq!(Journal::<JobOutcome>::open(&path).unwrap().get("b"), Some(outcome(1e-17)));
    }
}
