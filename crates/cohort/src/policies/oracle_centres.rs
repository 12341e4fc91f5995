//! `oracle-centres`: given the distribution of users (every centre, weight and spread, the noise),
//! but not who belongs where; greedy on its posterior. No learner that must estimate the centres as
//! well can expect much less regret.
//!
//! ```text
//! user i, centre c:  θ_i = μ_c + Σ_k z_k s_k,  z ~ N(0, I);  log p_c = log weight of c
//! play argmax_x Σ_c p_c E_c⟨x, θ_i⟩
//! learn (x, y):      v = (⟨x, s_k⟩)_k,  u = P v,  s = σ_i² + ⟨v, u⟩,  e_c = y − ⟨x, μ_c⟩ − ⟨v, z_c⟩
//!                    log p_c −= e_c²/2s,  z_c += u e_c/s,  P −= u uᵀ/s
//! ```
//!
//! P is the covariance of z, the same for all centres of a user. A level of the user's own is one
//! more direction, with the coordinate 1 in every context. Where all users of a cluster are the
//! same there are no directions, and a user's state is its log p_c alone.
//!
//! The posterior assumes Gaussian noise, whatever the noise is. Where no distribution is given, it
//! is that of the users themselves: the mean of every cluster, its share, and one variance for all
//! coordinates.

use std::io::{self, Read, Write};

use rayon::prelude::*;

use crate::builder::builder;
use crate::cluster::partition::{number_by_smallest_member, sizes};
use crate::linear::{argmax, dot};
use crate::params::{NOT_NEGATIVE, Param, Settings};
use crate::registry::PolicyInfo;
use crate::saved::State;
use crate::{Arm, Contexts, Error, OnlinePolicy, Policy, Problem, Saved, Score, Truth, saved};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "oracle-centres",
    summary: "told all centres, weights and the noise, not who is who; greedy on its posterior",
    reference: "the limit of collaboration",
    params: &[PARAMS],
    build,
};

builder! { sigma: real }

const PARAMS: &[Param] = &[Param::derived(
    "sigma",
    NOT_NEGATIVE,
    "the environment's noise",
    "σ, the noise scale of one reward",
)];

#[derive(Clone)]
struct OracleCentres {
    told: KnownLaw,
    /// The posterior of every user, row by row: log p_c, then z_c, then P.
    users: Vec<f64>,
    offer: ArmTerms,
    scratch: Scratch,
}

/// The prior that the policy is given.
#[derive(Clone)]
pub(super) struct KnownLaw {
    dim: usize,
    centres: Vec<f64>,
    scatter: Vec<f64>,
    level: f64,
    level_spread: f64,
    /// The number of centres, and of directions in which a user may differ from its own.
    pub(super) count: usize,
    pub(super) directions: usize,
    /// The posterior of a user before the first reward.
    pub(super) prior: Vec<f64>,
    /// σ² of all users, and of each where they differ.
    variance: f64,
    variances: Vec<f64>,
}

/// Quantities of the arms on offer that are the same for all users.
#[derive(Clone, Default)]
pub(super) struct ArmTerms {
    arms: usize,
    /// The expected reward of every arm at every centre: a row per centre.
    pub(super) expected: Vec<f64>,
    /// v of every arm: a row per arm.
    pub(super) along: Vec<f64>,
}

impl ArmTerms {
    /// The reward of every arm for a user at distance z from a centre.
    pub(super) fn rewards(&self, centre: usize, z: &[f64]) -> Vec<f64> {
        let along = |arm: usize| &self.along[arm * z.len()..(arm + 1) * z.len()];
        let expected = &self.expected[centre * self.arms..(centre + 1) * self.arms];
        expected.iter().enumerate().map(|(arm, mean)| mean + dot(along(arm), z)).collect()
    }
}

#[derive(Clone, Default)]
struct Scratch {
    values: Vec<f64>,
    mean: Vec<f64>,
}

/// The fewest users per task of a parallel loop.
const USERS_PER_SPLIT: usize = 256;

