//! What time is it, and how fast does it pass?
//!
//! Windows are lengths of time, so they are measured by a clock that only runs forward, and at one
//! rate. The calendar comes from another one, which people and programs set: it may be a day wrong for a
//! second, or for ever. [`Timekeeper`] makes one time of both: it runs with the steady clock, follows
//! small differences of the calendar by at most one per cent, and takes a jump over only when it has
//! lasted, telling by how much, so that whatever waits for a moment can be moved by as much.
//!
//! Where the last event was long ago at the start, nothing tells whether the service was down, had nothing to do, or
//! finds a clock that is wrong. The calendar is right then as far as anybody knows, but the time between does
//! not count for what waits: that is moved as if the calendar had been set. What would be deleted because of its age is
//! judged by [`Timekeeper::settled_ms`], which believes in a jump only after a day.

use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Tells the time.
pub trait Clock: Send {
    /// Milliseconds since 1970 by the calendar. It may jump, both ways.
    fn now_ms(&self) -> u64;
    /// Milliseconds since some moment, by a clock that never jumps.
    fn steady_ms(&self) -> u64;
}

/// One clock for several threads.
impl<C: Clock + Sync + ?Sized> Clock for Arc<C> {
    fn now_ms(&self) -> u64 {
        (**self).now_ms()
    }

    fn steady_ms(&self) -> u64 {
        (**self).steady_ms()
    }
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
    }

    fn steady_ms(&self) -> u64 {
        static BEGAN: OnceLock<Instant> = OnceLock::new();
        BEGAN.get_or_init(Instant::now).elapsed().as_millis() as u64
    }
}

/// A difference that is followed, and not taken for a jump.
pub const TOLERATED_MS: u64 = 1000;
/// How long a jump must last to be taken over.
pub const SETTLED_MS: u64 = 60_000;
/// How long ago the last event may be at the start so that the time between counts as passed.
pub const PLAUSIBLE_MS: u64 = 300_000;
/// How long a jump must have been taken over before anything is deleted because of it.
pub const BELIEVED_MS: u64 = 86_400_000;
/// One millisecond in so many is how fast differences are followed.
const FOLLOWED: u64 = 100;

/// The time of the service.
#[derive(Debug)]
pub struct Timekeeper {
    now_ms: u64,
    steady_ms: u64,
    /// The jump that is being watched: when it was noticed, and how far it went.
    jump: Option<(u64, i64)>,
    /// Steady time that has not been used to follow the calendar.
    unused_ms: u64,
    /// By how much the calendar was ahead of the last event at the start, until that was told.
    at_start: Option<i64>,
    /// Jumps that were taken over within a day: when, by the steady clock, and how far they went.
    doubted: Vec<(u64, i64)>,
}

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// The time; never less than before, unless `stepped_ms` says so.
    pub now_ms: u64,
    /// By how much the calendar was set since the moment before.
    pub stepped_ms: Option<i64>,
}

impl Timekeeper {
    /// Begins at the calendar's time, or at that of the last event where that is later; 0 where there was none.
    /// `waits` says whether anything waits for a moment: where the last event was long ago, that is moved.
    pub fn new(clock: &dyn Clock, last_event_ms: u64, waits: bool) -> Self {
        let (now_ms, steady_ms) = (clock.now_ms().max(last_event_ms), clock.steady_ms());
        let ahead_ms = now_ms - last_event_ms;
        let is_long = last_event_ms > 0 && ahead_ms > PLAUSIBLE_MS;
        let ahead_ms = i64::try_from(ahead_ms).ok().filter(|_| is_long);
        let doubted = ahead_ms.map(|ahead_ms| (steady_ms, ahead_ms)).into_iter().collect();
        let at_start = ahead_ms.filter(|_| waits);
        Self { now_ms, steady_ms, jump: None, unused_ms: 0, at_start, doubted }
    }

    /// The time by which is judged what is too old to be kept. A jump ahead does not count for a day, so that a
    /// calendar that is wrong for some hours deletes nothing.
    pub fn settled_ms(&self) -> u64 {
        let in_doubt: i64 = self.doubted.iter().map(|(_, by_ms)| *by_ms).sum();
        self.now_ms.saturating_sub(u64::try_from(in_doubt).unwrap_or(0))
    }

