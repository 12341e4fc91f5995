//! What does an app make of rewards, and who decides meanwhile? How several rewards of one decision
//! become one, from when a decision waits for them, whether the policy decides or only watches, and
//! whether a user stays in the control group.

use std::io::{Read, Write};

use xxhash_rust::xxh3::xxh3_64;

use crate::bytes::{Malformed, Put, Take};
use crate::settings::MAX_REWARD;

/// The most rewards that are gathered for one decision.
pub const MOST_GATHERED: usize = 1000;

/// How an app learns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Learning {
    /// What becomes of several rewards for one decision.
    pub aggregation: Aggregation,
    /// Who decides.
    pub mode: Mode,
    /// Whether a decision that is shown later waits from when it was made, not from when it was shown.
    pub wait_from_decision: bool,
    /// Whether a user is in the control group for all decisions or for none.
    pub sticky_control: bool,
    /// What another service's clients have set, as JSON; empty where none has.
    pub dialect: String,
}

/// What becomes of several rewards for one decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aggregation {
    /// The first one counts, and is learned at once.
    #[default]
    Earliest,
    /// Their sum; like all that follow it is learned when the window ends.
    Sum,
    /// Their mean.
    Average,
    /// The middle one, or the mean of the two in the middle.
    Median,
    /// The smallest.
    Min,
    /// The largest.
    Max,
}

/// Who decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The policy.
    #[default]
    Online,
    /// The first candidate is shown always; the policy learns from what comes of it. An imitator learns what is shown, and
    /// it is counted how often it would have chosen the same ([`crate::imitation`]).
    Apprentice,
    /// The first candidate is shown always, and nothing is learned.
    LoggingOnly,
}

impl Aggregation {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Earliest, Self::Sum, Self::Average, Self::Median, Self::Min, Self::Max];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Earliest => "earliest",
            Self::Sum => "sum",
            Self::Average => "average",
            Self::Median => "median",
            Self::Min => "min",
            Self::Max => "max",
        }
    }

    /// One reward of several, in the order in which they came; `None` of none.
    pub fn of(self, rewards: &[f64]) -> Option<f64> {
        let first = *rewards.first()?;
        let one = match self {
            Self::Earliest => first,
            Self::Sum => rewards.iter().sum(),
            Self::Average => rewards.iter().sum::<f64>() / rewards.len() as f64,
            Self::Median => {
                let mut sorted = rewards.to_vec();
                sorted.sort_by(f64::total_cmp);
                let middle = sorted.len() / 2;
                match sorted.len() % 2 {
                    0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
                    _ => sorted[middle],
                }
            }
            Self::Min => rewards.iter().copied().fold(first, f64::min),
            Self::Max => rewards.iter().copied().fold(first, f64::max),
        };
        // A sum of rewards may be larger than a reward can be.
        Some(one.clamp(-MAX_REWARD, MAX_REWARD))
    }

    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Online, Self::Apprentice, Self::LoggingOnly];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Apprentice => "apprentice",
            Self::LoggingOnly => "logging_only",
        }
    }
}

impl Learning {
    /// Whether this user is in a control group of that share, where users stay in it.
    pub fn is_control(user: &str, share: f64) -> bool {
        // The upper 53 bits as a number in [0, 1).
        let place = (xxh3_64(user.as_bytes()) >> 11) as f64 / (1u64 << 53) as f64;
        place < share
    }

    /// Writes it.
    pub fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        out.put_u8(self.aggregation as u8)?;
        out.put_u8(self.mode as u8)?;
        out.put_u8(self.wait_from_decision.into())?;
        out.put_u8(self.sticky_control.into())?;
        out.put_str(&self.dialect)
    }

    /// Reads it.
    pub fn read(mut from: &mut dyn Read) -> Result<Self, Malformed> {
        let (aggregation, mode) = (from.take_u8()?, from.take_u8()?);
        let odd = |what: &str, found: u8| Malformed::odd(format!("{what} of the kind {found}"));
        Ok(Self {
            aggregation: Aggregation::from_number(aggregation)
                .ok_or_else(|| odd("an aggregation", aggregation))?,
            mode: Mode::ALL.get(usize::from(mode)).copied().ok_or_else(|| odd("a mode", mode))?,
            wait_from_decision: from.take_bool()?,
            sticky_control: from.take_bool()?,
            dialect: from.take_str()?,
        })
    }
}

