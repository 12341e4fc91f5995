//! One population for users who are with several policies, on machines of their own.
//!
//! ```text
//! one that has no users asks all others:
//!   counts?                          how many rewards users have: is a refit due?
//!   wanted (least rewards, shares)   statistics of a sample of users, and users of the panel
//!   population                       sums over all users, which add up
//! and what it finds, all of them install: 6 | rewards, rewards of each | 0: fitted?, 1: all is forgotten
//! ```

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use super::codec;
use super::{Cohort, FIRST_RETIRED, INFO, saved};
use crate::population::{
    Counts, FitOptions, FitScope, Fitted, Ledger, Panel, PassSums, Polish, Population,
    SampleRequest, SampleStatistics, ScoringMode, constants, has_jumped,
};
use crate::saved::{check_equal, read_array, read_count, read_header, write_count, write_header};
use crate::{AskAll, Error, RefitJob, Shared, SharedFits};

/// The layout of questions and answers.
const VERSION: u32 = 1;

/// What is asked.
#[derive(Clone, Debug)]
enum Question {
    Counts,
    Some(SampleRequest),
    Sums(Population),
}

impl Question {
    fn write(&self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let written = write_header(&mut out, VERSION).and_then(|()| match self {
            Self::Counts => write_count(&mut out, 0),
            Self::Some(SampleRequest { least, share, panel, since }) => {
                write_count(&mut out, 1)?;
                numbers(&mut out, &[*least, *share, *panel, *since])
            }
            Self::Sums(population) => {
                write_count(&mut out, 2)?;
                saved::write_population(&mut out, Some(population))
            }
        });
        written.ok().map(|()| out)
    }

    fn read(mut from: &[u8], dim: usize) -> Result<Self, Error> {
        let from = &mut from;
        read_header(from, INFO.name, VERSION)?;
        let question = match read_count(from, INFO.name)? {
            0 => Self::Counts,
            1 => {
                let mut four = [0.0; 4];
                crate::saved::read_numbers(from, INFO.name, &mut four)?;
                let [least, share, panel, since] = four;
                Self::Some(SampleRequest { least, share, panel, since })
            }
            kind => {
                check_equal(INFO.name, "a question that is known", kind, 2)?;
                let population = saved::read_population(from, dim)?;
                let is_there = population.is_some();
                check_equal(INFO.name, "a population", is_there, true)?;
                population.map_or(Self::Counts, Self::Sums)
            }
        };
        check_equal(INFO.name, "bytes after a question", from.len(), 0)?;
        Ok(question)
    }
}

fn numbers(out: &mut dyn Write, numbers: &[f64]) -> io::Result<()> {
    crate::saved::write_numbers(out, numbers)
}

fn write_counts(counts: &Counts) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    write_header(&mut out, VERSION)?;
    numbers(&mut out, &[counts.rewards, counts.origin.unwrap_or(0.0)])?;
    write_count(&mut out, usize::from(counts.origin.is_some()))?;
    write_count(&mut out, counts.answered)?;
    write_count(&mut out, counts.histogram.iter().count())?;
    for (count, users) in counts.histogram.iter() {
        numbers(&mut out, &[count])?;
        write_count(&mut out, users)?;
    }
    Ok(out)
}

fn read_counts(mut from: &[u8]) -> Result<Counts, Error> {
    let from = &mut from;
    read_header(from, INFO.name, VERSION)?;
    let mut two = [0.0; 2];
    crate::saved::read_numbers(from, INFO.name, &mut two)?;
    let seen = read_count(from, INFO.name)? != 0;
    let answered = read_count(from, INFO.name)?;
    let [rewards, origin] = two;
    let origin = seen.then_some(origin);
    let mut counts = Counts { rewards, answered, origin, ..Counts::default() };
    for _ in 0..read_count(from, INFO.name)? {
        let mut count = [0.0];
        crate::saved::read_numbers(from, INFO.name, &mut count)?;
        let users = read_count(from, INFO.name)?;
        counts.histogram.shift(users, 0.0, count[0]);
    }
    Ok(counts)
}

fn write_told(told: SampleStatistics, dim: usize) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    write_header(&mut out, VERSION)?;
    numbers(&mut out, &[told.origin])?;
    write_count(&mut out, told.answered)?;
    write_count(&mut out, told.users.len())?;
    told.users.iter().try_for_each(|sums| numbers(&mut out, sums))?;
    codec::write_panel(&mut out, Some(&Panel::of(dim, told.panel)))?;
    Ok(out)
}

