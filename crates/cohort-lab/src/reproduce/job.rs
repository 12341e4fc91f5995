//! One job: one policy in one repetition of one setting, everything that determines its result,
//! and what is kept of it.

use std::fmt::Write;
use std::sync::Arc;

use cohort::params::{Settings, Value};
use serde::{Deserialize, Serialize};

use super::probes::Probe;
use super::study::Setting;
use crate::Error;
use crate::environment::Environment;
use crate::runner::{self, Contender, Run, Task};
use crate::seed::Seed;

/// How many points of a curve are kept.
pub const POINTS: usize = 50;

/// One policy in one repetition.
#[derive(Clone)]
pub struct Job {
    /// Where.
    pub place: Arc<EnvironmentKey>,
    /// Who.
    pub contender: Arc<Contender>,
    /// T as the policy is told it.
    pub horizon: usize,
    /// How many rounds are played.
    pub rounds: usize,
    /// The seed of the whole.
    pub seed: u64,
    /// Which repetition.
    pub repetition: usize,
    /// Whether it has the machine to itself, because its time counts.
    pub alone: bool,
}

/// An environment, and everything that determines it.
pub struct EnvironmentKey {
    /// The environment.
    pub environment: Box<dyn Environment>,
    /// Its name and options, and what its files hold.
    pub description: String,
    /// How many users it has.
    pub users: usize,
}

/// What is kept of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobOutcome {
    /// Regret up to each of [`POINTS`] rounds (fewer in shorter runs), mean over users.
    pub regret: Vec<f64>,
    /// Clusters found in the end.
    pub clusters: Option<usize>,
    /// How well they agree with the true ones.
    pub adjusted_rand: Option<f64>,
    /// What learning took. The only part that is not the same every time.
    pub seconds: f64,
    /// Every user's regret over all rounds, to seven digits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<f32>,
    /// What a probe answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "any_number")]
    pub values: Vec<f64>,
}

/// Work whose result is computed once and stored.
pub trait CachedWork: Sync {
    /// A name for everything that determines the result, the program's own code included: the
    /// same name, the same numbers.
    fn key(&self) -> String;

    /// How much work it is, in decisions of the fastest policies among 25 arms of 15 dimensions.
    fn work(&self) -> u64;

    /// Which repetition it is of.
    fn repetition(&self) -> usize;

    /// Whether it has the machine to itself, because its time counts.
    fn alone(&self) -> bool;

    /// Does it; `None` if it was stopped.
    fn run(&self, halted: &dyn Fn() -> bool) -> Result<Option<JobOutcome>, Error>;
}

/// One repetition of a probe in one setting.
#[derive(Clone)]
pub struct Inquiry {
    /// Which probe.
    pub probe: &'static Probe,
    /// The setting.
    pub setting: Setting,
    /// How many rounds it is told to play.
    pub rounds: usize,
    /// The seed of the whole.
    pub seed: u64,
    /// Which repetition.
    pub repetition: usize,
}

impl CachedWork for Inquiry {
    fn key(&self) -> String {
        let values: Vec<String> = (self.setting.values.iter())
            .map(|(key, value)| format!("{key}={}", super::study::plain(value)))
            .collect();
        let text = format!(
            "{}|{}|{}|{}|{}|{}/{}",
            env!("COHORT_CODE"),
            env!("COHORT_PROBE_CODE"),
            self.probe.name,
            values.join(";"),
            self.rounds,
            self.seed,
            self.repetition
        );
        format!("{:032x}", fnv(text.as_bytes()))
    }

    /// Measured once: a round of a probe takes as long as eight of the fastest decisions.
    fn work(&self) -> u64 {
        8 * self.rounds as u64
    }

    fn repetition(&self) -> usize {
        self.repetition
    }

    fn alone(&self) -> bool {
        false
    }

    fn run(&self, _halted: &dyn Fn() -> bool) -> Result<Option<JobOutcome>, Error> {
        let seed = Seed { seed: self.seed, repetition: self.repetition };
        let values = (self.probe.run)(&self.setting, self.rounds, seed)?;
        Ok(Some(JobOutcome { values, ..JobOutcome::default() }))
    }
}

