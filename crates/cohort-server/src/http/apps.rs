//! Apps: created, listed, changed, deleted, and their keys.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use cohort::params::Value;
use cohort_features::EncoderSettings;
use rand::TryRng;
use rand::rngs::SysRng;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::Shared;
use super::access::{Admin, Client};
use super::body::{JsonBody, check_app_name, maybe_whole, whole};
use super::error::{ApiError, ErrorBody};
use super::keys::{KeyTerms, NewKey, make_key, no_randomness};
use super::learning::{AggregationBody, ApprenticeBody, ModeBody};
use super::path::Path;
use super::schemas::pairs;
use crate::auth::Scopes;
use crate::engine::request::AppView;
use crate::engine::{Answer, Request};
use crate::learning::Learning;
use crate::settings::{AppSettings, DEFAULT_POLICY, DEFAULT_WINDOW_MS};
use crate::trial::Trial;

/// A parameter of a policy.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, ToSchema)]
#[serde(untagged, expecting = "a parameter of a policy is a number or a word")]
pub enum ParamValue {
    /// A number.
    Number(f64),
    /// A word.
    Word(String),
}

/// A new app.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "shop", "dim": 2}))]
pub struct NewApp {
    /// Its name: a-z, 0-9, `-`, `_`, `.`.
    pub name: String,
    /// How many features its items have. Of an app that takes JSON: into how many numbers features are
    /// encoded; 32 if absent.
    #[serde(default, deserialize_with = "maybe_whole")]
    pub dim: Option<usize>,
    /// `vectors` (lists of `dim` numbers; the default) or `json` (objects).
    #[serde(default)]
    pub features: FeatureForm,
    /// Which features are multiplied by each other: pairs of `item`, `context`, `user` or namespaces. In an app
    /// that takes JSON; item × context and item × user if absent.
    #[schema(schema_with = pairs, required = false)]
    pub interactions: Option<Vec<(String, String)>>,
    /// The policy; `cohort policies` lists them.
    #[serde(default = "default_policy")]
    pub policy: String,
    /// The policy's parameters, by name.
    #[serde(default)]
    pub params: BTreeMap<String, ParamValue>,
    /// The share of decisions that are taken uniformly at random.
    #[serde(default)]
    pub epsilon: f64,
    /// How long a decision waits for its reward.
    #[serde(default = "default_window_ms", deserialize_with = "whole")]
    pub window_ms: u64,
    /// What is learned when no reward came in time; 0 if absent, `null` for nothing: then decisions
    /// that nobody answered teach nothing.
    #[serde(default, deserialize_with = "null_is_a_value")]
    #[schema(value_type = Option<f64>)]
    pub default_reward: Option<Option<f64>>,
    /// What becomes of several rewards for one decision; `earliest` if absent.
    pub aggregation: Option<AggregationBody>,
    /// Who decides; `online` if absent.
    pub mode: Option<ModeBody>,
    /// Whether a decision that is activated later waits from when it was made, not from then on.
    #[serde(default)]
    pub wait_from_decision: bool,
    /// Whether a user is in the control group for all decisions or for none.
    #[serde(default)]
    pub sticky_control: bool,
    /// The share of decisions in the control group: taken uniformly at random, and counted apart.
    #[serde(default)]
    pub control: f64,
    /// Whether the log keeps the features of all candidates, which judging other policies by it needs.
    #[serde(default)]
    pub log_candidates: bool,
    /// What features are called, for people; one name for each, or none.
    #[serde(default)]
    pub feature_names: Vec<String>,
    /// What its first key opens.
    #[serde(default)]
    pub key: KeyTerms,
}

/// In what form features are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum FeatureForm {
    /// Lists of numbers.
    #[default]
    Vectors,
    /// Objects.
    Json,
}

/// Of an app that takes JSON and does not say.
const DEFAULT_JSON_DIM: usize = 32;

/// The most interactions, and the longest name in one.
const MAX_INTERACTIONS: (usize, usize) = (32, 128);

fn default_policy() -> String {
    DEFAULT_POLICY.to_owned()
}

fn default_window_ms() -> u64 {
    DEFAULT_WINDOW_MS
}

