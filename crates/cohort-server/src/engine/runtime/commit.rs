//! When is an answer safe to give? Once its group has been appended and synced, and not before.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::{Batch, Durability, Shared};
use crate::engine::Refusal;
use crate::journal::{Journal, JournalError};

/// The journal, and what is not safe in it yet.
pub(super) struct Committer {
    pub journal: Box<dyn Journal>,
    pub durability: Durability,
    pub shared: Arc<Shared>,
    pub synced_at: Instant,
    pub unsynced: bool,
}

/// Nothing can be promised any more.
pub(super) struct Failed;

impl Committer {
    /// Makes a batch as safe as was asked for, then lets its answers go. Where that fails they, and
    /// all that comes after them, are refused.
    pub fn commit(&mut self, batch: Batch) -> Result<(), Failed> {
        match self.write(&batch) {
            Ok(()) => {
                self.shared.last_event.store(self.journal.last(), Ordering::Relaxed);
                self.answer(batch);
                Ok(())
            }
            Err(why) => {
                let why = why.to_string();
                // Health first: whoever is refused and then asks `/healthz` must be told why.
                let failed = self.fail(&why);
                for (reply, _) in batch.answers {
                    let _ = reply.send(Err(Refusal::JournalFailed { why: why.clone() }));
                }
                Err(failed)
            }
        }
    }

    /// Makes everything safe that is not.
    pub fn sync(&mut self) -> Result<(), Failed> {
        self.sync_if_needed().map_err(|why| self.fail(&why.to_string()))
    }

    /// How long what has been answered may still wait for the disk; nothing waits without an answer.
    pub fn patience(&self) -> Option<Duration> {
        match self.durability {
            Durability::Interval(interval) if self.unsynced => {
                Some(interval.saturating_sub(self.synced_at.elapsed()))
            }
            _ => None,
        }
    }

    fn write(&mut self, batch: &Batch) -> Result<(), JournalError> {
        let events = batch.group.events();
        if events > 0 {
            self.journal.append(&batch.group)?;
            self.unsynced = true;
            metrics::counter!("cohort_journal_events_total").increment(events);
            metrics::histogram!("cohort_journal_group_events").record(events as f64);
        }
        self.journal.tend()?;
        match self.durability {
            Durability::Interval(interval) if self.synced_at.elapsed() < interval => Ok(()),
            _ => self.sync_if_needed(),
        }
    }

    fn sync_if_needed(&mut self) -> Result<(), JournalError> {
        if self.unsynced {
            let started = Instant::now();
            self.journal.sync()?;
            self.unsynced = false;
            self.synced_at = Instant::now();
            metrics::histogram!("cohort_journal_sync_seconds").record(started.elapsed());
        }
        Ok(())
    }

    fn answer(&self, batch: Batch) {
        if let Some(directory) = batch.directory {
            *self.shared.directory.write().unwrap_or_else(PoisonError::into_inner) = directory;
        }
        if let Some(followed) = batch.followed {
            self.shared.followed.send_replace(followed);
        }
        for (reply, answer) in batch.answers {
            // Whoever asked may have gone away.
            let _ = reply.send(answer);
        }
    }

    fn fail(&self, why: &str) -> Failed {
        tracing::error!(why, "the journal failed; nothing is taken until the service is restarted");
        self.shared.health.end(&format!("the journal failed: {why}"));
        Failed
    }
}
