//! How what `cohort` learned is kept: statistics, the population, and posteriors that are carried
//! along, since they are not, to the last bit, those that would be worked out afresh.
//!
//! ```text
//! 7 | ledger | rewards at the last fit (of all users, per frequent user), draws | fitted? | panel? | watch | carried beliefs | everybody?
//! fitted: with cohorts | without? | verdict | recurrence
//! ```
//!
//! Version 6 has no recurrence, version 4 no watch, version 3 one population and no panel:
//!
//! ```text
//! 3 | ledger | rewards of the last fit, draws | population? | carried beliefs | everybody?
//! ```

use std::io::{self, Read, Write};

use super::belief_cache::BeliefCache;
use super::codec::{self, Codec, Reader, Writer};
use super::drift::Watch;
use super::posteriors::Posteriors;
use super::{Cohort, INFO, old_layouts};
use crate::population::{Fitted, Ledger, Panel, Population, mean_rewards};
use crate::saved::{
    check_equal, not_alike, read_array, read_bank, read_count, write_bank, write_count,
    write_header,
};
use crate::{Error, Frozen, Saved, Shared};

/// The layout that `save` writes.
const VERSION: u32 = 7;
/// The version before the recurrence of arms was saved.
const VERSION_ARMS: u32 = 6;
/// That in which refits were paced by the rewards of those who had most, all together.
const VERSION_TOGETHER: u32 = 5;
/// That before users were watched for drift.
const VERSION_UNWATCHED: u32 = 4;
/// That before two populations were fitted.
const VERSION_OF_ONE: u32 = 3;
/// The layout of what a fit found.
const FITTED_VERSION: u32 = 5;
/// That of a fit to users who are with several policies (`shared`).
pub(super) const FITTED_VERSION_SHARED: u32 = 6;
/// The version before the recurrence of arms was saved.
const FITTED_VERSION_ARMS: u32 = 4;
/// That before everything could be forgotten meanwhile.
const FITTED_VERSION_UNWATCHED: u32 = 3;
/// That of one population.
const FITTED_VERSION_OF_ONE: u32 = 2;

/// The saved state. Statistics and beliefs are shared with the policy until it learns.
struct SavedState {
    ledger: Ledger,
    /// Rewards at the last refit: all, and of each of those who come often.
    fitted: [f64; 2],
    draws: u64,
    learned: Option<Fitted>,
    panel: Option<Panel>,
    watch: Watch,
    updated: BeliefCache,
    rounds: Option<Posteriors>,
}

impl Cohort {
    fn kept(&self) -> SavedState {
        SavedState {
            ledger: self.ledger.settled().into_owned(),
            fitted: [self.fitted_rewards, self.fitted_each],
            draws: self.draws,
            learned: self.fitted.clone(),
            panel: self.panel.clone(),
            watch: self.watch,
            updated: self.store.updated.clone(),
            rounds: self.store.rounds.clone(),
        }
    }

    /// Knows this and nothing else.
    fn take(&mut self, kept: SavedState) {
        self.refit = None;
        let SavedState { ledger, fitted, draws, learned, panel, watch, updated, rounds } = kept;
        [self.fitted_rewards, self.fitted_each] = fitted;
        (self.ledger, self.draws) = (ledger, draws);
        self.prior = learned.as_ref().map(|learned| self.prior_of(learned));
        self.widths = self.widths_of(learned.as_ref());
        (self.fitted, self.panel, self.watch) = (learned, panel, watch);
        self.store.restore(updated, rounds);
    }

    fn load_present(&self, from: &mut dyn Read, version: u32) -> Result<SavedState, Error> {
        let what = INFO.name;
        let dim = self.ledger.dim();
        let ledger = self.ledger.load(from, what)?;
        let mut fitted = [0.0; 2];
        Reader(from).numbers(&mut fitted)?;
        if !matches!(version, VERSION | VERSION_ARMS) {
            fitted[1] = mean_rewards(&ledger);
        }
        let draws = read_count(from, what)? as u64;
        let (learned, panel) = match version {
            VERSION_OF_ONE => (read_population(from, dim)?.map(Fitted::only), None),
            _ => (read_learned(from, dim, version == VERSION)?, codec::read_panel(from, dim)?),
        };
        let mut watch = Watch::default();
        if matches!(version, VERSION | VERSION_ARMS | VERSION_TOGETHER) {
            codec::watch(&mut Reader(from), &mut watch)?;
        }
        let components = learned.as_ref().map_or(0, |learned| learned.used().components.len());
        let mut updated = self.store.updated.empty();
        for _ in 0..read_count(from, what)? {
            let slot = read_count(from, what)?;
            check_equal(what, "a user that is known", slot < ledger.slots(), true)?;
            if let Some(belief) = codec::read_belief(from, dim, components)? {
                updated.get_or(slot, || belief);
            }
        }
        let rounds = match read_count(from, what)? {
            0 => None,
            _ => Some(read_posteriors(from, dim, components)?),
        };
        Ok(SavedState { ledger, fitted, draws, learned, panel, watch, updated, rounds })
    }

