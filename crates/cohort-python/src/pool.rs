//! The thread pool of calls from Python.
//!
//! The engine's loops run on the rayon pool of the calling thread. A thread outside any pool hands
//! every loop over to the global one and waits: two hops between threads, which cost more than a
//! small round. So the first Python thread that calls gets a pool of which it is a member itself.
//! Later threads use the global pool.

use std::cell::OnceCell;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::{ThreadPool, ThreadPoolBuilder};

thread_local! {
    /// The pool that this thread is a member of, if any.
    static POOL: OnceCell<Option<&'static ThreadPool>> = const { OnceCell::new() };
}

static GIVEN_OUT: AtomicBool = AtomicBool::new(false);

/// Runs work of the engine on this thread and its pool.
pub fn on_pool<T>(work: impl FnOnce() -> T) -> T {
    POOL.with(|pool| {
        pool.get_or_init(join_pool);
    });
    work()
}

fn join_pool() -> Option<&'static ThreadPool> {
    if GIVEN_OUT.swap(true, Ordering::Relaxed) {
        return None;
    }
    // A member must not leave its pool while work is pending: so it is leaked.
    let pool = ThreadPoolBuilder::new().use_current_thread().build().ok()?;
    Some(Box::leak(Box::new(pool)))
}
