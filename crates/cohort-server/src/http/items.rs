//! The catalogue: items whose features need not be sent again.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Shared;
use super::apps::unexpected;
use super::body::{JsonBody, check_count, check_id};
use super::error::{ApiError, ErrorBody};
use crate::engine::{Answer, Request};

/// Items to register.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutItems {
    /// Each with its features; one that is there already gets these.
    pub items: Vec<PutItem>,
}

/// An item to register.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutItem {
    /// Its id.
    pub id: String,
    /// As many as the app's `dim`.
    pub features: Vec<f64>,
}

/// The catalogue.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct ItemList {
    /// Ids in alphabetical order.
    pub items: Vec<String>,
}

/// The ids of all registered items.
#[utoipa::path(get, path = "/v1/apps/{app}/items", tag = "items", params(("app" = String, Path)),
    responses((status = 200, body = ItemList), (status = "4XX", body = ErrorBody)))]
pub async fn list(
    State(service): Shared,
    headers: HeaderMap,
    Path(app): Path<String>,
) -> Result<Json<ItemList>, ApiError> {
    service.admit_client(&headers, &app)?;
    match service.engine.ask(Request::ListItems { app }).await? {
        Answer::Items(items) => Ok(Json(ItemList { items })),
        _ => Err(unexpected()),
    }
}

/// Register items, or give them other features.
#[utoipa::path(put, path = "/v1/apps/{app}/items", tag = "items", params(("app" = String, Path)),
    request_body = PutItems,
    responses((status = 204), (status = "4XX", body = ErrorBody)))]
pub async fn put(
    State(service): Shared,
    headers: HeaderMap,
    Path(app): Path<String>,
    JsonBody(body): JsonBody<PutItems>,
) -> Result<StatusCode, ApiError> {
    service.admit_client(&headers, &app)?;
    check_count("items", body.items.len(), service.config.max_items.max(1))?;
    for item in &body.items {
        check_id("an item's id", &item.id, service.config.max_id_bytes)?;
    }
    let items = body.items.into_iter().map(|item| (item.id, item.features)).collect();
    service.engine.ask(Request::PutItems { app, items }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Take an item from the catalogue.
#[utoipa::path(delete, path = "/v1/apps/{app}/items/{item}", tag = "items",
    params(("app" = String, Path), ("item" = String, Path)),
    responses((status = 204), (status = "4XX", body = ErrorBody)))]
pub async fn remove(
    State(service): Shared,
    headers: HeaderMap,
    Path((app, item)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    service.admit_client(&headers, &app)?;
    service.engine.ask(Request::RemoveItem { app, item }).await?;
    Ok(StatusCode::NO_CONTENT)
}
