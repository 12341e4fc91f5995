//! Is it well, what does it count, how is it called?

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;

use super::access::Admin;
use super::error::{ApiError, ErrorBody};
use super::{Service, Shared};
use crate::measured;

pub(super) fn routes() -> Router<Arc<Service>> {
    Router::new().route("/openapi.json", get(openapi))
}

/// Everything that should run is running. What is wrong with single apps is told, and is no failure.
#[utoipa::path(get, path = "/healthz", tag = "operations", security(()), responses(
    (status = 200, content_type = "text/plain", body = String),
    (status = 503, body = ErrorBody,
        description = "the engine, the journal, snapshots or refits fail; the message says which"),
))]
pub(super) async fn healthy(State(service): Shared) -> Result<String, ApiError> {
    let health = service.engine.health();
    let failures = health.failures();
    if !failures.is_empty() {
        return Err(ApiError::later(503, "unwell", &failures.join("; "), 30));
    }
    let quarantines = health.quarantines().into_iter().map(|told| told + "\n");
    Ok(std::iter::once("ok\n".to_owned()).chain(quarantines).collect())
}

/// It takes requests.
#[utoipa::path(get, path = "/readyz", tag = "operations", security(()), responses(
    (status = 200, content_type = "text/plain", body = String),
    (status = 503, body = ErrorBody, description = "the journal failed; a restart is needed"),
))]
pub(super) async fn ready(State(service): Shared) -> Result<&'static str, ApiError> {
    match service.engine.failure() {
        Some(why) => Err(ApiError::later(503, "journal_failed", &why, 30)),
        None => Ok("ready\n"),
    }
}

/// The nodes and partitions of the cluster that this service is a node of.
#[utoipa::path(get, path = "/v1/cluster", tag = "operations", security(()), responses(
    (status = 200, content_type = "application/json", body = Object),
    (status = 404, body = ErrorBody, description = "it is no node of a cluster"),
))]
pub(super) async fn cluster() -> ApiError {
    // A node answers for itself, before this.
    ApiError::new(404, "no_cluster", "this service is not a node of a cluster")
}

/// The last event and the checksum of the state after it, for another node: not a part of the interface.
pub(super) async fn digest(State(service): Shared) -> Result<String, ApiError> {
    match service.engine.ask(crate::engine::Request::Digest).await? {
        crate::engine::Answer::Digest(event, sum) => Ok(format!("{event} {sum:016x}")),
        _ => Err(super::apps::unexpected()),
    }
}

/// Which node is to give up its partitions.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"node": "a", "drain": true}))]
pub struct DrainBody {
    /// The node.
    pub node: String,
    /// `false` to own again; `true` unless said.
    #[serde(default = "yes")]
    pub drain: bool,
}

fn yes() -> bool {
    true
}

/// Has a node of the cluster give up its partitions, so that it can be stopped without anybody waiting.
#[utoipa::path(post, path = "/v1/cluster/drain", tag = "operations", security(("admin_key" = [])),
    request_body = DrainBody, responses(
    (status = 204), (status = "4XX", body = ErrorBody),
    (status = 404, body = ErrorBody, description = "no such node, or no cluster"),
))]
pub(super) async fn drain(_: Admin) -> ApiError {
    ApiError::new(404, "no_cluster", "this service is not a node of a cluster")
}

/// What Prometheus reads. It names up to a hundred apps, and no users: for the admin alone where keys
/// are needed.
#[utoipa::path(get, path = "/metrics", tag = "operations", security(("admin_key" = [])), responses(
    (status = 200, content_type = "text/plain", body = String),
    (status = "4XX", body = ErrorBody),
))]
pub(super) async fn metrics(State(service): Shared, _: Admin) -> impl IntoResponse {
    metrics::gauge!("cohort_requests_waiting").set(service.engine.waiting() as f64);
    service.metrics.run_upkeep();
    let text = service.metrics.render() + &measured::of_apps(&service.engine.levels());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text)
}

async fn openapi(State(service): Shared) -> impl IntoResponse {
    let json = service.openapi.get().cloned().unwrap_or_default();
    ([(header::CONTENT_TYPE, "application/json")], json)
}