/// log p_c below the largest at which a centre is neglected: e⁻⁴⁰ is lost in rounding.
const NEGLIGIBLE: f64 = -40.0;

/// A bound on squared residuals that keeps log p_c finite whatever the reward.
const LARGEST_SQUARED_RESIDUAL: f64 = 1e100;

/// The least σ beside centres of length 1: without noise, rewards still differ by rounding.
const LEAST_SIGMA: f64 = 1e-9;

/// A limit on the size of the posteriors: more numbers than this fit no machine.
const MOST_NUMBERS: usize = 1 << 32;

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let needs = |what| Error::Needs { policy: settings.policy(), what };
    let truth = (problem.truth)
        .filter(|truth| truth.law.is_some() || truth.thetas.len() == problem.users * problem.dim)
        .ok_or(needs("the centres of all clusters, which only an environment can tell"))?;
    let told = KnownLaw::new(problem, &truth, settings.optional("sigma"));
    if told.count == 0 {
        return Err(needs("one centre at least"));
    }
    if problem.users.checked_mul(told.prior.len()).is_none_or(|numbers| numbers > MOST_NUMBERS) {
        return Err(needs("fewer users or centres: users × centres do not fit into memory"));
    }
    let users = told.prior.repeat(problem.users);
    let (offer, scratch) = (ArmTerms::default(), Scratch::default());
    Ok(Box::new(OracleCentres { told, users, offer, scratch }))
}

impl KnownLaw {
    pub(super) fn new(problem: &Problem, truth: &Truth, sigma: Option<f64>) -> Self {
        let dim = problem.dim;
        let (centres, weights, scatter) = match truth.law {
            Some(law) => (law.centres.to_vec(), law.weights.to_vec(), law.scatter.to_vec()),
            None => law_of_users(truth, dim),
        };
        let level = truth.law.map_or(0.0, |law| law.level);
        let level_spread = truth.law.map_or(0.0, |law| law.level_spread);
        let count = weights.len();
        let directions = scatter.len() / dim + usize::from(level_spread > 0.0);

        let mut prior: Vec<f64> =
            weights.iter().map(|weight| weight.max(f64::MIN_POSITIVE).ln()).collect();
        prior.resize(count * (1 + directions), 0.0);
        let identity = (0..directions).flat_map(|i| (0..directions).map(move |j| (i, j)));
        prior.extend(identity.map(|(i, j)| f64::from(u8::from(i == j))));

        let longest = centres.chunks(dim).map(|centre| dot(centre, centre)).fold(0.0, f64::max);
        let least = (LEAST_SIGMA * LEAST_SIGMA * longest).max(f64::MIN_POSITIVE);
        let square = |sigma: f64| (sigma * sigma).max(least);
        let sigmas = truth.law.and_then(|law| law.sigmas).filter(|_| sigma.is_none());
        let variances =
            sigmas.map_or(Vec::new(), |sigmas| sigmas.iter().map(|sigma| square(*sigma)).collect());
        let variance = square(sigma.unwrap_or(problem.sigma));
        Self {
            dim,
            centres,
            scatter,
            level,
            level_spread,
            count,
            directions,
            prior,
            variance,
            variances,
        }
    }

    pub(super) fn variance(&self, user: usize) -> f64 {
        self.variances.get(user).copied().unwrap_or(self.variance)
    }

