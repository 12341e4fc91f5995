//! What was decided lately, and why? A sample of the newest decisions with the reasons as they were
//! at the time, for people to look at.
//!
//! It is no part of the state: it is not kept on disk, and begins anew with the service. Reasons cost
//! more than decisions, so only some are worked out: those asked for with `explain`, and else one
//! every [`EVERY_MS`].

use std::collections::VecDeque;

use cohort::Score;
use cohort::population::{Explanation, Membership};
use cohort_features::Contribution;

use super::decide::Ranked;

/// How many are kept.
const KEPT: usize = 256;
/// At most one decision in so long.
pub const EVERY_MS: u64 = 100;
/// Candidates beyond so many, the worst ones, are only counted.
pub(super) const CANDIDATES: usize = 24;

/// The newest decisions of one app.
#[derive(Debug, Default)]
pub struct Recent {
    reasons: VecDeque<Reasons>,
    next_ms: u64,
}

/// A decision and why it was made.
#[derive(Clone, Debug)]
pub struct Reasons {
    /// The decision's id.
    pub id: String,
    /// The user's id.
    pub user: String,
    /// When.
    pub at_ms: u64,
    /// With what probability the first candidate was chosen.
    pub probability: f64,
    /// Whether it is of the control group.
    pub control: bool,
    /// The candidates, the chosen one first, the others by falling score.
    pub candidates: Vec<Candidate>,
    /// Candidates that are not listed.
    pub more: usize,
    /// Where the user was thought to belong, most probable first.
    pub memberships: Vec<Membership>,
}

/// What was thought of one candidate.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its id.
    pub item: String,
    /// The reward expected, and what is added for being unsure.
    pub score: Score,
    /// Where the expectation comes from, where the policy can tell.
    pub parts: Option<Parts>,
    /// The same by names of features, in an app that takes JSON.
    pub features: Vec<Contribution>,
}

/// What a policy expects, taken apart: the three add up to it.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// From the user's own rewards.
    pub own: f64,
    /// From its cohort's other users.
    pub cohort: f64,
    /// From the population at large.
    pub population: f64,
}

impl Recent {
    /// Whether the reasons of a decision made now are wanted.
    pub(super) fn wants(&self, at_ms: u64, asked_for: bool) -> bool {
        asked_for || at_ms >= self.next_ms
    }

    pub(super) fn add(&mut self, reasons: Reasons) {
        self.next_ms = reasons.at_ms + EVERY_MS;
        if self.reasons.len() == KEPT {
            self.reasons.pop_front();
        }
        self.reasons.push_back(reasons);
    }

    /// Nothing of a user is told any more.
    pub(super) fn forget(&mut self, user: &str) {
        self.reasons.retain(|reasons| reasons.user != user);
    }

    /// The clock was set: the next decision is as good as any.
    pub(super) fn clock_stepped(&mut self) {
        self.next_ms = 0;
    }

    /// The newest first.
    pub fn iter(&self) -> impl Iterator<Item = &Reasons> {
        self.reasons.iter().rev()
    }

    /// The decision of that id, if it is still there.
    pub fn get(&self, id: &str) -> Option<&Reasons> {
        self.iter().find(|reasons| reasons.id == id)
    }
}

/// The first candidates of a ranking.
pub(super) fn candidates(ranked: &[Ranked], explanation: Option<&Explanation>) -> Vec<Candidate> {
    let candidate = |(at, one): (usize, &Ranked)| Candidate {
        item: one.id.to_owned(),
        score: one.score,
        parts: explanation.map(|explanation| {
            let report = &explanation.arms[at];
            Parts { own: report.own, cohort: report.cohort, population: report.population }
        }),
        features: one.parts.to_vec(),
    };
    ranked.iter().take(CANDIDATES).enumerate().map(candidate).collect()
}
