//! How what `cohort` learned is kept: statistics, the population, and every user's posterior as it
//! stands, since posteriors that were carried along are not, to the last bit, those that would be
//! worked out afresh.

use std::io::{self, Read, Write};

use super::{Cohort, INFO};
use crate::linear::Symmetric;
use crate::linear::symmetric::packed_len;
use crate::population::{Belief, Component, Guess, Population};
use crate::saved::{
    expect, read_bank, read_count, read_header, read_numbers, write_bank, write_count,
    write_header, write_numbers,
};
use crate::{Error, Saved};

/// The layout that `save` writes.
const VERSION: u32 = 1;

impl Saved for Cohort {
    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        write_header(out, VERSION)?;
        self.ledger.save(out)?;
        write_numbers(out, &[self.fitted_rewards])?;
        write_count(out, self.population.iter().len())?;
        if let Some(population) = &self.population {
            write_population(out, population)?;
        }
        write_count(out, self.newcomer.iter().len())?;
        if let Some(newcomer) = &self.newcomer {
            write_belief(out, newcomer)?;
        }
        write_bank(out, &self.bank, 1.0)?;
        for user in 0..self.ledger.users() {
            write_count(out, self.components[user])?;
            write_count(out, self.draws[user] as usize)?;
            match &self.undecided[user] {
                Some(belief) => write_belief(out, belief)?,
                None => write_count(out, 0)?,
            }
        }
        Ok(())
    }

    fn load(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        let what = INFO.name;
        read_header(from, what, VERSION)?;
        let dim = self.ledger.dim();
        let ledger = self.ledger.load(from, what)?;
        let fitted_rewards = read_number(from)?;
        let population = match read_count(from, what)? {
            0 => None,
            _ => Some(read_population(from, dim)?),
        };
        let newcomer = match read_count(from, what)? {
            0 => None,
            _ => read_belief(from, dim)?,
        };
        let bank = read_bank(from, what, dim, 1.0)?;
        expect(what, "users", bank.learners(), ledger.users())?;
        expect(what, "newcomers", newcomer.is_some(), population.is_some())?;
        let (mut components, mut draws, mut undecided) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ledger.users() {
            components.push(read_count(from, what)?);
            draws.push(read_count(from, what)? as u64);
            undecided.push(read_belief(from, dim)?.map(Box::new));
        }
        (self.ledger, self.fitted_rewards, self.population) = (ledger, fitted_rewards, population);
        (self.newcomer, self.bank, self.components) = (newcomer, bank, components);
        (self.draws, self.undecided) = (draws, undecided);
        Ok(())
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
    Ok(Population { components, noise, level, reach, evidence })
}

/// A belief; one of nothing stands for none.
fn write_belief(out: &mut dyn Write, belief: &Belief) -> io::Result<()> {
    write_count(out, belief.guesses.len())?;
    for guess in &belief.guesses {
        write_count(out, guess.component)?;
        write_numbers(out, &[guess.share])?;
        write_numbers(out, &guess.mean)?;
        write_numbers(out, guess.covariance.packed())?;
    }
    Ok(())
}

fn read_belief(from: &mut dyn Read, dim: usize) -> Result<Option<Belief>, Error> {
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