/// What to change; what is absent stays.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({}))]
pub struct AppChange {
    /// All of the policy's parameters anew. What was learned is kept; a parameter that it rests
    /// on (`lambda`, `half_life`) cannot be changed.
    pub params: Option<BTreeMap<String, ParamValue>>,
    /// The share of decisions that are taken uniformly at random.
    pub epsilon: Option<f64>,
    /// How long decisions from now on wait for their reward.
    #[serde(default, deserialize_with = "maybe_whole")]
    pub window_ms: Option<u64>,
    /// What is learned when no reward came in time; `null` for nothing.
    #[serde(default, deserialize_with = "null_is_a_value")]
    #[schema(value_type = Option<f64>)]
    pub default_reward: Option<Option<f64>>,
    /// What becomes of several rewards for one decision.
    pub aggregation: Option<AggregationBody>,
    /// Who decides.
    pub mode: Option<ModeBody>,
    /// Whether a decision that is activated later waits from when it was made.
    pub wait_from_decision: Option<bool>,
    /// Whether a user is in the control group for all decisions or for none.
    pub sticky_control: Option<bool>,
    /// The share of decisions in the control group.
    pub control: Option<f64>,
    /// Whether the log keeps the features of all candidates.
    pub log_candidates: Option<bool>,
    /// What features are called, for people.
    pub feature_names: Option<Vec<String>>,
}

/// `null` says "nothing", absence says "leave it".
fn null_is_a_value<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<f64>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// An app as it is.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct AppBody {
    /// Its name.
    pub name: String,
    /// How many features its items have, or into how many numbers JSON is encoded.
    pub dim: usize,
    /// In what form features are sent.
    pub features: FeatureForm,
    /// Which features are multiplied by each other, in an app that takes JSON.
    #[schema(schema_with = pairs)]
    pub interactions: Vec<(String, String)>,
    /// The policy.
    pub policy: String,
    /// The policy's parameters that were set.
    pub params: BTreeMap<String, ParamValue>,
    /// The share of decisions that are taken uniformly at random.
    pub epsilon: f64,
    /// How long a decision waits for its reward.
    pub window_ms: u64,
    /// What is learned when no reward came in time.
    pub default_reward: Option<f64>,
    /// What becomes of several rewards for one decision.
    pub aggregation: AggregationBody,
    /// Who decides.
    pub mode: ModeBody,
    /// Whether a decision that is activated later waits from when it was made.
    pub wait_from_decision: bool,
    /// What came of decisions that the policy only watched; absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apprentice: Option<ApprenticeBody>,
    /// The share of decisions in the control group.
    pub control: f64,
    /// Whether a user is in the control group for all decisions or for none.
    pub sticky_control: bool,
    /// Whether the log keeps the features of all candidates.
    pub log_candidates: bool,
    /// What features are called, for people.
    pub feature_names: Vec<String>,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: u64,
    /// The ids of its keys.
    pub keys: Vec<String>,
    /// How many users it has met.
    pub users: usize,
    /// How many items its catalogue has.
    pub items: usize,
    /// How many decisions wait for their reward.
    pub waiting: usize,
    /// Decisions made.
    pub decisions: u64,
    /// Rewards learned.
    pub rewards: u64,
    /// Their sum.
    pub reward_sum: f64,
    /// Their average; absent while there are none.
    pub average_reward: Option<f64>,
    /// Decisions learned with the default reward.
    pub defaults: u64,
    /// Decisions whose window ended and that were not learned.
    pub unrewarded: u64,
}

/// A new app and its first key.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct CreatedApp {
    /// The app.
    pub app: AppBody,
    /// Its first key.
    pub key: NewKey,
    /// What is done that nobody asked for, and how it is had otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// All apps.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct AppList {
    /// By name.
    pub apps: Vec<AppBody>,
}

/// All apps.
#[utoipa::path(get, path = "/v1/apps", tag = "apps", security(("admin_key" = [])), responses(
    (status = 200, body = AppList), (status = "4XX", body = ErrorBody),
))]
pub async fn list(State(service): Shared, _: Admin) -> Result<Json<AppList>, ApiError> {
    match service.engine.ask(Request::ListApps).await? {
        Answer::Apps(apps) => Ok(Json(AppList { apps: apps.into_iter().map(body_of).collect() })),
        _ => Err(unexpected()),
    }
}

