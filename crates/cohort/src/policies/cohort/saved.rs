//! How what `cohort` learned is kept: statistics, the population, and posteriors that are carried
//! along, since they are not, to the last bit, those that would be worked out afresh.

use std::io::{self, Read, Write};

use super::beliefs::Beliefs;
use super::everybody::Everybody;
use super::{Cohort, INFO};
use crate::linear::Symmetric;
use crate::linear::symmetric::packed_len;
use crate::population::{Belief, Component, Guess, Ledger, Population, Prior};
use crate::saved::{
    expect, not_alike, read_count, read_header, read_numbers, write_count, write_header,
    write_numbers,
};
use crate::{Error, Frozen, Saved, Shared};

/// The layout that `save` writes.
const VERSION: u32 = 2;
/// The layout of what a fit found.
const FITTED_VERSION: u32 = 1;

/// All that is kept. Numbers are shared with the policy until it learns.
struct Kept {
    ledger: Ledger,
    fitted_rewards: f64,
    counted_from: f64,
    population: Option<Population>,
    draws: Vec<u64>,
    carried: Beliefs,
}

/// The same, and posteriors of users that are served in rounds, as bytes.
type Whole = (Kept, Option<Vec<u8>>);

impl Cohort {
    fn kept(&self) -> io::Result<Whole> {
        let mut ledger = self.ledger.clone();
        ledger.settle();
        let everybody = self.everybody.as_ref().map(|everybody| {
            let mut bytes = Vec::new();
            everybody.save(&mut bytes).map(|()| bytes)
        });
        let kept = Kept {
            ledger,
            fitted_rewards: self.fitted_rewards,
            counted_from: self.prior.as_ref().map_or(0.0, Prior::counted_from),
            population: self.population().cloned(),
            draws: self.draws.clone(),
            carried: self.carried.clone(),
        };
        Ok((kept, everybody.transpose()?))
    }

    /// Knows this and nothing else.
    fn take(&mut self, kept: Kept, everybody: Option<Everybody>) {
        let Kept { ledger, fitted_rewards, counted_from, population, mut draws, carried } = kept;
        // The rule may have been another one before.
        draws.resize(if self.settings.thompson { ledger.users() } else { 0 }, 0);
        let outlook = self.settings.outlook;
        self.prior = population.map(|population| Prior::new(population, counted_from, outlook));
        (self.ledger, self.fitted_rewards) = (ledger, fitted_rewards);
        (self.draws, self.carried, self.everybody) = (draws, carried, everybody);
        self.asked.clear();
    }
}

fn write((kept, everybody): &Whole, out: &mut dyn Write) -> io::Result<()> {
    write_header(out, VERSION)?;
    kept.ledger.save(out)?;
    write_numbers(out, &[kept.fitted_rewards, kept.counted_from])?;
    write_option(out, kept.population.as_ref())?;
    write_count(out, kept.draws.len())?;
    for draws in &kept.draws {
        write_count(out, *draws as usize)?;
    }
    kept.carried.save(out)?;
    write_count(out, everybody.iter().len())?;
    everybody.as_ref().map_or(Ok(()), |everybody| out.write_all(everybody))
}

impl Saved for Cohort {
    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        write(&self.kept()?, out)
    }

    fn freeze(&self) -> io::Result<Frozen> {
        let kept = self.kept()?;
        Ok(Box::new(move |out| write(&kept, out)))
    }

    fn load(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        let what = INFO.name;
        read_header(from, what, VERSION)?;
        let dim = self.ledger.dim();
        let ledger = self.ledger.load(from, what)?;
        let [fitted_rewards, counted_from] = read_some(from)?;
        let population = read_option(from, dim)?;
        let mut draws = Vec::new();
        for _ in 0..read_count(from, what)? {
            draws.push(read_count(from, what)? as u64);
        }
        let carried = self.carried.load(from, dim, ledger.users())?;
        let everybody = match read_count(from, what)? {
            0 => None,
            _ => Some(Everybody::load(from, dim, ledger.users())?),
        };
        let kept = Kept { ledger, fitted_rewards, counted_from, population, draws, carried };
        self.take(kept, everybody);
        Ok(())
    }

    fn share(&self) -> io::Result<Shared> {
        Ok(Box::new(self.kept()?))
    }

    fn take_over(&mut self, shared: Shared) -> Result<(), Error> {
        let whole = shared.downcast::<Whole>().map_err(|_| not_alike(INFO.name))?;
        let (kept, everybody) = *whole;
        self.ledger.expect_like(&kept.ledger, INFO.name)?;
        let (dim, users) = (self.ledger.dim(), kept.ledger.users());
        let load = |bytes: Vec<u8>| Everybody::load(&mut bytes.as_slice(), dim, users);
        let everybody = everybody.map(load).transpose()?;
        self.take(kept, everybody);
        Ok(())
    }
}

