//! The thread that writes: appends groups, syncs once for all that wait, and only then lets answers
//! go.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use super::{Batch, Durability, Shared};
use crate::engine::Refusal;
use crate::journal::Journal;

pub(super) struct JournalThread {
    pub journal: Box<dyn Journal>,
    pub durability: Durability,
    pub prunes: bool,
    pub shared: Arc<Shared>,
    pub synced_at: Instant,
}

impl JournalThread {
    pub fn run(mut self, groups: &Receiver<Batch>) {
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
            let needless = batches.iter().filter_map(|batch| batch.needless_before).max();
            match self.commit(&batches, &mut unsynced) {
                Ok(()) => batches.into_iter().for_each(|batch| self.answer(batch)),
                Err(why) => return self.fail(&why.to_string(), batches, groups),
            }
            if let Some(before) = needless.filter(|_| self.prunes)
                && let Err(why) = self.journal.prune(before)
            {
                return self.fail(&why.to_string(), Vec::new(), groups);
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
