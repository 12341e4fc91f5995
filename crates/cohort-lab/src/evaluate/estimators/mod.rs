//! What a log says of a policy: four answers, one file each, with its reference and its equation.
//!
//! Notation: row i has context x, chosen item a, propensity p, reward r; π(a|x) is how likely the
//! policy judged would have chosen that item; w = π(a|x)/p; q̂ is the [reward model](super::reward_model).

pub mod doubly_robust;
pub mod ips;
pub mod replay;
pub mod snips;

use std::fmt;

use serde::Serialize;

use crate::results::half_width_95;

/// Which estimators there are.
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

    /// Whether it weighs rows by their propensities.
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

/// One row as the policy judged sees it.
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

/// What a policy is worth: the mean reward of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Which estimator says so.
    pub estimator: Estimator,
    /// The estimate; `None` where no row tells anything.
    pub value: Option<f64>,
    /// The 95 % interval's lower end; `None` where too few rows tell anything.
    pub low: Option<f64>,
    /// Its upper end.
    pub high: Option<f64>,
    /// How many rows count: those the policy could have had.
    pub rows: usize,
    /// How many of them have a reward other than the most common one.
    pub informative_rows: usize,
}

/// With fewer rewards that are not the most common one, a mean is not nearly normal.
const LEAST_INFORMATIVE_ROWS: usize = 20;

impl Estimate {
    /// Of an estimator that is the mean of one number a row, over `rows` rows that count.
    fn mean(estimator: Estimator, numbers: &[f64], counted: &[WeightedRow]) -> Self {
        let value =
            (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64);
        let half = half_width_95(numbers);
        let with = |sign: f64| Some(value? + sign * half?);
        let (rows, informative_rows) = informative(counted);
        Self { estimator, value, low: with(-1.0), high: with(1.0), rows, informative_rows }
    }

    /// What should make one careful about its interval.
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

/// How many rows count, and how many of these differ from the most common reward.
fn informative(weighted: &[WeightedRow]) -> (usize, usize) {
    let mut rewards: Vec<f64> =
        weighted.iter().filter(|row| row.weight > 0.0).map(|row| row.reward).collect();
    rewards.sort_unstable_by(f64::total_cmp);
    let most_common = rewards.chunk_by(|a, b| a == b).map(<[f64]>::len).max().unwrap_or(0);
    (rewards.len(), rewards.len() - most_common)
}
