//! The thread that owns the state: takes requests, changes the state, hands groups on.

use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::time::Instant;

use tokio::sync::mpsc;

use super::snapshot_thread::{Order, SnapshotWriter};
use super::{Batch, GROUP_BYTES, GROUP_EVENTS, Message, Shared, TICK};
use crate::clock::Clock;
use crate::directory::Directory;
use crate::engine::{Engine, Refit, Request};

pub(super) struct EngineThread {
    pub engine: Engine,
    pub clock: Box<dyn Clock>,
    pub snapshots: SnapshotWriter,
    pub batches: SyncSender<Batch>,
    pub refits: Sender<Refit>,
    pub snapshot_events: u64,
    /// The last event in a snapshot.
    pub snapshot_event: u64,
    pub shared: Arc<Shared>,
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

impl EngineThread {
    pub fn run(mut self, mut incoming: mpsc::Receiver<Message>) {
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
            self.hand_out_refits();
            self.prune_if_possible(&mut batch);
            if !batch.is_empty() && self.batches.send(batch).is_err() {
                break;
            }
            if !goes_on {
                break;
            }
            self.snapshot_if_due();
        }
        self.snapshot();
        self.snapshots.finish();
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
        if self.snapshot_events > 0 && events >= self.snapshot_events && !self.snapshots.is_busy() {
            self.snapshot();
        }
    }

    /// Has a snapshot of the state as it is now written elsewhere, once all that is in it is safe
    /// in the journal. A snapshot that fails costs time at the next start, nothing else.
    fn snapshot(&mut self) {
        let event = self.engine.state().last_event();
        if event == self.snapshot_event {
            return;
        }
        self.snapshot_event = event;
        if !self.engine.state_mut().can_be_saved() {
            tracing::info!("no snapshot: the policy of an app cannot be kept in one");
            return;
        }
        let started = Instant::now();
        let (safe, wait) = sync_channel(1);
        if self.batches.send(Batch { safe: Some(safe), ..Batch::new() }).is_err() {
            return;
        }
        match self.engine.state_mut().freeze() {
            Ok(state) => self.snapshots.write(Order { event, state, safe: wait }),
            Err(why) => tracing::error!(%why, "the service goes on without this snapshot"),
        }
        metrics::histogram!("cohort_snapshot_pause_seconds").record(started.elapsed());
    }

    /// What no restart needs again, once a snapshot has been written.
    fn prune_if_possible(&mut self, batch: &mut Batch) {
        batch.needless_before = self.snapshots.needless_before();
    }

    /// What is due and takes long is done elsewhere.
    fn hand_out_refits(&mut self) {
        for refit in self.engine.take_refits() {
            // Without that thread the model stays as it is, and decisions go on.
            let _ = self.refits.send(refit);
        }
    }
}
