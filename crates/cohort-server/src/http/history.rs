//! A log of the past, to begin with.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use cohort_features::{ContextFeatures, ItemFeatures, UserFeatures};
use hashbrown::HashSet;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::access::Client;
use super::body::{JsonBody, check_count, check_id};
use super::decide::Candidate;
use super::error::{ApiError, ErrorBody};
use super::reward::{OutcomeOrError, outcomes_of};
use super::schemas::any_features;
use super::{Service, Shared};
use crate::auth::Scopes;
use crate::engine::history::PastDecision;
use crate::engine::{Refusal, Request};

/// The most items that a decision of the past is said to have been made among: whole numbers of JSON are exact up to here.
pub(super) const MOST_CHOICES: u64 = 1 << 53;

/// Decisions of the past.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"decisions": [
    {"user": "ann", "item": "tea", "features": [0.9, 0.1], "reward": 1.0, "decision_id": "log-1"}]}))]
pub struct HistoryBody {
    /// In the order in which they were made.
    pub decisions: Vec<PastBody>,
}

/// A decision of the past.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PastBody {
    /// The user.
    pub user: String,
    /// What was shown.
    pub item: String,
    /// Its features; absent if the catalogue has them.
    #[schema(schema_with = any_features, required = false)]
    pub features: Option<ItemFeatures>,
    /// The situation, in an app that takes JSON.
    #[schema(value_type = Option<Object>)]
    pub context: Option<ContextFeatures>,
    /// What is known of the user besides what it answered, in an app that takes JSON.
    #[schema(value_type = Option<Object>)]
    pub user_features: Option<UserFeatures>,
    /// What came of it.
    pub reward: f64,
    /// With what probability it was shown; 1 if absent.
    pub probability: Option<f64>,
    /// The ids of all that could have been shown, this item among them: what another policy would have earned is estimated
    /// from it.
    pub candidates: Option<Vec<String>>,
    /// How many items could have been shown, where they are not all named.
    pub among: Option<u64>,
    /// Its id: what was learned under it is not learned again.
    pub decision_id: Option<String>,
}

/// What became of decisions of the past.
#[derive(Debug, Serialize, ToSchema)]
pub struct HistoryAnswer {
    /// How many were learned.
    pub learned: usize,
    /// Of those that were not: which, from 0, and why.
    pub others: Vec<OtherPast>,
}

/// A decision of the past that was not learned.
#[derive(Debug, Serialize, ToSchema)]
pub struct OtherPast {
    /// Its place, from 0.
    pub at: usize,
    /// Why: it was learned before, or it was refused.
    #[serde(flatten)]
    pub why: OutcomeOrError,
}

/// Learn from decisions that were made elsewhere, as if they had been made here.
#[utoipa::path(post, path = "/v1/apps/{app}/history", tag = "reward",
    params(("app" = String, Path)), request_body = HistoryBody,
    responses((status = 200, body = HistoryAnswer), (status = "4XX", body = ErrorBody)))]
pub async fn history(
    State(service): Shared,
    Client(app, who): Client<{ Scopes::REWARD }>,
    JsonBody(body): JsonBody<HistoryBody>,
) -> Result<Json<HistoryAnswer>, ApiError> {
    check_count("decisions", body.decisions.len(), service.config.max_batch)?;
    let dim = service.engine.directory().app(&app).map_or(0, |listed| listed.dim);
    let (users, limit) = (body.decisions.len(), service.config.max_work);
    if (users as u64).saturating_mul((dim * dim) as u64) > limit {
        return Err(Refusal::TooMuchWork { users, items: 1, dim, limit }.into());
    }
    let mut decisions = Vec::with_capacity(body.decisions.len());
    let mut sent = Vec::with_capacity(body.decisions.len());
    for past in body.decisions {
        let probability = past.probability.unwrap_or(1.0);
        if !(probability > 0.0 && probability <= 1.0) {
            let sentence =
                format!("the probability is {probability}; it is above 0, and at most 1");
            return Err(ApiError::new(422, "bad_probability", sentence));
        }
        let (others, among) = service.others_of(&past)?;
        let mut offer =
            service.offer(vec![Candidate { id: past.item, features: past.features }])?;
        offer.context = past.context.map(|context| Arc::new(context.0));
        offer.user = past.user_features.map(|user| Arc::new(user.0));
        let user = service.for_user(past.user, past.decision_id, true)?;
        sent.push(past.reward);
        decisions.push(PastDecision {
            id: user.decision,
            user: user.user,
            offer,
            others,
            among,
            probability,
            reward: past.reward,
        });
    }
    let answer = service.engine.ask(Request::History { app: app.clone(), decisions }).await?;
    let outcomes = outcomes_of(answer, sent)?;
    let count = outcomes.len();
    let is_learned = |outcome: &OutcomeOrError| match outcome {
        OutcomeOrError::Outcome(one) => one.outcome != "repeated",
        OutcomeOrError::Error { .. } => false,
    };
    let others = outcomes.into_iter().enumerate().filter(|(_, outcome)| !is_learned(outcome));
    let others: Vec<OtherPast> = others.map(|(at, why)| OtherPast { at, why }).collect();
    let learned = count - others.len();
    who.did("history learned", &app, &format!("{learned} of {count} decisions"));
    Ok(Json(HistoryAnswer { learned, others }))
}

impl Service {
    /// What else could have been shown, and among how many items that was chosen.
    fn others_of(&self, past: &PastBody) -> Result<(Vec<String>, Option<u64>), ApiError> {
        let bad = |sentence: String| Err(ApiError::new(422, "bad_candidates", sentence));
        let item = past.item.as_str();
        let named = match &past.candidates {
            None => 1,
            Some(named) => {
                check_count("candidates", named.len(), self.config.max_candidates)?;
                for id in named {
                    check_id("a candidate's id", id, self.config.max_id_bytes)?;
                }
                let distinct: HashSet<&str> = named.iter().map(String::as_str).collect();
                if distinct.len() != named.len() {
                    return bad("candidates: an item is there twice".to_owned());
                }
                if !distinct.contains(item) {
                    return bad(format!(
                        "candidates: `{item}`, which was shown, is not among them"
                    ));
                }
                named.len()
            }
        };
        let possible = named as u64..=MOST_CHOICES;
        if let Some(among) = past.among.filter(|among| !possible.contains(among)) {
            return bad(format!("among: {among}; it is {named}, how many are named, to 2^53"));
        }
        let others = past.candidates.iter().flatten().filter(|id| *id != item).cloned();
        let among = past.among.or_else(|| past.candidates.as_ref().map(|named| named.len() as u64));
        Ok((others.collect(), among))
    }
}