/// Create an app.
#[utoipa::path(post, path = "/v1/apps", tag = "apps",
    security(("admin_key" = [])), request_body = NewApp, responses(
    (status = 201, body = CreatedApp),
    (status = 409, body = ErrorBody, description = "the name is taken"),
    (status = "4XX", body = ErrorBody),
))]
pub async fn create(
    State(service): Shared,
    Admin(who): Admin,
    JsonBody(new): JsonBody<NewApp>,
) -> Result<(StatusCode, Json<CreatedApp>), ApiError> {
    check_app_name(&new.name)?;
    let features = encoder_settings(new.features, new.interactions)?;
    let dim = new.dim.or(features.is_some().then_some(DEFAULT_JSON_DIM)).ok_or_else(|| {
        let sentence = "dim is missing: how many numbers a vector of features has; or create the app \
                        with \"features\": \"json\"";
        ApiError::new(422, "dim_missing", sentence)
    })?;
    let settings = AppSettings {
        features,
        dim,
        params: values_of(new.params),
        policy: new.policy,
        epsilon: new.epsilon,
        window_ms: new.window_ms,
        default_reward: new.default_reward.unwrap_or(Some(0.0)),
    };
    let forgets = (settings.can_forget() == Some(false)).then(|| {
        format!(
            "the policy `{}` cannot forget users: none can be deleted (422 cannot_forget), and no more than max_users are taken \
             (429 too_many_users); use `cohort` where people may ask for that",
            settings.policy
        )
    });
    let defaults = new.default_reward.is_none().then(|| {
        format!(
            "a decision that gets no reward within {} ms is learned with the reward 0; set default_reward \
             to another number, or to null for decisions without a reward to teach nothing",
            settings.window_ms
        )
    });
    let hints: Vec<String> = defaults.into_iter().chain(forgets).collect();
    let hint = (!hints.is_empty()).then(|| hints.join(". "));
    let (shown, kept) = make_key(&new.key)?;
    let name = new.name.clone();
    let trial = Box::new(Trial {
        control: new.control,
        log_candidates: new.log_candidates,
        feature_names: new.feature_names,
    });
    let learning = Box::new(Learning {
        aggregation: new.aggregation.map(Into::into).unwrap_or_default(),
        mode: new.mode.map(Into::into).unwrap_or_default(),
        wait_from_decision: new.wait_from_decision,
        sticky_control: new.sticky_control,
        dialect: String::new(),
    });
    let request = Request::CreateApp { app: new.name, settings, trial, learning, key: Some(kept) };
    match service.engine.ask(request).await? {
        Answer::App(view) => {
            who.did("app created", &name, &format!("with key {}", shown.id));
            let created = CreatedApp { app: body_of(*view), key: shown, hint };
            Ok((StatusCode::CREATED, Json(created)))
        }
        _ => Err(unexpected()),
    }
}

/// One app.
#[utoipa::path(get, path = "/v1/apps/{app}", tag = "apps", params(("app" = String, Path)), responses(
    (status = 200, body = AppBody), (status = "4XX", body = ErrorBody),
))]
pub async fn show(
    State(service): Shared,
    Client(app, _): Client,
) -> Result<Json<AppBody>, ApiError> {
    app_in(service.engine.ask(Request::ShowApp { app }).await?)
}

/// Change an app.
#[utoipa::path(patch, path = "/v1/apps/{app}", tag = "apps", params(("app" = String, Path)),
    request_body = AppChange,
    responses((status = 200, body = AppBody), (status = "4XX", body = ErrorBody)))]
pub async fn change(
    State(service): Shared,
    Client(app, who): Client<{ Scopes::ADMIN }>,
    JsonBody(change): JsonBody<AppChange>,
) -> Result<Json<AppBody>, ApiError> {
    let change =
        Box::new(move |settings: &mut AppSettings, trial: &mut Trial, learning: &mut Learning| {
            if let Some(params) = change.params {
                settings.params = values_of(params);
            }
            settings.epsilon = change.epsilon.unwrap_or(settings.epsilon);
            settings.window_ms = change.window_ms.unwrap_or(settings.window_ms);
            settings.default_reward = change.default_reward.unwrap_or(settings.default_reward);
            learning.aggregation = change.aggregation.map_or(learning.aggregation, Into::into);
            learning.mode = change.mode.map_or(learning.mode, Into::into);
            learning.wait_from_decision =
                change.wait_from_decision.unwrap_or(learning.wait_from_decision);
            learning.sticky_control = change.sticky_control.unwrap_or(learning.sticky_control);
            trial.control = change.control.unwrap_or(trial.control);
            trial.log_candidates = change.log_candidates.unwrap_or(trial.log_candidates);
            if let Some(names) = change.feature_names {
                trial.feature_names = names;
            }
        });
    let changed = service.engine.ask(Request::ChangeApp { app: app.clone(), change }).await?;
    who.did("app changed", &app, "");
    app_in(changed)
}

