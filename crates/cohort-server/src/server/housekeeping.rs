//! Is there room? The disk and memory are looked at every second; where either becomes scarce new work
//! is refused, before anything fails, and taken again when there is room. Where memory stays scarce, users that
//! were not seen for long are retired until there is room. The journal is kept as long, and as large, as is
//! configured, and as there is room for on the disk.

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
/// Whenever one in so many of those who may be retired was, memory must have become less: otherwise something else takes it, and
/// nobody goes for that.
const CHECKS: u64 = 4;
/// By at least this part of what it was, that is: much less than what so many users take where users are what takes it.
const LEAST_FREED: f64 = 1.0 / 64.0;
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
            let (seen, resident) = self.look(pressure);
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
            if matches!(pressure, Pressure::Disk | Pressure::DiskFull) {
                self.free_the_disk().await;
            }
            let retired = scarcity.retires(pressure, self.engine.users(), resident);
            for part in (0..retired).step_by(AT_ONCE) {
                self.engine.retire_users((retired - part).min(AT_ONCE));
            }
            if is_due(counted_at, COUNT) {
                counted_at = Some(Instant::now());
                self.count_apps().await;
            }
            if is_due(kept_at, self.terms.retention_every) {
                kept_at = Some(Instant::now());
                let (journal, terms) = (self.journal.clone(), self.terms);
                // A calendar that jumps must not make the log too old to be kept.
                let (needed, now_ms) = (self.engine.needed_from(), self.engine.settled_ms());
                shorten(move || retain(&journal, needed, &terms, now_ms)).await;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Removes what may go of the journal because the disk has too little room.
    async fn free_the_disk(&self) {
        let (journal, room) = (self.journal.clone(), self.room.clone());
        let (needed, least) = (self.engine.needed_from(), self.terms.free_disk_bytes);
        shorten(move || make_room(&journal, &*room, needed, least)).await;
    }

    /// How scarce room is, where it was `before`, and how much memory the process takes.
    fn look(&self, before: Pressure) -> (Pressure, Option<u64>) {
        let resident = self.room.resident_bytes();
        if let Some(bytes) = resident {
            metrics::gauge!("cohort_resident_bytes").set(bytes as f64);
        }
        metrics::gauge!("cohort_snapshot_age_seconds").set(self.engine.seconds_since_snapshot());
        let free = self.room.free_bytes();
        if let Some(bytes) = free {
            metrics::gauge!("cohort_disk_free_bytes").set(bytes as f64);
        }
        (assess(before, free, resident, &self.terms), resident)
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

/// Does something to the journal where it may wait for the disk.
async fn shorten(work: impl FnOnce() -> Result<(), JournalError> + Send + 'static) {
    if let Ok(Err(why)) = tokio::task::spawn_blocking(work).await {
        tracing::error!(%why, "the journal could not be shortened; it is tried again");
    }
}

/// For how long memory has been scarce, and who may go for it.
#[derive(Debug, Default)]
struct Scarcity {
    looks: u32,
    /// How many users may still be retired before memory was enough again.
    left: u64,
    /// How many that was at first, how many when memory was last compared, and what the process took then.
    all: u64,
    checked: u64,
    resident: Option<u64>,
}

impl Scarcity {
    /// How many of so many users are retired now.
    fn retires(&mut self, pressure: Pressure, users: u64, resident: Option<u64>) -> usize {
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
            (self.all, self.checked, self.resident) = (self.left, self.left, resident);
        }
        if self.left > 0 && self.left + (self.all / CHECKS).max(1) <= self.checked {
            let is_less =
                |(before, now): (u64, u64)| now as f64 <= before as f64 * (1.0 - LEAST_FREED);
            if !self.resident.zip(resident).is_none_or(is_less) {
                self.left = 0;
                tracing::error!(
                    "memory is scarce, and retiring users does not free any: something else takes it, or policies that \
                     cannot forget; no more are retired"
                );
                return 0;
            }
            (self.checked, self.resident) = (self.left, resident);
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

/// Removes the oldest files of the journal that no restart needs, until there is room on the disk again or nothing more may go.
/// What is younger, or less, than may be kept goes too: without room nothing would be written at all.
fn make_room(
    journal: &Reader,
    room: &dyn Room,
    needed: u64,
    least: u64,
) -> Result<(), JournalError> {
    let enough = (least as f64 * AGAIN) as u64 + 1;
    // A disk may say late that it has become freer: what is removed counts at once.
    let Some(mut free) = room.free_bytes() else { return Ok(()) };
    let pieces = journal.pieces();
    let mut before = 0;
    for pair in pieces.windows(2) {
        if free >= enough || pair[1].first > needed {
            break;
        }
        before = pair[1].first;
        free = free.saturating_add(pair[0].bytes);
    }
    if before > 0 {
        let removed = journal.prune(before)?;
        metrics::counter!("cohort_journal_pruned_for_room_total").increment(removed as u64);
        let what = "the oldest files of the journal were removed: the disk has too little room";
        tracing::warn!(removed, before, "{what}");
    }
    // What is written to can go in part once there is another.
    if pieces.last().is_some_and(|last| free < enough && last.first < needed) {
        journal.begin_another();
    }
    Ok(())
}

/// Removes what is older, or more, than the journal may keep, file by file; never what a restart needs.
fn retain(journal: &Reader, needed: u64, terms: &Keep, now_ms: u64) -> Result<(), JournalError> {
    let pieces = journal.pieces();
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
        // All of a file is older than where the next begins; where that has nothing yet, its own last event tells. (When
        // the file was written to would be by a calendar that may have been wrong.)
        let ended_ms = match journal.time_of(&pair[1])? {
            Some(at_ms) => at_ms,
            None => journal.end_of(&pair[0])?.unwrap_or(now_ms),
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
    use crate::event::{Event, What};
    use crate::journal::segments::SegmentJournal;
    use crate::journal::{Group, Journal};

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
        // Users are what takes the memory.
        let retires = |scarcity: &mut Scarcity, pressure, users: u64| {
            scarcity.retires(pressure, users, Some(10_000_000 + 1000 * users)) as u64
        };
        for _ in 0..3 {
            for _ in 1..PATIENCE {
                assert_eq!(retires(&mut scarcity, Pressure::Memory, 10_000), 0);
            }
            assert_eq!(retires(&mut scarcity, Pressure::None, 10_000), 0, "it was a moment");
        }
        let mut users = 10_000;
        for _ in 0..1000 {
            let retired = retires(&mut scarcity, Pressure::Memory, users);
            assert!(retired <= users / 100 + 1, "{retired} of {users} at once");
            users -= retired;
        }
        assert_eq!(users, 5000);
        assert_eq!(retires(&mut scarcity, Pressure::Disk, users), 0);
        assert!((0..PATIENCE).any(|_| retires(&mut scarcity, Pressure::Memory, users) > 0));
    }

    #[test]
    fn nobody_goes_for_memory_that_something_else_takes() {
        for resident in [Some(1_000_000), None] {
            let (mut scarcity, mut users) = (Scarcity::default(), 10_000);
            for _ in 0..1000 {
                users -= scarcity.retires(Pressure::Memory, users, resident) as u64;
            }
            // Where memory cannot be told, half may go.
            let left = if resident.is_some() { 8600..8800 } else { 5000..5001 };
            assert!(left.contains(&users), "{users} are left");
        }
    }

    struct Disk {
        size: u64,
        journal: Reader,
    }

    impl Room for Disk {
        fn free_bytes(&self) -> Option<u64> {
            Some(self.size - self.journal.bytes())
        }

        fn resident_bytes(&self) -> Option<u64> {
            None
        }
    }

    /// A journal of small files, with one event a millisecond.
    fn journal(folder: &Path, from_ms: u64, events: u64) -> SegmentJournal {
        let mut journal = SegmentJournal::open_with(folder, 2048).unwrap();
        for at_ms in from_ms..from_ms + events {
            let mut group = Group::default();
            let what = What::UserForgotten("x".repeat(100));
            group.push(|out| Event { app: "shop".to_owned(), at_ms, what }.encode(out));
            journal.append(&group).unwrap();
        }
        journal.sync().unwrap();
        journal
    }

    #[test]
    fn where_the_disk_is_full_the_oldest_files_that_no_restart_needs_go_until_it_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = journal(folder.path(), 1000, 400);
        let reader = journal.reader();
        let disk = Disk { size: reader.bytes() + 1000, journal: reader.clone() };
        let pieces = reader.pieces();
        assert!(pieces.len() > 20, "{}", pieces.len());
        // All are needed.
        make_room(&reader, &disk, 0, 10_000).unwrap();
        assert_eq!(reader.pieces(), pieces);
        make_room(&reader, &disk, 300, 10_000).unwrap();
        let free = disk.free_bytes().unwrap();
        assert!((10_500..10_500 + 2048).contains(&free), "{free} bytes are free");
        make_room(&reader, &disk, 300, 10_000).unwrap();
        assert_eq!(disk.free_bytes(), Some(free), "there is room");
        // More than there is: what is needed stays.
        make_room(&reader, &disk, 300, 1 << 40).unwrap();
        let left = reader.pieces();
        assert!(left[0].first <= 300 && left[1].first > 300, "{left:?}");
        // Where even the file that is written to is not needed, another begins.
        make_room(&reader, &disk, 401, 1 << 40).unwrap();
        assert_eq!(reader.pieces().len(), 1);
        journal.tend().unwrap();
        make_room(&reader, &disk, 401, 1 << 40).unwrap();
        assert!(reader.bytes() < 100, "{}", reader.bytes());
    }

    /// The calendar was wrong when the file was last written to; its events have the service's time.
    #[test]
    fn a_file_is_as_old_as_its_events_whatever_the_calendar_said_when_it_was_written() {
        const NOW_MS: u64 = 1_900_000_000_000;
        for (at_ms, left) in [(NOW_MS - 1000, 2), (NOW_MS - 60_000_000, 1)] {
            let folder = tempfile::tempdir().unwrap();
            let mut journal = journal(folder.path(), at_ms, 3);
            let reader = journal.reader();
            reader.begin_another();
            journal.tend().unwrap();
            // A file that looks old, and one that looks young.
            let seconds = if left == 2 { 1000 } else { NOW_MS / 1000 + 1_000_000 };
            let changed = std::time::UNIX_EPOCH + Duration::from_secs(seconds);
            for file in std::fs::read_dir(folder.path().join("segments")).unwrap() {
                let file = std::fs::File::options().write(true).open(file.unwrap().path()).unwrap();
                file.set_modified(changed).unwrap();
            }
            let terms = Keep {
                free_disk_bytes: 0,
                memory_bytes: 0,
                journal_bytes: 0,
                journal_age: Duration::from_secs(3600),
                retention_every: Duration::ZERO,
            };
            retain(&reader, 4, &terms, NOW_MS).unwrap();
            assert_eq!(reader.pieces().len(), left, "events of {at_ms}");
        }
    }
}