fn read_told(mut from: &[u8], ledger: &Ledger) -> Result<SampleStatistics, Error> {
    let from = &mut from;
    read_header(from, INFO.name, VERSION)?;
    let mut origin = [0.0];
    crate::saved::read_numbers(from, INFO.name, &mut origin)?;
    let mut told = SampleStatistics { origin: origin[0], ..SampleStatistics::default() };
    told.answered = read_count(from, INFO.name)?;
    for _ in 0..read_count(from, INFO.name)? {
        let mut sums = vec![0.0; ledger.packed_len()];
        crate::saved::read_numbers(from, INFO.name, &mut sums)?;
        told.users.push(sums);
    }
    let panel = codec::read_panel(from, ledger.dim())?;
    told.panel = panel.map_or_else(Vec::new, |panel| panel.members().to_vec());
    Ok(told)
}

fn write_sums(mut sums: PassSums) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    write_header(&mut out, VERSION)?;
    sums.numbers().into_iter().try_for_each(|some| numbers(&mut out, some))?;
    Ok(out)
}

fn read_sums(mut from: &[u8], population: &Population) -> Result<PassSums, Error> {
    let from = &mut from;
    read_header(from, INFO.name, VERSION)?;
    let mut sums = PassSums::new(population);
    for some in sums.numbers() {
        crate::saved::read_numbers(from, INFO.name, some)?;
    }
    check_equal(INFO.name, "bytes after sums", from.len(), 0)?;
    Ok(sums)
}

/// What was found for all: that so many rewards were seen, of each so many, and a population or that all is forgotten.
struct Found {
    rewards: f64,
    each: f64,
    what: Option<Fitted>,
}

impl Found {
    fn write(&self) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        write_header(&mut out, saved::FITTED_VERSION_SHARED)?;
        numbers(&mut out, &[self.rewards, self.each])?;
        write_count(&mut out, usize::from(self.what.is_none()))?;
        if let Some(fitted) = &self.what {
            saved::write_learned(&mut out, Some(fitted))?;
        }
        Ok(out)
    }

    fn read(from: &mut dyn Read, dim: usize) -> Result<Self, Error> {
        let mut two = [0.0; 2];
        crate::saved::read_numbers(from, INFO.name, &mut two)?;
        let [rewards, each] = two;
        let what = match read_count(from, INFO.name)? {
            0 => saved::read_learned(from, dim, true)?,
            _ => None,
        };
        Ok(Self { rewards, each, what })
    }
}

/// One that asks all others.
struct FitCoordinator {
    ledger: Ledger,
    before: Option<Fitted>,
    last: [f64; 2],
    refit_ratio: f64,
    watched: bool,
    given: FitOptions,
    scoring_mode: ScoringMode,
}

impl FitCoordinator {
    /// What all shall install, if anything: nothing is due, or one did not answer.
    fn run(&self, ask: &mut AskAll, next_look: &Mutex<f64>) -> Option<Vec<u8>> {
        let dim = self.ledger.dim();
        let mut ask = |question: Question| ask(&question.write()?);
        let read = |told: Vec<Vec<u8>>| -> Option<Vec<Counts>> {
            told.iter().map(|bytes| read_counts(bytes).ok()).collect()
        };
        let counts = read(ask(Question::Counts)?)?;
        let mut all = Counts::default();
        counts.iter().for_each(|one| all.add(one));
        let each = all.mean_rewards(dim);
        let warm = self.before.as_ref().map(|before| &before.found);
        let origin = warm.map(|warm| warm.origin).or(all.origin)?;
        let wanted = SampleRequest::of(&counts, &all, dim, warm, self.last[0]);
        let mut tell = |wanted: SampleRequest| -> Option<Vec<SampleStatistics>> {
            ask(Question::Some(wanted))?
                .iter()
                .map(|bytes| read_told(bytes, &self.ledger).ok())
                .collect()
        };
        let rewards = all.rewards;
        if self.is_time_to_look(rewards, next_look)
            && let Some(population) = self.before.as_ref().and_then(Fitted::without_cohorts)
        {
            let some = constants::drift_users() as f64 / counts.len().max(1) as f64;
            let fewer = SampleRequest { share: 0.0, panel: wanted.panel.min(some), ..wanted };
            let (_, panel, _) = SampleStatistics::together(tell(fewer)?, population.origin, dim);
            if has_jumped(&panel, population, self.scoring_mode) {
                return Found { rewards: 0.0, each: 0.0, what: None }.write().ok();
            }
        }
        let seen =
            super::online::Progress { rewards, answered: all.answered as f64, in_rounds: false };
        let scope = super::online::due_at(
            dim,
            self.refit_ratio,
            self.before.as_ref(),
            self.last,
            seen,
            || each,
        )?;
        let (sampled, panel, is_everybody) = SampleStatistics::together(tell(wanted)?, origin, dim);
        let sample = sampled.users.clone();
        let mut answered = true;
        let mut polish = |population: &mut Population, given: &FitOptions| {
            if is_everybody {
                return;
            }
            answered &= population.polish_across(&sample, given, |population| {
                let mut whole = PassSums::new(population);
                for bytes in ask(Question::Sums(population.clone()))? {
                    whole.add(&read_sums(&bytes, population).ok()?);
                }
                Some(whole)
            });
        };
        let polish: Option<&mut Polish> = match scope {
            FitScope::Sample => None,
            FitScope::AllUsers => Some(&mut polish),
        };
        let panel = self.before.as_ref().map(|_| &panel);
        let (before, given) = (self.before.as_ref(), &self.given);
        let fitted = Fitted::fit_to(sampled, before, panel, given, self.scoring_mode, polish);
        if !answered {
            return None;
        }
        let rewards = match scope {
            FitScope::AllUsers => rewards,
            FitScope::Sample => self.last[0],
        };
        // Without a new fit the previous one stays in use.
        let what = fitted.or_else(|| self.before.clone())?;
        Found { rewards, each, what: Some(what) }.write().ok()
    }

