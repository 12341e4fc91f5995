//! What to show a user.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use cohort_features::{ContextFeatures, Given, ItemFeatures, UserFeatures};
use hashbrown::HashSet;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::access::Client;
use super::apps::unexpected;
use super::body::{JsonBody, check_count, check_id};
use super::error::{ApiError, ErrorBody, ErrorDetail};
use super::large;
use super::path::Path;
use super::schemas::any_features;
use super::strict::Strict;
use super::wanted::Wanted;
use super::{Service, Shared};
use crate::auth::Scopes;
use crate::engine::request::{ForUser, Made, Offer};
use crate::engine::{Answer, Refusal, Request};
use crate::insight::maker;
use crate::insight::view::{FeaturePart, ReasonsView};

/// A candidate.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    /// Its id.
    pub id: String,
    /// Its features, a list of numbers, or an object in an app that takes JSON; absent if the catalogue
    /// has them.
    #[schema(schema_with = any_features, required = false)]
    pub features: Option<ItemFeatures>,
}

/// Decide for one user.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"user": "ann", "decision_id": "d1", "items": [
    {"id": "tea", "features": [0.9, 0.1]}, {"id": "coffee", "features": [0.1, 0.9]}]}))]
pub struct DecideBody {
    /// The user's id; one that was never seen is a new user.
    pub user: String,
    /// What can be shown; absent to choose from the catalogue.
    pub items: Option<Vec<Candidate>>,
    /// What items of the catalogue must be like to be chosen.
    #[schema(value_type = Option<Object>)]
    pub filter: Option<Strict>,
    /// What is not shown.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// How many of the best items of the catalogue are told; 10 if absent.
    pub k: Option<usize>,
    /// The situation (page, device, time), in an app that takes JSON.
    #[schema(value_type = Option<Object>)]
    pub context: Option<ContextFeatures>,
    /// What is known of the user besides what it answered, in an app that takes JSON.
    #[schema(value_type = Option<Object>)]
    pub user_features: Option<UserFeatures>,
    /// The id that the decision shall have. A retry with the same id gets the same decision.
    pub decision_id: Option<String>,
    /// `false` for a decision that may never be shown: it counts once it is activated.
    #[serde(default = "yes")]
    pub shown: bool,
    /// Whether the explanation is wanted.
    #[serde(default)]
    pub explain: bool,
}

/// Decide for many users among the same candidates.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"users": [{"user": "ann"}, {"user": "bob"}], "items": [
    {"id": "tea", "features": [0.9, 0.1]}, {"id": "coffee", "features": [0.1, 0.9]}]}))]
pub struct DecideBatchBody {
    /// The users.
    pub users: Vec<BatchUser>,
    /// What can be shown to each of them; absent to choose from the catalogue.
    pub items: Option<Vec<Candidate>>,
    /// As for one user.
    #[schema(value_type = Option<Object>)]
    pub filter: Option<Strict>,
    /// As for one user.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// As for one user.
    pub k: Option<usize>,
    /// The situation, in an app that takes JSON.
    #[schema(value_type = Option<Object>)]
    pub context: Option<ContextFeatures>,
    /// Whether explanations are wanted.
    #[serde(default)]
    pub explain: bool,
}

/// One user of many.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchUser {
    /// The user's id.
    pub user: String,
    /// The id that the decision shall have.
    pub decision_id: Option<String>,
    /// As for one user.
    #[serde(default = "yes")]
    pub shown: bool,
}

pub(super) fn yes() -> bool {
    true
}

/// A decision.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct DecisionBody {
    /// By which its reward is sent.
    pub decision_id: String,
    /// The item to show: the first of the ranking.
    pub item: String,
    /// All candidates, the chosen one first, the others by falling score; of the catalogue the best.
    pub ranking: Vec<String>,
    /// With what probability the item was chosen.
    pub probability: f64,
    /// What the policy thought of each, in the order of the ranking; on request, and not for a
    /// decision that was made before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Vec<ScoredItem>>,
}

/// What the policy thought of a candidate.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct ScoredItem {
    /// Its id.
    pub item: String,
    /// The reward that is expected of it.
    pub expected: f64,
    /// What is added for being unsure of that.
    pub bonus: f64,
    /// Their sum, by which candidates are ranked.
    pub score: f64,
    /// In an app that takes JSON: what `expected` is made of, and adds up to. The features with the largest parts, the
    /// `level`, the `item` itself, and all `other features`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<FeaturePart>,
}

/// Decisions in the order of the users.
#[derive(Debug, Serialize, ToSchema)]
pub struct DecisionsBody {
    /// Each a decision, or why there is none.
    pub decisions: Vec<DecisionOrError>,
}

/// A decision, or why there is none.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum DecisionOrError {
    /// A decision.
    Decision(DecisionBody),
    /// Why there is none.
    Error {
        /// What was refused.
        error: ErrorDetail,
    },
}

