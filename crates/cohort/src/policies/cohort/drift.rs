//! Users who change: what was seen of them before is forgotten.

use super::Cohort;
use super::posteriors::Posteriors;
use crate::population::constants;
use crate::population::{Ledger, has_jumped, memory_of};

/// When users are looked at, and how often all was forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Watch {
    /// Rewards at the next look.
    pub next: f64,
    /// How often all was forgotten.
    pub restarts: usize,
}

impl Cohort {
    /// Forgets everything if users are not what they were.
    pub(super) fn look_for_drift(&mut self) {
        let rewards = self.ledger.rewards();
        if !self.settings.watched || rewards < self.watch.next {
            return;
        }
        self.watch.next =
            rewards + (constants::drift_growth() * rewards).max(constants::drift_least_growth());
        let (Some(panel), Some(fitted)) = (&self.panel, &self.fitted) else { return };
        let Some(population) = fitted.without_cohorts() else { return };
        if has_jumped(panel, population, self.settings.scoring_mode) {
            self.restart();
        }
    }

    /// As if nothing had been seen.
    pub(super) fn restart(&mut self) {
        let dim = self.ledger.dim();
        self.ledger = Ledger::new(dim, memory_of(self.settings.half_life));
        (self.fitted, self.prior, self.panel, self.refit) = (None, None, None, None);
        (self.fitted_rewards, self.fitted_each) = (0.0, 0.0);
        self.carried.clear();
        self.asked.clear();
        if let Some(posteriors) = &mut self.posteriors {
            let users = posteriors.users();
            *posteriors = Posteriors::new(dim);
            posteriors.grow(users);
        }
        self.watch = Watch { next: 0.0, restarts: self.watch.restarts + 1 };
    }
}
