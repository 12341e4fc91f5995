//! Is there room? The disk and memory are looked at every second; where either becomes scarce new work
//! is refused, before anything fails, and taken again when there is room. Where memory stays scarce, users that
//! were not seen for long are retired until there is room. The journal is kept as long, and as large, as is
//! configured.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::room::{MachineRoom, Room, machine_memory};
use crate::config::Config;
use crate::engine::request::AppView;
use crate::engine::runtime::{AppLevel, Handle, Pressure};
use crate::engine::{AT_ONCE, Answer, Request};
use crate::journal::JournalError;
use crate::journal::segments::{Piece, Reader};

/// How often disk and memory are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How often apps are counted.
const COUNT: Duration = Duration::from_secs(10);
/// Apps that have metrics of their own.
const MOST_APPS: usize = 100;
/// A file of the journal spans at most this part of the time for which events are kept.
const AGE_PARTS: u64 = 16;
/// How often memory must be found scarce, one time after the other, before users are retired: a large request
/// costs nobody its place.
const PATIENCE: u32 = 5;
/// Users that are retired between two looks: a hundredth of all, but between these.
const RETIRED: std::ops::RangeInclusive<u64> = 16..=8192;
/// Of the users that there were when memory became scarce, so many parts of [`RETIRED_OF`] may be retired. What they
/// all took would have been enough if users were what takes the memory.
const RETIRED_PARTS: u64 = 1;
/// See [`RETIRED_PARTS`].
const RETIRED_OF: u64 = 2;
/// Room is there again when there is this much more than where it became scarce.
const AGAIN: f64 = 1.05;

/// What there is to look after.
pub(super) struct Housekeeper {
    pub room: Arc<dyn Room>,
    pub journal: Reader,
    pub engine: Handle,
    pub terms: Keep,
}

/// How much may be used, and how long things are kept. 0 is no limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keep {
    pub free_disk_bytes: u64,
    pub memory_bytes: u64,
    pub journal_bytes: u64,
    pub journal_age: Duration,
    pub retention_every: Duration,
}

impl Keep {
    /// As configured.
    pub(super) fn of(config: &Config) -> Self {
        let hours = |hours: u64| Duration::from_secs(3600 * hours);
        Self {
            free_disk_bytes: config.min_free_disk_bytes,
            memory_bytes: match config.max_memory_bytes {
                0 => machine_memory(Path::new("/")).map_or(0, |bytes| bytes / 10 * 9),
                bytes => bytes,
            },
            journal_bytes: config.journal_max_bytes,
            journal_age: hours(config.journal_max_hours),
            retention_every: Duration::from_millis(config.retention_interval_ms),
        }
    }
}

/// How scarce memory is for this process, where it was `before`: for a node of a cluster, which has no disk.
pub(crate) fn memory_pressure(before: Pressure, config: &Config) -> Pressure {
    assess(before, None, MachineRoom("/".into()).resident_bytes(), &Keep::of(config))
}

