//! Long work in slices: a caller that cannot wait grants a budget of work at a time.
//!
//! The work runs on a thread of its own, but only while its caller waits for it, until it has used
//! up its budget or is done. Where it pauses depends on the work alone, so that the same calls give
//! the same results at any speed.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

/// Asks for another budget: `None` where nobody waits for the result any more.
type Ask = Box<dyn Fn() -> Option<f64>>;

thread_local! {
    /// On threads that work in slices: the remaining budget, and how to ask for more.
    static SLICE: RefCell<Option<(f64, Ask)>> = const { RefCell::new(None) };
}

/// The panic payload that ends a thread whose result nobody waits for.
struct Abandoned;

/// Spends this much of the budget, in multiplications of eight numbers each. Pauses here if the
/// budget is used up; does nothing on threads that do not work in slices.
pub fn spend(work: f64) {
    SLICE.with_borrow_mut(|slice| {
        let Some((left, ask)) = slice else { return };
        *left -= work;
        if *left <= 0.0 {
            match ask() {
                Some(more) => *left = more,
                None => resume_unwind(Box::new(Abandoned)),
            }
        }
    });
}

/// What a working thread reports to its caller.
enum Report<T> {
    Paused,
    Done(std::thread::Result<T>),
}

/// Work in progress.
pub struct Paced<T> {
    grants: SyncSender<f64>,
    reports: Receiver<Report<T>>,
    /// The one thread that works. Its parallel loops run on itself: a hand-over to other threads
    /// would take longer than most of the work between two of them.
    _thread: ThreadPool,
}

impl<T: Send + 'static> Paced<T> {
    /// Work that has yet to begin; an error where no thread can be started.
    pub fn new<F: FnOnce() -> T + Send + 'static>(work: F) -> Result<Self, ThreadPoolBuildError> {
        let thread =
            ThreadPoolBuilder::new().num_threads(1).thread_name(|_| "refit".into()).build()?;
        let (grants, granted) = sync_channel::<f64>(1);
        let (report, reports) = sync_channel::<Report<T>>(1);
        thread.spawn(move || {
            let Ok(first) = granted.recv() else { return };
            let paused = report.clone();
            let ask = move || {
                paused.send(Report::Paused).ok()?;
                granted.recv().ok()
            };
            SLICE.set(Some((first, Box::new(ask))));
            let result = catch_unwind(AssertUnwindSafe(work));
            SLICE.set(None);
            // The caller may have gone.
            let _ = report.send(Report::Done(result));
        });
        Ok(Self { grants, reports, _thread: thread })
    }

    /// Grants a budget; returns the result once the work is done.
    ///
    /// # Panics
    /// If the work does.
    pub fn go_on(&mut self, work: f64) -> Option<T> {
        let _ = self.grants.send(work);
        match self.reports.recv() {
            Ok(Report::Paused) => None,
            Ok(Report::Done(Ok(result))) => Some(result),
            Ok(Report::Done(Err(panic))) => resume_unwind(panic),
            Err(_) => unreachable!("a thread does not end without a report"),
        }
    }

    /// Waits for the result.
    ///
    /// # Panics
    /// If the work does.
    pub fn finish(mut self) -> T {
        loop {
            if let Some(result) = self.go_on(f64::INFINITY) {
                return result;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Work in steps of one, whose result is their number.
    fn steps(count: usize) -> impl FnOnce() -> usize {
        move || {
            (0..count).for_each(|_| spend(1.0));
            count
        }
    }

    #[test]
    fn work_pauses_where_its_grant_ends() {
        let mut paced = Paced::new(steps(10)).unwrap();
        let results: Vec<_> = (0..4).map(|_| paced.go_on(3.0)).collect();
        assert_eq!(results, [None, None, None, Some(10)]);
        assert_eq!(Paced::new(steps(100)).unwrap().finish(), 100);
        // On other threads it does nothing.
        spend(1e300);
    }

    #[test]
    fn work_that_nobody_waits_for_ends() {
        let (alive, ended) = sync_channel::<()>(0);
        let mut paced = Paced::new(move || {
            let _alive = alive;
            steps(1000)()
        })
        .unwrap();
        assert_eq!(paced.go_on(10.0), None);
        drop(paced);
        assert!(ended.recv().is_err(), "its thread has let go of everything");
    }

    #[test]
    fn a_panic_of_the_work_is_its_callers() {
        let caught = std::panic::catch_unwind(|| {
            let mut paced: Paced<()> = Paced::new(|| resume_unwind(Box::new("broken"))).unwrap();
            paced.go_on(1.0)
        });
        assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "broken");
    }
}
