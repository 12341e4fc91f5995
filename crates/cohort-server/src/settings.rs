//! What an app is set to.

use std::collections::BTreeMap;
use std::io::{Read, Write};

pub use cohort::bounds::{MAX_FEATURE, MAX_REWARD, is_feature, is_reward};
use cohort::params::Value;
use cohort::{Policy, Problem, registry};
use cohort_features::EncoderSettings;

use crate::bytes::{Malformed, Put, Take};

/// The policy of an app that names none.
pub const DEFAULT_POLICY: &str = "cohort";

/// How long a decision waits for its reward when an app does not say: ten minutes.
pub const DEFAULT_WINDOW_MS: u64 = 600_000;

/// The longest window: about a year. It bounds how long decisions are remembered.
pub const MAX_WINDOW_MS: u64 = 366 * 24 * 3600 * 1000;

/// The settings of one app.
#[derive(Clone, Debug, PartialEq)]
pub struct AppSettings {
    /// d, how many features an item has.
    pub dim: usize,
    /// The name of the policy.
    pub policy: String,
    /// The policy's parameters that differ from their defaults.
    pub params: BTreeMap<String, Value>,
    /// The share of decisions that are taken uniformly at random.
    pub epsilon: f64,
    /// How long a decision waits for its reward.
    pub window_ms: u64,
    /// What is learned when no reward has come by then; nothing if `None`.
    pub default_reward: Option<f64>,
    /// How JSON becomes vectors, where the app takes JSON. It is set by an event of its own.
    pub features: Option<EncoderSettings>,
}

/// Why settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadSettings {
    /// The policy or one of its parameters.
    #[error(transparent)]
    Policy(cohort::Error),
    /// What was learned rests on a parameter that is to be another.
    #[error(
        "this app works with {found}, and all it has learned rests on that; it cannot be changed to \
         {expected}: leave it as it is, or create another app"
    )]
    Learned {
        /// The parameter as it is.
        found: String,
        /// As it should be.
        expected: String,
    },
    /// The policy decides for all users together only, or needs what only an experiment knows.
    #[error(
        "policy `{0}` is for experiments only: an app's users come one at a time, and nobody knows \
         when they will end or what they truly like; policies for apps are {known}",
        known = online_policies().join(", ")
    )]
    NotOnline(String),
    /// The policy cannot carry over what it learned.
    #[error("the parameters of policy `{0}` cannot be changed once it is in use")]
    Fixed(String),
    /// A number outside its range.
    #[error("{name} = {found}: expected {expected}")]
    Range {
        /// Which.
        name: &'static str,
        /// What was found.
        found: f64,
        /// What is accepted.
        expected: &'static str,
    },
}

impl From<cohort::Error> for BadSettings {
    fn from(error: cohort::Error) -> Self {
        match error {
            cohort::Error::Saved { found, expected, .. } => Self::Learned { found, expected },
            error => Self::Policy(error),
        }
    }
}

/// The names of the policies that an app can use.
pub fn online_policies() -> Vec<&'static str> {
    let usable = |info: &&registry::PolicyInfo| {
        let settings = info.check([]);
        settings
            .and_then(|settings| info.make(&Problem::new(0, 1), &settings))
            .is_ok_and(|mut policy| policy.online().is_some())
    };
    registry::POLICIES.iter().filter(usable).map(|info| info.name).collect()
}

impl AppSettings {
    /// Settings for a dimension, all else by default.
    pub fn new(dim: usize) -> Self {
        Self {
            dim,
            policy: DEFAULT_POLICY.to_owned(),
            params: BTreeMap::new(),
            epsilon: 0.0,
            window_ms: DEFAULT_WINDOW_MS,
            default_reward: None,
            features: None,
        }
    }

    /// Whether the policy can forget users; nothing where there is no such policy.
    pub fn can_forget(&self) -> Option<bool> {
        let mut policy = self.build().ok()?;
        policy.online().map(|online| online.forget(usize::MAX))
    }