/// Decide for one user: returns the item to show, first in a ranking of all candidates, or of the best `k` of the
/// catalogue where no candidates are listed.
#[utoipa::path(post, path = "/v1/apps/{app}/decide", tag = "decide", params(("app" = String, Path)),
    request_body = DecideBody, responses(
    (status = 200, body = DecisionBody),
    (status = 409, body = ErrorBody, description = "the decision id was used for another user"),
    (status = 429, body = ErrorBody, description = "too many requests, or decisions that wait"),
    (status = 503, body = ErrorBody, description = "at its limit: come back after Retry-After"),
    (status = "4XX", body = ErrorBody),
))]
pub async fn decide(
    State(service): Shared,
    Client(app, _): Client<{ Scopes::DECIDE }>,
    JsonBody(body): JsonBody<DecideBody>,
) -> Result<Json<DecisionBody>, ApiError> {
    let (items, filter, exclude, k) = (body.items, body.filter, body.exclude, body.k);
    let exclude = exclude.into();
    let mut offer = service.wanted(Wanted { items, filter, exclude, k })?;
    offer.context = body.context.map(|context| Arc::new(context.0));
    offer.user = body.user_features.map(|user| Arc::new(user.0));
    let user = service.for_user(body.user, body.decision_id, body.shown)?;
    let request = Request::Decide { app, offer, users: vec![user], explain: body.explain };
    let mut decisions = decisions_in(service.engine.ask(request).await?)?;
    let made = decisions.pop().ok_or_else(unexpected)??;
    Ok(Json(body_of(made)))
}

/// What HTTP and JSON alone cost: the body of a decide is read, an answer of the same form and size
/// is written, and nothing is decided.
pub(super) async fn empty(JsonBody(body): JsonBody<DecideBody>) -> Json<DecisionBody> {
    let items = body.items.unwrap_or_default();
    let ranking: Vec<String> = items.into_iter().map(|item| item.id).collect();
    Json(DecisionBody {
        decision_id: "0123456789abcdef0123456789abcdef".to_owned(),
        item: ranking.first().cloned().unwrap_or_default(),
        ranking,
        probability: 1.0,
        explanation: None,
    })
}

/// Answers with more ids than this are written apart from those of others.
pub(super) const LARGE_IDS: usize = 4000;
/// An id with its explanation is some times as long as the id alone.
const EXPLAINED: usize = 8;

/// Decide for many users among the same candidates, each with an outcome of its own.
#[utoipa::path(post, path = "/v1/apps/{app}/decide-batch", tag = "decide",
    params(("app" = String, Path)), request_body = DecideBatchBody,
    responses((status = 200, body = DecisionsBody), (status = "4XX", body = ErrorBody)))]
pub async fn decide_batch(
    State(service): Shared,
    Client(app, _): Client<{ Scopes::DECIDE }>,
    JsonBody(body): JsonBody<DecideBatchBody>,
) -> Result<Response, ApiError> {
    check_count("users", body.users.len(), service.config.max_batch)?;
    let (items, filter, exclude, k) = (body.items, body.filter, body.exclude, body.k);
    let exclude = exclude.into();
    let mut offer = service.wanted(Wanted { items, filter, exclude, k })?;
    offer.context = body.context.map(|context| Arc::new(context.0));
    let users = body.users.into_iter();
    let users = users.map(|user| service.for_user(user.user, user.decision_id, user.shown));
    let users = users.collect::<Result<Vec<_>, _>>()?;
    let request = Request::Decide { app, offer, users, explain: body.explain };
    let decisions = decisions_in(service.engine.ask(request).await?)?;
    // By their bytes: to count the ids would take milliseconds, on a thread that others wait for.
    let bytes = |made: &Result<Made, Refusal>| {
        let ranking = made.as_ref().map_or(0, |made| made.ranking.as_bytes().len());
        if body.explain { EXPLAINED * ranking } else { ranking }
    };
    let is_large = decisions.iter().map(bytes).sum::<usize>() > large::SMALL_BYTES / 2;
    let told = move || {
        let decisions = decisions.into_iter().map(|decision| match decision {
            Ok(made) => DecisionOrError::Decision(body_of(made)),
            Err(refusal) => DecisionOrError::Error { error: ApiError::from(refusal).detail() },
        });
        DecisionsBody { decisions: decisions.collect() }
    };
    large::answer(is_large, told).await
}

/// A decision to activate.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"decision_id": "d1"}))]
pub struct ActivateBody {
    /// Its id.
    pub decision_id: String,
}

/// A decision made with `"shown": false` was shown: from now on it counts, and its window begins.
#[utoipa::path(post, path = "/v1/apps/{app}/activate", tag = "decide",
    params(("app" = String, Path)), request_body = ActivateBody,
    responses((status = 204), (status = "4XX", body = ErrorBody)))]
