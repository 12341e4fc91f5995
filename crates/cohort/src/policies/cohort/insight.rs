//! What the `cohort` policy knows, for people to look at.

use super::Cohort;
use crate::Contexts;
use crate::insight::{Insight, Portrait, Whereabouts};
use crate::population::{Belief, Explanation, Membership, Population};

impl Insight for Cohort {
    fn population(&self) -> Option<&Population> {
        Cohort::population(self)
    }

    fn whereabouts(&self, user: usize) -> Option<Whereabouts> {
        if !self.knows(user) {
            return None;
        }
        let belief = self.belief(user)?;
        let rewards = self.ledger.rewards_of(user);
        let membership = Some(likeliest(&belief));
        Some(Whereabouts { estimate: mean(&belief), membership, rewards })
    }

    fn portrait(&self, user: usize) -> Option<Portrait> {
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
        Some(Portrait { estimate, deviations, memberships, rewards })
    }

    fn explain(&self, user: usize, contexts: &Contexts) -> Option<Explanation> {
        Cohort::explain(self, user, contexts)
    }
}

/// E θ over everything the user may be.
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