    pub(super) fn look_at<'a>(
        &self,
        contexts: impl ExactSizeIterator<Item = &'a [f64]> + Clone,
        to: &mut ArmTerms,
    ) {
        to.arms = contexts.len();
        to.expected.clear();
        for centre in self.centres.chunks_exact(self.dim) {
            to.expected.extend(contexts.clone().map(|x| self.level + dot(x, centre)));
        }
        to.along.clear();
        for x in contexts {
            to.along.extend(self.scatter.chunks_exact(self.dim).map(|s| dot(x, s)));
            if self.level_spread > 0.0 {
                to.along.push(self.level_spread);
            }
        }
    }

    /// The posterior mean of the reward of every arm.
    fn expected_rewards(
        &self,
        user: &[f64],
        offer: &ArmTerms,
        Scratch { values, mean }: &mut Scratch,
    ) {
        let (logs, rest) = user.split_at(self.count);
        values.clear();
        values.resize(offer.arms, 0.0);
        mean.clear();
        mean.resize(self.directions, 0.0);
        let mut total = 0.0;
        for (c, log) in logs.iter().enumerate().filter(|(_, log)| **log > NEGLIGIBLE) {
            let p = log.exp();
            total += p;
            let expected = &offer.expected[c * offer.arms..(c + 1) * offer.arms];
            values.iter_mut().zip(expected).for_each(|(value, expected)| *value += p * expected);
            let z = &rest[c * self.directions..(c + 1) * self.directions];
            mean.iter_mut().zip(z).for_each(|(mean, z)| *mean += p * z);
        }
        for (arm, value) in values.iter_mut().enumerate() {
            let along = &offer.along[arm * self.directions..(arm + 1) * self.directions];
            *value = (*value + dot(mean, along)) / total;
        }
    }

    fn learn(
        &self,
        user: &mut [f64],
        variance: f64,
        (offer, arm): (&ArmTerms, Arm),
        reward: f64,
        Scratch { mean: gain, .. }: &mut Scratch,
    ) {
        let directions = self.directions;
        let (logs, rest) = user.split_at_mut(self.count);
        let (z, covariance) = rest.split_at_mut(self.count * directions);
        let v = &offer.along[arm * directions..(arm + 1) * directions];
        gain.clear();
        gain.extend((0..directions).map(|k| dot(&covariance[k * directions..][..directions], v)));
        // Rounding must not make a variance negative.
        let scale = 1.0 / (variance + dot(gain, v).max(0.0));

        let mut largest = f64::NEG_INFINITY;
        for (c, log) in logs.iter_mut().enumerate() {
            let z = &mut z[c * directions..(c + 1) * directions];
            let error = reward - offer.expected[c * offer.arms + arm] - dot(z, v);
            *log -= (0.5 * error * error * scale).min(LARGEST_SQUARED_RESIDUAL);
            largest = largest.max(*log);
            z.iter_mut().zip(&*gain).for_each(|(z, gain)| *z += gain * (error * scale));
        }
        logs.iter_mut().for_each(|log| *log -= largest);
        for (k, along) in gain.iter().enumerate() {
            let row = &mut covariance[k * directions..(k + 1) * directions];
            row.iter_mut().zip(&*gain).for_each(|(value, gain)| *value -= along * gain * scale);
        }
    }
}

/// The mean of every cluster, its share, and isotropic scatter of one variance.
fn law_of_users(truth: &Truth, dim: usize) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let mut labels = truth.clusters.to_vec();
    number_by_smallest_member(&mut labels);
    let sizes = sizes(&labels);
    let mut firsts: Vec<Option<&[f64]>> = vec![None; sizes.len()];
    // Differences from the first member: exactly zero where all are the same.
    let mut means = vec![0.0; sizes.len() * dim];
    let mut squares = 0.0;
    for (theta, label) in truth.thetas.chunks_exact(dim).zip(&labels) {
        let first = *firsts[*label].get_or_insert(theta);
        for ((mean, first), theta) in means[label * dim..].iter_mut().zip(first).zip(theta) {
            *mean += (theta - first) / sizes[*label] as f64;
            squares += (theta - first) * (theta - first);
        }
    }
    for (row, size) in means.chunks_exact(dim).zip(&sizes) {
        squares -= *size as f64 * dot(row, row);
    }
    let firsts = firsts.iter().copied().flatten().flatten();
    let centres = means.iter().zip(firsts).map(|(mean, first)| mean + first).collect();
    let weights = sizes.iter().map(|size| *size as f64 / labels.len() as f64).collect();
    let deviation = (squares.max(0.0) / truth.thetas.len().max(1) as f64).sqrt();
    let scatter = if deviation > 0.0 {
        (0..dim * dim).map(|at| if at % (dim + 1) == 0 { deviation } else { 0.0 }).collect()
    } else {
        Vec::new()
    };
    (centres, weights, scatter)
}

