//! Keys of an app: added, listed, removed.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use rand::TryRng;
use rand::rngs::SysRng;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Shared;
use super::access::Client;
use super::apps::unexpected;
use super::body::{MaybeJson, maybe_whole};
use super::error::{ApiError, ErrorBody};
use super::path::Path;
use crate::auth::{KeyHash, Scopes, hex, new_key};
use crate::engine::{Answer, Request};
use crate::event::Key;

/// What a new key opens, and until when.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"scopes": ["decide", "reward"]}))]
pub struct KeyTerms {
    /// `decide`, `reward`, `read` (what was learned, users, the log), `items` (the catalogue), `admin` (all
    /// of these, settings, keys, users); `decide` and `reward` if absent.
    pub scopes: Option<Vec<String>>,
    /// When it ends, in milliseconds since 1970; never if absent.
    #[serde(default, deserialize_with = "maybe_whole")]
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

/// Add a key. Without a body it opens deciding and rewarding, for ever; a request without a body needs no content type, as
/// there is nothing to be read by it.
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

pub(super) fn make_key(terms: &KeyTerms) -> Result<(NewKey, Key), ApiError> {
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

/// What is said where a key or a seed cannot be drawn.
pub(super) fn no_randomness<E>(_: E) -> ApiError {
    ApiError::new(503, "no_randomness", "the machine gives no random numbers; try again")
}
