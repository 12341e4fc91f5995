//! Runs a protocol: tuning, then all repetitions at both sets of parameters, on several threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::Request;
use super::entry::{Entry, Variant};
use super::protocol::Protocol;
use super::record::{JournalRecord, Record, RunOutcome, ThreadTime};
use crate::Error;
use crate::environment::Environment;
use crate::reproduce::Watcher;
use crate::reproduce::journal::Journal;
use crate::runner::{self, Task};
use crate::seed::Seed;

/// Tuning plays in worlds that no repetition has.
const TUNING_REPETITION: usize = 1_000_000;

/// What all runs of an arena share.
pub(super) struct ArenaContext<'a> {
    pub(super) request: &'a Request,
    pub(super) entries: &'a [Entry],
    pub(super) watcher: &'a dyn Watcher,
    pub(super) stop: &'a AtomicBool,
    pub(super) journal: &'a Journal<JournalRecord>,
}

/// The results of one protocol.
pub struct ProtocolResult {
    /// Which.
    pub protocol: Protocol,
    /// N.
    pub users: usize,
    /// d.
    pub dim: usize,
    /// For every entry: at published parameters, and at tuned ones.
    pub results: Vec<EntryResults>,
}

/// What came of a policy at published parameters, and at tuned ones.
pub type EntryResults = [EntryOutcome; 2];

/// What came of one policy.
#[derive(Clone, Debug)]
pub enum EntryOutcome {
    /// It played all repetitions.
    Complete(Complete),
    /// It could not play, or not in the time it had.
    Not(String),
}

/// All repetitions of one policy.
#[derive(Clone, Debug)]
pub struct Complete {
    /// How it was set, where that is not as published.
    pub set: Option<String>,
    /// The regret of every repetition, mean over users.
    pub regrets: Vec<f64>,
    /// Regret after some rounds: rounds, mean over repetitions.
    pub curve: Vec<(f64, f64)>,
    /// Seconds to choose and learn, mean over repetitions.
    pub seconds: f64,
    /// Bytes of what was learned.
    pub state_bytes: Option<u64>,
}

impl EntryOutcome {
    /// All repetitions, where there are all.
    pub fn complete(&self) -> Option<&Complete> {
        match self {
            EntryOutcome::Complete(complete) => Some(complete),
            EntryOutcome::Not(_) => None,
        }
    }

    /// Why there is nothing.
    pub fn reason(&self) -> Option<&str> {
        match self {
            EntryOutcome::Complete(_) => None,
            EntryOutcome::Not(why) => Some(why),
        }
    }
}

impl Complete {
    /// Its mean regret.
    pub fn regret(&self) -> f64 {
        self.regrets.iter().sum::<f64>() / self.regrets.len() as f64
    }
}

/// One run to be done.
struct ArenaRun<'a> {
    entry: usize,
    seat: &'a Variant,
    repetition: usize,
}

