//! The thread that owns the state: takes requests, changes the state, makes that safe, answers.

use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::commit::{Committer, Failed};
use super::gathering::Gathering;
use super::queue::{Next, Queue};
use super::snapshot_thread::{Finished, Order, SnapshotWriter};
use super::{
    Batch, GROUP_ANSWERS, GROUP_BYTES, GROUP_EVENTS, GROUP_WORK, Message, SHARED_WORK, SMALL_WORK,
    Shared, TICK,
};
use crate::clock::{Clock, Timekeeper};
use crate::directory::Directory;
use crate::engine::{Engine, Refit, Request};
use crate::snapshot::KEPT;

pub(super) struct EngineThread {
    pub engine: Engine,
    pub clock: Box<dyn Clock>,
    pub time: Timekeeper,
    pub queue: Arc<Queue>,
    pub snapshots: SnapshotWriter,
    pub committer: Committer,
    pub gathering: Gathering,
    pub refits: Sender<Refit>,
    pub snapshot_events: u64,
    pub snapshot_interval: Duration,
    /// When the last snapshot was begun, or this thread.
    pub snapshot_at: Instant,
    /// The last event in a snapshot, be it written or being written.
    pub snapshot_event: u64,
    /// The last event in a snapshot that was written.
    pub written_event: u64,
    /// When one that failed is tried again.
    pub retry_snapshot_at: Option<Instant>,
    /// How many in a row have failed.
    pub failed_snapshots: u32,
    /// How many snapshots must be written until nothing on disk is of those who went …
    pub erasing: usize,
    /// … and the event by which the last of them went.
    pub erased_event: u64,
    pub shared: Arc<Shared>,
}

/// After how long a snapshot that failed is tried again: soon, since servers that elect a leader fail for a moment, …
const FIRST_SNAPSHOT_RETRY: Duration = Duration::from_secs(1);
/// … twice as late after every further failure, and at the latest after this, unless they are written more often anyway.
const LAST_SNAPSHOT_RETRY: Duration = Duration::from_secs(60);

/// What a nanosecond of work is in the units of [`Request::work`].
const WORK_IN_NANOSECOND: u64 = 3;

/// Work that was not in the price: JSON with many interactions, a filter of a large catalogue, many items to register
/// cost what they cost. What is little, or little more than expected, does not count.
fn surplus(price: u64, took: Duration) -> u64 {
    let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    let spent = nanoseconds.saturating_mul(WORK_IN_NANOSECOND);
    let surplus = spent.saturating_sub(price.saturating_mul(2));
    if surplus > SMALL_WORK { surplus } else { 0 }
}

/// What is done in one group, by the size of requests.
#[derive(Default)]
struct Work {
    small: u64,
    large: u64,
}

impl Work {
    fn add(&mut self, work: u64) {
        match work <= SMALL_WORK {
            true => self.small += work,
            false => self.large += work,
        }
    }

    /// Whether the group should become safe before more is done: whoever asked for little waits for all of it.
    fn is_enough(&self) -> bool {
        let most = match (self.small > 0, self.large > 0) {
            (true, true) => SHARED_WORK,
            (false, true) => GROUP_WORK,
            // Syncing often would cost those who wait more than the work of others does.
            _ => 4 * GROUP_WORK,
        };
        self.small + self.large >= most
    }
}

/// A panic of the engine is a bug, and must not look like a service that is well.
/// However it ends, those who wait are told.
struct TellIfPanicking(Arc<Shared>, Arc<Queue>);

impl Drop for TellIfPanicking {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.health.end("the engine stopped at a bug; the log says where");
        }
        self.1.abandon();
    }
}

impl EngineThread {
    pub fn run(mut self) {
        let _guard = TellIfPanicking(self.shared.clone(), self.queue.clone());
        // A state that the journal does not have must never be in a snapshot.
        if self.serve().is_ok() {
            if let Some(Finished::Failed) = self.snapshots.finished() {
                self.snapshot_has_failed();
            }
            if !self.shared.ends_without_snapshot.load(Ordering::Relaxed) {
                let _ = self.snapshot();
            }
        }
        self.snapshots.finish();
    }

