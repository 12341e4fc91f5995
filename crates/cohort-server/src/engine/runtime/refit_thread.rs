//! The thread that refits, while the engine decides on what was fitted before. It has one thread's
//! worth of the machine, and others go first.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use super::Message;
use super::queue::Queue;
use crate::engine::{Refit, Request};
use crate::priority;

/// Starts the thread. It ends when the engine does, at the latest after the refit it is at.
pub(super) fn start(engine: Arc<Queue>) -> std::io::Result<Sender<Refit>> {
    let (refits, incoming) = channel();
    // Parallel loops of a fit run on this one thread, not on as many as there are cores.
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .thread_name(|_| "refit".to_owned())
        .start_handler(|_| priority::run_when_idle())
        .build()
        .map_err(std::io::Error::other)?;
    std::thread::Builder::new()
        .name("refits".to_owned())
        .spawn(move || run(&pool, &incoming, &engine))?;
    Ok(refits)
}

fn run(pool: &rayon::ThreadPool, refits: &Receiver<Refit>, engine: &Queue) {
    for Refit { app, ticket, job } in refits {
        let started = Instant::now();
        let done = std::panic::catch_unwind(AssertUnwindSafe(|| pool.install(job)));
        let done = match done {
            Ok(found) => {
                let seconds = started.elapsed().as_secs_f64();
                metrics::histogram!("cohort_refit_seconds").record(seconds);
                tracing::debug!(app, seconds, bytes = found.len(), "refitted");
                Request::Refitted { app, ticket, found }
            }
            Err(_) => {
                tracing::error!(app, "a refit stopped at a bug; the app goes on without");
                Request::RefitFailed { app, ticket }
            }
        };
        let app = done.app().unwrap_or_default().to_owned();
        if engine.push_own(&app, Message::Tell(done)).is_err() {
            return;
        }
    }
}
