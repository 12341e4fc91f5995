//! Forced exploration: policies that draw arms at random for a while before another policy decides
//! (`uniclub` and `phase-uniclub`).

use rand::RngExt;

use super::served::OneUser;
use crate::policies::draws::stream;
use crate::{Arm, Contexts, OnlinePolicy, Saved, Score};

/// A policy with forced exploration.
pub(crate) trait Forced: Send {
    /// Whether arms are drawn at random now.
    fn explores(&mut self) -> bool;

    /// The number of turns learned from.
    fn learned(&self) -> f64;

    /// The policy that decides when arms are not drawn at random; it learns from every turn.
    fn otherwise(&mut self) -> &mut dyn OnlinePolicy;

    /// Serialisation of the learned state; `None` where there is none.
    fn saved(&mut self) -> Option<&mut dyn Saved>;

    /// The clusters, where there are any.
    fn clusters(&self) -> Option<Vec<usize>> {
        None
    }
}

/// The online form of a policy with forced exploration.
pub(crate) struct Forcing<F> {
    pub(crate) seed: u64,
    pub(crate) forced: F,
}

/// A random arm for a turn.
pub(crate) fn random_arm(seed: u64, user: usize, turns: f64, arms: usize) -> Arm {
    stream(seed, user, turns).random_range(0..arms)
}

impl<F: Forced> OneUser for Forcing<F> {
    fn clusters(&self) -> Option<Vec<usize>> {
        self.forced.clusters()
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        self.forced.saved()
    }
}

impl<F: Forced> OnlinePolicy for Forcing<F> {
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm {
        if self.forced.explores() {
            random_arm(self.seed, user, self.forced.learned(), contexts.arms())
        } else {
            self.forced.otherwise().decide(user, contexts)
        }
    }

    /// All arms score the same while they are drawn at random.
    fn score(&mut self, user: usize, contexts: &Contexts, scores: &mut [Score]) {
        if self.forced.explores() {
            scores.fill(Score::default())
        } else {
            self.forced.otherwise().score(user, contexts, scores)
        }
    }

    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        self.forced.otherwise().learn_one(user, context, reward);
    }

    fn chances(&mut self, _: usize, contexts: &Contexts, _: u64, chances: &mut [f64]) -> bool {
        chances.fill(1.0 / contexts.arms() as f64);
        self.forced.explores()
    }
}