impl Housekeeper {
    /// Looks after it for as long as the service runs.
    pub(super) async fn run(self) {
        let (mut pressure, mut counted_at, mut kept_at) = (Pressure::None, None, None);
        let mut scarcity = Scarcity::default();
        let is_due = |last: Option<Instant>, every| last.is_none_or(|last| last.elapsed() >= every);
        loop {
            let seen = self.look(pressure);
            if seen != pressure {
                match seen {
                    Pressure::None => tracing::info!("there is room again; all work is taken"),
                    scarce => {
                        tracing::error!(?scarce, "there is little room left; work is refused")
                    }
                }
                pressure = seen;
            }
            self.engine.set_pressure(pressure);
            let retired = scarcity.retires(pressure, self.engine.users());
            for part in (0..retired).step_by(AT_ONCE) {
                self.engine.retire_users((retired - part).min(AT_ONCE));
            }
            if is_due(counted_at, COUNT) {
                counted_at = Some(Instant::now());
                self.count_apps().await;
            }
            if is_due(kept_at, self.terms.retention_every) {
                kept_at = Some(Instant::now());
                let (journal, engine, terms) =
                    (self.journal.clone(), self.engine.clone(), self.terms);
                // A calendar that jumps must not make the log too old to be kept.
                let now_ms = self.engine.settled_ms();
                let retained = move || retain(&journal, &engine, &terms, now_ms);
                let kept = tokio::task::spawn_blocking(retained).await;
                if let Ok(Err(why)) = kept {
                    tracing::error!(%why, "the journal could not be shortened; it is tried again");
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// How scarce room is, where it was `before`.
    fn look(&self, before: Pressure) -> Pressure {
        let resident = self.room.resident_bytes();
        if let Some(bytes) = resident {
            metrics::gauge!("cohort_resident_bytes").set(bytes as f64);
        }
        metrics::gauge!("cohort_snapshot_age_seconds").set(self.engine.seconds_since_snapshot());
        let free = self.room.free_bytes();
        if let Some(bytes) = free {
            metrics::gauge!("cohort_disk_free_bytes").set(bytes as f64);
        }
        assess(before, free, resident, &self.terms)
    }

    async fn count_apps(&self) {
        metrics::gauge!("cohort_journal_bytes").set(self.journal.bytes() as f64);
        let Ok(Answer::Apps(apps)) = self.engine.ask(Request::ListApps).await else { return };
        metrics::gauge!("cohort_apps").set(apps.len() as f64);
        let level = |view: AppView| {
            let (app, users, waiting) = (view.name, view.users, view.waiting);
            AppLevel { app, users, waiting }
        };
        self.engine.set_levels(apps.into_iter().take(MOST_APPS).map(level).collect());
    }
}

/// For how long memory has been scarce, and who may go for it.
#[derive(Debug, Default)]
struct Scarcity {
    looks: u32,
    /// How many users may still be retired before memory was enough again.
    left: u64,
}

impl Scarcity {
    /// How many of so many users are retired now.
    fn retires(&mut self, pressure: Pressure, users: u64) -> usize {
        if pressure != Pressure::Memory {
            *self = Self::default();
            return 0;
        }
        self.looks = self.looks.saturating_add(1);
        if self.looks < PATIENCE {
            return 0;
        }
        if self.looks == PATIENCE {
            self.left = (users * RETIRED_PARTS).div_ceil(RETIRED_OF);
            tracing::warn!(users, "memory stays scarce; the longest unseen users are retired");
        }
        let retired = (users / 100).clamp(*RETIRED.start(), *RETIRED.end()).min(self.left);
        self.left -= retired;
        if retired > 0 && self.left == 0 {
            tracing::error!(
                "memory is scarce although half of the users were retired: something else takes it, or policies that \
                 cannot forget; no more are retired"
            );
        }
        retired as usize
    }
}

/// How scarce room is. Scarce disk stops decisions first and rewards only when half of the rest is
/// gone: rewards are small, and what was decided is of use only with them.
fn assess(before: Pressure, free: Option<u64>, resident: Option<u64>, terms: &Keep) -> Pressure {
    let slack = |scarce: bool| if scarce { AGAIN } else { 1.0 };
    let least = terms.free_disk_bytes as f64;
    let free = free.map_or(f64::INFINITY, |bytes| bytes as f64);
    if free < least / 2.0 * slack(before == Pressure::DiskFull) {
        return Pressure::DiskFull;
    }
    if free < least * slack(matches!(before, Pressure::Disk | Pressure::DiskFull)) {
        return Pressure::Disk;
    }
    let most = if terms.memory_bytes == 0 { f64::INFINITY } else { terms.memory_bytes as f64 };
    match resident.is_some_and(|bytes| bytes as f64 * slack(before == Pressure::Memory) > most) {
        true => Pressure::Memory,
        false => Pressure::None,
    }
}

/// Removes what is older, or more, than the journal may keep, file by file; never what a restart needs.
fn retain(
    journal: &Reader,
    engine: &Handle,
    terms: &Keep,
    now_ms: u64,
) -> Result<(), JournalError> {
    let pieces = journal.pieces();
    let needed = engine.needed_from();
    let mut surplus = match terms.journal_bytes {
        0 => 0,
        most => journal.bytes().saturating_sub(most),
    };
    let age_ms = terms.journal_age.as_millis() as u64;
    let is_older = |piece: &Piece, age_ms: u64| -> Result<bool, JournalError> {
        let oldest_ms = now_ms.saturating_sub(age_ms);
        Ok(age_ms > 0 && journal.time_of(piece)?.is_some_and(|at_ms| at_ms < oldest_ms))
    };
    // What begins a file goes with its end, so that nothing is kept longer than it may be.
    let span_ms = age_ms / AGE_PARTS;
    let mut before = 0;
    for pair in pieces.windows(2) {
        // All of a file is older than where the next begins; where that has nothing yet, it ended when it was last
        // written to.
        let ended_ms = match journal.time_of(&pair[1])? {
            Some(at_ms) => at_ms,
            None => journal.changed_ms(&pair[0])?,
        };
        let oldest_ms = now_ms.saturating_sub(age_ms - span_ms);
        let is_before = |at_ms: Option<u64>| at_ms.is_some_and(|at_ms| at_ms < oldest_ms);
        // Where nothing happened for long between the two, only its own last event tells.
        let is_old = age_ms > 0
            && (ended_ms < oldest_ms
                || is_before(journal.time_of(&pair[0])?) && is_before(journal.end_of(&pair[0])?));
        if pair[1].first > needed || (surplus == 0 && !is_old) {
            break;
        }
        before = pair[1].first;
        surplus = surplus.saturating_sub(pair[0].bytes);
    }
    if before > 0 {
        let removed = journal.prune(before)?;
        metrics::counter!("cohort_journal_pruned_segments_total").increment(removed as u64);
        tracing::info!(removed, before, "files of the journal that may not be kept were removed");
    }
    // The file that is written to must end some time.
    if let Some(last) = pieces.last()
        && (is_older(last, span_ms)? || surplus > 0 && last.first < needed)
    {
        journal.begin_another();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_judged_with_a_little_slack_so_that_it_does_not_flicker() {
        let terms = Keep {
            free_disk_bytes: 1000,
            memory_bytes: 500,
            journal_bytes: 0,
            journal_age: Duration::ZERO,
            retention_every: Duration::ZERO,
        };
        let see = |before, free, resident| assess(before, Some(free), Some(resident), &terms);
        assert_eq!(see(Pressure::None, 1000, 500), Pressure::None);
        assert_eq!(see(Pressure::None, 999, 500), Pressure::Disk);
        assert_eq!(see(Pressure::Disk, 1020, 500), Pressure::Disk);
        assert_eq!(see(Pressure::Disk, 1050, 500), Pressure::None);
        assert_eq!(see(Pressure::Disk, 499, 0), Pressure::DiskFull);
        assert_eq!(see(Pressure::DiskFull, 510, 0), Pressure::DiskFull);
        assert_eq!(see(Pressure::DiskFull, 530, 0), Pressure::Disk);
        assert_eq!(see(Pressure::None, 2000, 501), Pressure::Memory);
        assert_eq!(see(Pressure::Memory, 2000, 490), Pressure::Memory);
        assert_eq!(see(Pressure::Memory, 2000, 470), Pressure::None);
        assert_eq!(assess(Pressure::None, None, None, &terms), Pressure::None);
    }

    #[test]
    fn users_are_retired_only_where_memory_stays_scarce_and_never_more_than_half() {
        let mut scarcity = Scarcity::default();
        for _ in 0..3 {
            for _ in 1..PATIENCE {
                assert_eq!(scarcity.retires(Pressure::Memory, 10_000), 0);
            }
            assert_eq!(scarcity.retires(Pressure::None, 10_000), 0, "it was a moment");
        }
        let mut users = 10_000;
        for _ in 0..1000 {
            let retired = scarcity.retires(Pressure::Memory, users) as u64;
            assert!(retired <= users / 100 + 1, "{retired} of {users} at once");
            users -= retired;
        }
        assert_eq!(users, 5000);
        assert_eq!(scarcity.retires(Pressure::Disk, users), 0);
        assert!(
            (0..PATIENCE).map(|_| scarcity.retires(Pressure::Memory, users)).sum::<usize>() > 0
        );
    }
}
