//! What was measured, kept as JSON, one file a section: a single table can be made again without
//! the others.

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

/// A section, and on what and how it was measured.
#[derive(Serialize, Deserialize)]
pub struct Kept<T> {
    /// On what.
    pub machine: Machine,
    /// With little effort.
    pub quick: bool,
    /// When, in seconds since 1970.
    pub unix_s: u64,
    /// What.
    pub measured: T,
}

impl Store {
    /// Of what is measured with this effort.
    pub fn new(folder: PathBuf, quick: bool) -> Self {
        Self { folder, quick }
    }

    /// Keeps a section in place of what was there.
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

    /// What was kept of a section, if it was ever measured.
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

    /// What another program left of a section, if it did.
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
