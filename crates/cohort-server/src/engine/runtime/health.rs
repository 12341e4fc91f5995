//! Is everything that should run running? What fails is told by whoever asks; without engine or
//! journal the process has to end.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::engine::Trouble;

/// What can fail, and why it does.
pub struct Health {
    /// Why the engine cannot go on.
    ended: watch::Sender<Option<String>>,
    /// Why no snapshot could be written.
    snapshots: Mutex<Option<String>>,
    /// Why a snapshot waits for room on the disk.
    snapshot_waits: Mutex<Option<String>>,
    /// What is wrong with single apps.
    apps: Mutex<BTreeMap<String, Vec<Trouble>>>,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            ended: watch::Sender::new(None),
            snapshots: Mutex::default(),
            snapshot_waits: Mutex::default(),
            apps: Mutex::default(),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Health {
    /// The engine or its journal cannot go on. The first reason stays.
    pub fn end(&self, why: &str) {
        self.ended.send_if_modified(|ended| {
            let first = ended.is_none();
            ended.get_or_insert_with(|| why.to_owned());
            first
        });
    }

    /// Why it cannot go on, if that is so.
    pub fn ended(&self) -> Option<String> {
        self.ended.borrow().clone()
    }

    /// Waits until it cannot go on; returns why.
    pub async fn wait_for_end(&self) -> String {
        let mut ended = self.ended.subscribe();
        match ended.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => std::future::pending().await,
        }
    }

    /// The last snapshot was written, or why it was not.
    pub fn set_snapshots(&self, why: Option<String>) {
        *locked(&self.snapshots) = why;
    }

    /// The last snapshot waits for room on the disk, or does not.
    pub fn set_snapshot_waits(&self, why: Option<String>) {
        *locked(&self.snapshot_waits) = why;
    }

    /// What is wrong with single apps now.
    pub fn set_apps(&self, troubles: BTreeMap<String, Vec<Trouble>>) {
        let quarantined = troubles.values().flatten().filter(|trouble| trouble.is_quarantine());
        metrics::gauge!("cohort_apps_quarantined").set(quarantined.count() as f64);
        *locked(&self.apps) = troubles;
    }

    /// What fails in the service as a whole: sentences for people. Nothing where all is well.
    pub fn failures(&self) -> Vec<String> {
        let mut failures: Vec<String> = self.ended().into_iter().collect();
        failures.extend(locked(&self.snapshots).clone());
        failures.extend(self.told(false));
        failures
    }

    /// What is to be known while the service as a whole goes on: what is wrong with single apps, and whether snapshots wait
    /// for room on the disk.
    pub fn quarantines(&self) -> Vec<String> {
        let mut told = self.told(true);
        told.extend(locked(&self.snapshot_waits).clone());
        told
    }

    fn told(&self, quarantine: bool) -> Vec<String> {
        let apps = locked(&self.apps);
        let troubles =
            apps.iter().flat_map(|(app, troubles)| troubles.iter().map(move |t| (app, t)));
        let wanted = troubles.filter(|(_, trouble)| trouble.is_quarantine() == quarantine);
        wanted.map(|(app, trouble)| trouble.told(app)).collect()
    }
}