/// What came of decisions that the policy only watched. Events of earlier versions say how often the policy would have
/// chosen the same, later ones how often the imitator would.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Apprenticeship {
    /// Decisions.
    pub decisions: u64,
    /// Those of them in which the imitator would have chosen the same.
    pub agreed: u64,
    /// Decisions with a reward.
    pub rewards: u64,
    /// The sum of their rewards.
    pub reward_sum: f64,
    /// Those of them in which the imitator would have chosen the same.
    pub agreed_rewards: u64,
    /// The sum of their rewards: what it would have earned there too.
    pub agreed_reward_sum: f64,
}

impl Apprenticeship {
    /// Counts one reward.
    pub fn earned(&mut self, agreed: bool, reward: f64) {
        self.rewards += 1;
        self.reward_sum += reward;
        if agreed {
            self.agreed_rewards += 1;
            self.agreed_reward_sum += reward;
        }
    }

    /// Writes it.
    pub fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        out.put_u64(self.decisions)?;
        out.put_u64(self.agreed)?;
        out.put_u64(self.rewards)?;
        out.put_f64(self.reward_sum)?;
        out.put_u64(self.agreed_rewards)?;
        out.put_f64(self.agreed_reward_sum)
    }

    /// Reads it.
    pub fn read(mut from: &mut dyn Read) -> Result<Self, Malformed> {
        Ok(Self {
            decisions: from.take_u64()?,
            agreed: from.take_u64()?,
            rewards: from.take_u64()?,
            reward_sum: from.take_f64()?,
            agreed_rewards: from.take_u64()?,
            agreed_reward_sum: from.take_f64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_rewards_become_one() {
        let rewards = [0.5, -1.0, 0.0, 1.5];
        let of = |aggregation: Aggregation| aggregation.of(&rewards);
        let expected = [0.5, 1.0, 0.25, 0.25, -1.0, 1.5].map(Some);
        assert_eq!(Aggregation::ALL.map(of), expected);
        assert_eq!(Aggregation::Median.of(&rewards[..3]), Some(0.0));
        for aggregation in Aggregation::ALL {
            assert_eq!(aggregation.of(&[0.7]), Some(0.7));
            assert_eq!(aggregation.of(&[]), None);
            assert!(aggregation.of(&[1e6; 9]) <= Some(1e6));
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for aggregation in Aggregation::ALL {
            for mode in Mode::ALL {
                let dialect = "{}".to_owned();
                let (wait_from_decision, sticky_control) = (true, mode == Mode::Online);
                let learning =
                    Learning { aggregation, mode, wait_from_decision, sticky_control, dialect };
                let mut bytes = Vec::new();
                learning.write(&mut bytes).unwrap();
                assert_eq!(Learning::read(&mut bytes.as_slice()).unwrap(), learning);
            }
        }
        assert!(Learning::read(&mut &[9u8, 0, 0, 0, 0][..]).is_err());
        assert!(Learning::read(&mut &[0u8, 9, 0, 0, 0][..]).is_err());
    }

    #[test]
    fn users_stay_in_the_control_group_and_it_has_its_share() {
        let users: Vec<String> = (0..20_000).map(|user| format!("user {user}")).collect();
        let share = |of: f64| users.iter().filter(|user| Learning::is_control(user, of)).count();
        assert_eq!((share(0.0), share(1.0)), (0, users.len()));
        assert!((share(0.1) as f64 / users.len() as f64 - 0.1).abs() < 0.01);
        // A larger group has all of a smaller one.
        assert!(
            users.iter().all(|u| !Learning::is_control(u, 0.1) || Learning::is_control(u, 0.2))
        );
    }
}
