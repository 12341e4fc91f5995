//! How a refusal is told to clients of Azure Personalizer: `{"error": {"code", "message"}}`, and the
//! code in a header as well.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::engine::Refusal;
use crate::http::error::ApiError;

/// Anything that is not a success, in this dialect.
#[derive(Debug)]
pub struct DialectError {
    status: u16,
    code: &'static str,
    message: String,
    retry_after_seconds: Option<u64>,
}

impl DialectError {
    /// The caller's mistake.
    pub fn bad(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(400, code, message)
    }

    /// With any status.
    pub fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), retry_after_seconds: None }
    }

    /// A refusal of the service as this dialect tells it; mistakes of the caller get `code`.
    pub fn from_api(why: ApiError, code: &'static str) -> Self {
        let (status, retry_after_seconds) = (why.status(), why.retry_after_seconds());
        let (status, code) = match status {
            // Its network rules refuse so.
            403 if why.code() == "wrong_host" => (403, "403"),
            // The real service tells a key that is missing and one that is wrong alike.
            401 | 403 => (status.min(401), "401"),
            404 => (404, "ResourceNotFound"),
            413 => (413, "PayloadSizeExceeded"),
            429 => (429, "TooManyRequests"),
            400..500 => (400, code),
            status => (status, "InternalServerError"),
        };
        Self { status, code, message: why.detail().message, retry_after_seconds }
    }

    /// The same of a refusal of the engine.
    pub fn from_refusal(why: Refusal, code: &'static str) -> Self {
        Self::from_api(why.into(), code)
    }
}

impl IntoResponse for DialectError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = Json(json!({"error": {"code": self.code, "message": self.message}}));
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        const CODE: HeaderName = HeaderName::from_static("x-ms-error-code");
        headers.insert(CODE, HeaderValue::from_static(self.code));
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
