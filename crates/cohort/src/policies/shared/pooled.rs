//! What the warm variants share: users' statistics that are never reset, and clusters whose
//! statistic is the sum of their members', all history included.

use std::io::{self, Read, Write};

use rayon::prelude::*;

use super::cluster_learners::{ClusterLearners, Histories};
use crate::cluster::partition;
use crate::linear::{Bank, Confidence, Oful, Statistics, Symmetric};
use crate::saved::{read_labels, read_numbers, write_labels, write_numbers};
use crate::{Arm, Contexts, Error};

/// The sufficient statistics of every user since the first round.
#[derive(Clone)]
pub(crate) struct UserHistories {
    users: Vec<Statistics>,
    lambda: f64,
}

impl Histories for UserHistories {
    fn new(users: usize, dim: usize, lambda: f64) -> Self {
        Self { users: vec![Statistics::new(dim); users], lambda }
    }

    fn estimates(&self, _ofuls: &Bank) -> Vec<f64> {
        (self.users.par_iter())
            .flat_map_iter(|user| {
                Oful::from_statistics(user, self.lambda).estimate().to_vec().into_iter()
            })
            .collect()
    }

    fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        for ((user, arm), reward) in self.users.iter_mut().zip(arms).zip(rewards) {
            user.learn(contexts.arm(*arm), *reward);
        }
    }

    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        self.users.iter().try_for_each(|user| {
            write_numbers(out, user.gram.packed())?;
            write_numbers(out, &user.moment)?;
            write_numbers(out, &[user.squares, user.rewards])
        })
    }

    fn load(&self, from: &mut dyn Read, what: &'static str) -> Result<Self, Error> {
        let mut loaded = Self { users: self.users.clone(), lambda: self.lambda };
        for user in &mut loaded.users {
            let mut counts = [0.0; 2];
            read_numbers(from, what, user.gram.packed_mut())?;
            read_numbers(from, what, &mut user.moment)?;
            read_numbers(from, what, &mut counts)?;
            [user.squares, user.rewards] = counts;
        }
        Ok(loaded)
    }
}

impl UserHistories {
    /// One OFUL per user on the user's whole history.
    pub(crate) fn ofuls(&self) -> Bank {
        let dim = self.users.first().map_or(1, |user| user.moment.len());
        let mut bank = Bank::new(self.users.len(), dim, self.lambda);
        for (at, user) in self.users.iter().enumerate() {
            bank.set(at, &Oful::from_statistics(user, self.lambda));
        }
        bank
    }
}

/// One OFUL per cluster on the sum of its members' statistics.
#[derive(Clone)]
pub(crate) struct PooledClusters {
    labels: Vec<usize>,
    ofuls: Vec<Oful>,
    /// Σxxᵀ and n since the clusters were formed. All members of a cluster play the same arms, so
    /// this is the same for each of them and is stored once: a round costs O(users·d), not
    /// O(users·d²).
    since: Vec<(Symmetric, f64)>,
    arms: Vec<Arm>,
    sums: Vec<f64>,
    counts: Vec<f64>,
}

impl ClusterLearners for PooledClusters {
    type Histories = UserHistories;

    fn new(labels: Vec<usize>, histories: &UserHistories, _confidence: &Confidence) -> Self {
        let clusters = partition::sizes(&labels).len();
        let dim = histories.users.first().map_or(1, |user| user.moment.len());
        let mut pooled = vec![Statistics::new(dim); clusters];
        for (label, user) in labels.iter().zip(&histories.users) {
            pooled[*label].add(user);
        }
        Self {
            labels,
            ofuls: pooled.iter().map(|sum| Oful::from_statistics(sum, histories.lambda)).collect(),
            since: vec![(Symmetric::zero(dim), 0.0); clusters],
            arms: vec![0; clusters],
            sums: vec![0.0; clusters],
            counts: vec![0.0; clusters],
        }
    }

    fn labels(&self) -> &[usize] {
        &self.labels
    }

    fn choose(&mut self, contexts: &Contexts, confidence: &Confidence, arms: &mut [Arm]) {
        (self.arms.par_iter_mut().zip(&self.ofuls))
            .for_each(|(arm, oful)| *arm = oful.choose(contexts, confidence));
        for (arm, label) in arms.iter_mut().zip(&self.labels) {
            *arm = self.arms[*label];
        }
    }

    /// Every reward updates the cluster, and its user's history.
    fn learn(
        &mut self,
        contexts: &Contexts,
        arms: &[Arm],
        rewards: &[f64],
        histories: &mut UserHistories,
    ) {
        self.sums.fill(0.0);
        self.counts.fill(0.0);
        for (user, label) in self.labels.iter().enumerate() {
            let (x, y) = (contexts.arm(arms[user]), rewards[user]);
            let history = &mut histories.users[user];
            for (b, x) in history.moment.iter_mut().zip(x) {
                *b += x * y;
            }
            history.squares += y * y;
            self.arms[*label] = arms[user];
            self.sums[*label] += y;
            self.counts[*label] += 1.0;
        }
        for cluster in 0..self.ofuls.len() {
            let x = contexts.arm(self.arms[cluster]);
            self.ofuls[cluster].learn_weighted(x, self.counts[cluster], self.sums[cluster]);
            self.since[cluster].0.add_outer(1.0, x);
            self.since[cluster].1 += 1.0;
        }
    }

    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        write_labels(out, &self.labels)?;
        for (oful, (gram, rounds)) in self.ofuls.iter().zip(&self.since) {
            oful.save_as_numbers(out)?;
            write_numbers(out, gram.packed())?;
            write_numbers(out, &[*rounds])?;
        }
        Ok(())
    }

    fn load(
        from: &mut dyn Read,
        what: &'static str,
        histories: &UserHistories,
        confidence: &Confidence,
    ) -> Result<Self, Error> {
        let labels = read_labels(from, what, histories.users.len())?;
        let mut loaded = Self::new(labels, histories, confidence);
        for (oful, (gram, rounds)) in loaded.ofuls.iter_mut().zip(&mut loaded.since) {
            *oful = Oful::load_numbers(from, what, gram.dim(), histories.lambda)?;
            read_numbers(from, what, gram.packed_mut())?;
            read_numbers(from, what, std::slice::from_mut(rounds))?;
        }
        Ok(loaded)
    }
}

impl PooledClusters {
    /// Dissolves the clusters: what their members played goes into the members' histories.
    pub(crate) fn dissolve(&self, histories: &mut UserHistories) {
        for (label, user) in self.labels.iter().zip(&mut histories.users) {
            let (gram, rewards) = &self.since[*label];
            user.gram.add(1.0, gram);
            user.rewards += rewards;
        }
    }
}
