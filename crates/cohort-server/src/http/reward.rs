//! How the user answered.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::access::Client;
use super::apps::unexpected;
use super::body::{JsonBody, check_count};
use super::error::{ApiError, ErrorBody, ErrorDetail};
use super::{Service, Shared};
use crate::auth::Scopes;
use crate::engine::request::RewardOutcome;
use crate::engine::{Answer, Refusal, Request};

/// A reward.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"decision_id": "d1", "reward": 1.0}))]
pub struct RewardBody {
    /// The decision that it is for.
    pub decision_id: String,
    /// How good the answer was: a number from -1e6 to 1e6.
    pub reward: f64,
    /// Whom the decision was for. A cluster finds a decision whose id it did not make faster by it.
    #[serde(default, rename = "user")]
    pub _user: Option<String>,
}

/// Many rewards.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"rewards": [{"decision_id": "d1", "reward": 1.0}]}))]
pub struct RewardsBody {
    /// In the order in which they are learned.
    pub rewards: Vec<RewardBody>,
}

/// What a reward did.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct OutcomeBody {
    /// `learned`; `gathered` if it is kept until the window ends and learned with the others; `logged` if the app learns
    /// nothing (mode `logging_only`); `repeated` if the decision had its reward already.
    pub outcome: String,
    /// The reward that counts: this one, or the first.
    pub reward: f64,
}

/// Outcomes in the order of the rewards.
#[derive(Debug, Serialize, ToSchema)]
pub struct OutcomesBody {
    /// Each an outcome, or why it was refused.
    pub outcomes: Vec<OutcomeOrError>,
}

/// An outcome, or why there is none.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum OutcomeOrError {
    /// What the reward did.
    Outcome(OutcomeBody),
    /// Why it did nothing.
    Error {
        /// What was refused.
        error: ErrorDetail,
    },
}

/// A reward for a decision. Sent twice it is learned once.
#[utoipa::path(post, path = "/v1/apps/{app}/reward", tag = "reward", params(("app" = String, Path)),
    request_body = RewardBody, responses(
    (status = 200, body = OutcomeBody),
    (status = 404, body = ErrorBody, description = "no such decision, or forgotten"),
    (status = 409, body = ErrorBody, description = "the decision was not shown yet"),
    (status = 410, body = ErrorBody, description = "too late, or the app was deleted"),
    (status = 503, body = ErrorBody, description = "at its limit: come back after Retry-After"),
    (status = "4XX", body = ErrorBody),
))]
pub async fn reward(
    State(service): Shared,
    Client(app, _): Client<{ Scopes::REWARD }>,
    JsonBody(body): JsonBody<RewardBody>,
) -> Result<Json<OutcomeBody>, ApiError> {
    let sent = body.reward;
    let rewards = vec![(body.decision_id, sent)];
    let answer = service.engine.ask(Request::Reward { app, rewards }).await?;
    let outcome = outcomes_in(answer)?.pop().ok_or_else(unexpected)??;
    Ok(Json(body_of(outcome, sent)))
}

/// Rewards for many decisions, each with an outcome of its own.
#[utoipa::path(post, path = "/v1/apps/{app}/rewards", tag = "reward",
    params(("app" = String, Path)), request_body = RewardsBody,
    responses((status = 200, body = OutcomesBody), (status = "4XX", body = ErrorBody)))]
pub async fn rewards(
    State(service): Shared,
    Client(app, _): Client<{ Scopes::REWARD }>,
    JsonBody(body): JsonBody<RewardsBody>,
) -> Result<Json<OutcomesBody>, ApiError> {
    check_count("rewards", body.rewards.len(), service.config.max_batch)?;
    Ok(Json(OutcomesBody { outcomes: rewards_of(&service, app, body).await? }))
}

/// What each of several rewards did.
pub(super) async fn rewards_of(
    service: &Service,
    app: String,
    body: RewardsBody,
) -> Result<Vec<OutcomeOrError>, ApiError> {
    let sent: Vec<f64> = body.rewards.iter().map(|reward| reward.reward).collect();
    let rewards = body.rewards.into_iter().map(|body| (body.decision_id, body.reward)).collect();
    outcomes_of(service.engine.ask(Request::Reward { app, rewards }).await?, sent)
}

/// Outcomes as they are told.
pub(super) fn outcomes_of(answer: Answer, sent: Vec<f64>) -> Result<Vec<OutcomeOrError>, ApiError> {
    let outcomes =
        outcomes_in(answer)?.into_iter().zip(sent).map(|(outcome, sent)| match outcome {
            Ok(outcome) => OutcomeOrError::Outcome(body_of(outcome, sent)),
            Err(refusal) => OutcomeOrError::Error { error: ApiError::from(refusal).detail() },
        });
    Ok(outcomes.collect())
}

fn outcomes_in(answer: Answer) -> Result<Vec<Result<RewardOutcome, Refusal>>, ApiError> {
    match answer {
        Answer::Rewarded(outcomes) => {
            for outcome in &outcomes {
                let what = match outcome {
                    Ok(RewardOutcome::Learned) => "learned",
                    Ok(RewardOutcome::Logged) => "logged",
                    Ok(RewardOutcome::Gathered) => "gathered",
                    Ok(RewardOutcome::Repeated { .. }) => "repeated",
                    Err(refusal) => refusal.code(),
                };
                metrics::counter!("cohort_rewards_total", "outcome" => what).increment(1);
            }
            Ok(outcomes)
        }
        _ => Err(unexpected()),
    }
}

fn body_of(outcome: RewardOutcome, sent: f64) -> OutcomeBody {
    let (outcome, reward) = match outcome {
        RewardOutcome::Learned => ("learned", sent),
        RewardOutcome::Logged => ("logged", sent),
        RewardOutcome::Gathered => ("gathered", sent),
        RewardOutcome::Repeated { first } => ("repeated", first),
    };
    OutcomeBody { outcome: outcome.to_owned(), reward }
}
