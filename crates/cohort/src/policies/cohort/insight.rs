//! Read-only views of what the `cohort` policy has learned.

use super::Cohort;
use crate::Contexts;
use crate::insight::{Insight, Position, UserSummary};
use crate::population::{
    ArmReport, Belief, Explanation, Inherited, Membership, Moments, Population,
};

impl Cohort {
    /// Why an arm is played for a user; `None` while there is nothing to explain, or for a user
    /// who is not known.
    pub fn explain(&self, user: usize, contexts: &Contexts) -> Option<Explanation> {
        let population = self.population()?;
        if !self.knows(user) {
            return None;
        }
        let belief = self.belief(user)?;
        let memberships: Vec<Membership> = (belief.guesses())
            .map(|guess| Membership { component: guess.component, share: guess.share })
            .collect();
        let users = match self.ledger.slot_of(user) {
            Some(slot) => self.ledger.settled().moments(&[slot]),
            None => Moments::unseen(self.ledger.dim()),
        };
        let inherited = Inherited::new(users, &memberships, population);
        let (width, level) = (self.width(user), belief.level());
        let reports = contexts.iter().map(|x| {
            let (mean, deviation) = belief.predict(x);
            let (own, cohort, at_large) = inherited.parts(x, mean + level);
            let (mean, population) =
                (mean + level + population.origin, at_large + population.origin);
            let width = width * deviation;
            ArmReport { mean, own, cohort, population, deviation, width, score: mean + width }
        });
        Some(Explanation::new(memberships, reports.collect()))
    }
}

impl Insight for Cohort {
    fn population(&self) -> Option<&Population> {
        Cohort::population(self)
    }

    fn position(&self, user: usize) -> Option<Position> {
        if !self.knows(user) {
            return None;
        }
        let belief = self.belief(user)?;
        let rewards = self.ledger.rewards_of(user);
        let membership = Some(likeliest(&belief));
        Some(Position { estimate: mean(&belief), membership, rewards })
    }

    fn user_summary(&self, user: usize) -> Option<UserSummary> {
        if !self.knows(user) {
            return None;
        }
        let belief = self.belief(user)?;
        let estimate = mean(&belief);
        let mut axis = vec![0.0; estimate.len()];
        let deviations = (0..estimate.len()).map(|k| {
            axis[k] = 1.0;
            let (_, deviation) = belief.predict(&axis);
            axis[k] = 0.0;
            deviation
        });
        let deviations = deviations.collect();
        let mut memberships: Vec<Membership> = (belief.guesses())
            .map(|guess| Membership { component: guess.component, share: guess.share })
            .collect();
        memberships.sort_by(|a, b| b.share.total_cmp(&a.share));
        let rewards = self.ledger.rewards_of(user);
        Some(UserSummary { estimate, deviations, memberships, rewards })
    }

    fn explain(&self, user: usize, contexts: &Contexts) -> Option<Explanation> {
        Cohort::explain(self, user, contexts)
    }
}

/// E θ over the user's mixture posterior.
fn mean(belief: &Belief) -> Vec<f64> {
    let mut mean = vec![0.0; belief.likeliest().mean.len() - 1];
    for guess in belief.guesses() {
        for (sum, value) in mean.iter_mut().zip(&guess.mean) {
            *sum += guess.share * value;
        }
    }
    mean
}

fn likeliest(belief: &Belief) -> Membership {
    let guess = belief.likeliest();
    Membership { component: guess.component, share: guess.share }
}
