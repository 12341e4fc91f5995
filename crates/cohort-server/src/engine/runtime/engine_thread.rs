//! The thread that owns the state: takes requests, changes the state, makes that safe, answers.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;

use tokio::sync::mpsc;

use super::commit::{Committer, Failed};
use super::snapshot_thread::{Order, SnapshotWriter};
use super::{Batch, GROUP_ANSWERS, GROUP_BYTES, GROUP_EVENTS, Message, Shared, TICK};
use crate::clock::Clock;
use crate::directory::Directory;
use crate::engine::{Engine, Refit, Request};

pub(super) struct EngineThread {
    pub engine: Engine,
    pub clock: Box<dyn Clock>,
    pub snapshots: SnapshotWriter,
    pub committer: Committer,
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
        // A state that the journal does not have must never be in a snapshot.
        if self.serve(&mut incoming).is_ok() {
            let _ = self.snapshot();
        }
        self.snapshots.finish();
    }

    /// Answers until it is told to stop, or cannot go on.
    fn serve(&mut self, incoming: &mut mpsc::Receiver<Message>) -> Result<(), Failed> {
        let waiting = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let Ok(waiting) = waiting else { return Err(Failed) };
        let mut ticked_at = Instant::now();
        loop {
            let until_tick = TICK.saturating_sub(ticked_at.elapsed());
            let left = self.committer.patience().map_or(until_tick, |left| left.min(until_tick));
            let first = match incoming.try_recv() {
                Ok(first) => Some(first),
                Err(mpsc::error::TryRecvError::Disconnected) => return self.committer.sync(),
                Err(mpsc::error::TryRecvError::Empty) if left.is_zero() => None,
                Err(mpsc::error::TryRecvError::Empty) => waiting
                    .block_on(async { tokio::time::timeout(left, incoming.recv()).await })
                    .unwrap_or_default(),
            };
            let mut batch = Batch::default();
            if until_tick.is_zero() {
                ticked_at = Instant::now();
                self.pass_time(&mut batch);
            }
            let goes_on = first.is_none_or(|first| self.fill(&mut batch, first, incoming));
            self.hand_out_refits();
            self.committer.commit(batch)?;
            if let Some(before) = self.snapshots.needless_before() {
                self.committer.prune(before)?;
            }
            if !goes_on {
                return self.committer.sync();
            }
            self.snapshot_if_due()?;
        }
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
            let full = batch.group.events() >= GROUP_EVENTS
                || batch.group.bytes() >= GROUP_BYTES
                || batch.answers.len() >= GROUP_ANSWERS
                || self.committer.patience().is_some_and(|left| left.is_zero());
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

    fn snapshot_if_due(&mut self) -> Result<(), Failed> {
        let events = self.engine.state().last_event() - self.snapshot_event;
        match self.snapshot_events > 0
            && events >= self.snapshot_events
            && !self.snapshots.is_busy()
        {
            true => self.snapshot(),
            false => Ok(()),
        }
    }

    /// Has a snapshot of the state as it is now written elsewhere; all that is in it is safe in the
    /// journal first. A snapshot that fails costs time at the next start, nothing else.
    fn snapshot(&mut self) -> Result<(), Failed> {
        let event = self.engine.state().last_event();
        if event == self.snapshot_event {
            return Ok(());
        }
        self.snapshot_event = event;
        if !self.engine.state_mut().can_be_saved() {
            tracing::info!("no snapshot: the policy of an app cannot be kept in one");
            return Ok(());
        }
        self.committer.sync()?;
        let started = Instant::now();
        match self.engine.state_mut().freeze() {
            Ok(state) => self.snapshots.write(Order { event, state }),
            Err(why) => tracing::error!(%why, "the service goes on without this snapshot"),
        }
        metrics::histogram!("cohort_snapshot_pause_seconds").record(started.elapsed());
        Ok(())
    }

    /// What is due and takes long is done elsewhere.
    fn hand_out_refits(&mut self) {
        for refit in self.engine.take_refits() {
            // Without that thread the model stays as it is, and decisions go on.
            let _ = self.refits.send(refit);
        }
    }
}
