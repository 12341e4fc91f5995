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
use super::body::{JsonBody, MaybeJson, check_app_name};
use super::error::{ApiError, ErrorBody};
use super::path::Path;
use crate::auth::{KeyHash, Scopes, hex, new_key};
use crate::engine::request::AppView;
use crate::engine::{Answer, Request};
use crate::event::Key;
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
    #[serde(default)]
    pub dim: Option<usize>,
    /// `vectors` (lists of `dim` numbers; the default) or `json` (objects).
    #[serde(default)]
    pub features: FeatureForm,
    /// Which features are multiplied by each other: pairs of `item`, `context`, `user` or namespaces. In an app
    /// that takes JSON; item × context and item × user if absent.
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
    #[serde(default = "default_window_ms")]
    pub window_ms: u64,
    /// What is learned when no reward came in time; nothing if absent.
    #[serde(default)]
    pub default_reward: Option<f64>,
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
    pub window_ms: Option<u64>,
    /// What is learned when no reward came in time; `null` for nothing.
    #[serde(default, deserialize_with = "null_is_a_value")]
    #[schema(value_type = Option<f64>)]
    pub default_reward: Option<Option<f64>>,
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
    /// The share of decisions in the control group.
    pub control: f64,
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

/// What a new key opens, and until when.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"scopes": ["decide", "reward"]}))]
pub struct KeyTerms {
    /// `decide`, `reward`, `read` (what was learned, users, the log), `items` (the catalogue), `admin` (all
    /// of these, settings, keys, users); `decide` and `reward` if absent.
    pub scopes: Option<Vec<String>>,
    /// When it ends, in milliseconds since 1970; never if absent.
    pub expires_ms: Option<u64>,
}

/// A new key. It is shown this once; the service keeps a hash.
#[derive(Deserialize, Serialize, ToSchema)]
pub struct NewKey {
    /// Its id, by which it can be removed.
    pub id: String,
    /// The key, to be sent as `Authorization: Bearer KEY`.
    pub key: String,
    /// What it opens.
    pub scopes: Vec<String>,
    /// When it ends, in milliseconds since 1970; never if absent.
    pub expires_ms: Option<u64>,
}

/// Logs are read by many: the key is not shown.
impl std::fmt::Debug for NewKey {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("NewKey").field("id", &self.id).field("scopes", &self.scopes).finish()
    }
}

/// A key as it is listed.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct KeyBody {
    /// Its id.
    pub id: String,
    /// What it opens.
    pub scopes: Vec<String>,
    /// When it ends, in milliseconds since 1970; never if absent.
    pub expires_ms: Option<u64>,
}

/// All keys of an app.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct KeyList {
    /// In the order in which they were added.
    pub keys: Vec<KeyBody>,
}

/// A new app and its first key.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct CreatedApp {
    /// The app.
    pub app: AppBody,
    /// Its first key.
    pub key: NewKey,
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
        policy: new.policy,
        params: values_of(new.params),
        epsilon: new.epsilon,
        window_ms: new.window_ms,
        default_reward: new.default_reward,
    };
    let (shown, kept) = make_key(&new.key)?;
    let name = new.name.clone();
    let trial = Box::new(Trial {
        control: new.control,
        log_candidates: new.log_candidates,
        feature_names: new.feature_names,
    });
    let request = Request::CreateApp { app: new.name, settings, trial, key: Some(kept) };
    match service.engine.ask(request).await? {
        Answer::App(view) => {
            who.did("app created", &name, &format!("with key {}", shown.id));
            let created = CreatedApp { app: body_of(*view), key: shown };
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
    let change = Box::new(move |settings: &mut AppSettings, trial: &mut Trial| {
        if let Some(params) = change.params {
            settings.params = values_of(params);
        }
        settings.epsilon = change.epsilon.unwrap_or(settings.epsilon);
        settings.window_ms = change.window_ms.unwrap_or(settings.window_ms);
        settings.default_reward = change.default_reward.unwrap_or(settings.default_reward);
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

/// Add a key. Without a body it opens deciding and rewarding, for ever.
#[utoipa::path(post, path = "/v1/apps/{app}/keys", tag = "apps", params(("app" = String, Path)),
    request_body = KeyTerms,
    responses((status = 201, body = NewKey), (status = "4XX", body = ErrorBody)))]
pub async fn add_key(
    State(service): Shared,
    Client(app, who): Client<{ Scopes::ADMIN }>,
    MaybeJson(terms): MaybeJson<KeyTerms>,
) -> Result<(StatusCode, Json<NewKey>), ApiError> {
    let (shown, key) = make_key(&terms.unwrap_or_default())?;
    service.engine.ask(Request::AddKey { app: app.clone(), key }).await?;
    who.did("key added", &app, &format!("{} for {}", shown.id, shown.scopes.join(", ")));
    Ok((StatusCode::CREATED, Json(shown)))
}

/// All keys: their ids, what they open and until when. The keys themselves are not kept.
#[utoipa::path(get, path = "/v1/apps/{app}/keys", tag = "apps", params(("app" = String, Path)),
    responses((status = 200, body = KeyList), (status = "4XX", body = ErrorBody)))]
pub async fn list_keys(
    State(service): Shared,
    Client(app, _): Client<{ Scopes::ADMIN }>,
) -> Result<Json<KeyList>, ApiError> {
    let Answer::App(view) = service.engine.ask(Request::ShowApp { app }).await? else {
        return Err(unexpected());
    };
    let keys = view.keys.into_iter().map(|key| KeyBody {
        id: key.id,
        scopes: key.scopes.names().into_iter().map(str::to_owned).collect(),
        expires_ms: key.expires_ms,
    });
    Ok(Json(KeyList { keys: keys.collect() }))
}

/// Remove a key: whoever has it is refused from now on.
#[utoipa::path(delete, path = "/v1/apps/{app}/keys/{key}", tag = "apps",
    params(("app" = String, Path), ("key" = String, Path)),
    responses((status = 204), (status = "4XX", body = ErrorBody)))]
pub async fn remove_key(
    State(service): Shared,
    Client(_app, who): Client<{ Scopes::ADMIN }>,
    Path((app, key)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    service.engine.ask(Request::RemoveKey { app: app.clone(), key: key.clone() }).await?;
    who.did("key removed", &app, &key);
    Ok(StatusCode::NO_CONTENT)
}

fn make_key(terms: &KeyTerms) -> Result<(NewKey, Key), ApiError> {
    let scopes = match &terms.scopes {
        Some(names) => Scopes::from_names(names.iter().map(String::as_str))
            .map_err(|why| ApiError::new(422, "bad_scopes", why))?,
        None => Scopes::USUAL,
    };
    let expires_ms = terms.expires_ms;
    let (mut id, mut secret) = ([0; 8], [0; 32]);
    SysRng.try_fill_bytes(&mut id).map_err(no_randomness)?;
    SysRng.try_fill_bytes(&mut secret).map_err(no_randomness)?;
    let (id, key) = (hex(&id), new_key(secret));
    let hash = KeyHash::of(&key);
    let names = scopes.names().into_iter().map(str::to_owned).collect();
    let shown = NewKey { id: id.clone(), key, scopes: names, expires_ms };
    Ok((shown, Key { id, hash, scopes, expires_ms }))
}

fn encoder_settings(
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

fn no_randomness<E>(_: E) -> ApiError {
    ApiError::new(503, "no_randomness", "the machine gives no random numbers; try again")
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
