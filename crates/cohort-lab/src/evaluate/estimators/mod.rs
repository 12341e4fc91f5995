//! The estimators of off-policy evaluation, one file each, with reference and equation.
//!
//! Notation: row i has context x, chosen item a, propensity p, reward r; π(a|x) is the probability
//! that the evaluated policy chooses that item; w = π(a|x)/p; q̂ is the [reward
//! model](super::reward_model).

pub mod doubly_robust;
pub mod ips;
pub mod replay;
pub mod snips;

use std::fmt;

use serde::Serialize;

use crate::results::half_width_95;

/// An estimator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Estimator {
    /// [`replay`]
    Replay,
    /// [`ips`]
    Ips,
    /// [`snips`]
    Snips,
    /// [`doubly_robust`]
    Dr,
}

impl Estimator {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Replay, Self::Ips, Self::Snips, Self::Dr];

    /// Whether it weights rows by their propensities.
    pub fn needs_propensities(self) -> bool {
        self != Self::Replay
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Replay => "replay",
            Self::Ips => "ips",
            Self::Snips => "snips",
            Self::Dr => "dr",
        }
    }
}

impl fmt::Display for Estimator {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One row, weighted for the evaluated policy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WeightedRow {
    /// w = π(a|x)/p.
    pub weight: f64,
    /// r.
    pub reward: f64,
    /// q̂(x, a); 0 without a model.
    pub model_of_chosen: f64,
    /// Σ_b π(b|x) q̂(x, b); 0 without a model.
    pub model_of_policy: f64,
}

/// An estimate of a policy's value: the mean reward of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The estimator.
    pub estimator: Estimator,
    /// The estimate; `None` where no row counts.
    pub value: Option<f64>,
    /// The lower end of the 95 % interval; `None` where too few rows count.
    pub low: Option<f64>,
    /// Its upper end.
    pub high: Option<f64>,
    /// The number of rows that count: those the policy could have chosen.
    pub rows: usize,
    /// How many of them have a reward other than the most common one.
    pub informative_rows: usize,
}

/// With fewer rewards other than the most common one, a mean is far from normal.
const LEAST_INFORMATIVE_ROWS: usize = 20;

impl Estimate {
    /// The estimate of an estimator that is the mean of one number per row, over the rows that
    /// count.
    fn mean(estimator: Estimator, numbers: &[f64], counted: &[WeightedRow]) -> Self {
        let value =
            (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64);
        let half = half_width_95(numbers);
        let with = |sign: f64| Some(value? + sign * half?);
        let (rows, informative_rows) = informative(counted);
        Self { estimator, value, low: with(-1.0), high: with(1.0), rows, informative_rows }
    }

    /// The reason to distrust the interval, if there is one.
    pub(super) fn warning(&self) -> Option<String> {
        let Self { estimator, rows, informative_rows, .. } = self;
        (*informative_rows < LEAST_INFORMATIVE_ROWS).then(|| {
            format!(
                "{estimator}: of {rows} rows that count only {informative_rows} have another reward \
                 than the most common one: its interval is too rough to rely on"
            )
        })
    }
}

/// The number of rows that count, and how many of these differ from the most common reward.
fn informative(weighted: &[WeightedRow]) -> (usize, usize) {
    let mut rewards: Vec<f64> =
        weighted.iter().filter(|row| row.weight > 0.0).map(|row| row.reward).collect();
    rewards.sort_unstable_by(f64::total_cmp);
    let most_common = rewards.chunk_by(|a, b| a == b).map(<[f64]>::len).max().unwrap_or(0);
    (rewards.len(), rewards.len() - most_common)
}
