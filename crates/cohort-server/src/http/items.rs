//! The catalogue: items whose features need not be sent again.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use cohort_features::{Features, Given, ItemFeatures};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::Shared;
use super::access::Client;
use super::apps::unexpected;
use super::body::{JsonBody, check_count, check_id};
use super::decide::LARGE_IDS;
use super::error::{ApiError, ErrorBody};
use super::large;
use super::path::Path;
use super::schemas::any_features;
use crate::auth::Scopes;
use crate::engine::items::ListedItem;
use crate::engine::{Answer, Request};

/// Items to register.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"items": [
    {"id": "tea", "features": [0.9, 0.1]}, {"id": "coffee", "features": [0.1, 0.9]}]}))]
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
    /// A list of as many numbers as the app's `dim`; an object in an app that takes JSON.
    #[schema(schema_with = any_features)]
    pub features: ItemFeatures,
    /// What it can be filtered by, beside its features where they are JSON. Nothing is learned from it.
    #[schema(value_type = Option<Object>)]
    pub attributes: Option<Attributes>,
}

/// Attributes of an item, read as its features are.
#[derive(Debug)]
pub struct Attributes(Features);

impl<'de> Deserialize<'de> for Attributes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match ItemFeatures::deserialize(from)?.0 {
            Given::Json(features) => Ok(Self(features)),
            Given::Vector(_) => Err(D::Error::custom("attributes are an object, not a list")),
        }
    }
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
    Client(app, _): Client<{ Scopes::READ | Scopes::ITEMS }>,
) -> Result<Response, ApiError> {
    match service.engine.ask(Request::ListItems { app }).await? {
        Answer::Items(vectors, described) => {
            let is_large = vectors.len() + described.len() > LARGE_IDS;
            let list = move || {
                let ids = vectors.keys().chain(described.keys());
                let mut items: Vec<String> = ids.map(|id| id.to_string()).collect();
                items.sort_unstable();
                ItemList { items }
            };
            large::answer(is_large, list).await
        }
        _ => Err(unexpected()),
    }
}

/// Register items, or give them other features.
#[utoipa::path(put, path = "/v1/apps/{app}/items", tag = "items", params(("app" = String, Path)),
    request_body = PutItems,
    responses((status = 204), (status = "4XX", body = ErrorBody)))]
pub async fn put(
    State(service): Shared,
    Client(app, who): Client<{ Scopes::ITEMS }>,
    JsonBody(body): JsonBody<PutItems>,
) -> Result<StatusCode, ApiError> {
    check_count("items", body.items.len(), service.config.max_items.max(1))?;
    for item in &body.items {
        check_id("an item's id", &item.id, service.config.max_id_bytes)?;
    }
    let count = body.items.len();
    let listed = body.items.into_iter().map(|item| ListedItem {
        id: item.id,
        features: item.features.0,
        attributes: item.attributes.map(|found| found.0),
    });
    let (items, count) = (listed.collect(), format!("{count} items"));
    let (engine, request) =
        (service.engine.clone(), Request::RegisterItems { app: app.clone(), items });
    // Many are registered in parts: what was begun is done also where the caller goes.
    let done = tokio::spawn(async move { engine.ask(request).await.map(drop) });
    done.await.map_err(|_| unexpected())??;
    who.did("items put", &app, &count);
    Ok(StatusCode::NO_CONTENT)
}

/// Take an item from the catalogue.
#[utoipa::path(delete, path = "/v1/apps/{app}/items/{item}", tag = "items",
    params(("app" = String, Path), ("item" = String, Path)),
    responses((status = 204), (status = "4XX", body = ErrorBody)))]
pub async fn remove(
    State(service): Shared,
    Client(_app, who): Client<{ Scopes::ITEMS }>,
    Path((app, item)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let request = Request::RemoveItem { app: app.clone(), item: item.clone() };
    service.engine.ask(request).await?;
    who.did("item removed", &app, &item);
    Ok(StatusCode::NO_CONTENT)
}