/// Delete an app with all it has learned.
#[utoipa::path(delete, path = "/v1/apps/{app}", tag = "apps",
    security(("admin_key" = [])), params(("app" = String, Path)),
    responses((status = 204), (status = "4XX", body = ErrorBody)))]
pub async fn delete(
    State(service): Shared,
    Admin(who): Admin,
    Path(app): Path<String>,
) -> Result<StatusCode, ApiError> {
    service.engine.ask(Request::DeleteApp { app: app.clone() }).await?;
    service.hub.forget(&app).await;
    who.did("app deleted", &app, "");
    Ok(StatusCode::NO_CONTENT)
}

/// How an app's features become vectors: with a seed of its own.
pub(super) fn encoder_settings(
    form: FeatureForm,
    interactions: Option<Vec<(String, String)>>,
) -> Result<Option<EncoderSettings>, ApiError> {
    let (most, longest) = MAX_INTERACTIONS;
    match (form, &interactions) {
        (FeatureForm::Vectors, None) => return Ok(None),
        (FeatureForm::Vectors, Some(_)) => {
            let sentence = "interactions are of features as JSON; add \"features\": \"json\"";
            return Err(ApiError::new(422, "not_json_app", sentence));
        }
        (FeatureForm::Json, Some(pairs))
            if pairs.len() > most || pairs.iter().any(|(a, b)| a.len().max(b.len()) > longest) =>
        {
            let sentence = format!("at most {most} interactions, with names of {longest} bytes");
            return Err(ApiError::new(422, "bad_interactions", sentence));
        }
        (FeatureForm::Json, _) => {}
    }
    let mut seed = [0; 8];
    SysRng.try_fill_bytes(&mut seed).map_err(no_randomness)?;
    let usual = EncoderSettings { seed: u64::from_le_bytes(seed), ..EncoderSettings::default() };
    let interactions = interactions.unwrap_or(usual.interactions);
    Ok(Some(EncoderSettings { interactions, ..usual }))
}

fn app_in(answer: Answer) -> Result<Json<AppBody>, ApiError> {
    match answer {
        Answer::App(view) => Ok(Json(body_of(*view))),
        _ => Err(unexpected()),
    }
}

pub(super) fn unexpected() -> ApiError {
    ApiError::new(500, "bug", "this is a bug in the service: an answer to another question")
}

fn values_of(params: BTreeMap<String, ParamValue>) -> BTreeMap<String, Value> {
    let value = |param| match param {
        ParamValue::Number(number) => Value::Real(number),
        ParamValue::Word(word) => Value::Text(word),
    };
    params.into_iter().map(|(name, param)| (name, value(param))).collect()
}

fn body_of(view: AppView) -> AppBody {
    let param = |value| match value {
        Value::Real(number) => ParamValue::Number(number),
        Value::Text(word) => ParamValue::Word(word),
    };
    let settings = view.settings;
    AppBody {
        name: view.name,
        dim: settings.dim,
        features: match settings.features {
            Some(_) => FeatureForm::Json,
            None => FeatureForm::Vectors,
        },
        interactions: settings.features.map(|one| one.interactions).unwrap_or_default(),
        policy: settings.policy,
        params: settings.params.into_iter().map(|(name, value)| (name, param(value))).collect(),
        epsilon: settings.epsilon,
        window_ms: settings.window_ms,
        default_reward: settings.default_reward,
        aggregation: view.learning.aggregation.into(),
        mode: view.learning.mode.into(),
        wait_from_decision: view.learning.wait_from_decision,
        apprentice: (view.apprenticeship.decisions > 0).then(|| view.apprenticeship.into()),
        sticky_control: view.learning.sticky_control,
        control: view.trial.control,
        log_candidates: view.trial.log_candidates,
        feature_names: view.trial.feature_names,
        created_ms: view.created_ms,
        keys: view.keys.into_iter().map(|key| key.id).collect(),
        users: view.users,
        items: view.items,
        waiting: view.waiting,
        decisions: view.counts.decisions,
        rewards: view.counts.rewards,
        reward_sum: view.counts.reward_sum,
        average_reward: (view.counts.rewards > 0)
            .then(|| view.counts.reward_sum / view.counts.rewards as f64),
        defaults: view.counts.defaults,
        unrewarded: view.counts.unrewarded,
    }
}
