//! Long-running work: Ctrl-C stops it, and progress is reported to Python.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use cohort_lab::reproduce::Watcher;
use cohort_lab::runner::Observer;
use pyo3::prelude::*;

/// The polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A stop flag, and the exception that set it.
#[derive(Default)]
pub struct Halt {
    /// Set to stop the work.
    pub stop: AtomicBool,
    error: Mutex<Option<PyErr>>,
}

impl Halt {
    /// Stops the work because of an exception; the first one counts.
    pub fn because_of(&self, error: PyErr) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The exception that stopped it.
    fn reason(&self) -> Option<PyErr> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The progress of work.
#[derive(Default)]
pub struct ProgressCounter {
    planned: AtomicU64,
    done: AtomicU64,
    doing: Mutex<String>,
}

impl ProgressCounter {
    /// For this much work.
    pub fn new(planned: u64) -> Self {
        let progress_counter = Self::default();
        progress_counter.planned(planned);
        progress_counter
    }

    /// Calls `progress(done, planned, what)`.
    fn report(&self, progress: &Bound<'_, PyAny>) -> PyResult<()> {
        let doing = self.doing.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let done = self.done.load(Ordering::Relaxed);
        progress.call1((done, self.planned.load(Ordering::Relaxed), doing))?;
        Ok(())
    }
}

impl Observer for ProgressCounter {
    fn round_done(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

impl Watcher for ProgressCounter {
    fn planned(&self, work: u64) {
        self.planned.store(work, Ordering::Relaxed);
    }

    fn begins(&self, what: &str) {
        what.clone_into(&mut self.doing.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn done(&self, work: u64) {
        self.done.fetch_add(work, Ordering::Relaxed);
    }
}

/// Runs the work on another thread, without the interpreter lock, while this one polls for Ctrl-C
/// and reports progress. An exception that stopped the work takes precedence over its result.
pub fn watched<T: Send>(
    py: Python<'_>,
    halt: &Halt,
    progress_counter: &ProgressCounter,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let look = |py: Python<'_>| -> PyResult<()> {
        py.check_signals()?;
        progress.map_or(Ok(()), |progress| progress_counter.report(progress.bind(py)))
    };
    let result = py.detach(|| {
        thread::scope(|scope| {
            let (over, is_over) = channel();
            let worker = scope.spawn(move || {
                let result = work();
                // The polling thread may have returned.
                let _ = over.send(());
                result
            });
            while let Err(RecvTimeoutError::Timeout) = is_over.recv_timeout(POLL_INTERVAL) {
                if let Err(error) = Python::attach(look) {
                    halt.because_of(error);
                }
            }
            worker.join()
        })
    });
    match (halt.reason(), result) {
        (Some(error), _) => Err(error),
        (None, Ok(result)) => {
            look(py)?;
            Ok(result)
        }
        (None, Err(panic)) => std::panic::resume_unwind(panic),
    }
}
