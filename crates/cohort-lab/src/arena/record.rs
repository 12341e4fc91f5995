//! What is kept of one run of one policy in one world, so that a run of the arena that was stopped goes
//! on where it was.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::runner::Run;

/// Points of a curve that are kept.
const CURVE_POINTS: usize = 40;

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RunOutcome {
    /// It came to its end.
    Done(Record),
    /// It took more seconds than this.
    TooSlow(f64),
    /// It cannot play here, and why.
    Refused(String),
}

/// A completed run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Regret over all rounds, mean over users.
    pub regret: f64,
    /// Regret after some rounds.
    pub curve: Vec<(f64, f64)>,
    /// Seconds of a processor to choose and learn.
    pub seconds: f64,
    /// Bytes of what was learned, where it can be kept.
    pub state_bytes: Option<u64>,
}

/// A journal line: the outcome, with the fingerprint of the code.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JournalRecord {
    /// A number for the code that decides what comes of a run.
    pub code: String,
    /// The result.
    pub came: RunOutcome,
}

impl JournalRecord {
    /// Whether a run need not be done again: it is of the same code, or of any where `any_code` is
    /// set, and was not given up sooner than it would be now.
    pub fn serves(&self, code: &str, limit: f64, any_code: bool) -> bool {
        let in_time = !matches!(self.came, RunOutcome::TooSlow(before) if before < limit);
        in_time && (any_code || self.code == code)
    }
}

impl Record {
    /// Of a run that took so many seconds of a processor, its world included.
    pub fn of(run: &Run, seconds: f64) -> Self {
        // The world's share is known in time of the wall, which is the same share.
        let all = (run.learning + run.environment).as_secs_f64();
        let share = if all > 0.0 { run.learning.as_secs_f64() / all } else { 0.0 };
        Self {
            regret: run.total_regret(),
            curve: sampled(&run.regret),
            seconds: seconds * share,
            state_bytes: run.state_bytes,
        }
    }
}

/// Cumulative regret after some of the rounds, the last among them.
fn sampled(regret: &[f64]) -> Vec<(f64, f64)> {
    let (mut sum, mut curve) = (0.0, Vec::new());
    for (round, regret) in regret.iter().enumerate() {
        sum += regret;
        curve.push(((round + 1) as f64, sum));
    }
    let step = curve.len().div_ceil(CURVE_POINTS).max(1);
    let last = curve.last().copied();
    let mut kept: Vec<(f64, f64)> = curve.into_iter().skip(step - 1).step_by(step).collect();
    if kept.last() != last.as_ref() {
        kept.extend(last);
    }
    kept
}

/// When this thread had used so much of a processor: a busy machine slows nobody down by it.
pub struct ThreadTime(Duration);

impl ThreadTime {
    /// Now.
    pub fn now() -> Self {
        Self(used())
    }

    /// What this thread has used since.
    pub fn seconds(&self) -> f64 {
        used().saturating_sub(self.0).as_secs_f64()
    }
}

#[cfg(unix)]
fn used() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Where threads have no clock of their own it is the wall's.
#[cfg(not(unix))]
fn used() -> Duration {
    use std::sync::LazyLock;
    use std::time::Instant;
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_serves_where_code_and_limit_are_the_same() {
        let record = Record { regret: 1.0, curve: Vec::new(), seconds: 9.0, state_bytes: None };
        let done = JournalRecord { code: "a".into(), came: RunOutcome::Done(record) };
        assert!(done.serves("a", 5.0, false) && !done.serves("b", 5.0, false));
        assert!(done.serves("b", 5.0, true));
        let slow = JournalRecord { code: "a".into(), came: RunOutcome::TooSlow(5.0) };
        assert!(slow.serves("a", 5.0, false) && !slow.serves("a", 6.0, true));
    }

    #[test]
    fn sleeping_uses_no_processor() {
        let (started, wall) = (ThreadTime::now(), std::time::Instant::now());
        std::thread::sleep(Duration::from_millis(40));
        assert!(!cfg!(unix) || started.seconds() < 0.5 * wall.elapsed().as_secs_f64());
        while started.seconds() < 1e-3 {}
    }

    #[test]
    fn curves_end_with_the_last_round() {
        let curve = sampled(&[1.0; 95]);
        assert_eq!(curve.last(), Some(&(95.0, 95.0)));
        assert!(curve.len() <= CURVE_POINTS + 1);
        assert!(sampled(&[]).is_empty());
    }
}
