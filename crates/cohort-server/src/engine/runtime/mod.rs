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
//! | `parts` | what of a large request is done at a time? |
//! | `queue` | who is next? |
//! | `engine_thread` | what is done with a request? |
//! | `gathering` | how long does a group wait for more requests? |
//! | `commit` | when is it safe? |
//! | `refit_thread` | who looks afresh at what users have in common? |
//! | [`Health`] | is everything that should run running? |
//! | `snapshot_thread` | who writes snapshots? |
//!
//! The queue is bounded, and fair between apps. Where it is full a request is refused at once, with the advice
//! to come back: the service answers what it can and does not collapse under the rest.

mod commit;
mod engine_thread;
mod gathering;
mod health;
mod parts;
mod queue;
mod refit_thread;
mod snapshot_thread;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::{Answer, Engine, Refusal, Request};
use crate::clock::{Clock, Timekeeper};
use crate::directory::Directory;
use crate::journal::{Group, Journal};
use crate::snapshot::Snapshots;
use crate::snapshot::disk::Disk;
use commit::Committer;
use engine_thread::EngineThread;
use gathering::Gathering;
pub use health::Health;
pub(super) use parts::AHEAD;
use queue::{Cost, NotTaken, Queue};
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
    /// After how long one is written if anything has happened; zero for never.
    pub snapshot_interval: Duration,
    /// Whether events that no restart needs are removed from the journal.
    pub prunes: bool,
}

/// How large a group may grow before it is handed on.
const GROUP_EVENTS: u64 = 4096;
const GROUP_BYTES: usize = 4 << 20;
const GROUP_ANSWERS: usize = 4096;
/// The same in work, of requests that are large. What came last waits for all of it.
const GROUP_WORK: u64 = 8_000_000;
/// The same where small requests are among them: those do not wait for many large ones to be done.
const SHARED_WORK: u64 = 2_000_000;
/// A request with more work than this is large.
const SMALL_WORK: u64 = 250_000;
/// How often windows are looked at when nobody asks anything.
const TICK: Duration = Duration::from_millis(200);

/// In so many slices windows are closed before settings are changed, whatever ends meanwhile.
const MOST_SLICES: usize = 100_000;

type Reply = oneshot::Sender<Result<Answer, Refusal>>;
type Awaited = oneshot::Receiver<Result<Answer, Refusal>>;

/// What the engine thread is sent.
enum Message {
    /// Somebody waits for the answer; once nobody does, it need not be done.
    Ask(Request, Reply),
    /// The service itself says so.
    Tell(Request),
}

/// What requests are sent to.
#[derive(Clone)]
pub struct Handle {
    queue: Arc<Queue>,
    shared: Arc<Shared>,
}

/// What the thread and everybody who asks can see.
struct Shared {
    directory: RwLock<Arc<Directory>>,
    health: Arc<Health>,
    /// What is refused because room is scarce: a [`Pressure`].
    pressure: AtomicU8,
    /// The first event that a restart may need.
    needed_from: AtomicU64,
    /// The time of the service, as of a moment ago, and the one by which is judged what is too old.
    now_ms: AtomicU64,
    settled_ms: AtomicU64,
    /// When this was measured, and how old the newest snapshot was then.
    snapshot_age: Mutex<(Instant, Duration)>,
    /// Apps and how large they are, as of some seconds ago.
    levels: Mutex<Vec<AppLevel>>,
    stopping: AtomicBool,
    /// Up to which event of a cluster's control stream the engine has come, and the journal with it.
    followed: tokio::sync::watch::Sender<u64>,
    /// How many rewards apps have that are fitted for all partitions of a cluster together, about.
    learned: tokio::sync::watch::Sender<BTreeMap<String, f64>>,
    /// The last event that is as safe as was asked for.
    last_event: AtomicU64,
    /// Users of all apps, as of a moment ago.
    users: AtomicU64,
    /// The last event in a snapshot that was written.
    in_snapshot: AtomicU64,
    /// A snapshot is wanted now.
    wants_snapshot: AtomicBool,
    /// None is wanted at the end.
    ends_without_snapshot: AtomicBool,
}

