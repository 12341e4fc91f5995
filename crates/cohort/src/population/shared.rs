//! Users in several ledgers, on machines of their own: each tells how many rewards its users have, statistics of a sample of
//! them, and sums over all of them.
//!
//! Ledgers count rewards from the first that each has seen. What they tell is counted from one place when it is put together.

use super::constants;
use super::fit::FitOptions;
use super::fitted::Sampled;
use super::lanes::{LANES, ZERO};
use super::ledger::{Histogram, Ledger};
use super::model::Population;
use super::moments::Moments;
use super::panel::{Member, Panel};
use super::sample::{least_rewards_of, sample_from, sample_size};
use super::sums::PassSums;
use crate::algebra::packed_len;

/// How many rewards users have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// All rewards.
    pub rewards: f64,
    /// Users who gave any.
    pub answered: usize,
    /// What they count from, where there are any.
    pub origin: Option<f64>,
    /// Users by how many they have.
    pub histogram: Histogram,
}

impl Counts {
    /// Of a ledger, which is settled.
    pub fn of(ledger: &Ledger) -> Self {
        Self {
            rewards: ledger.rewards(),
            answered: ledger.answered(),
            origin: (ledger.answered() > 0).then(|| ledger.origin()),
            histogram: ledger.histogram().clone(),
        }
    }

    /// What others have, too.
    pub fn add(&mut self, other: &Self) {
        self.rewards += other.rewards;
        self.answered += other.answered;
        self.origin = self.origin.or(other.origin);
        other.histogram.iter().for_each(|(count, users)| self.histogram.shift(users, 0.0, count));
    }

    /// Rewards that a user of a sample has at least, in R^d.
    fn least_rewards(&self, dim: usize) -> f64 {
        least_rewards_of(self.histogram.of_rank(constants::sample_reference()), dim)
    }

    /// How many rewards users have, on average, of those that a sample is taken from.
    pub fn mean_rewards(&self, dim: usize) -> f64 {
        let (users, total) = self.histogram.from(self.least_rewards(dim));
        total / users.max(1) as f64
    }
}

/// Which users a ledger is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SampleRequest {
    /// Rewards that each has at least.
    pub least: f64,
    /// The share of those users that a sample has.
    pub share: f64,
    /// The share of its panel.
    pub panel: f64,
    /// How many rewards all had at the fit since which the panel looks.
    pub since: f64,
}

impl SampleRequest {
    /// For a fit that goes on from another, of ledgers that tell these counts and have them together.
    pub fn of(
        parts: &[Counts],
        all: &Counts,
        dim: usize,
        warm: Option<&Population>,
        since: f64,
    ) -> Self {
        let least = all.least_rewards(dim);
        let most = Panel::most_users(dim);
        let there = |counts: &Counts| counts.histogram.from(least).0;
        let sampled: usize = parts.iter().map(there).sum();
        let looked_at: usize = parts.iter().map(|counts| there(counts).min(most)).sum();
        let share = |most: usize, of: usize| (most as f64 / of.max(1) as f64).min(1.0);
        Self {
            least,
            share: share(sample_size(dim, warm), sampled),
            panel: share(most, looked_at),
            since,
        }
    }
}

/// What a ledger tells of some of its users.
#[derive(Clone, Debug, Default)]
pub(crate) struct SampleStatistics {
    /// What rewards count from.
    pub origin: f64,
    /// How many users have rewards.
    pub answered: usize,
    /// Packed sums of the users of a sample.
    pub users: Vec<Vec<f64>>,
    /// Users of its panel.
    pub panel: Vec<Member>,
}