impl ArenaContext<'_> {
    /// All of a protocol; `None` where it was stopped.
    pub(super) fn play(
        &self,
        protocol: &Protocol,
        environment: &dyn Environment,
    ) -> Result<Option<ProtocolResult>, Error> {
        let all: Vec<Option<&Variant>> =
            self.entries.iter().map(|entry| Some(&entry.published)).collect();
        let published = self.repetitions(protocol, environment, &all)?;
        let Some(published) = published else { return Ok(None) };

        // Those that could not play, or not in time, are not tuned.
        let mut tries = Vec::new();
        for (entry, at) in self.entries.iter().zip(0..) {
            if published[at].complete().is_some() && !entry.others.is_empty() {
                let seats = entry.others.iter().map(|(_, seat)| seat).chain([&entry.published]);
                let job = |seat| ArenaRun { entry: at, seat, repetition: TUNING_REPETITION };
                tries.extend(seats.map(job).enumerate());
            }
        }
        let (places, jobs): (Vec<usize>, Vec<ArenaRun>) = tries.into_iter().unzip();
        let Some(came) = self.run(protocol, environment, &jobs)? else { return Ok(None) };
        let mut best: BTreeMap<usize, (f64, usize)> = BTreeMap::new();
        for ((job, place), came) in jobs.iter().zip(places).zip(&came) {
            if let RunOutcome::Done(run) = came {
                let found = (run.regret, place);
                best.entry(job.entry)
                    .and_modify(|best| *best = if found.0 < best.0 { found } else { *best })
                    .or_insert(found);
            }
        }
        let chosen = |at: usize| {
            let others = &self.entries[at].others;
            best.get(&at).and_then(|(_, place)| others.get(*place))
        };
        let seats: Vec<Option<&Variant>> =
            (0..self.entries.len()).map(|at| chosen(at).map(|(_, seat)| seat)).collect();
        let tuned = self.repetitions(protocol, environment, &seats)?;
        let Some(tuned) = tuned else { return Ok(None) };
        let results = (published.into_iter().zip(tuned).enumerate())
            .map(|(at, (published, tuned))| match (chosen(at), tuned) {
                (Some((set, _)), EntryOutcome::Complete(mut tuned)) => {
                    tuned.set = Some(set.clone());
                    [published, EntryOutcome::Complete(tuned)]
                }
                (Some(_), not) => [published, not],
                (None, _) => [published.clone(), published],
            })
            .collect();
        let size = environment.size();
        Ok(Some(ProtocolResult {
            protocol: protocol.clone(),
            users: size.users,
            dim: size.dim,
            results,
        }))
    }

    /// All repetitions of every entry, in some seat; nothing of those who have none.
    fn repetitions(
        &self,
        protocol: &Protocol,
        environment: &dyn Environment,
        seats: &[Option<&Variant>],
    ) -> Result<Option<Vec<EntryOutcome>>, Error> {
        let mut jobs = Vec::new();
        for repetition in 0..protocol.reps {
            let seats =
                seats.iter().enumerate().filter_map(|(entry, seat)| Some((entry, (*seat)?)));
            jobs.extend(seats.map(|(entry, seat)| ArenaRun { entry, seat, repetition }));
        }
        let Some(came) = self.run(protocol, environment, &jobs)? else { return Ok(None) };
        let of = |at: usize| {
            jobs.iter().zip(&came).filter(move |(job, _)| job.entry == at).map(|(_, came)| came)
        };
        Ok(Some((0..seats.len()).map(|at| gather(of(at))).collect()))
    }

    /// Runs, in the order of jobs; `None` where it was stopped.
    fn run(
        &self,
        protocol: &Protocol,
        environment: &dyn Environment,
        jobs: &[ArenaRun],
    ) -> Result<Option<Vec<RunOutcome>>, Error> {
        let next = AtomicUsize::new(0);
        let results: Mutex<BTreeMap<usize, RunOutcome>> = Mutex::default();
        // A policy that was too slow once is not run in further repetitions.
        let given_up: Mutex<BTreeMap<usize, RunOutcome>> = Mutex::default();
        let work = || -> Result<(), Error> {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
            pool.install(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(at).filter(|_| !self.stop.load(Ordering::Relaxed))
                    else {
                        return Ok(());
                    };
                    let known = locked(&given_up).get(&job.entry).cloned();
                    let came = match known {
                        Some(came) => Some(came),
                        None => self.run_one(protocol, environment, job)?,
                    };
                    let Some(came) = came else { return Ok(()) };
                    if !matches!(came, RunOutcome::Done(_)) && job.repetition != TUNING_REPETITION {
                        locked(&given_up).insert(job.entry, came.clone());
                    }
                    locked(&results).insert(at, came);
                    self.watcher.done(1);
                }
            })
        };
        std::thread::scope(|scope| {
            let threads = self.request.threads.clamp(1, jobs.len().max(1));
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            let join = |worker: std::thread::ScopedJoinHandle<_>| match worker.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            workers.into_iter().map(join).collect::<Result<Vec<()>, Error>>()
        })?;
        let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((results.len() == jobs.len()).then(|| results.into_values().collect()))
    }

    /// One run, from the journal if it is there; `None` where it was stopped.
    fn run_one(
        &self,
        protocol: &Protocol,
        environment: &dyn Environment,
        job: &ArenaRun,
    ) -> Result<Option<RunOutcome>, Error> {
        let (seat, limit) = (job.seat, self.request.seconds);
        let key = seat.identity.as_ref().map(|who| protocol.key(who, job.repetition));
        if let Some(kept) = key.as_ref().and_then(|key| self.journal.get(key))
            && kept.serves(&seat.code, limit, self.request.keep)
        {
            return Ok(Some(kept.came));
        }
        let task = Task {
            environment,
            horizon: protocol.rounds,
            rounds: protocol.rounds,
            seed: Seed { seed: protocol.seed, repetition: job.repetition },
            player: seat.player.as_ref(),
            keep_arms: false,
        };
        let started = ThreadTime::now();
        let stopped = || self.stop.load(Ordering::Relaxed);
        let halted = || stopped() || started.seconds() > limit;
        let came = match runner::play(&task, &(), &halted) {
            Ok(Some(run)) => RunOutcome::Done(Record::of(&run, started.seconds())),
            Ok(None) if stopped() => return Ok(None),
            Ok(None) => RunOutcome::TooSlow(limit),
            // Some need what this protocol does not tell.
            Err(Error::Core(error @ cohort::Error::Needs { .. })) => {
                RunOutcome::Refused(error.to_string())
            }
            Err(error) => return Err(error),
        };
        if let Some(key) = key {
            self.journal.put(key, JournalRecord { code: seat.code.clone(), came: came.clone() })?;
        }
        Ok(Some(came))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All repetitions of one policy.
fn gather<'a>(runs: impl Iterator<Item = &'a RunOutcome>) -> EntryOutcome {
    let mut complete = Complete {
        set: None,
        regrets: Vec::new(),
        curve: Vec::new(),
        seconds: 0.0,
        state_bytes: None,
    };
    for came in runs {
        let run = match came {
            RunOutcome::Done(run) => run,
            RunOutcome::TooSlow(limit) => {
                return EntryOutcome::Not(format!("took more than {limit} s"));
            }
            RunOutcome::Refused(why) => return EntryOutcome::Not(why.clone()),
        };
        complete.regrets.push(run.regret);
        complete.seconds += run.seconds;
        complete.state_bytes = run.state_bytes;
        if complete.curve.is_empty() {
            complete.curve.clone_from(&run.curve);
        } else {
            complete.curve.iter_mut().zip(&run.curve).for_each(|(sum, run)| sum.1 += run.1);
        }
    }
    if complete.regrets.is_empty() {
        return EntryOutcome::Not("not tuned".to_owned());
    }
    let count = complete.regrets.len() as f64;
    complete.seconds /= count;
    complete.curve.iter_mut().for_each(|(_, y)| *y /= count);
    EntryOutcome::Complete(complete)
}