    /// The time.
    pub fn now(&mut self, clock: &dyn Clock) -> Moment {
        let steady_ms = clock.steady_ms().max(self.steady_ms);
        let passed_ms = steady_ms - self.steady_ms;
        self.steady_ms = steady_ms;
        self.now_ms += passed_ms;
        self.doubted.retain(|(since, _)| steady_ms - since < BELIEVED_MS);
        if let Some(ahead_ms) = self.at_start.take() {
            metrics::counter!("cohort_clock_jumps_total", "what" => "start").increment(1);
            tracing::warn!(
                ahead_ms,
                "the last event was long ago: open windows are moved by the time since, as nothing tells whether \
                 the service was down or the calendar is wrong"
            );
            return Moment { now_ms: self.now_ms, stepped_ms: Some(ahead_ms) };
        }
        let ahead_ms = clock.now_ms() as i64 - self.now_ms as i64;
        if ahead_ms.unsigned_abs() <= TOLERATED_MS {
            self.follow(ahead_ms, passed_ms);
            return Moment { now_ms: self.now_ms, stepped_ms: None };
        }
        metrics::gauge!("cohort_clock_ahead_seconds").set(ahead_ms as f64 / 1000.0);
        let stepped_ms = self.watch(ahead_ms);
        Moment { now_ms: self.now_ms, stepped_ms }
    }

    /// Goes a little faster or slower.
    fn follow(&mut self, ahead_ms: i64, passed_ms: u64) {
        if self.jump.take().is_some() {
            tracing::info!("the calendar is back where it was before it jumped");
            metrics::gauge!("cohort_clock_ahead_seconds").set(0.0);
        }
        self.unused_ms = (self.unused_ms + passed_ms).min(FOLLOWED * TOLERATED_MS);
        let most = self.unused_ms / FOLLOWED;
        let by_ms = match ahead_ms {
            ahead if ahead > 0 => ahead.unsigned_abs().min(most),
            behind => behind.unsigned_abs().min(most).min(passed_ms),
        };
        self.unused_ms -= by_ms * FOLLOWED;
        match ahead_ms > 0 {
            true => self.now_ms += by_ms,
            false => self.now_ms -= by_ms,
        }
    }

    /// Waits whether a jump lasts; where it has, it is taken over.
    fn watch(&mut self, ahead_ms: i64) -> Option<i64> {
        match self.jump {
            Some((since, jump)) if (ahead_ms - jump).unsigned_abs() <= TOLERATED_MS => {
                if self.steady_ms - since < SETTLED_MS {
                    return None;
                }
                self.jump = None;
                self.now_ms = self.now_ms.saturating_add_signed(ahead_ms);
                self.doubted.push((self.steady_ms, ahead_ms));
                metrics::counter!("cohort_clock_jumps_total", "what" => "taken_over").increment(1);
                metrics::gauge!("cohort_clock_ahead_seconds").set(0.0);
                tracing::warn!(
                    ahead_ms,
                    "the jump of the calendar has lasted and is taken over; windows are moved with it"
                );
                Some(ahead_ms)
            }
            _ => {
                self.jump = Some((self.steady_ms, ahead_ms));
                metrics::counter!("cohort_clock_jumps_total", "what" => "noticed").increment(1);
                tracing::warn!(
                    ahead_ms,
                    "the calendar has jumped; time goes on as before until that has lasted a minute"
                );
                None
            }
        }
    }
}

/// Clocks that are set by hand.
pub mod manual {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::Clock;

    /// Clocks that stand still until they are moved; clones share them.
    #[derive(Clone, Debug, Default)]
    pub struct ManualClock(Arc<(AtomicU64, AtomicU64)>);

    impl ManualClock {
        /// With this calendar.
        pub fn at(now_ms: u64) -> Self {
            let clock = Self::default();
            clock.0.0.store(now_ms, Ordering::Relaxed);
            clock
        }

        /// Time passes, for both.
        pub fn pass(&self, ms: u64) {
            self.0.0.fetch_add(ms, Ordering::Relaxed);
            self.0.1.fetch_add(ms, Ordering::Relaxed);
        }

        /// The calendar is set.
        pub fn jump(&self, by_ms: i64) {
            let now_ms = self.now_ms().saturating_add_signed(by_ms);
            self.0.0.store(now_ms, Ordering::Relaxed);
        }
    }

    impl Clock for ManualClock {
        fn now_ms(&self) -> u64 {
            self.0.0.load(Ordering::Relaxed)
        }

