//! The thread that writes snapshots, from states that were frozen, while the engine goes on.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use super::Health;
use crate::engine::recovery::recover_apps;
use crate::journal::{Pruner, Replay};
use crate::snapshot::disk::Disk;
use crate::snapshot::{SnapshotError, Snapshots};
use crate::state::FrozenState;

/// A snapshot to write.
pub(super) struct Order {
    /// The last event in it.
    pub event: u64,
    /// When the state was that.
    pub begun: Instant,
    /// The state after it, all of which is safe in the journal, but for …
    pub state: FrozenState,
    /// … apps that are not in it because what is known of them may be half changed. They are brought back from what is on
    /// disk, so that the snapshot is whole.
    pub quarantined: BTreeSet<String>,
}

/// What became of an order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Finished {
    /// It is on disk.
    Written {
        /// The last event in it.
        event: u64,
        /// When the state was that.
        begun: Instant,
    },
    /// It is not.
    Failed,
}

/// What the engine thread sees of it.
pub(super) struct SnapshotWriter {
    orders: Sender<Order>,
    progress: Arc<Progress>,
    thread: JoinHandle<()>,
    brings_back: bool,
}

#[derive(Default)]
struct Progress {
    busy: AtomicBool,
    finished: Mutex<Option<Finished>>,
    /// No restart needs events before this; 0 if that is not known.
    needless_before: AtomicU64,
}

impl SnapshotWriter {
    /// Starts the thread.
    pub fn start<D: Disk + 'static>(
        snapshots: Snapshots<D>,
        mut pruner: Option<Pruner>,
        replay: Option<Replay>,
        health: Arc<Health>,
    ) -> std::io::Result<Self> {
        let (orders, incoming) = channel::<Order>();
        // Where none has failed that is to be seen, too.
        metrics::counter!("cohort_snapshot_failures_total").increment(0);
        metrics::counter!("cohort_snapshots_without_room_total").increment(0);
        let brings_back = replay.is_some();
        let progress = Arc::new(Progress::default());
        let shared = progress.clone();
        let thread = std::thread::Builder::new().name("snapshots".to_owned()).spawn(move || {
            for order in incoming {
                let done = Finished::Written { event: order.event, begun: order.begun };
                let written = catch_unwind(AssertUnwindSafe(|| {
                    write(&snapshots, order, pruner.as_mut(), replay.as_ref(), &shared)
                }));
                let written = written
                    .unwrap_or_else(|_| Err(NotWritten::Failed("it stopped at a bug".to_owned())));
                let (finished, failed, waits) = match written {
                    Ok(()) => (done, None, None),
                    Err(NotWritten::NoRoom(why)) => {
                        tracing::warn!(
                            why,
                            "no snapshot: the disk has no room for one; it is tried again"
                        );
                        metrics::counter!("cohort_snapshots_without_room_total").increment(1);
                        (Finished::Failed, None, Some(format!("{why}; it is tried again")))
                    }
                    Err(NotWritten::Failed(why)) => {
                        tracing::error!(why, "the service goes on without this snapshot");
                        metrics::counter!("cohort_snapshot_failures_total").increment(1);
                        let why = format!(
                            "the last snapshot could not be written: {why}; it is tried again"
                        );
                        (Finished::Failed, Some(why), None)
                    }
                };
                *locked(&shared.finished) = Some(finished);
                health.set_snapshots(failed);
                health.set_snapshot_waits(waits);
                shared.busy.store(false, Ordering::Release);
            }
        })?;
        Ok(Self { orders, progress, thread, brings_back })
    }

    /// Whether apps that are quarantined can be brought back for a snapshot.
    pub fn brings_back(&self) -> bool {
        self.brings_back
    }

    /// Whether one is being written.
    pub fn is_busy(&self) -> bool {
        self.progress.busy.load(Ordering::Acquire)
    }

    /// What became of the last one, told once.
    pub fn finished(&self) -> Option<Finished> {
        locked(&self.progress.finished).take()
    }

    /// Has a snapshot written.
    pub fn write(&self, order: Order) {
        self.progress.busy.store(true, Ordering::Release);
        // A thread that is gone has panicked and said so.
        let _ = self.orders.send(order);
    }

    /// Since when events are in every snapshot that is kept; told once for each snapshot.
    pub fn needless_before(&self) -> Option<u64> {
        match self.progress.needless_before.swap(0, Ordering::AcqRel) {
            0 => None,
            before => Some(before),
        }
    }

    /// Waits until all are written.
    pub fn finish(self) {
        drop(self.orders);
        let _ = self.thread.join();
    }
}

fn locked(finished: &Mutex<Option<Finished>>) -> MutexGuard<'_, Option<Finished>> {
    finished.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why there is no snapshot.
enum NotWritten {
    /// The disk has no room for it now.
    NoRoom(String),
    /// Something failed.
    Failed(String),
}

impl From<SnapshotError> for NotWritten {
    fn from(why: SnapshotError) -> Self {
        match why {
            SnapshotError::NoRoom { .. } => Self::NoRoom(why.to_string()),
            _ => Self::Failed(why.to_string()),
        }
    }
}

fn write<D: Disk>(
    snapshots: &Snapshots<D>,
    order: Order,
    pruner: Option<&mut Pruner>,
    replay: Option<&Replay>,
    progress: &Progress,
) -> Result<(), NotWritten> {
    let Order { event, mut state, quarantined, .. } = order;
    let started = Instant::now();
    if let Some(replay) = replay.filter(|_| !quarantined.is_empty()) {
        let fails = |why: &dyn std::fmt::Display| {
            let names: Vec<_> = quarantined.iter().map(|app| format!("`{app}`")).collect();
            let names = names.join(", ");
            NotWritten::Failed(format!(
                "quarantined apps ({names}) cannot be brought back from the disk for it: {why}; a restart may help"
            ))
        };
        let found =
            recover_apps(replay, snapshots, &quarantined, event).map_err(|why| fails(&why))?;
        state.take_in(found).map_err(|why| fails(&why))?;
    }
    snapshots.write(event, |out| state.write(out))?;
    let seconds = started.elapsed().as_secs_f64();
    tracing::info!(event, seconds, "snapshot written");
    metrics::histogram!("cohort_snapshot_seconds").record(seconds);
    if let Ok(Some(oldest)) = snapshots.oldest_kept() {
        progress.needless_before.store(oldest + 1, Ordering::Release);
        if let Some(Err(why)) = pruner.map(|prune| prune(oldest + 1)) {
            tracing::error!(%why, "the journal could not be shortened; it is tried again");
        }
    }
    Ok(())
}