    /// Answers until it is told to stop, or cannot go on.
    fn serve(&mut self) -> Result<(), Failed> {
        let mut ticked_at = Instant::now();
        loop {
            let until_tick = TICK.saturating_sub(ticked_at.elapsed());
            let left = self.committer.patience().map_or(until_tick, |left| left.min(until_tick));
            let next = self.queue.next(left);
            if let (Next::Do(..), Some(most)) = (&next, self.committer.journal.gathers()) {
                self.gathering.wait(most, || self.queue.len(), std::thread::sleep);
            }
            let goes_on = !matches!(next, Next::Stop);
            let mut batch = Batch::default();
            let now_ms = self.now(&mut batch);
            if until_tick.is_zero() {
                ticked_at = Instant::now();
                self.shared.users.store(super::users_of(&self.engine), Ordering::Relaxed);
                self.handle_own(now_ms, Request::TimePasses, &mut batch);
            }
            self.fill(now_ms, &mut batch, next);
            if self.engine.has_erased() {
                (self.erasing, self.erased_event) = (KEPT, self.engine.state().last_event());
            }
            if self.erasing > 0 && self.is_old() && self.new_events() == 0 {
                self.handle_own(now_ms, Request::Rests, &mut batch);
            }
            if self.engine.is_behind() {
                // Requests that wait go first, then the next part.
                ticked_at = Instant::now() - TICK;
            }
            self.hand_out_refits();
            if let Some(troubles) = self.engine.changed_troubles() {
                self.shared.health.set_apps(troubles);
            }
            let (requests, began) = (batch.answers.len(), Instant::now());
            self.committer.commit(batch)?;
            if requests > 0 {
                self.gathering.committed(requests, began.elapsed());
            }
            if let Some(before) = self.snapshots.needless_before() {
                self.shared.needed_from.store(before, Ordering::Relaxed);
            }
            if !goes_on {
                return self.committer.sync();
            }
            self.snapshot_if_due()?;
        }
    }

    /// The time. Where the calendar was set, all apps are told first.
    fn now(&mut self, batch: &mut Batch) -> u64 {
        let moment = self.time.now(&*self.clock);
        let settled_ms = self.time.settled_ms();
        self.shared.now_ms.store(moment.now_ms, Ordering::Relaxed);
        self.shared.settled_ms.store(settled_ms, Ordering::Relaxed);
        self.engine.doubt_ages(moment.now_ms - settled_ms);
        if let Some(by_ms) = moment.stepped_ms {
            self.handle_own(moment.now_ms, Request::ClockSteps { by_ms }, batch);
        }
        moment.now_ms
    }

    /// Takes requests until none waits or the group is full.
    fn fill(&mut self, now_ms: u64, batch: &mut Batch, first: Next) {
        let (mut next, mut work) = (first, Work::default());
        while let Next::Do(message, cost) = next {
            match message {
                // Whoever asked has gone or waited too long: nobody would read the answer.
                Message::Ask(request, reply) if reply.is_closed() && !request.goes_on() => {
                    metrics::counter!("cohort_requests_abandoned_total").increment(1);
                }
                Message::Ask(request, reply) if self.prepares(&request, &mut work) => {
                    self.queue.put_back(cost, Message::Ask(request, reply));
                }
                Message::Ask(request, reply) => {
                    let administers = request.administers();
                    let (app, began) = (request.app().map(str::to_owned), Instant::now());
                    let answer = self.engine.handle(now_ms, request, &mut batch.group);
                    let surplus = surplus(cost.work, began.elapsed());
                    work.add(cost.work + surplus);
                    if let Some(app) = app.filter(|_| surplus > 0) {
                        self.queue.charge(app, surplus);
                    }
                    if administers && answer.is_ok() {
                        batch.directory = Some(Arc::new(Directory::of(self.engine.state())));
                    }
                    batch.answers.push((reply, answer));
                }
                Message::Tell(request) => self.handle_own(now_ms, request, batch),
            }
            let full = batch.group.events() >= GROUP_EVENTS
                || batch.group.bytes() >= GROUP_BYTES
                || batch.answers.len() >= GROUP_ANSWERS
                || work.is_enough()
                || self.committer.patience().is_some_and(|left| left.is_zero());
            next = if full { Next::Nothing } else { self.queue.next(Duration::ZERO) };
        }
    }

    /// Makes a part of what a request needs first; says whether more is needed. Requests of other apps come before that.
    fn prepares(&mut self, request: &Request, work: &mut Work) -> bool {
        let began = Instant::now();
        let more = self.engine.prepares(request);
        let spent = surplus(0, began.elapsed());
        if let Some(app) = request.app().filter(|_| spent > 0) {
            work.add(spent);
            self.queue.charge(app.to_owned(), spent);
        }
        more
    }

    /// Does what the service itself asks for.
    fn handle_own(&mut self, now_ms: u64, request: Request, batch: &mut Batch) {
        let administers = request.administers();
        if let Err(why) = self.engine.handle(now_ms, request, &mut batch.group) {
            tracing::error!(%why, "what the service asked of itself was refused");
        }
        if administers {
            batch.directory = Some(Arc::new(Directory::of(self.engine.state())));
            batch.followed = Some(self.engine.followed());
        }
    }