    /// Checks all, and makes the policy that they describe.
    pub fn build(&self) -> Result<Box<dyn Policy>, BadSettings> {
        let range = |name, found, expected| Err(BadSettings::Range { name, found, expected });
        if self.dim == 0 {
            return range("dim", 0.0, "1 or more");
        }
        if !(0.0..=1.0).contains(&self.epsilon) {
            return range("epsilon", self.epsilon, "a share from 0 to 1");
        }
        if !(1..=MAX_WINDOW_MS).contains(&self.window_ms) {
            return range("window_ms", self.window_ms as f64, "1 to 31622400000 (366 days)");
        }
        if let Some(reward) = self.default_reward
            && !is_reward(reward)
        {
            return range("default_reward", reward, "a number from -1e6 to 1e6");
        }
        let params = self.params.iter().map(|(name, value)| (name.clone(), value.clone()));
        let not_online = || BadSettings::NotOnline(self.policy.clone());
        let built = registry::build(&self.policy, &Problem::new(0, self.dim), params);
        let mut policy = built.map_err(|why| match why {
            // What it needs no app can give it, whatever its parameters.
            cohort::Error::Needs { policy, .. } if !online_policies().contains(&policy) => {
                not_online()
            }
            why => why.into(),
        })?;
        match policy.online() {
            Some(_) => Ok(policy),
            None => Err(not_online()),
        }
    }

    /// Writes them.
    pub fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        out.put_len(self.dim)?;
        out.put_str(&self.policy)?;
        out.put_len(self.params.len())?;
        for (name, value) in &self.params {
            out.put_str(name)?;
            match value {
                Value::Real(number) => {
                    out.put_u8(0)?;
                    out.put_f64(*number)?;
                }
                Value::Text(word) => {
                    out.put_u8(1)?;
                    out.put_str(word)?;
                }
            }
        }
        out.put_f64(self.epsilon)?;
        out.put_u64(self.window_ms)?;
        out.put_option(self.default_reward)
    }

    /// Reads them.
    pub fn read(mut from: &mut dyn Read) -> Result<Self, Malformed> {
        let (dim, policy) = (from.take_len()?, from.take_str()?);
        let mut params = BTreeMap::new();
        for _ in 0..from.take_len()? {
            let name = from.take_str()?;
            let value = match from.take_bool()? {
                false => Value::Real(from.take_f64()?),
                true => Value::Text(from.take_str()?),
            };
            params.insert(name, value);
        }
        Ok(Self {
            dim,
            policy,
            params,
            epsilon: from.take_f64()?,
            window_ms: from.take_u64()?,
            default_reward: from.take_option()?,
            features: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_policy_works_one_user_at_a_time() {
        assert!(online_policies().contains(&DEFAULT_POLICY));
        assert!(AppSettings::new(3).build().is_ok());
    }

    #[test]
    fn settings_that_cannot_be_used_are_refused_with_a_sentence() {
        let refused = |change: fn(&mut AppSettings)| {
            let mut settings = AppSettings::new(3);
            change(&mut settings);
            settings.build().err().map(|why| why.to_string()).unwrap_or_default()
        };
        assert!(refused(|s| s.epsilon = f64::NAN).contains("a share from 0 to 1"));
        assert!(refused(|s| s.window_ms = 0).contains("366 days"));
        assert!(refused(|s| s.default_reward = Some(1e7)).contains("-1e6 to 1e6"));
        assert!(refused(|s| s.dim = 0).contains("1 or more"));
        assert!(refused(|s| s.policy = "linucb".to_owned()).contains("did you mean"));
        for policy in registry::POLICIES {
            let settings = AppSettings { policy: policy.name.to_owned(), ..AppSettings::new(3) };
            if let Err(why) = settings.build() {
                let said = why.to_string();
                assert!(said.contains("for apps are") && said.contains("linucb-ind"), "{said}");
            }
        }
        assert!(refused(|s| s.policy = "oracle".to_owned()).contains("`oracle`"));
    }
}
