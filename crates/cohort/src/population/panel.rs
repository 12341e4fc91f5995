//! The validation panel: some users, their statistics at the last refit, and their rewards since.
//!
//! A population fitted at that refit has not seen those rewards. Populations are compared by how
//! well they predict each of them one step ahead, from all earlier rewards of its user.

use super::constants;
use std::collections::{HashMap, VecDeque};

use rayon::prelude::*;

use super::fit::inverse_work;
use super::inference::{Inference, ScoringMode};
use super::lanes::{LANES, ZERO, each};
use super::ledger::Ledger;
use super::model::Population;
use super::moments::Moments;
use super::sample::sample_of;
use crate::algebra::packed_len;
use crate::pace::spend;
use crate::{Arm, Contexts};

const BYTES: usize = 4 << 20;

/// Some users, and their rewards since a refit.
#[derive(Clone, Debug)]
pub struct Panel {
    dim: usize,
    members: Vec<Member>,
    /// The index of every user among the members.
    places: HashMap<usize, usize>,
}

/// One of the users.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    pub user: usize,
    /// Its packed sums before the rewards below, as the ledger has them.
    pub before: Vec<f64>,
    /// Rewards since: (x, 1, y) one after the other, y from the ledger's origin.
    pub since: VecDeque<f64>,
}

/// Which earlier rewards are used to predict later ones.
#[derive(Clone, Copy, Debug)]
pub struct PredictionWindow {
    /// Earlier rewards count as at most this many.
    pub most: f64,
    /// The factor by which a reward is discounted when the user gives another one.
    pub keep: f64,
    /// How many of the last rewards are predicted.
    pub last: usize,
}

impl PredictionWindow {
    /// Everything.
    pub const ALL: Self = Self { most: f64::INFINITY, keep: 1.0, last: usize::MAX };
}

impl Panel {
    /// Of users in R^d.
    pub(crate) fn of(dim: usize, members: Vec<Member>) -> Self {
        let places = members.iter().enumerate().map(|(place, one)| (one.user, place)).collect();
        Self { dim, members, places }
    }

    /// A new panel of users with rewards. Settle the ledger first.
    pub fn new(ledger: &Ledger) -> Self {
        let (dim, most) = (ledger.dim(), Self::most_users(ledger.dim()));
        let member = |slot: usize| {
            let mut before = vec![0.0; ledger.packed_len()];
            ledger.packed_of(slot, &mut before);
            Member { user: ledger.user_of(slot), before, since: VecDeque::new() }
        };
        Self::of(dim, sample_of(ledger, most).into_iter().map(member).collect())
    }

    /// How many users a panel has at most.
    pub(super) fn most_users(dim: usize) -> usize {
        let each = size_of::<f64>() * (packed_len(dim + 2) + constants::panel_rows() * (dim + 2));
        (BYTES / each).clamp(constants::panel_least_users(), constants::panel_users())
    }

    /// d.
    pub(crate) fn dim(&self) -> usize {
        self.dim
    }

    /// The users.
    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    /// How many rewards were seen of its users since the refit.
    pub(crate) fn rewards(&self) -> usize {
        self.members.iter().map(|one| one.since.len() / (self.dim + 2)).sum()
    }

    /// The most rewards that are kept of a user.
    pub(crate) fn most_rows(&self) -> usize {
        (constants::panel_rows() * constants::panel_users() / self.members.len().max(1))
            .clamp(constants::panel_rows(), constants::panel_most_rows())
    }

    /// The most rewards that are kept of any user.
    pub(crate) fn longest(&self) -> usize {
        self.members.iter().map(|one| one.since.len() / (self.dim + 2)).max().unwrap_or(0)
    }

    /// A reward of a user, counted from zero; ignored unless the user is a member.
    pub fn see(&mut self, user: usize, x: &[f64], reward: f64, ledger: &Ledger) {
        let most = self.most_rows();
        if let Some(place) = self.places.get(&user) {
            self.members[*place].see(x, reward - ledger.origin(), most, ledger.memory());
        }
    }

    /// Removes a user from the panel.
    pub fn forget(&mut self, user: usize) {
        if let Some(place) = self.places.get(&user) {
            self.members.remove(*place);
            *self = Self::of(self.dim, std::mem::take(&mut self.members));
        }
    }

