//! Can the names in the address be read?

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::error::ApiError;

/// What the address names. Refusals are the service's own, with code and sentence.
pub(super) struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read = axum::extract::Path::from_request_parts(parts, state).await;
        read.map(|axum::extract::Path(names)| Self(names)).map_err(|why| {
            match why.status().is_client_error() {
                true => {
                    let sentence = "a name in the address is not UTF-8: send its bytes as UTF-8, \
                                    escaped with %";
                    ApiError::new(400, "bad_path", sentence)
                }
                false => ApiError::new(500, "bug", format!("this is a bug in the service: {why}")),
            }
        })
    }
}
