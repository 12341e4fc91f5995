//! Runs jobs on all cores, keeps every result as soon as it is there, and stops when asked to.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::job::{CachedWork, JobOutcome};
use super::journal::Journal;
use crate::Error;

/// An observer of progress.
pub trait Watcher: Sync {
    /// How much work all of it is.
    fn planned(&self, _work: u64) {}
    /// A study begins that is so much of it.
    fn study(&self, _name: &str, _work: u64) {}
    /// What begins now.
    fn begins(&self, _what: &str) {}
    /// So much is done.
    fn done(&self, _work: u64) {}
    /// So much is known from before, and takes no time.
    fn known(&self, _work: u64) {}
}

/// No observer.
impl Watcher for () {}

/// What workers share.
pub struct WorkerContext<'a> {
    /// What is already known.
    pub journal: &'a Journal,
    /// How many threads there are.
    pub threads: usize,
    /// Nothing is run: only what is already known counts.
    pub so_far: bool,
    /// Who watches.
    pub watcher: &'a dyn Watcher,
    /// Set when the run is interrupted.
    pub stop: &'a AtomicBool,
}

/// Why a run ended without results.
pub enum Halt {
    /// The run was interrupted.
    Stopped,
    /// Something is wrong.
    Failed(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Halt::Failed(error)
    }
}

impl WorkerContext<'_> {
    /// The outcome of every job, in their order, from the journal or by running it; none of those
    /// that are not known where nothing is to be run.
    pub fn outcomes<W: CachedWork>(
        &self,
        what: &str,
        jobs: &[W],
    ) -> Result<Vec<Option<JobOutcome>>, Halt> {
        let keys: Vec<String> = jobs.iter().map(W::key).collect();
        if self.so_far {
            return Ok(keys.iter().map(|key| self.journal.get(key)).collect());
        }
        let mut missing: Vec<usize> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        self.watcher.begins(what);
        for (at, key) in keys.iter().enumerate() {
            if self.journal.get(key).is_none() && seen.insert(key) {
                missing.push(at);
            } else {
                self.watcher.known(jobs[at].work());
            }
        }
        // Repetition by repetition, so that what there is of an interrupted run can be shown; of
        // each the largest first, so that no core is left waiting for one at the end.
        missing.sort_by_key(|at| (jobs[*at].repetition(), std::cmp::Reverse(jobs[*at].work())));
        let (alone, together): (Vec<usize>, Vec<usize>) =
            missing.into_iter().partition(|at| jobs[*at].alone());
        self.work_off(jobs, &keys, &together, self.threads)?;
        self.work_off(jobs, &keys, &alone, 1)?;
        let known = |key: &String| self.journal.get(key).map(Some).ok_or(Halt::Stopped);
        keys.iter().map(known).collect()
    }

    fn work_off<W: CachedWork>(
        &self,
        jobs: &[W],
        keys: &[String],
        missing: &[usize],
        threads: usize,
    ) -> Result<(), Halt> {
        let next = AtomicUsize::new(0);
        let failed = AtomicBool::new(false);
        let halted = || self.stop.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed);
        let work = || -> Result<(), Error> {
            // One thread each: there are always more jobs than cores.
            let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
            pool.install(|| {
                while let Some(&at) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(outcome) = jobs[at].run(&halted)? {
                        self.journal.put(keys[at].clone(), outcome)?;
                        self.watcher.done(jobs[at].work());
                    }
                    if halted() {
                        break;
                    }
                }
                Ok(())
            })
        };
        std::thread::scope(|scope| {
            let work = || work().inspect_err(|_| failed.store(true, Ordering::Relaxed));
            let workers: Vec<_> =
                (0..threads.min(missing.len())).map(|_| scope.spawn(work)).collect();
            let join = |worker: std::thread::ScopedJoinHandle<_>| match worker.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            workers.into_iter().map(join).collect::<Result<Vec<()>, Error>>()
        })?;
        if self.stop.load(Ordering::Relaxed) { Err(Halt::Stopped) } else { Ok(()) }
    }
}
