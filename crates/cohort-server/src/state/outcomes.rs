//! What came of decisions, of the policy's and of the control group's: the learning curve.
//!
//! Rewards are counted in the order in which they come, in buckets of equally many. When there are
//! too many buckets two neighbours become one, so that an app of any age has a curve of bounded
//! size, and every sum is a sum of all rewards.

use std::io::{self, Read, Write};

use crate::bytes::{Malformed, Put, Take};

/// The most buckets; an even number.
const MOST_BUCKETS: usize = 96;
/// Rewards in a bucket at the beginning.
const FIRST_WIDTH: u64 = 16;

/// How many rewards, their sum and the sum of their squares.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "service", derive(serde::Serialize, serde::Deserialize))]
pub struct Moments {
    /// How many.
    pub count: u64,
    /// Σr.
    pub sum: f64,
    /// Σr².
    pub squares: f64,
}

/// Rewards that came one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "service", derive(serde::Serialize, serde::Deserialize))]
pub struct Bucket {
    /// When the last of them came.
    pub until_ms: u64,
    /// Those of the policy's decisions.
    pub policy: Moments,
    /// Those of the control group.
    pub control: Moments,
}

/// All rewards of an app.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcomes {
    buckets: Vec<Bucket>,
    /// Rewards in a full bucket.
    width: u64,
}

impl Default for Outcomes {
    fn default() -> Self {
        Self { buckets: Vec::new(), width: FIRST_WIDTH }
    }
}

impl Moments {
    fn add(&mut self, reward: f64) {
        self.count += 1;
        self.sum += reward;
        self.squares += reward * reward;
    }

    /// Of both together.
    pub fn with(&self, other: &Self) -> Self {
        Self {
            count: self.count + other.count,
            sum: self.sum + other.sum,
            squares: self.squares + other.squares,
        }
    }

    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        out.put_u64(self.count)?;
        out.put_f64(self.sum)?;
        out.put_f64(self.squares)
    }

    fn load(mut from: &mut dyn Read) -> Result<Self, Malformed> {
        Ok(Self { count: from.take_u64()?, sum: from.take_f64()?, squares: from.take_f64()? })
    }
}

impl Bucket {
    fn count(&self) -> u64 {
        self.policy.count + self.control.count
    }

    fn with(&self, later: &Self) -> Self {
        Self {
            until_ms: later.until_ms,
            policy: self.policy.with(&later.policy),
            control: self.control.with(&later.control),
        }
    }
}

impl Outcomes {
    /// One more reward.
    pub(super) fn add(&mut self, at_ms: u64, control: bool, reward: f64) {
        if self.buckets.last().is_none_or(|last| last.count() >= self.width) {
            if self.buckets.len() == MOST_BUCKETS {
                self.buckets = self.buckets.chunks(2).map(|two| two[0].with(&two[1])).collect();
                self.width *= 2;
            }
            self.buckets.push(Bucket::default());
        }
        if let Some(last) = self.buckets.last_mut() {
            last.until_ms = at_ms;
            if control { last.control.add(reward) } else { last.policy.add(reward) }
        }
    }

    /// Those of several partitions together, in the order of time.
    pub fn merged(mut buckets: Vec<Bucket>) -> Self {
        buckets.sort_by_key(|bucket| bucket.until_ms);
        let width = buckets.iter().map(Bucket::count).max().unwrap_or(0).max(FIRST_WIDTH);
        let at_once = buckets.len().div_ceil(MOST_BUCKETS).max(1);
        let together =
            |some: &[Bucket]| some.iter().skip(1).fold(some[0], |sum, bucket| sum.with(bucket));
        Self { buckets: buckets.chunks(at_once).map(together).collect(), width }
    }

    /// In the order in which they came.
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// Rewards in a full bucket.
    pub fn width(&self) -> u64 {
        self.width
    }

    /// All of them as one.
    pub fn total(&self) -> Bucket {
        self.buckets.iter().fold(Bucket::default(), |sum, bucket| sum.with(bucket))
    }

    pub(super) fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        out.put_u64(self.width)?;
        out.put_len(self.buckets.len())?;
        for bucket in &self.buckets {
            out.put_u64(bucket.until_ms)?;
            bucket.policy.save(out)?;
            bucket.control.save(out)?;
        }
        Ok(())
    }

    pub(super) fn load(mut from: &mut dyn Read) -> Result<Self, Malformed> {
        let width = from.take_u64()?;
        let count = from.take_len()?;
        if count > MOST_BUCKETS || width == 0 {
            return Err(Malformed::odd(format!("a curve of {count} buckets of {width}")));
        }
        let mut buckets = Vec::with_capacity(count);
        for _ in 0..count {
            buckets.push(Bucket {
                until_ms: from.take_u64()?,
                policy: Moments::load(from)?,
                control: Moments::load(from)?,
            });
        }
        Ok(Self { buckets, width })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_curve_is_bounded_and_loses_no_reward(
            rewards in prop::collection::vec((any::<bool>(), -1.0..1.0f64), 0..6000),
        ) {
            let mut outcomes = Outcomes::default();
            for (at, (control, reward)) in rewards.iter().enumerate() {
                outcomes.add(at as u64, *control, *reward);
            }
            prop_assert!(outcomes.buckets().len() <= MOST_BUCKETS);
            let total = outcomes.total();
            for (control, moments) in [(false, total.policy), (true, total.control)] {
                let group = rewards.iter().filter(|(of, _)| *of == control);
                prop_assert_eq!(moments.count, group.clone().count() as u64);
                let sum: f64 = group.map(|(_, reward)| reward).sum();
                prop_assert!((moments.sum - sum).abs() < 1e-9);
            }
            let full = outcomes.buckets().iter().rev().skip(1).all(|b| b.count() == outcomes.width());
            prop_assert!(full, "all but the last bucket are full");
            let mut bytes = Vec::new();
            outcomes.save(&mut bytes)?;
            prop_assert_eq!(Outcomes::load(&mut bytes.as_slice()).unwrap(), outcomes);
        }
    }
}
