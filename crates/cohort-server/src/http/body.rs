//! Is the body what it should be? And ids: are they such as can be kept?

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::header;
use serde::de::DeserializeOwned;

use super::error::ApiError;

/// A body of JSON. Refusals are the service's own, with code and sentence.
pub(super) struct JsonBody<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        check_is_json(&request)?;
        parse(&bytes_of(request, state).await?).map(Self)
    }
}

/// The same where there need be no body.
pub(super) struct MaybeJson<T>(pub Option<T>);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for MaybeJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let is_json = check_is_json(&request);
        let bytes = bytes_of(request, state).await?;
        if bytes.is_empty() {
            return Ok(Self(None));
        }
        is_json?;
        parse(&bytes).map(|read| Self(Some(read)))
    }
}

/// A web page of somebody else can make a browser send a form here, but not JSON.
pub(super) fn check_is_json(request: &Request) -> Result<(), ApiError> {
    let content = request.headers().get(header::CONTENT_TYPE);
    let kind = content.and_then(|kind| kind.to_str().ok()?.split(';').next());
    if kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    let sentence = "send JSON, with the header `Content-Type: application/json`";
    Err(ApiError::new(415, "not_json", sentence))
}

async fn bytes_of<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, ApiError> {
    Bytes::from_request(request, state).await.map_err(|why| match why.status().as_u16() {
        413 => ApiError::new(413, "body_too_large", "the body is larger than body_bytes"),
        _ => ApiError::new(400, "body_unreadable", "the body could not be read to its end"),
    })
}

/// JSON of one form.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(bytes).map_err(|why| {
        ApiError::new(400, "bad_body", format!("the body is not what is expected here: {why}"))
    })
}

/// An id that can be kept: not empty, not too long, nothing invisible.
pub(super) fn check_id(what: &str, id: &str, max_bytes: usize) -> Result<(), ApiError> {
    if !id.is_empty() && id.len() <= max_bytes && !id.chars().any(char::is_control) {
        return Ok(());
    }
    let sentence = format!("{what} must be 1 to {max_bytes} bytes without control characters");
    Err(ApiError::new(422, "bad_id", sentence))
}

/// A name that reads well in an address.
pub(super) fn check_app_name(name: &str) -> Result<(), ApiError> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
    if (1..=64).contains(&name.len()) && name.chars().all(fits) && !name.starts_with('.') {
        return Ok(());
    }
    let sentence = "an app's name is 1 to 64 of a-z, 0-9, `-`, `_` and `.`, not beginning with `.`";
    Err(ApiError::new(422, "bad_name", sentence))
}

/// No more of something than is allowed in one request, and not nothing.
pub(super) fn check_count(what: &str, found: usize, most: usize) -> Result<(), ApiError> {
    if (1..=most).contains(&found) {
        return Ok(());
    }
    let sentence = format!("{found} {what} in one request: expected 1 to {most}");
    Err(ApiError::new(422, "bad_count", sentence))
}