    fn load_old_layout(&self, from: &mut dyn Read) -> Result<SavedState, Error> {
        let ledger = self.ledger.load_old(from, INFO.name)?;
        let old_layouts::OldState { fitted_rewards, population, draws, in_rounds } =
            old_layouts::read(from, ledger.dim())?;
        let mut rounds = None;
        if let Some(users) = in_rounds {
            let mut all = Posteriors::new(ledger.dim());
            all.grow(users);
            if let Some(population) = &population {
                all.install_fit(population, &ledger, self.settings.scoring_mode);
            }
            rounds = Some(all);
        }
        let updated = self.store.updated.empty();
        let fitted = [fitted_rewards, mean_rewards(&ledger)];
        let learned = population.map(Fitted::only);
        let (panel, watch) = (None, Watch::default());
        Ok(SavedState { ledger, fitted, draws, learned, panel, watch, updated, rounds })
    }
}

fn write(kept: &SavedState, out: &mut dyn Write) -> io::Result<()> {
    write_header(out, VERSION)?;
    kept.ledger.save(out)?;
    Writer(out).numbers(&mut { kept.fitted })?;
    write_count(out, kept.draws as usize)?;
    write_learned(out, kept.learned.as_ref())?;
    codec::write_panel(out, kept.panel.as_ref())?;
    codec::watch(&mut Writer(out), &mut { kept.watch })?;
    write_count(out, kept.updated.iter().count())?;
    for (slot, belief) in kept.updated.iter() {
        write_count(out, slot)?;
        codec::write_belief(out, Some(belief))?;
    }
    write_count(out, kept.rounds.iter().len())?;
    kept.rounds.as_ref().map_or(Ok(()), |posteriors| write_posteriors(out, posteriors))
}

impl Saved for Cohort {
    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        write(&self.kept(), out)
    }

    fn freeze(&self) -> io::Result<Frozen> {
        let kept = self.kept();
        Ok(Box::new(move |out| write(&kept, out)))
    }

    fn load(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        let kept = match u32::from_le_bytes(read_array(from, INFO.name)?) {
            old_layouts::VERSION => self.load_old_layout(from)?,
            version @ (VERSION_OF_ONE | VERSION_UNWATCHED | VERSION_TOGETHER | VERSION_ARMS) => {
                self.load_present(from, version)?
            }
            version => {
                check_equal(INFO.name, "layout version", version, VERSION)?;
                self.load_present(from, VERSION)?
            }
        };
        self.take(kept);
        Ok(())
    }

    fn share(&self) -> io::Result<Shared> {
        Ok(Box::new(self.kept()))
    }

    fn take_over(&mut self, shared: Shared) -> Result<(), Error> {
        let kept = shared.downcast::<SavedState>().map_err(|_| not_alike(INFO.name))?;
        self.ledger.expect_like(&kept.ledger, INFO.name)?;
        self.take(*kept);
        Ok(())
    }
}

/// The statistics of what was shared.
pub(super) fn ledger_of(shared: Shared) -> Result<Ledger, Error> {
    shared.downcast::<SavedState>().map(|kept| kept.ledger).map_err(|_| not_alike(INFO.name))
}

/// Encodes the result of a fit, with its numbers of rewards and restarts: for [`read_fitted`].
pub(super) fn write_fitted(rewards: f64, restarts: usize, fitted: Option<&Fitted>) -> Vec<u8> {
    let write = |fitted| -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        write_header(&mut out, FITTED_VERSION)?;
        Writer(&mut out).numbers(&mut [rewards])?;
        write_count(&mut out, restarts)?;
        write_learned(&mut out, fitted)?;
        Ok(out)
    };
    // A fit in which a number is not finite is none: what was fitted before stays.
    write(fitted).or_else(|_| write(None)).unwrap_or_default()
}

