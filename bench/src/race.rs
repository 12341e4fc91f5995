//! Interleaved measurement: several contestants in turn, so that disturbances hit all of them, and
//! the best time of each counts.

use std::time::Instant;

/// A piece of code whose speed is measured.
pub struct Contestant<'a> {
    /// Its name.
    pub name: String,
    /// The work of one repetition: user-rounds, or operations.
    pub work: f64,
    /// One repetition, without preparation; returns the seconds that count.
    go: Box<dyn FnMut() -> f64 + 'a>,
    warm: bool,
    best_seconds: f64,
}

impl<'a> Contestant<'a> {
    /// A contestant that times itself.
    pub fn new(name: impl Into<String>, work: f64, go: impl FnMut() -> f64 + 'a) -> Self {
        Self { name: name.into(), work, go: Box::new(go), warm: false, best_seconds: f64::INFINITY }
    }

    /// Its best speed so far: work per second.
    pub fn rate(&self) -> f64 {
        self.work / self.best_seconds
    }
}

/// Lets each contestant in turn do `turns` × `goes` repetitions.
/// The first repetition of each does not count: memory is touched for the first time, and a learner
/// that defers learning to its next choice has nothing to learn yet.
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

/// The time that `work` takes.
pub fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}
