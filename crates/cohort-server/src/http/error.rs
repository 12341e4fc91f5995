//! How a refusal is told: a status, a code for programs, a sentence for people.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::engine::Refusal;

/// The body of every answer that is not a success.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorBody {
    /// What was refused.
    pub error: ErrorDetail,
}

/// What was refused, and what to do.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorDetail {
    /// For programs; it never changes.
    pub code: &'static str,
    /// For people.
    pub message: String,
}

/// Anything that is not a success. An answer made of one carries it, for layers that tell it in another dialect.
#[derive(Clone, Debug)]
pub struct ApiError {
    status: u16,
    code: &'static str,
    message: String,
    retry_after_seconds: Option<u64>,
}

impl ApiError {
    /// A refusal.
    pub fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), retry_after_seconds: None }
    }

    /// A refusal that may be different later.
    pub fn later(status: u16, code: &'static str, message: &str, seconds: u64) -> Self {
        Self { retry_after_seconds: Some(seconds), ..Self::new(status, code, message) }
    }

    /// What programs are told.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// The status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// After how many seconds trying again makes sense, if it does.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after_seconds
    }

    /// What is told.
    pub fn detail(self) -> ErrorDetail {
        ErrorDetail { code: self.code, message: self.message }
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        if let Refusal::Bug { why } = &refusal {
            tracing::error!(why, "a bug");
        }
        Self {
            status: refusal.status(),
            code: refusal.code(),
            retry_after_seconds: refusal.retry_after_seconds(),
            message: refusal.to_string(),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let retry_after_seconds = self.retry_after_seconds;
        let told = ErrorBody { error: self.clone().detail() };
        let mut response = (status, Json(told)).into_response();
        response.extensions_mut().insert(self);
        if let Some(seconds) = retry_after_seconds {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
