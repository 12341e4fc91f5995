//! Which threads run the engine, and when is an answer safe to give?
//!
//! ```text
//! requests ──> engine thread ── groups ──> journal thread ── answers ──>
//!              changes the state            append, sync (once for all that waits), answer
//! ```
//!
//! The engine thread owns the state: there is no lock around it. While the journal thread waits
//! for the disk, the engine works on the next group, so that groups are as large as the disk is
//! slow. A state that runs ahead of the disk is never seen: every answer passes through the journal
//! thread behind the groups it may rest on.
//!
//! Both queues are bounded. Where the first is full a request is refused at once, with the advice
//! to come back: the service answers what it can and does not collapse under the rest.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
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
}

/// How large a group may grow before it is handed on.
const GROUP_EVENTS: u64 = 4096;
const GROUP_BYTES: usize = 4 << 20;
/// How many groups may wait for the journal: one while one is being written keeps both threads
/// busy, more would only make answers later.
const GROUPS_WAITING: usize = 2;
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

/// What both threads and everybody who asks can see.
struct Shared {
    directory: RwLock<Arc<Directory>>,
    failed: Mutex<Option<String>>,
    stopping: AtomicBool,
}

/// The running threads.
pub struct Runtime {
    engine: JoinHandle<()>,
    journal: JoinHandle<()>,
    handle: Handle,
}

/// What the engine thread hands to the journal thread.
struct Batch {
    group: Group,
    answers: Vec<(Reply, Result<Answer, Refusal>)>,
    directory: Option<Arc<Directory>>,
    /// Told when everything up to here is safe.
    safe: Option<SyncSender<()>>,
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
    /// Starts both threads.
    pub fn start<D: Disk + 'static>(
        engine: Engine,
        journal: Box<dyn Journal>,
        snapshots: Snapshots<D>,
        clock: Box<dyn Clock>,
        options: Options,
    ) -> std::io::Result<Self> {
        let (requests, incoming) = mpsc::channel(options.queue.max(1));
        let (batches, groups) = sync_channel(GROUPS_WAITING);
        let shared = Arc::new(Shared {
            directory: RwLock::new(Arc::new(Directory::of(engine.state()))),
            failed: Mutex::new(None),
            stopping: AtomicBool::new(false),
        });
        let journal_thread = JournalThread {
            journal,
            durability: options.durability,
            shared: shared.clone(),
            synced_at: Instant::now(),
        };
        let snapshot_event = engine.state().last_event();
        let engine_thread = EngineThread {
            engine,
            clock,
            snapshots,
            batches,
            snapshot_events: options.snapshot_events,
            snapshot_event,
            shared: shared.clone(),
        };
        Ok(Self {
            engine: std::thread::Builder::new()
                .name("engine".to_owned())
                .spawn(move || engine_thread.run(incoming))?,
            journal: std::thread::Builder::new()
                .name("journal".to_owned())
                .spawn(move || journal_thread.run(&groups))?,
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
        let _ = self.journal.join();
    }
}

struct EngineThread<D> {
    engine: Engine,
    clock: Box<dyn Clock>,
    snapshots: Snapshots<D>,
    batches: SyncSender<Batch>,
    snapshot_events: u64,
    /// The last event in a snapshot.
    snapshot_event: u64,
    shared: Arc<Shared>,
}

/// A panic of the engine is a bug, and must not look like a service that is well.
struct TellIfPanicking(Arc<Shared>);

impl Drop for TellIfPanicking {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("the engine stopped at a bug");
        }
    }
}

impl Shared {
    fn fail(&self, why: &str) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.to_owned());
    }
}

impl<D: Disk> EngineThread<D> {
    fn run(mut self, mut incoming: mpsc::Receiver<Message>) {
        let _guard = TellIfPanicking(self.shared.clone());
        let waiting = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let Ok(waiting) = waiting else { return };
        let mut ticked_at = Instant::now();
        loop {
            let left = TICK.saturating_sub(ticked_at.elapsed());
            let first = match left.is_zero() {
                true => Ok(incoming.try_recv().ok()),
                false => waiting
                    .block_on(async { tokio::time::timeout(left, incoming.recv()).await })
                    .map_or(Ok(None), |received| received.map(Some).ok_or(())),
            };
            let Ok(first) = first else { break };
            let mut batch = Batch::new();
            if left.is_zero() {
                ticked_at = Instant::now();
                self.pass_time(&mut batch);
            }
            let goes_on = first.is_none_or(|first| self.fill(&mut batch, first, &mut incoming));
            if !batch.is_empty() && self.batches.send(batch).is_err() {
                break;
            }
            if !goes_on {
                break;
            }
            self.snapshot_if_due();
        }
        self.snapshot();
    }

    /// Takes requests until none waits or the group is full. Says whether to go on after it.
    fn fill(
        &mut self,
        batch: &mut Batch,
        first: Message,
        incoming: &mut mpsc::Receiver<Message>,
    ) -> bool {
        let now_ms = self.clock.now_ms();
        let mut next = Some(first);
        while let Some(message) = next {
            let Message::Ask(request, reply) = message else { return false };
            let administers = request.administers();
            let answer = self.engine.handle(now_ms, request, &mut batch.group);
            if administers && answer.is_ok() {
                batch.directory = Some(Arc::new(Directory::of(self.engine.state())));
            }
            batch.answers.push((reply, answer));
            let full = batch.group.events() >= GROUP_EVENTS || batch.group.bytes() >= GROUP_BYTES;
            next = if full { None } else { incoming.try_recv().ok() };
        }
        true
    }