impl OracleCentres {
    fn row(&self, user: usize) -> &[f64] {
        let width = self.told.prior.len();
        self.users.get(user * width..(user + 1) * width).unwrap_or(&self.told.prior)
    }

    /// The expected rewards of all arms for one user; an unknown user has the prior.
    fn expect_one(&mut self, user: usize, contexts: &Contexts) -> &[f64] {
        self.told.look_at(contexts.iter(), &mut self.offer);
        let mut scratch = std::mem::take(&mut self.scratch);
        self.told.expected_rewards(self.row(user), &self.offer, &mut scratch);
        self.scratch = scratch;
        &self.scratch.values
    }
}

impl Policy for OracleCentres {
    fn choose(&mut self, contexts: &Contexts, arms: &mut [Arm]) {
        self.told.look_at(contexts.iter(), &mut self.offer);
        let (told, offer) = (&self.told, &self.offer);
        (arms.par_iter_mut().zip(self.users.par_chunks_exact(told.prior.len())))
            .with_min_len(USERS_PER_SPLIT)
            .for_each_init(Scratch::default, |scratch, (arm, user)| {
                told.expected_rewards(user, offer, scratch);
                *arm = argmax(scratch.values.iter().copied());
            });
    }

    fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        self.told.look_at(contexts.iter(), &mut self.offer);
        let (told, offer) = (&self.told, &self.offer);
        (self.users.par_chunks_exact_mut(told.prior.len()), arms, rewards)
            .into_par_iter()
            .with_min_len(USERS_PER_SPLIT)
            .enumerate()
            .for_each_init(Scratch::default, |scratch, (i, (user, arm, reward))| {
                told.learn(user, told.variance(i), (offer, *arm), *reward, scratch);
            });
    }

    /// Users grouped by most probable centre.
    fn clusters(&self) -> Option<Vec<usize>> {
        let users = self.users.par_chunks_exact(self.told.prior.len());
        let centre = |user: &[f64]| argmax(user[..self.told.count].iter().copied());
        let mut labels: Vec<usize> = users.map(centre).collect();
        number_by_smallest_member(&mut labels);
        Some(labels)
    }

    fn online(&mut self) -> Option<&mut dyn OnlinePolicy> {
        Some(self)
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl OnlinePolicy for OracleCentres {
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm {
        argmax(self.expect_one(user, contexts).iter().copied())
    }

    fn score(&mut self, user: usize, contexts: &Contexts, scores: &mut [Score]) {
        for (expected, score) in self.expect_one(user, contexts).iter().zip(scores) {
            *score = Score { expected: *expected, bonus: 0.0 };
        }
    }

    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        let Self { told, users, offer, scratch } = self;
        let width = told.prior.len();
        while users.len() < (user + 1) * width {
            users.extend_from_slice(&told.prior);
        }
        told.look_at(std::iter::once(context), offer);
        let row = &mut users[user * width..(user + 1) * width];
        told.learn(row, told.variance(user), (offer, 0), reward, scratch);
    }
}

impl State for OracleCentres {
    const NAME: &'static str = INFO.name;
    const VERSION: u32 = 1;

    /// The prior is part of the problem and is not written.
    fn write_state(&self, out: &mut dyn Write) -> io::Result<()> {
        saved::write_count(out, self.told.count)?;
        saved::write_count(out, self.told.directions)?;
        saved::write_count(out, self.users.len() / self.told.prior.len())?;
        saved::write_numbers(out, &self.users)
    }

    fn read_state(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        let KnownLaw { count, directions, prior, .. } = &self.told;
        saved::check_equal(INFO.name, "centres", saved::read_count(from, INFO.name)?, *count)?;
        saved::check_equal(
            INFO.name,
            "directions",
            saved::read_count(from, INFO.name)?,
            *directions,
        )?;
        let (mut users, mut row) = (Vec::new(), prior.clone());
        for _ in 0..saved::read_count(from, INFO.name)? {
            saved::read_numbers(from, INFO.name, &mut row)?;
            users.extend_from_slice(&row);
        }
        self.users = users;
        Ok(())
    }
}
