//! How an app learns, as it is asked and told.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::learning::{Aggregation, Apprenticeship, Mode};

/// What becomes of several rewards for one decision: the first counts and is learned at once; or all
/// that come within the window are learned as one when it ends.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AggregationBody {
    /// The first one.
    Earliest,
    /// Their sum.
    Sum,
    /// Their mean.
    Average,
    /// The middle one.
    Median,
    /// The smallest.
    Min,
    /// The largest.
    Max,
}

/// Who decides.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModeBody {
    /// The policy.
    Online,
    /// The first candidate is shown always; the policy learns from what comes of it. Besides, a model of what is shown is
    /// learned, and it is counted how often that would have chosen the same.
    Apprentice,
    /// The first candidate is shown always, and nothing is learned.
    LoggingOnly,
}

/// What came of decisions that the policy only watched.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct ApprenticeBody {
    /// Decisions.
    pub decisions: u64,
    /// The share of them in which what has learned to imitate the caller would have chosen the same, by what it knew before
    /// each; absent while there are none.
    pub agreement: Option<f64>,
    /// The mean reward of what was shown.
    pub average_reward: Option<f64>,
    /// The mean reward where it would have chosen the same: what it would have earned there.
    pub average_reward_agreed: Option<f64>,
}

impl From<AggregationBody> for Aggregation {
    fn from(body: AggregationBody) -> Self {
        match body {
            AggregationBody::Earliest => Self::Earliest,
            AggregationBody::Sum => Self::Sum,
            AggregationBody::Average => Self::Average,
            AggregationBody::Median => Self::Median,
            AggregationBody::Min => Self::Min,
            AggregationBody::Max => Self::Max,
        }
    }
}

impl From<Aggregation> for AggregationBody {
    fn from(aggregation: Aggregation) -> Self {
        match aggregation {
            Aggregation::Earliest => Self::Earliest,
            Aggregation::Sum => Self::Sum,
            Aggregation::Average => Self::Average,
            Aggregation::Median => Self::Median,
            Aggregation::Min => Self::Min,
            Aggregation::Max => Self::Max,
        }
    }
}

impl From<ModeBody> for Mode {
    fn from(body: ModeBody) -> Self {
        match body {
            ModeBody::Online => Self::Online,
            ModeBody::Apprentice => Self::Apprentice,
            ModeBody::LoggingOnly => Self::LoggingOnly,
        }
    }
}

impl From<Mode> for ModeBody {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Online => Self::Online,
            Mode::Apprentice => Self::Apprentice,
            Mode::LoggingOnly => Self::LoggingOnly,
        }
    }
}

impl From<Apprenticeship> for ApprenticeBody {
    fn from(of: Apprenticeship) -> Self {
        let mean = |sum: f64, count: u64| (count > 0).then(|| sum / count as f64);
        Self {
            decisions: of.decisions,
            agreement: mean(of.agreed as f64, of.decisions),
            average_reward: mean(of.reward_sum, of.rewards),
            average_reward_agreed: mean(of.agreed_reward_sum, of.agreed_rewards),
        }
    }
}
