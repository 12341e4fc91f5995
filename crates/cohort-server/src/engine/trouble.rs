//! What is wrong with a single app, while the others go on?
//!
//! A policy that panics is a bug, of the program or in what it was sent; what the app knows may be
//! half changed then. The app is quarantined: nothing is asked of it or written down for it any more,
//! and no snapshot is written that would keep it as it is: for one, the app is brought back from the snapshot before
//! and the journal, on the thread that writes it. Whatever was acknowledged is there, and the next start brings the app
//! back to those who ask, too.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Answer, Engine, Refusal};
use crate::journal::Group;

/// What is wrong with an app.
#[derive(Clone, Debug, PartialEq)]
pub enum Trouble {
    /// Its policy stopped at a bug.
    Quarantined(String),
    /// It could not be fitted again.
    Refit(String),
}

impl Trouble {
    /// Whether the app answers nothing any more.
    pub fn is_quarantine(&self) -> bool {
        matches!(self, Self::Quarantined(_))
    }

    /// In a sentence.
    pub fn told(&self, app: &str) -> String {
        match self {
            Self::Quarantined(why) => format!(
                "app `{app}` is quarantined: its policy stopped at a bug ({why}); a restart brings it \
                 back as it was before"
            ),
            Self::Refit(why) => {
                format!("app `{app}` could not be fitted again ({why}); it goes on as it was")
            }
        }
    }
}

/// What is wrong with which app.
#[derive(Default)]
pub(super) struct Troubles {
    quarantined: BTreeMap<String, String>,
    refits: BTreeMap<String, String>,
    changed: bool,
}

impl Troubles {
    pub(super) fn quarantine(&self, app: &str) -> Option<&str> {
        self.quarantined.get(app).map(String::as_str)
    }

    pub(super) fn refit_failed(&mut self, app: &str, why: &str) {
        self.refits.insert(app.to_owned(), why.to_owned());
        self.changed = true;
    }

    pub(super) fn refit_went_well(&mut self, app: &str) {
        self.changed |= self.refits.remove(app).is_some();
    }

    pub(super) fn forget(&mut self, app: &str) {
        self.changed |= self.quarantined.remove(app).is_some() | self.refits.remove(app).is_some();
    }
}

impl Engine {
    /// What is wrong with single apps, if that has changed since it was last asked.
    pub fn changed_troubles(&mut self) -> Option<BTreeMap<String, Vec<Trouble>>> {
        if !std::mem::take(&mut self.troubles.changed) {
            return None;
        }
        let mut troubles = BTreeMap::<String, Vec<Trouble>>::new();
        for (app, why) in &self.troubles.quarantined {
            troubles.entry(app.clone()).or_default().push(Trouble::Quarantined(why.clone()));
        }
        for (app, why) in &self.troubles.refits {
            troubles.entry(app.clone()).or_default().push(Trouble::Refit(why.clone()));
        }
        Some(troubles)
    }

    /// The apps that may not be kept as they are: they may differ from what the journal says.
    pub fn quarantined(&self) -> BTreeSet<String> {
        self.troubles.quarantined.keys().cloned().collect()
    }

    /// There is nobody left to do a refit.
    pub fn refit_is_lost(&mut self, app: &str) {
        self.troubles.refit_failed(app, "the thread that refits is gone");
    }

    /// Does something for one app. If it panics the app is quarantined, and what was written down
    /// and not done is taken back.
    pub(super) fn guarded(
        &mut self,
        app: &str,
        group: &mut Group,
        work: impl FnOnce(&mut Self, &mut Group) -> Result<Answer, Refusal>,
    ) -> Result<Answer, Refusal> {
        if let Some(why) = self.troubles.quarantine(app) {
            return Err(Refusal::Quarantined { app: app.to_owned(), why: why.to_owned() });
        }
        self.consistent = group.mark();
        let panic = match catch_unwind(AssertUnwindSafe(|| work(self, group))) {
            Ok(answer) => return answer,
            Err(panic) => panic,
        };
        group.rewind(self.consistent);
        let why = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no reason was given")
            .to_owned();
        tracing::error!(app, why, "the app is quarantined: its policy stopped at a bug");
        self.troubles.quarantined.insert(app.to_owned(), why.clone());
        self.troubles.changed = true;
        Err(Refusal::Quarantined { app: app.to_owned(), why })
    }
}