    /// One reward for each of the users 0, 1, 2, …, counted from zero.
    pub fn see_round(
        &mut self,
        contexts: &Contexts,
        arms: &[Arm],
        rewards: &[f64],
        ledger: &Ledger,
    ) {
        let (most, origin, memory) = (self.most_rows(), ledger.origin(), ledger.memory());
        for member in &mut self.members {
            if let (Some(arm), Some(reward)) = (arms.get(member.user), rewards.get(member.user)) {
                member.see(contexts.arm(*arm), reward - origin, most, memory);
            }
        }
    }

    /// (y − E y)² of the rewards since the refit, user by user and reward by reward, as a
    /// population predicts them; of every `every`-th user.
    pub fn prediction_errors(
        &self,
        population: &Population,
        every: usize,
        scoring_mode: ScoringMode,
    ) -> Vec<Vec<f64>> {
        let some: Vec<&Member> = self.members.iter().step_by(every).collect();
        self.errors_of(&some, population, scoring_mode, PredictionWindow::ALL)
    }

    /// The same, of the first users only, and of what they gave before only so much.
    pub fn windowed_errors(
        &self,
        population: &Population,
        scoring_mode: ScoringMode,
        recall: PredictionWindow,
        users: usize,
    ) -> Vec<Vec<f64>> {
        let some: Vec<&Member> = self.members.iter().take(users).collect();
        self.errors_of(&some, population, scoring_mode, recall)
    }

    fn errors_of(
        &self,
        members: &[&Member],
        population: &Population,
        scoring_mode: ScoringMode,
        recall: PredictionWindow,
    ) -> Vec<Vec<f64>> {
        let work = 5.0 * inverse_work(self.dim + 1);
        spend(members.len().div_ceil(LANES) as f64 * work);
        let inference = Inference::new(population, scoring_mode);
        let width = self.dim + 2;
        (members.par_chunks(LANES).with_min_len(8))
            .flat_map_iter(|members| {
                let mut beliefs = inference.infer_lanes(self.moments(members, recall.most));
                let mut errors = vec![Vec::new(); members.len()];
                let rows = |member: &Member| member.since.len() / width;
                // The last ones of each, so that all predictions end at the same time.
                let longest = members.iter().map(|one| rows(one).min(recall.last)).max();
                let mut row = vec![ZERO; width];
                for left in (1..=longest.unwrap_or(0)).rev() {
                    let mut count = ZERO;
                    row.fill(ZERO);
                    for (lane, member) in members.iter().enumerate() {
                        let Some(at) = rows(member).checked_sub(left) else { continue };
                        count[lane] = 1.0;
                        let numbers = member.since.range(at * width..(at + 1) * width);
                        row.iter_mut().zip(numbers).for_each(|(to, from)| to[lane] = *from);
                    }
                    let (x, y) = row.split_at(self.dim + 1);
                    beliefs.doubt(recall.keep, &count);
                    let predicted = beliefs.predict_reward(x);
                    beliefs.learn(x, &y[0], &count);
                    for (lane, errors) in errors.iter_mut().enumerate() {
                        if count[lane] > 0.0 {
                            errors.push((y[0][lane] - predicted[lane]).powi(2));
                        }
                    }
                }
                errors
            })
            .collect()
    }

    /// The earlier statistics of eight users, as at most `most` rewards.
    fn moments(&self, members: &[&Member], most: f64) -> Moments {
        let count = packed_len(self.dim + 1) - 1;
        let shares: [f64; LANES] = std::array::from_fn(|lane| {
            members.get(lane).map_or(0.0, |one| (most / one.before[count]).min(1.0))
        });
        let of = |at: usize, lane: usize| {
            members.get(lane).map_or(0.0, |one| shares[lane] * one.before[at])
        };
        let numbers = (0..packed_len(self.dim + 2)).map(|at| each(|lane| of(at, lane)));
        Moments::new(self.dim, numbers.collect())
    }
}