/// JSON has no NaN: it is kept as null.
mod any_number {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(numbers: &[f64], to: S) -> Result<S::Ok, S::Error> {
        let finite: Vec<Option<f64>> =
            numbers.iter().map(|number| number.is_finite().then_some(*number)).collect();
        finite.serialize(to)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<f64>, D::Error> {
        let numbers = Vec::<Option<f64>>::deserialize(from)?;
        Ok(numbers.into_iter().map(|number| number.unwrap_or(f64::NAN)).collect())
    }
}

impl CachedWork for Job {
    fn key(&self) -> String {
        let Contender { policy, settings, .. } = self.contender.as_ref();
        let own = if policy.name == "cohort" { env!("COHORT_POLICY_CODE") } else { "" };
        let text = format!(
            "{}{own}|{}|{}/{}|{}/{}|{}|{}{}",
            env!("COHORT_CODE"),
            self.place.description,
            self.rounds,
            self.horizon,
            self.seed,
            self.repetition,
            policy.name,
            describe(settings),
            if self.alone { "|alone" } else { "" }
        );
        format!("{:032x}", fnv(text.as_bytes()))
    }

    /// What a decision takes of each policy, beside what the world takes, was measured once; with d and K it
    /// grows about like the root of their product, from 2 × 5 to 25 × 25.
    fn work(&self) -> u64 {
        let decision = match self.contender.policy.name {
            "random" | "oracle" | "common" => 1,
            "club" => 10,
            "sclub" | "cohort" => 16,
            "cmlb-warm" => 7,
            _ => 2,
        };
        let size = self.place.environment.size();
        let of_size = ((size.dim * size.arms) as f64 / (15.0 * 25.0)).sqrt();
        ((self.place.users * self.rounds * decision) as f64 * of_size) as u64 + 1
    }

    fn repetition(&self) -> usize {
        self.repetition
    }

    fn alone(&self) -> bool {
        self.alone
    }

    fn run(&self, halted: &dyn Fn() -> bool) -> Result<Option<JobOutcome>, Error> {
        let task = Task {
            environment: self.place.environment.as_ref(),
            horizon: self.horizon,
            rounds: self.rounds,
            seed: Seed { seed: self.seed, repetition: self.repetition },
            player: self.contender.as_ref(),
            keep_arms: false,
        };
        Ok(runner::play(&task, &(), halted)?.as_ref().map(JobOutcome::of))
    }
}

impl JobOutcome {
    /// What is kept of a run.
    pub fn of(run: &Run) -> Self {
        let mut sum = 0.0;
        let cumulative: Vec<f64> = (run.regret.iter())
            .map(|regret| {
                sum += regret;
                sum
            })
            .collect();
        let end = run.last_checkpoint();
        Self {
            regret: points(cumulative.len()).map(|round| cumulative[round - 1]).collect(),
            clusters: end.and_then(|end| end.clusters),
            adjusted_rand: end.and_then(|end| end.adjusted_rand),
            seconds: run.learning.as_secs_f64(),
            users: run.user_regret.iter().map(|regret| *regret as f32).collect(),
            values: Vec::new(),
        }
    }

    /// Regret over all rounds.
    pub fn total(&self) -> f64 {
        self.regret.last().copied().unwrap_or(0.0)
    }
}

/// The rounds after which regret is kept, counted from 1.
pub fn points(rounds: usize) -> impl Iterator<Item = usize> {
    let count = POINTS.min(rounds);
    (1..=count).map(move |k| (k * rounds).div_ceil(count))
}

/// Every setting with its value, in the order of their declaration.
pub fn describe(settings: &Settings) -> String {
    let mut text = String::new();
    for (param, value) in settings.resolved() {
        let value = value.map_or("derived".to_owned(), |value: Value| value.to_string());
        // Writing to a string cannot fail.
        let _ = write!(text, "{}={value};", param.name);
    }
    text
}

/// Fowler, Noll and Vo's hash of 128 bits: short, and the same on every machine and in every
/// version.
pub fn fnv(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0x6c62272e07bb014262b821756295c58d, |hash, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0000000001000000000000000000013b)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_spread_over_all_rounds_and_end_at_the_last() {
        assert_eq!(points(1000).collect::<Vec<_>>()[..3], [20, 40, 60]);
        assert_eq!(points(1000).last(), Some(1000));
        assert_eq!(points(7).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(points(51).last(), Some(51));
    }

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(fnv(b""), 0x6c62272e07bb014262b821756295c58d);
        assert_eq!(fnv(b"a"), 0xd228cb696f1a8caf78912b704e4a8964);
    }
}
