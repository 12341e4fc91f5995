//! What is told of an app, a user and a decision. The page shows these numbers and no others.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An app at one moment.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct AppInsight {
    /// The app.
    pub app: String,
    /// How many of these were made before it: two with the same number are the same.
    pub tick: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// The policy.
    pub policy: String,
    /// How many features items have.
    pub dim: usize,
    /// What features are called, where they have names.
    pub feature_names: Vec<String>,
    /// Users met.
    pub users: usize,
    /// Decisions that wait for their reward.
    pub waiting: usize,
    /// Decisions made.
    pub decisions: u64,
    /// Rewards learned, default rewards included.
    pub rewards: u64,
    /// Decisions a second since the tick before; absent in the first.
    pub decisions_per_second: Option<f64>,
    /// Rewards a second since the tick before.
    pub rewards_per_second: Option<f64>,
    /// Whether it helps.
    pub curve: Curve,
    /// What users have in common; absent until that is learned, or if the policy does not learn it.
    pub population: Option<PopulationView>,
    /// Where users are.
    pub map: MapView,
    /// The newest decisions of which the reasons are known, newest first.
    pub recent: Vec<RecentDecision>,
}

/// The average reward of the policy and of the control group.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
pub struct Curve {
    /// The share of decisions that are of the control group.
    pub control_share: f64,
    /// The policy, over all time.
    pub policy: Average,
    /// The control group, over all time.
    pub control: Average,
    /// How much more a decision of the policy earns than one of the control group.
    pub lift: Option<Lift>,
    /// The averages as they were, oldest first.
    pub points: Vec<CurvePoint>,
}

/// An average with an interval that holds at all times together, with 95 %.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, ToSchema)]
pub struct Average {
    /// Rewards.
    pub count: u64,
    /// Their mean.
    pub mean: Option<f64>,
    /// The interval's lower end; absent while there are too few.
    pub low: Option<f64>,
    /// Its upper end.
    pub high: Option<f64>,
}

/// The difference of two averages.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Lift {
    /// The difference.
    pub difference: f64,
    /// The interval's lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// `better` or `worse` where the interval excludes zero, `unknown` where it does not.
    pub verdict: String,
}

/// The averages after so many rewards.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
pub struct CurvePoint {
    /// When, in milliseconds since 1970.
    pub until_ms: u64,
    /// Rewards by then.
    pub rewards: u64,
    /// The policy, up to then.
    pub policy: Average,
    /// The control group, up to then.
    pub control: Average,
}

/// What users have in common.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct PopulationView {
    /// The standard deviation of the noise on one reward.
    pub noise: f64,
    /// What rewards are where features say nothing.
    pub level: f64,
    /// The share of users that are of no cohort.
    pub at_large: f64,
    /// The cohorts, by label.
    pub cohorts: Vec<CohortView>,
}

/// Users that are alike.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct CohortView {
    /// What it is called; it stays the same from one refit to the next.
    pub label: String,
    /// The label as a number, by which it is coloured.
    pub colour: usize,
    /// Its number among the cohorts of now, by which its features are asked for.
    #[serde(default)]
    pub number: usize,
    /// Its share of users.
    pub share: f64,
    /// About how many users that is.
    pub users: u64,
    /// How much its users differ: a standard deviation in each feature.
    pub spread: f64,
    /// What its users like: a weight for each feature.
    pub centre: Vec<f64>,
    /// In which features it differs most from the average user, most first.
    pub distinct: Vec<Distinction>,
}

/// How a cohort differs in one feature.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
pub struct Distinction {
    /// The feature's place, from 0.
    pub feature: usize,
    /// The weight of the cohort minus that of the average user.
    pub difference: f64,
}

/// Users in the plane.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
pub struct MapView {
    /// Users met.
    pub users: usize,
    /// How many of them are shown, at most.
    pub sample: usize,
    /// Those of whom something is known.
    pub points: Vec<MapPoint>,
}

/// A user in the plane.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct MapPoint {
    /// The user's id.
    pub user: String,
    /// To the right.
    pub x: f64,
    /// Upwards.
    pub y: f64,
    /// The colour of its cohort; absent if it is of none.
    pub colour: Option<usize>,
    /// How probable that is.
    pub share: f64,
    /// How many rewards it gave.
    pub rewards: f64,
}

/// One of the newest decisions.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct RecentDecision {
    /// Its id.
    pub decision_id: String,
    /// The user.
    pub user: String,
    /// The item chosen.
    pub item: String,
    /// With what probability.
    pub probability: f64,
    /// Whether it is of the control group.
    pub control: bool,
    /// When, in milliseconds since 1970.
    pub decided_ms: u64,
    /// `not_shown`, `open`, `rewarded`, `expired` or `forgotten`.
    pub status: String,
    /// What was learned, if anything.
    pub reward: Option<f64>,
}

/// What is known of a user.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct UserInsight {
    /// The user.
    pub user: String,
    /// What features are called, where they have names.
    pub feature_names: Vec<String>,
    /// How many rewards are behind it.
    pub rewards: f64,
    /// What the user likes: a weight for each feature; empty while nothing is known.
    pub estimate: Vec<f64>,
    /// One standard deviation of each.
    pub deviations: Vec<f64>,
    /// The same of the average user, where the policy knows one.
    pub average_user: Vec<f64>,
    /// Where the user may belong, most probable first.
    pub memberships: Vec<MembershipView>,
    /// Its decisions among the newest ones, newest first.
    pub recent: Vec<RecentDecision>,
}

/// How probable it is that a user is of a cohort.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct MembershipView {
    /// The cohort; absent for users of no cohort.
    pub label: Option<String>,
    /// By which it is coloured.
    pub colour: Option<usize>,
    /// The probability.
    pub share: f64,
}

/// Why a decision was made.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct ReasonsView {
    /// Whether it is of the control group, so that nothing but chance chose.
    pub control: bool,
    /// The candidates, the chosen one first, the others by falling score.
    pub candidates: Vec<CandidateView>,
    /// Candidates that are not listed, the worst ones.
    pub more: usize,
    /// Where the user was thought to belong.
    pub memberships: Vec<MembershipView>,
}

/// What was thought of a candidate.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct CandidateView {
    /// Its id.
    pub item: String,
    /// The reward expected.
    pub expected: f64,
    /// What is added for being unsure.
    pub bonus: f64,
    /// Their sum.
    pub score: f64,
    /// The part of `expected` that comes from the user's own rewards, where the policy can tell.
    pub own: Option<f64>,
    /// The part that comes from its cohort's other users.
    pub cohort: Option<f64>,
    /// The part that comes from the population at large.
    pub population: Option<f64>,
    /// The part of the item itself, beyond its features; in an app that takes JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_effect: Option<f64>,
    /// The same by names of features, in an app that takes JSON: they add up to `expected`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<FeaturePart>,
}

/// A part of what is expected.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct FeaturePart {
    /// A feature's name; `level` is what rewards are where features say nothing, `item` the item itself, and
    /// `other features` all that are not told one by one.
    pub name: String,
    /// What it adds.
    pub part: f64,
}
