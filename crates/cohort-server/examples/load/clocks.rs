//! Clocks that are not those of the machine.

use cohort_server::clock::{Clock, SystemClock};

const DAY_MS: u64 = 86_400_000;

/// A calendar that is a day ahead in one second, right in the next, a day behind in the one after.
pub struct Jumping;

impl Clock for Jumping {
    fn now_ms(&self) -> u64 {
        let now_ms = SystemClock.now_ms();
        match self.steady_ms() / 1000 % 4 {
            1 => now_ms + DAY_MS,
            3 => now_ms - DAY_MS,
            _ => now_ms,
        }
    }

    fn steady_ms(&self) -> u64 {
        SystemClock.steady_ms()
    }
}

/// How many minutes pass in one.
pub const PACE: u64 = 60;

/// A day in 24 minutes, so that what happens after hours happens while somebody looks.
pub struct Fast;

impl Clock for Fast {
    fn now_ms(&self) -> u64 {
        SystemClock.now_ms() + (PACE - 1) * self.steady_ms() / PACE
    }

    fn steady_ms(&self) -> u64 {
        SystemClock.steady_ms() * PACE
    }
}