/// The running threads.
pub struct Runtime {
    engine: Option<JoinHandle<()>>,
    handle: Handle,
}

/// How scarce room is, and what is refused for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Pressure {
    /// There is enough.
    None = 0,
    /// The disk becomes full: no decisions.
    Disk = 1,
    /// The disk is nearly full: no rewards either.
    DiskFull = 2,
    /// Memory becomes scarce: no decisions.
    Memory = 3,
}

/// How large an app is, for metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct AppLevel {
    /// Its name.
    pub app: String,
    /// Its users.
    pub users: usize,
    /// Its decisions that wait.
    pub waiting: usize,
}

/// Requests that were handled together, and become safe together.
#[derive(Default)]
struct Batch {
    group: Group,
    answers: Vec<(Reply, Result<Answer, Refusal>)>,
    directory: Option<Arc<Directory>>,
    /// Up to which event of a cluster's control stream the engine has come with it.
    followed: Option<u64>,
}

impl Handle {
    /// Asks, and waits for the answer to be safe. What is large is done in parts, and others are served between them.
    pub async fn ask(&self, request: Request) -> Result<Answer, Refusal> {
        let app = request.app().unwrap_or_default().to_owned();
        let dim = self.directory().app(&app).map_or(0, |listed| listed.dim);
        if self.shared.stopping.load(Ordering::Relaxed) {
            return Err(Refusal::ShuttingDown);
        }
        if matches!(request, Request::ChangeApp { .. }) {
            self.close_windows(&app, dim).await?;
        }
        let (mut under_way, mut answer) = (VecDeque::new(), None);
        for part in parts::parts(request, dim) {
            if under_way.len() == AHEAD
                && let Some(first) = under_way.pop_front()
            {
                let next = part_of(self.answer(first).await, answer.is_some())?;
                answer = Some(parts::together(answer, next));
            }
            let has_begun = answer.is_some() || !under_way.is_empty();
            under_way.push_back(part_of(self.send(&app, dim, part), has_begun)?);
        }
        for next in under_way {
            let next = part_of(self.answer(next).await, answer.is_some())?;
            answer = Some(parts::together(answer, next));
        }
        Ok(answer.unwrap_or(Answer::Done))
    }

    /// Has windows closed that have ended, some at a time: settings are changed when none are left, and nobody else waits for very
    /// many.
    async fn close_windows(&self, app: &str, dim: usize) -> Result<(), Refusal> {
        for _ in 0..MOST_SLICES {
            let close = Request::CloseWindows { app: app.to_owned() };
            if !matches!(self.answer(self.send(app, dim, close)?).await?, Answer::Behind) {
                break;
            }
        }
        Ok(())
    }

    /// Has the engine do something; who drops what comes back does not want it any more. What has begun is done to its
    /// end where the service stops meanwhile.
    fn send(&self, app: &str, dim: usize, request: Request) -> Result<Awaited, Refusal> {
        self.refuse_if_scarce(&request)?;
        let (reply, answer) = oneshot::channel();
        let cost = Cost { work: request.work(dim), bytes: request.bytes() };
        if request.goes_on() {
            let own = self.queue.push_always(app, cost, Message::Ask(request, reply));
            return own.map(|()| answer).map_err(|_| self.gone());
        }
        self.queue.push(app, cost, Message::Ask(request, reply)).map_err(|why| match why {
            NotTaken::Full => Refusal::Overloaded,
            NotTaken::Gone => self.gone(),
        })?;
        Ok(answer)
    }

    async fn answer(&self, awaited: Awaited) -> Result<Answer, Refusal> {
        awaited.await.unwrap_or_else(|_| Err(self.gone()))
    }

    /// Has a partition take over what its cluster's control stream says.
    pub(crate) fn follow(&self, number: u64, events: Vec<crate::event::Event>) {
        // An engine that is gone follows nothing.
        let _ = self.queue.push_own("", Message::Tell(Request::Follow { number, events }));
    }