pub async fn activate(
    State(service): Shared,
    Client(app, _): Client<{ Scopes::DECIDE }>,
    JsonBody(body): JsonBody<ActivateBody>,
) -> Result<StatusCode, ApiError> {
    service.engine.ask(Request::Activate { app, decision: body.decision_id }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What became of a decision.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct DecisionStatus {
    /// Its id.
    pub decision_id: String,
    /// The user.
    pub user: String,
    /// All candidates, the chosen one first.
    pub ranking: Vec<String>,
    /// With what probability the first was chosen.
    pub probability: f64,
    /// When it was made, in milliseconds since 1970.
    pub decided_ms: u64,
    /// `not_shown`, `open`, `rewarded` or `expired`.
    pub status: String,
    /// What was learned, if anything.
    pub reward: Option<f64>,
    /// Whether it is of the control group.
    pub control: bool,
    /// Why it was made, where that is still known: of a sample of the newest decisions, and of those
    /// made with `explain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasons: Option<ReasonsView>,
}

/// What became of a decision, as long as it is remembered.
#[utoipa::path(get, path = "/v1/apps/{app}/decisions/{decision}", tag = "decide",
    params(("app" = String, Path), ("decision" = String, Path)),
    responses((status = 200, body = DecisionStatus), (status = "4XX", body = ErrorBody)))]
pub async fn show(
    State(service): Shared,
    _: Client<{ Scopes::READ }>,
    Path((app, decision)): Path<(String, String)>,
) -> Result<Json<DecisionStatus>, ApiError> {
    let Answer::Decision(view) =
        service.engine.ask(Request::ShowDecision { app: app.clone(), decision }).await?
    else {
        return Err(unexpected());
    };
    let labels = service.hub.labels(&app).await;
    let reasons = maker::reasons(&service.engine, &app, &view.made.id, &labels).await?;
    let (status, reward) = maker::told(view.status);
    Ok(Json(DecisionStatus {
        ranking: view.made.ranking.iter().map(str::to_owned).collect(),
        decision_id: view.made.id,
        user: view.made.user,
        probability: view.made.probability,
        decided_ms: view.at_ms,
        status: status.to_owned(),
        reward,
        control: view.control,
        reasons,
    }))
}

/// Whether a decision is known here, for another node: not a part of the interface.
pub(super) async fn knows(
    State(service): Shared,
    Path((app, id)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let look = move |app: &mut crate::state::App, _: &crate::engine::recent::Recent| {
        app.decisions().get(&id).is_some()
    };
    match crate::insight::inspect(&service.engine, &app, look).await {
        Ok(true) => Ok(StatusCode::NO_CONTENT),
        Ok(false) | Err(Refusal::AppUnknown { .. } | Refusal::AppDeleted { .. }) => {
            Ok(StatusCode::NOT_FOUND)
        }
        Err(why) => Err(why.into()),
    }
}

impl Service {
    pub(super) fn offer(&self, items: Vec<Candidate>) -> Result<Offer, ApiError> {
        check_count("items", items.len(), self.config.max_candidates)?;
        let mut seen = HashSet::with_capacity(items.len());
        for item in &items {
            check_id("an item's id", &item.id, self.config.max_id_bytes)?;
            if !seen.insert(item.id.as_str()) {
                let sentence = format!("the item `{}` is offered twice", item.id);
                return Err(ApiError::new(422, "item_twice", sentence));
            }
        }
        drop(seen);
        let mut offer = Offer::default();
        offer.ids.reserve(items.len());
        offer.features.reserve(items.len());
        let count = items.len();
        for (at, item) in items.into_iter().enumerate() {
            offer.ids.push(item.id);
            offer.features.push(None);
            match item.features.map(|features| features.0) {
                Some(Given::Vector(vector)) => offer.features[at] = Some(vector),
                Some(Given::Json(features)) => {
                    offer.described.reserve(count - offer.described.len());
                    offer.described.resize(at, None);
                    offer.described.push(Some(Arc::new(features)));
                }
                None => {}
            }
        }
        Ok(offer)
    }

    pub(super) fn for_user(
        &self,
        user: String,
        decision: Option<String>,
        shown: bool,
    ) -> Result<ForUser, ApiError> {
        check_id("a user's id", &user, self.config.max_id_bytes)?;
        if let Some(id) = &decision {
            check_id("a decision's id", id, self.config.max_id_bytes)?;
        }
        Ok(ForUser { user, decision, shown })
    }
}

pub(super) fn decisions_in(answer: Answer) -> Result<Vec<Result<Made, Refusal>>, ApiError> {
    match answer {
        Answer::Decided(decisions) => {
            for decision in &decisions {
                let outcome = decision.as_ref().map_or_else(Refusal::code, |_| "decided");
                metrics::counter!("cohort_decisions_total", "outcome" => outcome).increment(1);
            }
            Ok(decisions)
        }
        _ => Err(unexpected()),
    }
}

pub(super) fn body_of(made: Made) -> DecisionBody {
    let explanation = made.scores.map(|scores| {
        let mut parts = made.parts.unwrap_or_default().into_iter();
        let scored = made.ranking.iter().zip(scores).map(|(item, score)| ScoredItem {
            item: item.to_owned(),
            expected: score.expected,
            bonus: score.bonus,
            score: score.total(),
            features: parts
                .next()
                .unwrap_or_default()
                .into_iter()
                .map(|part| FeaturePart { name: part.name, part: part.part })
                .collect(),
        });
        scored.collect()
    });
    DecisionBody {
        decision_id: made.id,
        item: made.ranking.first().to_owned(),
        ranking: made.ranking.iter().map(str::to_owned).collect(),
        probability: made.probability,
        explanation,
    }
}