    /// Whether users are to be looked at for drift. Panels are of the last fit.
    fn is_time_to_look(&self, rewards: f64, next_look: &Mutex<f64>) -> bool {
        let mut next = next_look.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.watched || rewards < *next {
            return false;
        }
        *next =
            rewards + (constants::drift_growth() * rewards).max(constants::drift_least_growth());
        true
    }
}

impl SharedFits for Cohort {
    fn rewards(&self) -> f64 {
        self.ledger.rewards()
    }

    fn answer(&mut self, question: &[u8]) -> Result<RefitJob, Error> {
        let dim = self.ledger.dim();
        let question = Question::read(question, dim)?;
        let ledger = self.ledger().clone();
        let panel = match &question {
            Question::Some(wanted) => {
                self.panel.clone().filter(|_| wanted.since == self.fitted_rewards)
            }
            _ => None,
        };
        Ok(Box::new(move || {
            let told = match question {
                Question::Counts => write_counts(&Counts::of(&ledger)),
                Question::Some(wanted) => {
                    write_told(SampleStatistics::of(&ledger, panel.as_ref(), &wanted), dim)
                }
                Question::Sums(population) => write_sums(population.sums_of(&ledger)),
            };
            // What is not finite cannot be told, and is no answer.
            told.unwrap_or_default()
        }))
    }

    fn ask_others(&mut self, mut ask: AskAll, next_look: Arc<Mutex<f64>>) -> RefitJob {
        let asker = FitCoordinator {
            ledger: Ledger::new(self.ledger.dim(), self.ledger.memory()),
            before: self.fitted.clone(),
            last: [self.fitted_rewards, self.fitted_each],
            refit_ratio: self.settings.refit_ratio,
            watched: self.settings.watched,
            given: self.settings.given,
            scoring_mode: self.settings.scoring_mode,
        };
        Box::new(move || asker.run(&mut ask, &next_look).unwrap_or_default())
    }

    fn count_own(&mut self) {
        self.ledger.settle();
        self.ledger.count_own();
    }

    fn take_in(
        &mut self,
        other: Shared,
        number: &mut dyn FnMut(usize) -> Option<usize>,
    ) -> Result<(), Error> {
        let other = saved::ledger_of(other)?;
        self.ledger.expect_like(&other, INFO.name)?;
        self.ledger.settle();
        self.store.clear_online();
        // Whoever was let go has no name, and keeps its number unless another has it.
        self.ledger.take_in(&other, |user| match user < FIRST_RETIRED {
            true => number(user),
            false => Some(user),
        });
        Ok(())
    }
}

impl Cohort {
    /// Takes on what was found for all, wherever this one counts rewards from.
    pub(super) fn install_shared(&mut self, mut from: &[u8]) -> Result<(), Error> {
        let from = &mut from;
        let _ = read_array::<4>(from, INFO.name)?;
        let Found { rewards, each, what } = Found::read(from, self.ledger.dim())?;
        check_equal(INFO.name, "bytes after a fit", from.len(), 0)?;
        let Some(mut fitted) = what else {
            self.restart();
            return Ok(());
        };
        self.ledger.settle();
        self.ledger.begin_at(fitted.found.origin);
        let origin = self.ledger.origin();
        fitted.found.count_from(origin);
        if let Some(plain) = &mut fitted.plain {
            plain.count_from(origin);
        }
        (self.fitted_rewards, self.fitted_each) = (rewards, each);
        // Whoever asks all looks for drift.
        self.watch.next = f64::MAX;
        self.install_fit(fitted);
        Ok(())
    }
}
