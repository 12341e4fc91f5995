//! What is believed of one user that comes alone.

use super::believer::{Believer, Outlook};
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
    outlook: Outlook,
    newcomer: Belief,
}

impl Prior {
    /// For a population.
    pub fn new(population: Population, outlook: Outlook) -> Self {
        let users = Moments::unseen(population.features());
        let [newcomer, ..] = Believer::new(&population, outlook).believe(users);
        Self { newcomer, population, outlook }
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
    pub fn believe(&self, ledger: &Ledger, slot: usize) -> Belief {
        let [belief, ..] =
            Believer::new(&self.population, self.outlook).believe(ledger.moments(&[slot]));
        belief
    }
}
