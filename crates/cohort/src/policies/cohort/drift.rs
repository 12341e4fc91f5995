//! Reaction to drift: all statistics are forgotten.

use super::Cohort;
use super::posteriors::Posteriors;
use crate::population::constants;
use crate::population::{Ledger, has_jumped, memory_of};

/// When drift is tested next, and how often it was found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Watch {
    /// The number of rewards at the next test.
    pub next: f64,
    /// How often drift was found.
    pub restarts: usize,
}

impl Cohort {
    /// Tests for drift, and forgets everything if users have changed.
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

    /// Resets to the state before any reward.
    pub(super) fn restart(&mut self) {
        let dim = self.ledger.dim();
        self.ledger = Ledger::new(dim, memory_of(self.settings.half_life));
        (self.fitted, self.prior, self.panel, self.refit) = (None, None, None, None);
        (self.fitted_rewards, self.fitted_each) = (0.0, 0.0);
        self.store.clear_online();
        if let Some(posteriors) = &mut self.store.rounds {
            let users = posteriors.users();
            *posteriors = Posteriors::new(dim);
            posteriors.grow(users);
        }
        self.watch = Watch { next: 0.0, restarts: self.watch.restarts + 1 };
    }
}