        fn steady_ms(&self) -> u64 {
            self.0.1.load(Ordering::Relaxed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::manual::ManualClock;
    use super::*;

    const DAY_MS: i64 = 86_400_000;

    #[test]
    fn a_day_ahead_or_behind_for_a_while_changes_nothing() {
        for day in [DAY_MS, -DAY_MS] {
            let clock = ManualClock::at(10 * DAY_MS as u64);
            let mut time = Timekeeper::new(&clock, 0, false);
            clock.jump(day);
            for _ in 0..59 {
                clock.pass(1000);
                assert_eq!(time.now(&clock).stepped_ms, None);
            }
            clock.jump(-day);
            clock.pass(1000);
            let right = Moment { now_ms: clock.now_ms(), stepped_ms: None };
            assert_eq!(time.now(&clock), right);
        }
    }

    #[test]
    fn a_jump_that_lasts_is_taken_over_once_and_told() {
        for day in [DAY_MS, -DAY_MS] {
            let clock = ManualClock::at(10 * DAY_MS as u64);
            let mut time = Timekeeper::new(&clock, 0, false);
            clock.jump(day);
            let moments: Vec<_> = (0..200)
                .map(|_| {
                    clock.pass(1000);
                    time.now(&clock)
                })
                .collect();
            let steps: Vec<_> = moments.iter().filter_map(|moment| moment.stepped_ms).collect();
            assert_eq!(steps, [day]);
            assert_eq!(moments.last().unwrap().now_ms, clock.now_ms());
        }
    }

    #[test]
    fn small_differences_are_followed_by_a_hundredth_and_never_backwards() {
        for by_ms in [900, -900] {
            let clock = ManualClock::at(DAY_MS as u64);
            let mut time = Timekeeper::new(&clock, 0, false);
            let mut before = time.now(&clock).now_ms;
            clock.jump(by_ms);
            for _ in 0..1000 {
                clock.pass(7);
                let now = time.now(&clock).now_ms;
                assert!(now >= before && now - before <= 8, "{now} after {before}");
                before = now;
            }
            let far = before.abs_diff(clock.now_ms());
            assert!((825..=835).contains(&far), "after 7 s it is 70 ms nearer, not {far} away");
            (0..100_000).for_each(|_| {
                clock.pass(1);
                time.now(&clock);
            });
            assert_eq!(time.now(&clock).now_ms, clock.now_ms());
        }
    }

    #[test]
    fn a_clock_behind_the_last_event_starts_there_and_goes_on() {
        let clock = ManualClock::at(1000);
        let mut time = Timekeeper::new(&clock, 500_000, true);
        clock.pass(100);
        assert_eq!(time.now(&clock), Moment { now_ms: 500_100, stepped_ms: None });
        clock.pass(SETTLED_MS);
        let moment = time.now(&clock);
        assert_eq!((moment.now_ms, moment.stepped_ms), (clock.now_ms(), Some(-499_000)));
    }

    #[test]
    fn a_long_time_before_the_start_does_not_count_for_what_waits() {
        let last_ms = 10 * DAY_MS as u64;
        let start = |ahead_ms: u64, waits: bool| {
            let clock = ManualClock::at(last_ms + ahead_ms);
            let mut time = Timekeeper::new(&clock, last_ms, waits);
            let first = time.now(&clock);
            clock.pass(SETTLED_MS);
            assert_eq!(time.now(&clock), Moment { now_ms: clock.now_ms(), stepped_ms: None });
            assert_eq!(first.now_ms, last_ms + ahead_ms, "events have the calendar's time at once");
            first.stepped_ms
        };
        assert_eq!(start(PLAUSIBLE_MS, true), None, "a restart is no jump");
        assert_eq!(start(PLAUSIBLE_MS + 1, true), Some(PLAUSIBLE_MS as i64 + 1));
        assert_eq!(start(DAY_MS as u64, false), None, "nothing waits");
        let clock = ManualClock::at(last_ms);
        assert_eq!(Timekeeper::new(&clock, 0, true).now(&clock).stepped_ms, None, "no event yet");
    }

    #[test]
    fn what_is_deleted_for_its_age_is_judged_without_jumps_ahead_of_the_last_day() {
        let year_ms = 365 * DAY_MS;
        let clock = ManualClock::at(10 * year_ms as u64);
        let mut time = Timekeeper::new(&clock, 0, false);
        let settle = |time: &mut Timekeeper| {
            for _ in 0..2 {
                time.now(&clock);
                clock.pass(SETTLED_MS);
            }
            time.now(&clock).now_ms
        };
        clock.jump(year_ms);
        let now_ms = settle(&mut time);
        assert_eq!(now_ms, clock.now_ms(), "it was taken over");
        assert_eq!(time.settled_ms(), now_ms - year_ms as u64);
        clock.jump(-year_ms);
        let now_ms = settle(&mut time);
        assert_eq!(time.settled_ms(), now_ms, "and back");
        clock.jump(year_ms);
        settle(&mut time);
        clock.pass(BELIEVED_MS);
        let now_ms = time.now(&clock).now_ms;
        assert_eq!(time.settled_ms(), now_ms, "what has lasted a day is believed");
        // The same at the start.
        let mut time = Timekeeper::new(&clock, now_ms - year_ms as u64, false);
        assert_eq!(time.settled_ms(), now_ms - year_ms as u64);
        clock.pass(BELIEVED_MS);
        time.now(&clock);
        assert_eq!(time.settled_ms(), clock.now_ms());
    }
}
