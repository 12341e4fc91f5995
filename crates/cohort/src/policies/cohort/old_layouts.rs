//! Layouts of old versions, with one level for all users: read and converted.

use std::io::Read;

use super::INFO;
use super::codec::{Codec, Reader, no_population};
use crate::Error;
use crate::algebra::packed_len;
use crate::linear::Symmetric;
use crate::population::{Component, Population};
use crate::saved::{check_equal, read_bank, read_count};

/// Their version of the saved state …
pub(super) const VERSION: u32 = 2;
/// … and of a fit's result.
pub(super) const FITTED_VERSION: u32 = 1;

/// The variance of levels over that of the noise: old versions took the level for known.
const LEVEL_VARIANCE: f64 = 0.01;

/// What is converted: all but beliefs, which follow from statistics and population.
pub(super) struct OldState {
    pub fitted_rewards: f64,
    pub population: Option<Population>,
    /// How many times arms were drawn.
    pub draws: u64,
    /// How many users were served in rounds, if they were.
    pub in_rounds: Option<usize>,
}

/// Reads what follows the ledger.
pub(super) fn read(from: &mut dyn Read, dim: usize) -> Result<OldState, Error> {
    // Rewards at the last fit, and the level that these were counted from.
    let [fitted_rewards, _] = read_some(from)?;
    let population = read_option(from, dim, 0.0)?;
    let mut draws = 0;
    for _ in 0..read_count(from, INFO.name)? {
        draws = draws.max(read_count(from, INFO.name)? as u64);
    }
    for _ in 0..read_count(from, INFO.name)? {
        read_count(from, INFO.name)?;
        read_belief(from, dim)?;
    }
    let in_rounds = match read_count(from, INFO.name)? {
        0 => None,
        _ => Some(read_posteriors(from, dim)?),
    };
    Ok(OldState { fitted_rewards, population, draws, in_rounds })
}

/// How many rewards a fit had seen, and what it found, rewards counted from the given origin now.
pub(super) fn read_fitted(
    from: &mut dyn Read,
    dim: usize,
    origin: f64,
) -> Result<(f64, Option<Population>), Error> {
    let [rewards, _] = read_some(from)?;
    Ok((rewards, read_option(from, dim, origin)?))
}

fn read_option(from: &mut dyn Read, dim: usize, origin: f64) -> Result<Option<Population>, Error> {
    match read_count(from, INFO.name)? {
        0 => Ok(None),
        _ => read_population(from, dim, origin).map(Some),
    }
}

fn read_population(from: &mut dyn Read, dim: usize, origin: f64) -> Result<Population, Error> {
    let [noise, level, mean_prior_variance, evidence] = read_some(from)?;
    let level_variance = LEVEL_VARIANCE * noise;
    let (mut components, mut spreads) = (Vec::new(), Vec::new());
    for _ in 0..read_count(from, INFO.name)? {
        let [weight, spread] = read_some(from)?;
        let (mut mean, doubt) = read_gaussian(from, dim)?;
        mean.push(level - origin);
        let mut packed = doubt.packed().to_vec();
        packed.extend(std::iter::repeat_n(0.0, dim));
        packed.push(level_variance);
        components.push(Component { weight, mean, doubt: Symmetric::from_packed(dim + 1, packed) });
        spreads.push(spread);
    }
    check_equal(INFO.name, "a population at large", !components.is_empty(), true)?;
    let fits = noise > 0.0
        && mean_prior_variance >= 0.0
        && components.iter().all(|component| component.weight > 0.0)
        && spreads.iter().all(|spread| *spread >= 0.0);
    check_equal(INFO.name, "variances that are positive", fits, true)?;
    let variances = |spread: f64| {
        let mut variances = vec![spread; dim];
        variances.push(level_variance);
        variances
    };
    let cohorts = spreads.get(1).unwrap_or(&spreads[0]);
    Ok(Population {
        components,
        variances: [variances(spreads[0]), variances(*cohorts)],
        noise,
        origin,
        mean_prior_variance,
        evidence,
        ..no_population(dim)
    })
}

fn read_belief(from: &mut dyn Read, dim: usize) -> Result<(), Error> {
    for _ in 0..read_count(from, INFO.name)? {
        read_count(from, INFO.name)?;
        let [_share] = read_some(from)?;
        read_gaussian(from, dim)?;
    }
    Ok(())
}

/// How many users were served in rounds.
fn read_posteriors(from: &mut dyn Read, dim: usize) -> Result<usize, Error> {
    let [_noise, _level] = read_some(from)?;
    if read_count(from, INFO.name)? != 0 {
        read_belief(from, dim)?;
    }
    let users = read_bank(from, INFO.name, dim, 1.0)?.learners();
    for _ in 0..users {
        read_count(from, INFO.name)?;
        read_belief(from, dim)?;
    }
    Ok(users)
}

fn read_gaussian(from: &mut dyn Read, dim: usize) -> Result<(Vec<f64>, Symmetric), Error> {
    let (mut mean, mut packed) = (vec![0.0; dim], vec![0.0; packed_len(dim)]);
    let mut reader = Reader(from);
    reader.numbers(&mut mean)?;
    reader.numbers(&mut packed)?;
    Ok((mean, Symmetric::from_packed(dim, packed)))
}

fn read_some<const N: usize>(from: &mut dyn Read) -> Result<[f64; N], Error> {
    let mut numbers = [0.0; N];
    Reader(from).numbers(&mut numbers)?;
    Ok(numbers)
}
