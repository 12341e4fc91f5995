//! Which threads run the engine, and when is an answer safe to give?
//!
//! ```text
//! requests ──> engine thread: state changes ─ append ─ sync (once for all that waited) ──> answers
//! ```
//!
//! The engine thread owns the state and the journal: there is no lock around either. While it waits
//! for the disk requests queue up, so that groups are as large as the disk is slow, and nobody has to
//! wake it for the next. A state that runs ahead of the disk is never seen: answers go when their
//! group is safe.
//!
//! Two more threads do what takes long, so that nobody waits for it: one refits, one writes
//! snapshots. Both work on copies that share their numbers with the state until it changes.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `engine_thread` | what is done with a request? |
//! | `commit` | when is it safe? |
//! | `refit_thread` | who looks afresh at what users have in common? |
//! | `snapshot_thread` | who writes snapshots? |
//!
//! The queue is bounded. Where it is full a request is refused at once, with the advice
//! to come back: the service answers what it can and does not collapse under the rest.

mod commit;
mod engine_thread;
mod refit_thread;
mod snapshot_thread;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::{Answer, Engine, Refusal, Request};
use crate::clock::Clock;
use crate::directory::Directory;
use crate::journal::{Group, Journal};
use crate::snapshot::Snapshots;
use crate::snapshot::disk::Disk;
use commit::Committer;
use engine_thread::EngineThread;
use snapshot_thread::SnapshotWriter;

/// When an answer is given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Durability {
    /// When it would survive a loss of power.
    Always,
    /// When it would survive the end of the process; the disk is synced this often, which is how
    /// much a loss of power can take.
    Interval(Duration),
}

/// How the threads work.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// When an answer is given.
    pub durability: Durability,
    /// How many requests may wait.
    pub queue: usize,
    /// After how many events a snapshot is written; 0 for never.
    pub snapshot_events: u64,
    /// Whether events that no restart needs are removed from the journal.
    pub prunes: bool,
}

/// How large a group may grow before it is handed on.
const GROUP_EVENTS: u64 = 4096;
const GROUP_BYTES: usize = 4 << 20;
const GROUP_ANSWERS: usize = 4096;
/// How often windows are looked at when nobody asks anything.
const TICK: Duration = Duration::from_millis(200);

type Reply = oneshot::Sender<Result<Answer, Refusal>>;

/// What the engine thread is sent.
enum Message {
    Ask(Request, Reply),
    Stop,
}

/// What requests are sent to.
#[derive(Clone)]
pub struct Handle {
    requests: mpsc::Sender<Message>,
    shared: Arc<Shared>,
}

/// What the thread and everybody who asks can see.
struct Shared {
    directory: RwLock<Arc<Directory>>,
    failed: Mutex<Option<String>>,
    stopping: AtomicBool,
}

/// The running threads.
pub struct Runtime {
    engine: JoinHandle<()>,
    handle: Handle,
}

/// Requests that were handled together, and become safe together.
#[derive(Default)]
struct Batch {
    group: Group,
    answers: Vec<(Reply, Result<Answer, Refusal>)>,
    directory: Option<Arc<Directory>>,
}

impl Handle {
    /// Asks, and waits for the answer to be safe.
    pub async fn ask(&self, request: Request) -> Result<Answer, Refusal> {
        if self.shared.stopping.load(Ordering::Relaxed) {
            return Err(Refusal::ShuttingDown);
        }
        let (reply, answer) = oneshot::channel();
        self.requests.try_send(Message::Ask(request, reply)).map_err(|full| match full {
            mpsc::error::TrySendError::Full(_) => Refusal::Overloaded,
            mpsc::error::TrySendError::Closed(_) => self.gone(),
        })?;
        answer.await.unwrap_or_else(|_| Err(self.gone()))
    }

    /// The apps as they are on disk.
    pub fn directory(&self) -> Arc<Directory> {
        self.shared.directory.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why nothing is taken any more, if that is so.
    pub fn failure(&self) -> Option<String> {
        self.shared.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Refuses requests from now on.
    pub fn stop_taking(&self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
    }

    /// How many requests wait for the engine.
    pub fn waiting(&self) -> usize {
        self.requests.max_capacity() - self.requests.capacity()
    }

    fn gone(&self) -> Refusal {
        match self.failure() {
            Some(why) => Refusal::JournalFailed { why },
            None => Refusal::ShuttingDown,
        }
    }
}

impl Runtime {
    /// Starts the threads.
    pub fn start<D: Disk + 'static>(
        engine: Engine,
        journal: Box<dyn Journal>,
        snapshots: Snapshots<D>,
        clock: Box<dyn Clock>,
        options: Options,
    ) -> std::io::Result<Self> {
        let (requests, incoming) = mpsc::channel(options.queue.max(1));
        let shared = Arc::new(Shared {
            directory: RwLock::new(Arc::new(Directory::of(engine.state()))),
            failed: Mutex::new(None),
            stopping: AtomicBool::new(false),
        });
        let committer = Committer {
            journal,
            durability: options.durability,
            prunes: options.prunes,
            shared: shared.clone(),
            synced_at: Instant::now(),
            unsynced: false,
        };
        // What was replayed is in no snapshot: one is due as if it had just happened.
        let snapshot_event = snapshots.newest_event()?;
        let engine_thread = EngineThread {
            engine,
            clock,
            snapshots: SnapshotWriter::start(snapshots)?,
            committer,
            refits: refit_thread::start(requests.downgrade())?,
            snapshot_events: options.snapshot_events,
            snapshot_event,
            shared: shared.clone(),
        };
        Ok(Self {
            engine: std::thread::Builder::new()
                .name("engine".to_owned())
                .spawn(move || engine_thread.run(incoming))?,
            handle: Handle { requests, shared },
        })
    }

    /// What requests are sent to.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Answers what waits, writes a snapshot and ends.
    pub fn stop(self) {
        self.handle.stop_taking();
        // A full queue is waited for; an engine that is gone needs no telling.
        let _ = self.handle.requests.blocking_send(Message::Stop);
        // A thread that panicked has said so already; there is nothing left to save.
        let _ = self.engine.join();
    }
}

impl Shared {
    fn fail(&self, why: &str) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.to_owned());
    }
}
