//! When is a model refitted, and who waits for it? A refit takes long: it is handed out, and what it finds comes back as a request.

use std::collections::BTreeMap;

use cohort::RefitJob;

use super::{Engine, Refusal};

/// What a policy has to do that takes long, such as a refit of what users have in common. Whoever
/// runs the engine does it elsewhere, and hands back what it found with [`super::Request::Refitted`]: that
/// changes the model, so it is an event, and replayed it comes at the same place.
pub struct Refit {
    /// The app.
    pub app: String,
    /// Its number.
    pub ticket: u64,
    /// The work.
    pub job: RefitJob,
}

/// Refits that were begun.
#[derive(Default)]
pub(super) struct Refits {
    begun: u64,
    /// The refit that each app waits for.
    pub under_way: BTreeMap<String, u64>,
    /// Apps whose refit failed, and how many rewards they must have for another.
    pub put_off: BTreeMap<String, u64>,
    /// Those that nobody has taken yet.
    waiting: Vec<Refit>,
    /// How many rewards whoever fits for all partitions was told of, app by app …
    pub told: BTreeMap<String, f64>,
    /// … and what is still to be told.
    pub to_tell: Vec<(String, f64)>,
}

impl Engine {
    /// Refits that have become due since they were last taken; decisions go on meanwhile as before
    /// them.
    pub fn take_refits(&mut self) -> Vec<Refit> {
        std::mem::take(&mut self.refits.waiting)
    }

    /// Apps that have clearly more rewards than when this was last taken, of those that are fitted for all partitions of a
    /// cluster together.
    pub fn take_learned(&mut self) -> Vec<(String, f64)> {
        std::mem::take(&mut self.refits.to_tell)
    }

    /// Begins a refit of an app where one is due, or tells whoever fits for all partitions of its rewards.
    pub(super) fn start_job_if_due(&mut self, app: &str) -> Result<(), Refusal> {
        if !self.fits_here(app)? {
            return self.tell_rewards(app);
        }
        let waits = |until: &u64| self.app(app).is_ok_and(|app| app.counts().learned() < *until);
        if self.refits.under_way.contains_key(app)
            || self.refits.put_off.get(app).is_some_and(waits)
        {
            return Ok(());
        }
        if let Some(job) = self.app_mut(app)?.job() {
            self.begin_refit(app, job);
        }
        Ok(())
    }

    /// Has work done elsewhere; what it finds comes back with the ticket.
    pub(crate) fn begin_refit(&mut self, app: &str, job: RefitJob) {
        self.refits.begun += 1;
        let ticket = self.refits.begun;
        self.refits.under_way.insert(app.to_owned(), ticket);
        self.refits.waiting.push(Refit { app: app.to_owned(), ticket, job });
    }

    /// The same fit would fail again: the next one has a quarter more to go by.
    pub(super) fn put_off_refit(&mut self, app: &str) -> Result<(), Refusal> {
        let learned = self.app(app)?.counts().learned();
        self.refits.put_off.insert(app.to_owned(), learned + learned / 4 + 1);
        Ok(())
    }
}
