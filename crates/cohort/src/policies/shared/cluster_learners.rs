//! The difference between `cmlb` and `cmlb-warm`: the initial statistics of cluster learners, and
//! the user histories needed for them.

use std::io::{self, Read, Write};

use crate::linear::{Bank, Confidence};
use crate::{Arm, Contexts, Error};

/// One learner per cluster: all members of a cluster play its arm.
pub(crate) trait ClusterLearners: Clone + Send {
    /// The histories of users.
    type Histories: Histories;

    /// Learners for the clusters given by `labels`.
    fn new(labels: Vec<usize>, histories: &Self::Histories, confidence: &Confidence) -> Self;

    /// The cluster of every user.
    fn labels(&self) -> &[usize];

    /// An arm for every user.
    fn choose(&mut self, contexts: &Contexts, confidence: &Confidence, arms: &mut [Arm]);

    /// Learns a round.
    fn learn(
        &mut self,
        contexts: &Contexts,
        arms: &[Arm],
        rewards: &[f64],
        histories: &mut Self::Histories,
    );

    /// Writes the learners.
    fn save(&self, out: &mut dyn Write) -> io::Result<()>;

    /// Reads the learners of as many users as there are histories.
    fn load(
        from: &mut dyn Read,
        what: &'static str,
        histories: &Self::Histories,
        confidence: &Confidence,
    ) -> Result<Self, Error>;
}

/// The statistics of users that outlast a clustering.
pub(crate) trait Histories: Clone + Send {
    /// Of users that have not played yet.
    fn new(users: usize, dim: usize, lambda: f64) -> Self;

    /// Every user's estimate, row by row; `ofuls` are the users' own learners.
    fn estimates(&self, ofuls: &Bank) -> Vec<f64>;

    /// Learns a round in which every user played for itself.
    fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]);

    /// Writes the histories.
    fn save(&self, out: &mut dyn Write) -> io::Result<()>;

    /// Reads the histories of as many users.
    fn load(&self, from: &mut dyn Read, what: &'static str) -> Result<Self, Error>;
}
