//! What was to be expected of a reward without effects: what the policy said, once it is better than the mean of all rewards.
//!
//! At first a policy knows nothing of what rewards are like, be it 0 and 1 or hundreds. What it misses then is no effect
//! of the items that happened to be shown.

use std::io::{self, Read, Write};

use super::saved::{put, take};

/// Squared errors are averaged over about so many rewards.
const MEMORY: f64 = 100.0;

/// How well rewards were foretold by the policy, and by the mean of those before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Level {
    count: f64,
    mean: f64,
    policy_error: f64,
    mean_error: f64,
}

impl Level {
    /// What was to be expected of a reward, of which the policy had expected `expected`.
    pub fn opinion(&mut self, expected: f64, reward: f64) -> f64 {
        if self.count == 0.0 {
            (self.count, self.mean) = (1.0, reward);
            return reward;
        }
        let (by_policy, by_mean) = (reward - expected, reward - self.mean);
        let opinion = if self.policy_error < self.mean_error { expected } else { self.mean };
        let step = 1.0 / self.count.min(MEMORY);
        self.policy_error += step * (by_policy * by_policy - self.policy_error);
        self.mean_error += step * (by_mean * by_mean - self.mean_error);
        self.count += 1.0;
        self.mean += by_mean / self.count;
        opinion
    }
    pub fn is_empty(&self) -> bool {
        self.count == 0.0
    }

    pub fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        put(out, &[self.count, self.mean, self.policy_error, self.mean_error])
    }

    pub fn load(from: &mut dyn Read) -> io::Result<Self> {
        let [count, mean, policy_error, mean_error] = take(from)?;
        Ok(Self { count, mean, policy_error, mean_error })
    }
}
