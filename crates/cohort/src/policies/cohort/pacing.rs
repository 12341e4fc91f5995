//! Refits where users come one at a time: a little with every call, so that none of them waits for long.

use std::sync::Mutex;

use super::Cohort;
use crate::pace::Paced;
use crate::population::{FitScope, Fitted, mean_rewards};

/// What one call does of a refit, in multiplications of eight numbers: some milliseconds.
const SLICE: f64 = 1e7;
/// Users × D³ below which a refit is not sliced: all of it takes less than two slices.
const AT_ONCE: f64 = 1e6;

/// A refit under way.
pub(super) struct Refit {
    /// A mutex, so that the policy is `Sync`.
    work: Mutex<Paced<Option<Fitted>>>,
    /// [`Cohort::rewards_at_refit`] when it began …
    rewards: f64,
    /// … and how many each had of those who come often.
    each: f64,
}

impl Cohort {
    /// Begins a refit where one is due, and goes on with one that is under way.
    pub(super) fn go_on_refitting(&mut self) {
        if self.refit.is_none() {
            let dim = (self.ledger.dim() + 1) as f64;
            let small = self.ledger.answered() as f64 * dim.powi(3) < AT_ONCE;
            match self.due() {
                Some(scope) if !small && self.store.rounds.is_none() => self.begin_refit(scope),
                _ => return self.refit_if_due(),
            }
        }
        let Some(refit) = &mut self.refit else { return };
        let work = refit.work.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(found) = work.go_on(SLICE) {
            self.end_refit(found);
        }
    }

    /// Waits for a refit that is under way.
    pub(super) fn finish_refit(&mut self) {
        if let Some(refit) = self.refit.take() {
            let work = refit.work.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
            let found = work.finish();
            self.take_result(found, refit.rewards, refit.each);
        }
    }

    fn begin_refit(&mut self, scope: FitScope) {
        let ledger = self.ledger().clone();
        let (rewards, each) = (self.rewards_at_refit(scope), mean_rewards(&ledger));
        let (before, panel) = (self.fitted.clone(), self.panel.clone());
        let (given, scoring_mode) = (self.settings.given, self.settings.scoring_mode);
        let fit = move || {
            Fitted::fit(&ledger, before.as_ref(), panel.as_ref(), &given, scoring_mode, scope)
        };
        match Paced::new(fit) {
            Ok(work) => self.refit = Some(Refit { work: Mutex::new(work), rewards, each }),
            // Without a thread it is done here and now.
            Err(_) => self.refit_if_due(),
        }
    }

    fn end_refit(&mut self, found: Option<Fitted>) {
        if let Some(refit) = self.refit.take() {
            self.take_result(found, refit.rewards, refit.each);
        }
    }

    /// Takes on what a fit found, if anything; where nothing was to be found there is no other until more was seen.
    pub(super) fn take_result(&mut self, found: Option<Fitted>, rewards: f64, each: f64) {
        (self.fitted_rewards, self.fitted_each) = (rewards, each);
        if let Some(fitted) = found {
            self.install_fit(fitted);
        }
    }
}
