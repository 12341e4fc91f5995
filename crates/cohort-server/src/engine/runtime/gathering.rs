//! How long does a group of requests wait for more of them before it is committed?
//!
//! Where a commit is a file sync of this process, requests gather by themselves while it lasts. Where it is a message that
//! other processes acknowledge, many small groups cost those more processor time than the requests in them: under load the
//! fewer groups there are, the more is served. So a group waits (as PostgreSQL's `commit_delay`), if the last one had several
//! requests, in steps as long as a commit takes, and for as long as every step brings another request.

use std::time::Duration;

/// The shortest step.
const LEAST_STEP: Duration = Duration::from_millis(1);

/// What is known of earlier groups.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// How many requests the last group had.
    requests: usize,
    /// How long a commit takes, on average of late.
    commit: Duration,
}

impl Gathering {
    /// A group of so many requests was committed in this time.
    pub fn committed(&mut self, requests: usize, took: Duration) {
        self.requests = requests;
        // One slow commit of eight moves the average by as much as it is slower.
        self.commit = (self.commit * 7 + took) / 8;
    }

    /// Waits while more requests come, at most for so long. `waiting` says how many there are.
    pub fn wait(
        &self,
        most: Duration,
        waiting: impl Fn() -> usize,
        mut pause: impl FnMut(Duration),
    ) {
        if self.requests < 2 {
            return;
        }
        let (mut left, mut known) = (most, waiting());
        while !left.is_zero() {
            let step = self.commit.max(LEAST_STEP).min(left);
            pause(step);
            left -= step;
            let now = waiting();
            if now <= known {
                return;
            }
            known = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const MOST: Duration = Duration::from_millis(4);

    /// How long a group waits where every step brings so many requests.
    fn waited(gathering: &Gathering, steps: &[usize]) -> Duration {
        let (came, at) = (Cell::new(0), Cell::new(0));
        let mut total = Duration::ZERO;
        gathering.wait(
            MOST,
            || came.get(),
            |step| {
                total += step;
                came.set(came.get() + steps.get(at.get()).copied().unwrap_or(0));
                at.set(at.get() + 1);
            },
        );
        total
    }

    #[test]
    fn a_group_waits_as_long_as_requests_come() {
        let mut gathering = Gathering::default();
        assert_eq!(waited(&gathering, &[1, 1, 1]), Duration::ZERO);
        gathering.committed(1, Duration::from_micros(800));
        assert_eq!(waited(&gathering, &[1; 20]), Duration::ZERO, "one client after the other");
        gathering.committed(2, Duration::from_micros(800));
        assert_eq!(waited(&gathering, &[]), LEAST_STEP, "nobody else comes");
        assert_eq!(waited(&gathering, &[2, 1]), LEAST_STEP * 3);
        assert_eq!(waited(&gathering, &[1; 20]), MOST, "somebody always comes");
        for _ in 0..100 {
            gathering.committed(2, Duration::from_millis(1));
        }
        let step = waited(&gathering, &[]);
        assert!((900..=1000).contains(&step.as_micros()), "a step is a commit: {step:?}");
        gathering.committed(5, Duration::from_secs(60));
        assert_eq!(waited(&gathering, &[1; 20]), MOST, "a commit that took for ever delays nobody");
    }
}