    /// The apps as they are on disk.
    pub fn directory(&self) -> Arc<Directory> {
        self.shared.directory.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why nothing is taken any more, if that is so.
    pub fn failure(&self) -> Option<String> {
        self.shared.health.ended()
    }

    /// Waits until nothing is taken any more because the engine or its journal failed; returns why.
    pub async fn ended(&self) -> String {
        self.shared.health.wait_for_end().await
    }

    /// What fails, and what is wrong with single apps.
    pub fn health(&self) -> &Health {
        &self.shared.health
    }

    /// Refuses requests from now on.
    pub fn stop_taking(&self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
    }

    fn refuse_if_scarce(&self, request: &Request) -> Result<(), Refusal> {
        let pressure = self.shared.pressure.load(Ordering::Relaxed);
        let (code, what) = match pressure {
            0 => return Ok(()),
            code if code == Pressure::Memory as u8 => ("memory_low", "memory"),
            _ => ("disk_low", "disk"),
        };
        let refused = match (request.adds(), request.writes()) {
            (true, _) => "what adds to it",
            (_, true) if pressure == Pressure::DiskFull as u8 => "all that is written",
            _ => return Ok(()),
        };
        Err(Refusal::Scarce { code, what, refused })
    }

    /// Says how scarce room is.
    pub fn set_pressure(&self, pressure: Pressure) {
        self.shared.pressure.store(pressure as u8, Ordering::Relaxed);
        metrics::gauge!("cohort_work_refused").set(f64::from(pressure as u8));
    }

    /// The first event that a restart may need; 0 where all are needed.
    pub fn needed_from(&self) -> u64 {
        self.shared.needed_from.load(Ordering::Relaxed)
    }

    /// How old the state in the newest snapshot is, or the process where there is none.
    pub fn seconds_since_snapshot(&self) -> f64 {
        let (at, age) = *self.shared.snapshot_age.lock().unwrap_or_else(PoisonError::into_inner);
        (at.elapsed() + age).as_secs_f64()
    }

    /// The time of the service, as of a moment ago. Jumps of the calendar are bounded in it.
    pub fn now_ms(&self) -> u64 {
        self.shared.now_ms.load(Ordering::Relaxed)
    }

    /// The time by which is judged what is too old to be kept: jumps ahead count after a day.
    pub fn settled_ms(&self) -> u64 {
        self.shared.settled_ms.load(Ordering::Relaxed)
    }

    /// Has the longest unseen users retired, of whichever apps, because memory is scarce.
    pub fn retire_users(&self, most: usize) {
        // An engine that is gone keeps nobody.
        let _ = self.queue.push_own("", Message::Tell(Request::MemoryLow { most }));
    }

    /// Says how large apps are.
    pub fn set_levels(&self, levels: Vec<AppLevel>) {
        *self.shared.levels.lock().unwrap_or_else(PoisonError::into_inner) = levels;
    }

    /// How large apps are, as of some seconds ago; of those that there still are.
    pub fn levels(&self) -> Vec<AppLevel> {
        let directory = self.directory();
        let mut levels = self.shared.levels.lock().unwrap_or_else(PoisonError::into_inner).clone();
        levels.retain(|level| directory.app(&level.app).is_some());
        levels
    }

    /// Has a snapshot written while requests are served, and none at the end: whoever goes on from there reads the few events
    /// since. Returns when it is there, or cannot be, or that takes too long. Blocks.
    pub fn hand_over(&self, patience: Duration) {
        let (event, until) = (self.last_event(), Instant::now() + patience);
        let written = || self.shared.in_snapshot.load(Ordering::Relaxed) >= event;
        self.shared.wants_snapshot.store(true, Ordering::Relaxed);
        while !written() && self.failure().is_none() && Instant::now() < until {
            std::thread::sleep(TICK / 20);
        }
        self.shared.wants_snapshot.store(false, Ordering::Relaxed);
        self.shared.ends_without_snapshot.store(written(), Ordering::Relaxed);
    }

    /// The last event that is as safe as was asked for.
    pub fn last_event(&self) -> u64 {
        self.shared.last_event.load(Ordering::Relaxed)
    }

    /// How many users all apps have together, as of a moment ago.
    pub fn users(&self) -> u64 {
        self.shared.users.load(Ordering::Relaxed)
    }

    /// Up to which event of a cluster's control stream it has come, safely.
    pub fn followed(&self) -> tokio::sync::watch::Receiver<u64> {
        self.shared.followed.subscribe()
    }

    /// How many rewards apps have that are fitted for all partitions of a cluster together, about.
    pub(crate) fn learned(&self) -> tokio::sync::watch::Receiver<BTreeMap<String, f64>> {
        self.shared.learned.subscribe()
    }

    /// How many requests wait for the engine.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn gone(&self) -> Refusal {
        match self.failure() {
            Some(why) => Refusal::JournalFailed { why },
            None => Refusal::ShuttingDown,
        }
    }
}

