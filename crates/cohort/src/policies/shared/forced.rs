//! Policies that draw arms at random for a while before they do anything else: `uniclub` and
//! `phase-uniclub`.

use rand::RngExt;

use super::served::OneUser;
use crate::policies::draws::stream;
use crate::{Arm, Contexts, OnlinePolicy, Saved, Score};

/// What is played, and when it is not.
pub(crate) trait Forced: Send {
    /// Whether arms are drawn at random now.
    fn explores(&mut self) -> bool;

    /// How many turns have been learned from.
    fn learned(&self) -> f64;

    /// What decides otherwise, and learns from everything.
    fn otherwise(&mut self) -> &mut dyn OnlinePolicy;

    /// The clusters of that, where there are any.
    fn clusters(&self) -> Option<Vec<usize>> {
        None
    }
}

/// Such a policy.
pub(crate) struct Forcing<F> {
    pub(crate) seed: u64,
    pub(crate) forced: F,
}

/// An arm at random for a turn.
pub(crate) fn random_arm(seed: u64, user: usize, turns: f64, arms: usize) -> Arm {
    stream(seed, user, turns).random_range(0..arms)
}

impl<F: Forced> OneUser for Forcing<F> {
    fn clusters(&self) -> Option<Vec<usize>> {
        self.forced.clusters()
    }
}

impl<F: Forced> OnlinePolicy for Forcing<F> {
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm {
        match self.forced.explores() {
            true => random_arm(self.seed, user, self.forced.learned(), contexts.arms()),
            false => self.forced.otherwise().decide(user, contexts),
        }
    }

    /// All arms are the same where they are drawn at random.
    fn score(&mut self, user: usize, contexts: &Contexts, scores: &mut [Score]) {
        match self.forced.explores() {
            true => scores.fill(Score::default()),
            false => self.forced.otherwise().score(user, contexts, scores),
        }
    }

    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        self.forced.otherwise().learn_one(user, context, reward);
    }

    fn chances(&mut self, _: usize, contexts: &Contexts, _: u64, chances: &mut [f64]) -> bool {
        chances.fill(1.0 / contexts.arms() as f64);
        self.forced.explores()
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        self.forced.otherwise().saved()
    }
}
