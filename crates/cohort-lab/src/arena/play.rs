//! Plays a protocol: tuning, then all repetitions at both sets of parameters, on several threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Request;
use super::entry::Entry;
use super::protocol::Protocol;
use crate::Error;
use crate::environment::Environment;
use crate::reproduce::Watcher;
use crate::runner::{self, Player, Run, Task};
use crate::seed::Seed;

/// Tuning plays in worlds that no repetition has.
const TUNING_REPETITION: usize = 1_000_000;

/// Points of a curve that are kept.
const CURVE_POINTS: usize = 40;

/// What all runs of an arena share.
pub(super) struct Workshop<'a> {
    pub(super) request: &'a Request,
    pub(super) entries: &'a [Entry],
    pub(super) watcher: &'a dyn Watcher,
    pub(super) stop: &'a AtomicBool,
}

/// What came of a protocol.
pub struct Played {
    /// Which.
    pub protocol: Protocol,
    /// N.
    pub users: usize,
    /// d.
    pub dim: usize,
    /// For every entry: at published parameters, and at tuned ones.
    pub results: Vec<[EntryOutcome; 2]>,
}

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
}

impl Complete {
    /// Its mean regret.
    pub fn regret(&self) -> f64 {
        self.regrets.iter().sum::<f64>() / self.regrets.len() as f64
    }
}

/// One run that is wanted.
struct Job {
    player: Arc<dyn Player>,
    repetition: usize,
}

/// What came of a run.
enum Came {
    Done(Box<Run>),
    TooSlow,
    Refused(String),
}