impl Member {
    /// Adds a reward; beyond `most` the oldest one moves into the sums before.
    fn see(&mut self, x: &[f64], y: f64, most: usize, memory: f64) {
        let width = x.len() + 2;
        if self.since.len() >= most * width {
            let mut sums = self.before.as_mut_slice();
            let row = &self.since.make_contiguous()[..width];
            for (i, left) in row.iter().enumerate() {
                let (of_row, others) = sums.split_at_mut(i + 1);
                for (sum, right) in of_row.iter_mut().zip(row) {
                    *sum = memory * *sum + left * right;
                }
                sums = others;
            }
            self.since.drain(..width);
        }
        self.since.extend(x.iter().copied().chain([1.0, y]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::population::{FitOptions, Prior};

    /// Rewards of users of two kinds.
    fn reward(turn: usize) -> (usize, Vec<f64>, f64) {
        let user = turn * 7 % 30;
        let x = vec![(turn as f64 * 0.7).sin(), (turn as f64 * 1.3).cos()];
        let kind = if user.is_multiple_of(2) { 1.0 } else { -1.0 };
        (user, x.clone(), 5.0 + kind * x[0] - 0.5 * kind * x[1] + 0.1 * (turn as f64 * 2.9).sin())
    }

    /// A reward is predicted from the ledger's statistics of its user just before it.
    #[test]
    fn every_reward_is_predicted_from_all_before_it() {
        let scoring_mode = ScoringMode { doubt: false, ..ScoringMode::default() };
        let mut ledger = Ledger::new(2, 1.0);
        let learn = |ledger: &mut Ledger, turn: usize| {
            let (user, x, y) = reward(turn);
            ledger.learn_one(user, &x, y);
        };
        (0..300).for_each(|turn| learn(&mut ledger, turn));
        let given = FitOptions { noise: false, ..FitOptions::default() };
        let population = Population::fit(&ledger, None, &given).unwrap();
        assert!(population.components.len() > 1);
        let mut panel = Panel::new(&ledger);
        let prior = Prior::new(population.clone(), scoring_mode, 0.0);
        let mut plain = vec![Vec::new(); 30];
        for turn in 300..400 {
            let (user, x, y) = reward(turn);
            let slot = ledger.slot_of(user).unwrap();
            let (y, z) = (y - ledger.origin(), [x[0], x[1], 1.0]);
            plain[user].push((y - prior.infer(&ledger, slot).predict_reward(&z)).powi(2));
            panel.see(user, &x, y + ledger.origin(), &ledger);
            learn(&mut ledger, turn);
        }
        assert_eq!(panel.members().len(), 30);
        for (member, errors) in
            panel.members().iter().zip(panel.prediction_errors(&population, 1, scoring_mode))
        {
            let plain = &plain[member.user];
            assert_eq!(errors.len(), plain.len());
            for (error, plain) in errors.iter().zip(plain) {
                // Components that are hardly probable are left out of a belief, here before other rewards.
                assert!((error - plain).abs() < 1e-5, "{error} against {plain}");
            }
        }
    }

    #[test]
    fn rounds_and_turns_are_seen_alike_and_memory_is_bounded() {
        let mut ledger = Ledger::new(2, 1.0);
        for turn in 0..5000 {
            ledger.learn_one(turn, &[0.5, 0.1], 1.0);
        }
        let mut turns = Panel::new(&ledger);
        let mut rounds = turns.clone();
        assert_eq!(turns.members().len(), constants::panel_users());
        let values = [0.1, 0.2, 0.3, 0.4];
        let contexts = Contexts::new(&values, 2).unwrap();
        let arms: Vec<Arm> = (0..4000).map(|user| user % 2).collect();
        let rewards: Vec<f64> = (0..4000).map(f64::from).collect();
        for _ in 0..2 * constants::panel_rows() {
            rounds.see_round(&contexts, &arms, &rewards, &ledger);
            for (user, arm) in arms.iter().enumerate() {
                turns.see(user, contexts.arm(*arm), rewards[user], &ledger);
            }
        }
        assert_eq!(rounds.members(), turns.members());
        assert!(rounds.members().iter().all(|one| one.since.len() <= constants::panel_rows() * 4));
        assert!(rounds.members().iter().any(|one| one.since.is_empty()), "some did not come");
    }
}