    fn pass_time(&mut self, batch: &mut Batch) {
        let passed = self.engine.handle(self.clock.now_ms(), Request::TimePasses, &mut batch.group);
        if let Err(why) = passed {
            tracing::error!(%why, "windows could not be ended");
        }
    }

    fn snapshot_if_due(&mut self) {
        let events = self.engine.state().last_event() - self.snapshot_event;
        if self.snapshot_events > 0 && events >= self.snapshot_events {
            self.snapshot();
        }
    }

    /// Writes a snapshot, once all that is in it is safe in the journal. A snapshot that fails
    /// costs time at the next start, nothing else.
    fn snapshot(&mut self) {
        let event = self.engine.state().last_event();
        if event == self.snapshot_event || !self.wait_until_safe() {
            return;
        }
        if !self.engine.state_mut().can_be_saved() {
            tracing::info!("no snapshot: the policy of an app cannot be kept in one");
            self.snapshot_event = event;
            return;
        }
        let started = Instant::now();
        let state = self.engine.state_mut();
        match self.snapshots.write(event, &mut |out| state.save(out)) {
            Ok(()) => {
                let seconds = started.elapsed().as_secs_f64();
                tracing::info!(event, seconds, "snapshot written");
                metrics::histogram!("cohort_snapshot_seconds").record(seconds);
            }
            Err(why) => tracing::error!(%why, "the service goes on without this snapshot"),
        }
        self.snapshot_event = event;
    }

    fn wait_until_safe(&self) -> bool {
        let (safe, wait) = sync_channel(1);
        let batch = Batch { safe: Some(safe), ..Batch::new() };
        self.batches.send(batch).is_ok() && wait.recv().is_ok()
    }
}

impl Batch {
    fn new() -> Self {
        Self { group: Group::default(), answers: Vec::new(), directory: None, safe: None }
    }

    fn is_empty(&self) -> bool {
        self.group.is_empty() && self.answers.is_empty() && self.safe.is_none()
    }
}

struct JournalThread {
    journal: Box<dyn Journal>,
    durability: Durability,
    shared: Arc<Shared>,
    synced_at: Instant,
}

impl JournalThread {
    fn run(mut self, groups: &Receiver<Batch>) {
        let mut unsynced = false;
        loop {
            let first = match (self.durability, unsynced) {
                (Durability::Interval(interval), true) => {
                    match groups.recv_timeout(interval.saturating_sub(self.synced_at.elapsed())) {
                        Ok(batch) => Some(batch),
                        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => None,
                        Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
                    }
                }
                _ => match groups.recv() {
                    Ok(batch) => Some(batch),
                    Err(_) => break,
                },
            };
            let batches: Vec<Batch> = first.into_iter().chain(groups.try_iter()).collect();
            match self.commit(&batches, &mut unsynced) {
                Ok(()) => batches.into_iter().for_each(|batch| self.answer(batch)),
                Err(why) => return self.fail(&why.to_string(), batches, groups),
            }
        }
        if unsynced && let Err(why) = self.journal.sync() {
            tracing::error!(%why, "the last sync failed");
        }
    }

    fn commit(
        &mut self,
        batches: &[Batch],
        unsynced: &mut bool,
    ) -> Result<(), crate::journal::JournalError> {
        let mut events = 0;
        for batch in batches.iter().filter(|batch| !batch.group.is_empty()) {
            self.journal.append(&batch.group)?;
            events += batch.group.events();
            *unsynced = true;
        }
        let must_sync = match self.durability {
            Durability::Always => true,
            Durability::Interval(interval) => {
                self.synced_at.elapsed() >= interval
                    || batches.iter().any(|batch| batch.safe.is_some())
            }
        };
        if *unsynced && must_sync {
            let started = Instant::now();
            self.journal.sync()?;
            *unsynced = false;
            self.synced_at = Instant::now();
            metrics::histogram!("cohort_journal_sync_seconds").record(started.elapsed());
        }
        if events > 0 {
            metrics::counter!("cohort_journal_events_total").increment(events);
            metrics::histogram!("cohort_journal_group_events").record(events as f64);
        }
        Ok(())
    }

    fn answer(&self, batch: Batch) {
        if let Some(directory) = batch.directory {
            *self.shared.directory.write().unwrap_or_else(PoisonError::into_inner) = directory;
        }
        for (reply, answer) in batch.answers {
            // Whoever asked may have gone away.
            let _ = reply.send(answer);
        }
        if let Some(safe) = batch.safe {
            let _ = safe.send(());
        }
    }

    /// Nothing can be promised any more: everything that waits and comes is refused.
    fn fail(self, why: &str, batches: Vec<Batch>, groups: &Receiver<Batch>) {
        tracing::error!(why, "the journal failed; nothing is taken until the service is restarted");
        self.shared.fail(why);
        for batch in batches.into_iter().chain(groups.iter()) {
            for (reply, _) in batch.answers {
                let _ = reply.send(Err(Refusal::JournalFailed { why: why.to_owned() }));
            }
        }
    }
}
