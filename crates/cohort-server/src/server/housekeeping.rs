//! Is there room? The disk and memory are looked at every second; where either becomes scarce new work
//! is refused, before anything fails, and taken again when there is room. The journal is kept as long,
//! and as large, as is configured.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::engine::runtime::{Handle, Pressure};
use crate::engine::{Answer, Request};
use crate::journal::JournalError;
use crate::journal::fjall::Reader;

/// How often disk and memory are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How often apps are counted.
const COUNT: Duration = Duration::from_secs(10);
/// Apps that have metrics of their own.
const MOST_APPS: usize = 100;
/// Room is there again when there is this much more than where it became scarce.
const AGAIN: f64 = 1.05;

/// What there is to look after.
pub(super) struct Housekeeper {
    pub folder: PathBuf,
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
                0 => machine_memory().map_or(0, |bytes| bytes / 10 * 9),
                bytes => bytes,
            },
            journal_bytes: config.journal_max_bytes,
            journal_age: hours(config.journal_max_hours),
            retention_every: Duration::from_millis(config.retention_interval_ms),
        }
    }
}

impl Housekeeper {
    /// Looks after it for as long as the service runs.
    pub(super) async fn run(self) {
        let (mut pressure, mut counted_at, mut kept_at) = (Pressure::None, None, None);
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
            if is_due(counted_at, COUNT) {
                counted_at = Some(Instant::now());
                self.count_apps().await;
            }
            if is_due(kept_at, self.terms.retention_every) {
                kept_at = Some(Instant::now());
                let (journal, engine, terms) =
                    (self.journal.clone(), self.engine.clone(), self.terms);
                let kept =
                    tokio::task::spawn_blocking(move || retain(&journal, &engine, &terms)).await;
                if let Ok(Err(why)) = kept {
                    tracing::error!(%why, "the journal could not be shortened; it is tried again");
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// How scarce room is, where it was `before`.
    fn look(&self, before: Pressure) -> Pressure {
        let resident = resident_bytes();
        if let Some(bytes) = resident {
            metrics::gauge!("cohort_resident_bytes").set(bytes as f64);
        }
        if let Some(seconds) = self.engine.seconds_since_snapshot() {
            metrics::gauge!("cohort_snapshot_age_seconds").set(seconds);
        }
        let free = free_bytes(&self.folder);
        if let Some(bytes) = free {
            metrics::gauge!("cohort_disk_free_bytes").set(bytes as f64);
        }
        assess(before, free, resident, &self.terms)
    }

    async fn count_apps(&self) {
        metrics::gauge!("cohort_journal_bytes").set(self.journal.bytes() as f64);
        let Ok(Answer::Apps(apps)) = self.engine.ask(Request::ListApps).await else { return };
        metrics::gauge!("cohort_apps").set(apps.len() as f64);
        for view in apps.into_iter().take(MOST_APPS) {
            let label = || [("app", view.name.clone())];
            metrics::gauge!("cohort_app_users", &label()).set(view.users as f64);
            metrics::gauge!("cohort_app_waiting", &label()).set(view.waiting as f64);
        }
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

/// Removes what is older, or more, than the journal may keep; never what a restart needs.
fn retain(journal: &Reader, engine: &Handle, terms: &Keep) -> Result<(), JournalError> {
    let Some((first, last)) = journal.span()? else { return Ok(()) };
    let needed = engine.needed_from().min(last);
    let mut before = first;
    let bytes = journal.bytes();
    if terms.journal_bytes > 0 && bytes > terms.journal_bytes {
        let surplus = (bytes - terms.journal_bytes) as f64 / bytes as f64;
        before = first + ((last - first) as f64 * surplus).ceil() as u64;
    }
    if !terms.journal_age.is_zero() {
        let age_ms = terms.journal_age.as_millis() as u64;
        let oldest_ms = SystemClock.now_ms().saturating_sub(age_ms);
        // Events are in the order of their times, but for steps of the clock, which are small beside
        // ages.
        let (mut low, mut high) = (before, needed.max(before));
        while low < high {
            let middle = low + (high - low) / 2;
            match journal.time_of(middle)?.is_some_and(|at_ms| at_ms < oldest_ms) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        before = before.max(low);
    }
    let before = before.min(needed);
    if before > first {
        let removed = journal.prune(before)?;
        if removed > 0 {
            metrics::counter!("cohort_journal_pruned_groups_total").increment(removed as u64);
            tracing::info!(first, before, "events that are older than they may be were removed");
        }
    }
    Ok(())
}

/// Bytes that are free where a folder is.
fn free_bytes(folder: &std::path::Path) -> Option<u64> {
    let found = rustix::fs::statvfs(folder).ok()?;
    Some(found.f_bavail * found.f_frsize)
}

/// Memory that this process has, where the machine tells.
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Memory that this process may have: the machine's, or its control group's.
fn machine_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let total = line.split_whitespace().next()?.parse::<u64>().ok()? * 1024;
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let group = group.and_then(|text| text.trim().parse().ok());
    Some(group.map_or(total, |group: u64| group.min(total)))
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
        assert!(free_bytes(std::path::Path::new("/")).is_some());
        assert!(machine_memory().unwrap() > resident_bytes().unwrap());
    }
}
