//! What does it know, why did it decide so, does it help?

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use utoipa::ToSchema;

use super::Shared;
use super::access::Client;
use super::error::{ApiError, ErrorBody};
use super::path::Path;
use crate::auth::Scopes;
use crate::insight::hub::Tick;
use crate::insight::maker;
use crate::insight::view::{AppInsight, UserInsight};
use crate::state::Bucket;

/// The service itself.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct ServiceStatus {
    /// The version of the program.
    pub version: String,
    /// Whether users are made up: `cohort serve --demo`.
    pub demo: bool,
    /// Whether requests need keys.
    pub needs_keys: bool,
    /// Whether this is a node of a cluster: `GET /v1/cluster`.
    #[serde(default)]
    pub cluster: bool,
}

/// The service itself: its version, whether it is a demo, whether it needs keys.
#[utoipa::path(get, path = "/v1/status", tag = "insight", security(()),
    responses((status = 200, body = ServiceStatus)))]
pub async fn status(State(service): Shared) -> Json<ServiceStatus> {
    Json(ServiceStatus {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        demo: service.demo,
        needs_keys: service.config.needs_keys(),
        cluster: !service.config.nats.is_empty(),
    })
}

/// The app at this moment: rates, averages against the control group, cohorts, a map of users, the
/// newest decisions.
#[utoipa::path(get, path = "/v1/apps/{app}/insight", tag = "insight",
    params(("app" = String, Path)),
    responses((status = 200, body = AppInsight), (status = "4XX", body = ErrorBody)))]
pub async fn insight(
    State(service): Shared,
    Client(app, _): Client<{ Scopes::READ }>,
) -> Result<Response, ApiError> {
    let tick = service.hub.latest(&service.engine, &app).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], tick.json).into_response())
}

/// The same, second by second, as server-sent events.
#[utoipa::path(get, path = "/v1/apps/{app}/live", tag = "insight", params(("app" = String, Path)),
    responses((status = 200, content_type = "text/event-stream", body = AppInsight),
        (status = "4XX", body = ErrorBody)))]
pub async fn live(
    State(service): Shared,
    Client(app, _): Client<{ Scopes::READ }>,
) -> Result<Response, ApiError> {
    let ticks = service.hub.watch(&service.engine, &app).await?;
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(stream::unfold(ticks, next_event))).into_response())
}

/// The next tick as an event; none when there are no more.
async fn next_event(
    mut ticks: watch::Receiver<Option<Tick>>,
) -> Option<(Result<Bytes, std::io::Error>, watch::Receiver<Option<Tick>>)> {
    ticks.changed().await.ok()?;
    let tick = ticks.borrow_and_update().clone()?;
    Some((Ok(tick.event), ticks))
}

/// What came of decisions, for another node to add up: not a part of the interface.
pub(super) async fn outcomes(
    State(service): Shared,
    Client(app, _): Client<{ Scopes::READ }>,
) -> Result<Json<Vec<Bucket>>, ApiError> {
    let look = |app: &mut crate::state::App, _: &crate::engine::recent::Recent| {
        app.outcomes().buckets().to_vec()
    };
    Ok(Json(crate::insight::inspect(&service.engine, &app, look).await?))
}

/// What is known of a user: its estimate, its cohorts, its newest decisions.
#[utoipa::path(get, path = "/v1/apps/{app}/users/{user}", tag = "insight",
    params(("app" = String, Path), ("user" = String, Path)),
    responses((status = 200, body = UserInsight), (status = "4XX", body = ErrorBody)))]
pub async fn user(
    State(service): Shared,
    _: Client<{ Scopes::READ }>,
    Path((app, user)): Path<(String, String)>,
) -> Result<Json<UserInsight>, ApiError> {
    let labels = service.hub.labels(&app).await;
    let found = maker::user(&service.engine, &app, &user, &labels).await?;
    found.map(Json).ok_or_else(|| {
        ApiError::new(404, "user_unknown", format!("nothing was ever decided for user `{user}`"))
    })
}
