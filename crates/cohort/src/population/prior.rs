//! What is believed of one user that comes alone.

use super::inference::{Inference, ScoringMode};
use super::ledger::Ledger;
use super::model::Population;
use super::moments::Moments;
use super::posterior::Belief;

/// A population prepared for users that come alone.
///
/// What is believed of a user is a function of its statistics and the population, and of nothing else: it
/// need not be kept.
#[derive(Clone, Debug)]
pub struct Prior {
    population: Population,
    scoring_mode: ScoringMode,
    newcomer: Belief,
}

impl Prior {
    /// For a population.
    pub fn new(population: Population, scoring_mode: ScoringMode) -> Self {
        let users = Moments::unseen(population.features());
        let [newcomer, ..] = Inference::new(&population, scoring_mode).infer(users);
        Self { newcomer, population, scoring_mode }
    }

    /// The population.
    pub fn population(&self) -> &Population {
        &self.population
    }

    /// What is believed of users of whom nothing was seen.
    pub fn newcomer(&self) -> &Belief {
        &self.newcomer
    }

    /// What is believed of a user, from all that was seen of it.
    pub fn infer(&self, ledger: &Ledger, slot: usize) -> Belief {
        let [belief, ..] =
            Inference::new(&self.population, self.scoring_mode).infer(ledger.moments(&[slot]));
        belief
    }
}
