//! Collaborative learning, lines 6–12 of CMLB (Algorithm 2): one fresh OFUL per cluster; all
//! members play its arm; it is updated with the members' average reward.

use std::io::{self, Read, Write};

use super::cluster_learners::{ClusterLearners, Histories};
use crate::cluster::partition;
use crate::linear::{Bank, Confidence};
use crate::saved::{
    read_header, read_labels, read_whole_bank, write_bank, write_header, write_labels,
};
use crate::{Arm, Contexts, Error, Policy, Saved};

/// One OFUL per cluster on averaged rewards.
#[derive(Clone)]
pub(crate) struct PerCluster {
    /// The cluster of every user.
    labels: Vec<usize>,
    /// The number of members of each cluster.
    sizes: Vec<usize>,
    ofuls: Bank,
    /// R = σ/√m: an average of m rewards is less noisy than one. This is the gain of collaboration.
    confidences: Vec<Confidence>,
    arms: Vec<Arm>,
    averages: Vec<f64>,
}

/// Nothing is kept of users: the letter of CMLB starts afresh.
#[derive(Clone)]
pub(crate) struct NoHistories {
    users: usize,
    dim: usize,
}

impl Histories for NoHistories {
    fn new(users: usize, dim: usize, _lambda: f64) -> Self {
        Self { users, dim }
    }

    fn estimates(&self, ofuls: &Bank) -> Vec<f64> {
        ofuls.estimates()
    }

    fn learn(&mut self, _contexts: &Contexts, _arms: &[Arm], _rewards: &[f64]) {}

    fn save(&self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn load(&self, _from: &mut dyn Read, _what: &'static str) -> Result<Self, Error> {
        Ok(self.clone())
    }
}

impl ClusterLearners for PerCluster {
    type Histories = NoHistories;

    fn new(labels: Vec<usize>, histories: &NoHistories, confidence: &Confidence) -> Self {
        let sizes = partition::sizes(&labels);
        Self {
            ofuls: Bank::new(sizes.len(), histories.dim, confidence.lambda),
            confidences: sizes.iter().map(|&size| confidence.averaged_over(size)).collect(),
            arms: vec![0; sizes.len()],
            averages: vec![0.0; sizes.len()],
            labels,
            sizes,
        }
    }

    fn labels(&self) -> &[usize] {
        &self.labels
    }

    /// Line 9: all users of a cluster play the arm given by its OFUL. Only clusters are scored.
    fn choose(&mut self, contexts: &Contexts, _confidence: &Confidence, arms: &mut [Arm]) {
        let confidences = &self.confidences;
        let radius = |cluster: usize, progress| confidences[cluster].radius(progress);
        self.ofuls.choose(contexts, confidences[0].shape, radius, None, &mut self.arms);
        for (arm, label) in arms.iter_mut().zip(&self.labels) {
            *arm = self.arms[*label];
        }
    }

    /// Line 10: the average of the members' rewards updates the cluster's OFUL.
    fn learn(
        &mut self,
        contexts: &Contexts,
        arms: &[Arm],
        rewards: &[f64],
        _histories: &mut NoHistories,
    ) {
        self.averages.fill(0.0);
        for ((label, arm), reward) in self.labels.iter().zip(arms).zip(rewards) {
            self.averages[*label] += reward;
            self.arms[*label] = *arm;
        }
        for (average, size) in self.averages.iter_mut().zip(&self.sizes) {
            *average /= *size as f64;
        }
        self.ofuls.learn(contexts, &self.arms, &self.averages);
    }

    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        write_labels(out, &self.labels)?;
        write_bank(out, &self.ofuls, self.confidences[0].lambda)
    }

    fn load(
        from: &mut dyn Read,
        what: &'static str,
        histories: &NoHistories,
        confidence: &Confidence,
    ) -> Result<Self, Error> {
        let labels = read_labels(from, what, histories.users)?;
        let mut loaded = Self::new(labels, histories, confidence);
        let clusters = loaded.sizes.len();
        loaded.ofuls = read_whole_bank(from, what, histories.dim, confidence.lambda, clusters)?;
        Ok(loaded)
    }
}

/// A policy whose clusters are fixed: the true ones (`oracle`), or one for all users (`common`).
pub(crate) struct KnownClusters {
    /// The name of the policy, for error messages.
    name: &'static str,
    users: NoHistories,
    confidence: Confidence,
    clusters: PerCluster,
}

impl KnownClusters {
    pub(crate) fn new(
        name: &'static str,
        dim: usize,
        labels: Vec<usize>,
        confidence: Confidence,
    ) -> Self {
        let users = NoHistories { users: labels.len(), dim };
        let clusters = PerCluster::new(labels, &users, &confidence);
        Self { name, users, confidence, clusters }
    }
}

impl Policy for KnownClusters {
    fn choose(&mut self, contexts: &Contexts, arms: &mut [Arm]) {
        self.clusters.choose(contexts, &self.confidence, arms);
    }

    fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        self.clusters.learn(contexts, arms, rewards, &mut self.users);
    }

    fn clusters(&self) -> Option<Vec<usize>> {
        Some(self.clusters.labels().to_vec())
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl Saved for KnownClusters {
    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        write_header(out, VERSION)?;
        self.clusters.save(out)
    }

    fn load(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        read_header(from, self.name, VERSION)?;
        self.clusters = PerCluster::load(from, self.name, &self.users, &self.confidence)?;
        Ok(())
    }
}

/// The version of the saved layout.
const VERSION: u32 = 1;