/// How many rewards a fit had seen, and what it found, for users that this ledger is of. A fit to what was
/// forgotten meanwhile found nothing, of no rewards.
pub(super) fn read_fitted(
    mut from: &[u8],
    ledger: &Ledger,
    restarts: usize,
) -> Result<(f64, Option<Fitted>), Error> {
    let dim = ledger.dim();
    let found = match u32::from_le_bytes(read_array(&mut from, INFO.name)?) {
        old_layouts::FITTED_VERSION => {
            let (rewards, population) = old_layouts::read_fitted(&mut from, dim, ledger.origin())?;
            (rewards, population.map(Fitted::only))
        }
        version => {
            let known = [
                FITTED_VERSION_OF_ONE,
                FITTED_VERSION_UNWATCHED,
                FITTED_VERSION_ARMS,
                FITTED_VERSION,
            ];
            check_equal(
                INFO.name,
                "a layout version that is known",
                known.contains(&version),
                true,
            )?;
            let mut rewards = 0.0;
            Reader(&mut from).numbers(std::slice::from_mut(&mut rewards))?;
            let seen = match version {
                FITTED_VERSION | FITTED_VERSION_ARMS => read_count(&mut from, INFO.name)?,
                _ => restarts,
            };
            let fitted = match version {
                FITTED_VERSION_OF_ONE => read_population(&mut from, dim)?.map(Fitted::only),
                _ => read_learned(&mut from, dim, version == FITTED_VERSION)?,
            };
            if seen == restarts { (rewards, fitted) } else { (0.0, None) }
        }
    };
    check_equal(INFO.name, "bytes after a fit", from.len(), 0)?;
    Ok(found)
}

pub(super) fn write_learned(out: &mut dyn Write, learned: Option<&Fitted>) -> io::Result<()> {
    write_population(out, learned.map(|learned| &learned.found))?;
    let Some(Fitted { plain, verdict, recurrence, .. }) = learned else { return Ok(()) };
    write_population(out, plain.as_ref())?;
    codec::verdict(&mut Writer(out), &mut { *verdict })?;
    codec::recurrence(&mut Writer(out), &mut { *recurrence })
}

pub(super) fn read_learned(
    from: &mut dyn Read,
    dim: usize,
    arms: bool,
) -> Result<Option<Fitted>, Error> {
    let Some(found) = read_population(from, dim)? else { return Ok(None) };
    let mut learned = Fitted { plain: read_population(from, dim)?, ..Fitted::only(found) };
    codec::verdict(&mut Reader(from), &mut learned.verdict)?;
    if arms {
        codec::recurrence(&mut Reader(from), &mut learned.recurrence)?;
    }
    Ok(Some(learned))
}

pub(super) fn write_population(
    out: &mut dyn Write,
    population: Option<&Population>,
) -> io::Result<()> {
    write_count(out, population.iter().len())?;
    let Some(mut population) = population.cloned() else { return Ok(()) };
    if !codec::is_sound(&population) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a population is not sound"));
    }
    codec::population(&mut Writer(out), &mut population)
}

pub(super) fn read_population(
    from: &mut dyn Read,
    dim: usize,
) -> Result<Option<Population>, Error> {
    if read_count(from, INFO.name)? == 0 {
        return Ok(None);
    }
    let mut population = codec::no_population(dim);
    codec::population(&mut Reader(from), &mut population)?;
    check_equal(INFO.name, "variances that are positive", codec::is_sound(&population), true)?;
    Ok(Some(population))
}

fn write_posteriors(out: &mut dyn Write, posteriors: &Posteriors) -> io::Result<()> {
    let Posteriors { bank, components, newcomer, noises, origin, .. } = posteriors;
    Writer(out).numbers(&mut [*origin])?;
    codec::write_belief(out, newcomer.as_ref())?;
    write_bank(out, bank, 1.0)?;
    for (user, (component, noise)) in components.iter().zip(noises).enumerate() {
        write_count(out, *component)?;
        Writer(out).numbers(&mut [*noise])?;
        codec::write_belief(out, posteriors.undecided(user).as_ref())?;
    }
    Ok(())
}

fn read_posteriors(from: &mut dyn Read, dim: usize, limit: usize) -> Result<Posteriors, Error> {
    let mut origin = [0.0];
    Reader(from).numbers(&mut origin)?;
    let newcomer = codec::read_belief(from, dim, limit)?;
    let bank = read_bank(from, INFO.name, dim + 1, 1.0)?;
    let (mut components, mut noises, mut undecided) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bank.learners() {
        let component = read_count(from, INFO.name)?;
        check_equal(INFO.name, "a component there is", component < limit.max(1), true)?;
        components.push(component);
        let mut noise = [0.0];
        Reader(from).numbers(&mut noise)?;
        check_equal(INFO.name, "noise that is positive", noise[0] > 0.0, true)?;
        noises.push(noise[0]);
        undecided.push(codec::read_belief(from, dim, limit)?);
    }
    let [origin] = origin;
    let mut posteriors = Posteriors::new(dim);
    (posteriors.newcomer, posteriors.origin) = (newcomer, origin);
    posteriors.restore(bank, components, noises, undecided);
    Ok(posteriors)
}