/// What a fit found that had seen so many rewards, counted from a level: for [`read_fitted`].
pub(super) fn write_fitted(rewards: f64, level: f64, population: Option<&Population>) -> Vec<u8> {
    let write = |population| -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        write_header(&mut out, FITTED_VERSION)?;
        write_numbers(&mut out, &[rewards, level])?;
        write_option(&mut out, population)?;
        Ok(out)
    };
    // A fit in which a number is not finite is none: what was fitted before stays.
    write(population).or_else(|_| write(None)).unwrap_or_default()
}

/// How many rewards a fit had seen, from which level it counted them, and what it found.
pub(super) fn read_fitted(
    mut from: &[u8],
    dim: usize,
) -> Result<([f64; 2], Option<Population>), Error> {
    read_header(&mut from, INFO.name, FITTED_VERSION)?;
    let found = (read_some(&mut from)?, read_option(&mut from, dim)?);
    expect(INFO.name, "bytes after a fit", from.len(), 0)?;
    Ok(found)
}

fn write_option(out: &mut dyn Write, population: Option<&Population>) -> io::Result<()> {
    write_count(out, population.iter().len())?;
    population.map_or(Ok(()), |population| write_population(out, population))
}

fn read_option(from: &mut dyn Read, dim: usize) -> Result<Option<Population>, Error> {
    match read_count(from, INFO.name)? {
        0 => Ok(None),
        _ => read_population(from, dim).map(Some),
    }
}

fn write_population(out: &mut dyn Write, population: &Population) -> io::Result<()> {
    let Population { components, noise, level, reach, evidence } = population;
    write_numbers(out, &[*noise, *level, *reach, *evidence])?;
    write_count(out, components.len())?;
    for component in components {
        write_numbers(out, &[component.weight, component.spread])?;
        write_numbers(out, &component.centre)?;
        write_numbers(out, component.doubt.packed())?;
    }
    Ok(())
}

fn read_population(from: &mut dyn Read, dim: usize) -> Result<Population, Error> {
    let [noise, level, reach, evidence] = read_some(from)?;
    let mut components = Vec::new();
    for _ in 0..read_count(from, INFO.name)? {
        let [weight, spread] = read_some(from)?;
        let (centre, doubt) = read_gaussian(from, dim)?;
        components.push(Component { weight, centre, doubt, spread });
    }
    expect(INFO.name, "a population at large", !components.is_empty(), true)?;
    let positive = |component: &Component| component.weight > 0.0 && component.spread >= 0.0;
    let fits = noise > 0.0 && reach >= 0.0 && components.iter().all(positive);
    expect(INFO.name, "variances that are positive", fits, true)?;
    Ok(Population { components, noise, level, reach, evidence })
}

/// A belief; one of nothing stands for none.
pub(super) fn write_belief(out: &mut dyn Write, belief: &Belief) -> io::Result<()> {
    write_count(out, belief.guesses.len())?;
    for guess in &belief.guesses {
        write_count(out, guess.component)?;
        write_numbers(out, &[guess.share])?;
        write_numbers(out, &guess.mean)?;
        write_numbers(out, guess.covariance.packed())?;
    }
    Ok(())
}

pub(super) fn read_belief(from: &mut dyn Read, dim: usize) -> Result<Option<Belief>, Error> {
    let mut guesses = Vec::new();
    for _ in 0..read_count(from, INFO.name)? {
        let component = read_count(from, INFO.name)?;
        let share = read_number(from)?;
        let (mean, covariance) = read_gaussian(from, dim)?;
        guesses.push(Guess { component, share, mean, covariance });
    }
    Ok(Some(Belief { guesses }).filter(|belief| !belief.guesses.is_empty()))
}

fn read_gaussian(from: &mut dyn Read, dim: usize) -> Result<(Vec<f64>, Symmetric), Error> {
    let (mut mean, mut packed) = (vec![0.0; dim], vec![0.0; packed_len(dim)]);
    read_numbers(from, INFO.name, &mut mean)?;
    read_numbers(from, INFO.name, &mut packed)?;
    Ok((mean, Symmetric::from_packed(dim, packed)))
}

fn read_number(from: &mut dyn Read) -> Result<f64, Error> {
    read_some(from).map(|[number]| number)
}

fn read_some<const N: usize>(from: &mut dyn Read) -> Result<[f64; N], Error> {
    let mut numbers = [0.0; N];
    read_numbers(from, INFO.name, &mut numbers)?;
    Ok(numbers)
}