    /// Events that no snapshot has.
    fn new_events(&self) -> u64 {
        self.engine.state().last_event() - self.snapshot_event
    }

    /// Whether the last snapshot was begun long ago.
    fn is_old(&self) -> bool {
        !self.snapshot_interval.is_zero() && self.snapshot_at.elapsed() >= self.snapshot_interval
    }

    fn snapshot_if_due(&mut self) -> Result<(), Failed> {
        if self.snapshots.is_busy() {
            return Ok(());
        }
        match self.snapshots.finished() {
            Some(Finished::Written { event, begun }) => self.snapshot_is_written(event, begun),
            Some(Finished::Failed) => self.snapshot_has_failed(),
            None => {}
        }
        let events = self.new_events();
        let is_due = match self.retry_snapshot_at {
            Some(at) => at <= Instant::now(),
            None => {
                let is_wanted = self.is_old() || self.shared.wants_snapshot.load(Ordering::Relaxed);
                is_wanted && events > 0
                    || self.snapshot_events > 0 && events >= self.snapshot_events
            }
        };
        match is_due {
            true => {
                self.retry_snapshot_at = None;
                self.snapshot()
            }
            false => Ok(()),
        }
    }

    fn snapshot_is_written(&mut self, event: u64, begun: Instant) {
        self.written_event = event;
        self.failed_snapshots = 0;
        self.shared.in_snapshot.store(event, Ordering::Relaxed);
        let age = &self.shared.snapshot_age;
        *age.lock().unwrap_or_else(PoisonError::into_inner) = (begun, Duration::ZERO);
        // One that was begun before they went still has them.
        if event >= self.erased_event {
            self.erasing = self.erasing.saturating_sub(1);
        }
    }

    /// What should be in it is in none, and must be in the next, also where nothing else happens.
    fn snapshot_has_failed(&mut self) {
        self.snapshot_event = self.written_event;
        let backoff = FIRST_SNAPSHOT_RETRY * (1 << self.failed_snapshots.min(6));
        self.failed_snapshots += 1;
        let mut retry = backoff.min(LAST_SNAPSHOT_RETRY);
        if !self.snapshot_interval.is_zero() {
            retry = retry.min(self.snapshot_interval);
        }
        self.retry_snapshot_at = Some(Instant::now() + retry);
    }

    /// Has a snapshot of the state as it is now written elsewhere; all that is in it is safe in the
    /// journal first. A snapshot that fails costs time at the next start, nothing else.
    fn snapshot(&mut self) -> Result<(), Failed> {
        let event = self.engine.state().last_event();
        if event == self.snapshot_event {
            return Ok(());
        }
        self.snapshot_event = event;
        self.snapshot_at = Instant::now();
        let quarantined = self.engine.quarantined();
        if !quarantined.is_empty() && !self.snapshots.brings_back() {
            let why = format!(
                "no snapshot is written while apps are quarantined ({}): restart the service",
                quarantined.iter().cloned().collect::<Vec<_>>().join(", ")
            );
            tracing::error!(why);
            self.shared.health.set_snapshots(Some(why));
            return Ok(());
        }
        if !self.engine.state_mut().can_be_saved() {
            tracing::info!("no snapshot: the policy of an app cannot be kept in one");
            return Ok(());
        }
        self.committer.sync()?;
        let started = Instant::now();
        match self.engine.state_mut().freeze_without(&quarantined) {
            Ok(state) => self.snapshots.write(Order { event, begun: started, state, quarantined }),
            Err(why) => {
                tracing::error!(%why, "the service goes on without this snapshot");
                metrics::counter!("cohort_snapshot_failures_total").increment(1);
                let why = format!("no snapshot can be taken: {why}; it is tried again");
                self.shared.health.set_snapshots(Some(why));
                self.snapshot_has_failed();
            }
        }
        metrics::histogram!("cohort_snapshot_pause_seconds").record(started.elapsed());
        Ok(())
    }

    /// What is due and takes long is done elsewhere.
    fn hand_out_refits(&mut self) {
        let learned = self.engine.take_learned();
        if !learned.is_empty() {
            self.shared.learned.send_modify(|known| known.extend(learned));
        }
        for refit in self.engine.take_refits() {
            // Without that thread the model stays as it is, and decisions go on.
            if let Err(gone) = self.refits.send(refit) {
                self.engine.refit_is_lost(&gone.0.app);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_longer_than_its_price_counts_as_what_it_is() {
        assert_eq!(surplus(10_000, Duration::from_micros(50)), 0);
        assert_eq!(surplus(1_000_000, Duration::from_micros(600)), 0);
        assert_eq!(surplus(10_000, Duration::from_millis(10)), 29_980_000);
    }
}
