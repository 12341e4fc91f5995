//! What time is it?

use std::time::{SystemTime, UNIX_EPOCH};

/// Tells the time.
pub trait Clock: Send {
    /// Milliseconds since 1970. It may go backwards; the engine does not.
    fn now_ms(&self) -> u64;
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
    }
}
