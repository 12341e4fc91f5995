//! Measuring: several contestants in turn, so that whatever else the machine does falls on all of
//! them, and the best of each counts.

use std::time::Instant;

/// Something whose speed is measured.
pub struct Contestant<'a> {
    /// What it is called.
    pub name: String,
    /// How much one go is: user-rounds, or operations.
    pub work: f64,
    /// One go, without its preparations; returns the seconds that count.
    go: Box<dyn FnMut() -> f64 + 'a>,
    warm: bool,
    best_seconds: f64,
}

impl<'a> Contestant<'a> {
    /// One that times itself.
    pub fn new(name: impl Into<String>, work: f64, go: impl FnMut() -> f64 + 'a) -> Self {
        Self { name: name.into(), work, go: Box::new(go), warm: false, best_seconds: f64::INFINITY }
    }

    /// Its best speed so far: work per second.
    pub fn rate(&self) -> f64 {
        self.work / self.best_seconds
    }
}

/// Lets all have `turns` turns of `goes` goes each, one after the other.
///
/// Everybody's first go ever does not count: memory is touched for the first time, and a learner that
/// puts off learning until it next chooses has nothing to learn yet.
pub fn race(contestants: &mut [Contestant], turns: usize, goes: usize) {
    for _ in 0..turns {
        for contestant in &mut *contestants {
            if !contestant.warm {
                (contestant.go)();
                contestant.warm = true;
            }
            for _ in 0..goes {
                let seconds = (contestant.go)();
                contestant.best_seconds = contestant.best_seconds.min(seconds);
            }
        }
    }
}

/// How long something takes.
pub fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}