/// What a part of a request came to. Where parts before it were done, or may have been, a refusal to take it must not look
/// as if nothing had happened: whoever asks again would have it done twice.
fn part_of<T>(told: Result<T, Refusal>, has_begun: bool) -> Result<T, Refusal> {
    told.map_err(|why| match why {
        Refusal::ShuttingDown | Refusal::Overloaded | Refusal::Scarce { .. } if has_begun => {
            Refusal::PartlyDone { why: why.to_string() }
        }
        why => why,
    })
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
        let queue = Arc::new(Queue::new(options.queue));
        let apps = || engine.state().apps().values();
        let last_ms = apps().map(|app| app.now_ms()).max();
        let waits = apps().any(|app| app.decisions().waiting() > 0);
        let time = Timekeeper::new(&*clock, last_ms.unwrap_or_default(), waits);
        let shared = Arc::new(Shared {
            directory: RwLock::new(Arc::new(Directory::of(engine.state()))),
            health: Arc::default(),
            pressure: AtomicU8::new(0),
            needed_from: AtomicU64::new(snapshots.oldest_kept()?.map_or(0, |oldest| oldest + 1)),
            now_ms: AtomicU64::new(clock.now_ms().max(last_ms.unwrap_or_default())),
            settled_ms: AtomicU64::new(time.settled_ms()),
            snapshot_age: Mutex::new((Instant::now(), snapshots.newest_age()?.unwrap_or_default())),
            levels: Mutex::default(),
            stopping: AtomicBool::new(false),
            followed: tokio::sync::watch::Sender::new(engine.followed()),
            learned: tokio::sync::watch::Sender::default(),
            last_event: AtomicU64::new(engine.state().last_event()),
            users: AtomicU64::new(users_of(&engine)),
            in_snapshot: AtomicU64::new(snapshots.newest_event()?),
            wants_snapshot: AtomicBool::new(false),
            ends_without_snapshot: AtomicBool::new(false),
        });
        let pruner = options.prunes.then(|| journal.pruner());
        let replay = journal.replay();
        let committer = Committer {
            journal,
            durability: options.durability,
            shared: shared.clone(),
            synced_at: Instant::now(),
            unsynced: false,
        };
        // What was replayed is in no snapshot: one is due as if it had just happened.
        let snapshot_event = snapshots.newest_event()?;
        let engine_thread = EngineThread {
            engine,
            clock,
            time,
            queue: queue.clone(),
            snapshots: SnapshotWriter::start(snapshots, pruner, replay, shared.health.clone())?,
            committer,
            gathering: Gathering::default(),
            refits: refit_thread::start(queue.clone())?,
            snapshot_events: options.snapshot_events,
            snapshot_interval: options.snapshot_interval,
            snapshot_at: Instant::now(),
            snapshot_event,
            written_event: snapshot_event,
            retry_snapshot_at: None,
            failed_snapshots: 0,
            erasing: 0,
            erased_event: 0,
            shared: shared.clone(),
        };
        Ok(Self {
            engine: Some(
                std::thread::Builder::new()
                    .name("engine".to_owned())
                    .spawn(move || engine_thread.run())?,
            ),
            handle: Handle { queue, shared },
        })
    }

    /// What requests are sent to.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Answers what waits, writes a snapshot and ends.
    pub fn stop(self) {
        drop(self);
    }
}

fn users_of(engine: &Engine) -> u64 {
    engine.state().apps().values().map(|app| app.users().count() as u64).sum()
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.handle.stop_taking();
        self.handle.queue.stop();
        // A thread that panicked has said so already; there is nothing left to save.
        let _ = self.engine.take().map(JoinHandle::join);
    }
}