impl Workshop<'_> {
    /// All of a protocol; `None` where it was stopped.
    pub(super) fn play(
        &self,
        protocol: &Protocol,
        environment: &dyn Environment,
    ) -> Result<Option<Played>, Error> {
        let published =
            self.repetitions(protocol, environment, |entry| Some(entry.published.clone()))?;
        let Some(published) = published else { return Ok(None) };

        // Those that could not play, or not in time, are not tuned.
        let mut tries = Vec::new();
        for (at, entry) in self.entries.iter().enumerate() {
            let plays = published[at].complete().is_some();
            let players = entry.others.iter().map(|(_, player)| player);
            let players = players.chain([&entry.published]).filter(|_| plays);
            tries.extend(players.enumerate().map(|(k, player)| (at, k, player.clone())));
        }
        let jobs = |(_, _, player): &(usize, usize, Arc<dyn Player>)| Job {
            player: player.clone(),
            repetition: TUNING_REPETITION,
        };
        let came = self.run(protocol, environment, tries.iter().map(jobs).collect())?;
        let Some(came) = came else { return Ok(None) };
        let mut best: BTreeMap<usize, (f64, usize)> = BTreeMap::new();
        for ((at, k, _), came) in tries.iter().zip(&came) {
            if let Came::Done(run) = came {
                let found = (run.total_regret(), *k);
                best.entry(*at)
                    .and_modify(|best| *best = if found.0 < best.0 { found } else { *best })
                    .or_insert(found);
            }
        }
        let chosen = |at: usize| {
            let others = &self.entries[at].others;
            best.get(&at).and_then(|(_, k)| others.get(*k))
        };
        let mut at = 0;
        let tuned = self.repetitions(protocol, environment, |_| {
            at += 1;
            chosen(at - 1).map(|(_, player)| player.clone())
        })?;
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
        Ok(Some(Played { protocol: protocol.clone(), users: size.users, dim: size.dim, results }))
    }

    /// All repetitions of every entry, as some player; nothing of those who have none.
    fn repetitions(
        &self,
        protocol: &Protocol,
        environment: &dyn Environment,
        mut player: impl FnMut(&Entry) -> Option<Arc<dyn Player>>,
    ) -> Result<Option<Vec<EntryOutcome>>, Error> {
        let players: Vec<_> = self.entries.iter().map(&mut player).collect();
        let mut jobs = Vec::new();
        for repetition in 0..protocol.reps {
            let players = players.iter().flatten();
            jobs.extend(players.map(|player| Job { player: player.clone(), repetition }));
        }
        let Some(came) = self.run(protocol, environment, jobs)? else { return Ok(None) };
        let count = players.iter().flatten().count();
        let mut at = 0;
        let outcomes = players.iter().map(|player| match player {
            None => EntryOutcome::Not("not tuned".to_owned()),
            Some(_) => {
                at += 1;
                gather(came.iter().skip(at - 1).step_by(count.max(1)), self.request.seconds)
            }
        });
        Ok(Some(outcomes.collect()))
    }

    /// Runs, in the order of jobs; `None` where it was stopped.
    fn run(
        &self,
        protocol: &Protocol,
        environment: &dyn Environment,
        jobs: Vec<Job>,
    ) -> Result<Option<Vec<Came>>, Error> {
        let next = AtomicUsize::new(0);
        let results: Mutex<BTreeMap<usize, Came>> = Mutex::default();
        let work = || -> Result<(), Error> {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
            pool.install(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(at).filter(|_| !self.stop.load(Ordering::Relaxed))
                    else {
                        return Ok(());
                    };
                    let came = self.run_one(protocol, environment, job)?;
                    results.lock().unwrap_or_else(PoisonError::into_inner).insert(at, came);
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

    fn run_one(
        &self,
        protocol: &Protocol,
        environment: &dyn Environment,
        job: &Job,
    ) -> Result<Came, Error> {
        let task = Task {
            environment,
            horizon: protocol.rounds,
            rounds: protocol.rounds,
            seed: Seed { seed: protocol.seed, repetition: job.repetition },
            player: job.player.as_ref(),
            keep_arms: false,
        };
        let deadline = Instant::now() + Duration::from_secs_f64(self.request.seconds);
        let halted = || self.stop.load(Ordering::Relaxed) || Instant::now() > deadline;
        match runner::play(&task, &(), &halted) {
            Ok(Some(run)) => Ok(Came::Done(Box::new(run))),
            Ok(None) => Ok(Came::TooSlow),
            // Some need what this protocol does not tell.
            Err(Error::Core(error @ cohort::Error::Needs { .. })) => {
                Ok(Came::Refused(error.to_string()))
            }
            Err(error) => Err(error),
        }
    }
}

/// All repetitions of one policy.
fn gather<'a>(runs: impl Iterator<Item = &'a Came>, limit: f64) -> EntryOutcome {
    let mut complete = Complete {
        set: None,
        regrets: Vec::new(),
        curve: Vec::new(),
        seconds: 0.0,
        state_bytes: None,
    };
    for came in runs {
        let run = match came {
            Came::Done(run) => run,
            Came::TooSlow => return EntryOutcome::Not(format!("took more than {limit} s")),
            Came::Refused(why) => return EntryOutcome::Not(why.clone()),
        };
        complete.regrets.push(run.total_regret());
        complete.seconds += run.learning.as_secs_f64();
        complete.state_bytes = run.state_bytes;
        let curve = sampled(&run.regret);
        match complete.curve.is_empty() {
            true => complete.curve = curve,
            false => complete.curve.iter_mut().zip(curve).for_each(|(sum, (_, y))| sum.1 += y),
        }
    }
    let count = complete.regrets.len() as f64;
    complete.seconds /= count;
    complete.curve.iter_mut().for_each(|(_, y)| *y /= count);
    EntryOutcome::Complete(complete)
}

/// Cumulative regret after some of the rounds, the last among them.
fn sampled(regret: &[f64]) -> Vec<(f64, f64)> {
    let (mut sum, mut curve) = (0.0, Vec::new());
    for (round, regret) in regret.iter().enumerate() {
        sum += regret;
        curve.push(((round + 1) as f64, sum));
    }
    let step = curve.len().div_ceil(CURVE_POINTS).max(1);
    let last = curve.last().copied();
    let mut kept: Vec<(f64, f64)> = curve.into_iter().skip(step - 1).step_by(step).collect();
    if kept.last() != last.as_ref() {
        kept.extend(last);
    }
    kept
}