impl SampleStatistics {
    /// What is wanted of a ledger, which is settled, and a panel of its users.
    pub fn of(ledger: &Ledger, panel: Option<&Panel>, wanted: &SampleRequest) -> Self {
        let there = ledger.histogram().from(wanted.least).0 as f64;
        let most = (wanted.share * there).ceil() as usize;
        let packed = |slot: usize| {
            let mut sums = vec![0.0; ledger.packed_len()];
            ledger.packed_of(slot, &mut sums);
            sums
        };
        let users = sample_from(ledger, most, wanted.least).into_iter().map(packed).collect();
        let members = panel.map_or(&[][..], Panel::members);
        let some = ((wanted.panel * members.len() as f64).ceil() as usize).min(members.len());
        let panel = (0..some).map(|at| members[at * members.len() / some].clone()).collect();
        Self { origin: ledger.origin(), answered: ledger.answered(), users, panel }
    }

    /// The same counted from elsewhere.
    fn count_from(&mut self, origin: f64, dim: usize) {
        let by = self.origin - origin;
        self.origin = origin;
        self.users.iter_mut().for_each(|sums| shift(sums, by, dim));
        for member in &mut self.panel {
            shift(&mut member.before, by, dim);
            member.since.iter_mut().skip(dim + 1).step_by(dim + 2).for_each(|y| *y += by);
        }
    }

    /// What several tell, in R^d, and whether that is of everybody.
    pub fn together(mut told: Vec<Self>, origin: f64, dim: usize) -> (Sampled, Panel, bool) {
        told.iter_mut().for_each(|one| one.count_from(origin, dim));
        let answered: usize = told.iter().map(|one| one.answered).sum();
        let users: Vec<&Vec<f64>> = told.iter().flat_map(|one| &one.users).collect();
        let count = packed_len(dim + 1) - 1;
        let sampled = Sampled {
            users: users.chunks(LANES).map(|users| moments(users, dim)).collect(),
            origin,
            seen: users.iter().map(|sums| sums[count]).sum(),
        };
        let is_everybody = users.len() == answered;
        // In turn of each: who looks at the first ones looks at all ledgers.
        let longest = told.iter().map(|one| one.panel.len()).max().unwrap_or(0);
        let members =
            (0..longest).flat_map(|at| told.iter().filter_map(move |one| one.panel.get(at)));
        let renumbered =
            members.enumerate().map(|(user, member)| Member { user, ..member.clone() });
        (sampled, Panel::of(dim, renumbered.collect()), is_everybody)
    }
}

impl Population {
    /// Updates it by sums over all users, after a fit to a sample; `sums` asks all ledgers. `false` where one did not answer.
    pub(crate) fn polish_across(
        &mut self,
        sample: &[Moments],
        given: &FitOptions,
        mut sums: impl FnMut(&Self) -> Option<PassSums>,
    ) -> bool {
        let mut answered = true;
        let mut polished = self.clone();
        polished.polish_by(sample, given, |population| {
            sums(population).unwrap_or_else(|| {
                answered = false;
                PassSums::new(population)
            })
        });
        if answered {
            *self = polished;
        }
        answered
    }

    /// What all users of a ledger say about this population, whatever that counts rewards from.
    pub(crate) fn sums_of(&self, ledger: &Ledger) -> PassSums {
        let (walk, by) = (ledger.walk(), ledger.origin() - self.origin);
        let moments = |at: usize| {
            let mut users = walk.moments(at);
            if by != 0.0 {
                users.raise(by);
            }
            self.prepare(&mut users, true);
            users
        };
        PassSums::over(walk.blocks(), &moments, self)
    }
}

/// Packed sums with every reward larger by so much.
pub(super) fn shift(sums: &mut [f64], by: f64, dim: usize) {
    let (ones, ys, squares) = (packed_len(dim), packed_len(dim + 1), packed_len(dim + 2) - 1);
    let (count, total) = (sums[ys - 1], sums[ys + dim]);
    sums[squares] += by * (2.0 * total + by * count);
    for j in 0..=dim {
        sums[ys + j] += by * sums[ones + j];
    }
}

fn moments(users: &[&Vec<f64>], dim: usize) -> Moments {
    let mut numbers = vec![ZERO; packed_len(dim + 2)];
    for (lane, sums) in users.iter().enumerate() {
        numbers.iter_mut().zip(*sums).for_each(|(to, from)| to[lane] = *from);
    }
    Moments::new(dim, numbers)
}
