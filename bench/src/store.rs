//! Stored measurements as JSON, one file per section: a single section can be measured again
//! without the others.

use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::Context;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// The folder.
pub struct Store {
    folder: PathBuf,
    quick: bool,
}

/// A stored section, with the machine and the effort.
#[derive(Serialize, Deserialize)]
pub struct Kept<T> {
    /// The machine.
    pub machine: Machine,
    /// Whether it is a quick run.
    pub quick: bool,
    /// The time, in seconds since 1970.
    pub unix_s: u64,
    /// The measurement.
    pub measured: T,
}

impl Store {
    /// A store for measurements of this effort.
    pub fn new(folder: PathBuf, quick: bool) -> Self {
        Self { folder, quick }
    }

    /// Stores a section in place of the previous one.
    pub fn keep(&self, section: &str, measured: &impl Serialize) -> anyhow::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let (machine, quick) = (Machine::this(), self.quick);
        let kept = Kept { machine, quick, unix_s: now.as_secs(), measured };
        let mut text = serde_json::to_string_pretty(&kept)?;
        text.push('\n');
        let path = self.path(section);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// The stored section, if it was ever measured.
    pub fn get<T: DeserializeOwned>(&self, section: &str) -> anyhow::Result<Option<Kept<T>>> {
        let path = self.path(section);
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path)?;
        let kept = serde_json::from_str(&text).with_context(|| {
            format!("{}: of another version; measure this section again", path.display())
        })?;
        Ok(Some(kept))
    }

    /// A section stored by another program, if it is there.
    pub fn raw(&self, section: &str) -> anyhow::Result<Option<serde_json::Value>> {
        let path = self.path(section);
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path)?;
        let value =
            serde_json::from_str(&text).with_context(|| format!("{}: not JSON", path.display()))?;
        Ok(Some(value))
    }

    fn path(&self, section: &str) -> PathBuf {
        self.folder.join(format!("{section}.json"))
    }
}
