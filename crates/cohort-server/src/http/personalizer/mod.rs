//! The dialect of Azure Personalizer, so that its clients work unchanged.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `rank` | what to show, in one place or in several? |
//! | `offered` | what is offered in each place? |
//! | `events` | what came of it? |
//! | `configuration` | how is the loop set? |
//! | `model` | how does what was learned get out and in; what is in the log? |
//! | `evaluations` | what would others have earned? |
//! | `error` | how is a refusal told? |
//! | `vector` | how do features become numbers, in an app that takes vectors? |
//! | `time` | how are durations and dates written? |
//!
//! A loop is an app. `docs/from-personalizer.md` says what is the same and what is not.

mod configuration;
mod error;
mod evaluations;
mod events;
mod model;
mod offered;
mod rank;
mod time;
mod vector;

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use rand::TryRng;
use rand::rngs::SysRng;
use serde::de::DeserializeOwned;

use super::Service;
use super::access::Who;
use super::body::{check_is_json, read};
use super::error::ApiError;
use super::large::{Received, SMALL_BYTES, receive};
use super::path::Path;
use crate::auth::hex;
use crate::engine::request::AppView;
use crate::engine::{Answer, Refusal};
use error::DialectError;

/// The app of a loop that the address does not name, where there are none or several.
pub const DEFAULT_APP: &str = "personalizer";

/// How many numbers the features of such an app become.
const DEFAULT_DIM: usize = 64;

/// Where clients of every version look.
const BASES: [&str; 6] = [
    "/personalizer",
    "/personalizer/v1.0",
    "/personalizer/v1.1",
    "/personalizer/v1.1-preview.1",
    "/personalizer/v1.1-preview.2",
    "/personalizer/v1.1-preview.3",
];

/// Everything that can be asked in this dialect.
pub(super) fn routes() -> Router<Arc<Service>> {
    let mut routes = Router::new();
    for base in BASES {
        routes = routes.nest(base, operations());
        routes = routes.nest(&format!("/apps/{{app}}{base}"), operations());
    }
    routes.layer(middleware::map_response(add_request_id))
}

fn operations() -> Router<Arc<Service>> {
    Router::new()
        .route("/rank", post(rank::rank))
        .route("/events/{event}/reward", post(events::reward))
        .route("/events/{event}/activate", post(events::activate))
        .route("/multislot/rank", post(rank::rank_slots))
        .route("/multislot/events/{event}/reward", post(events::reward_slots))
        .route("/multislot/events/{event}/activate", post(events::activate_slots))
        .route("/configurations/service", get(configuration::show).put(configuration::put))
        .route(
            "/configurations/policy",
            get(configuration::show_policy)
                .put(configuration::put_policy)
                .delete(configuration::reset_policy),
        )
        .route("/configurations/applyFromEvaluation", post(evaluations::apply))
        .route("/model", get(model::export).put(model::import).delete(model::reset))
        .route("/model/properties", get(model::properties))
        .route("/logs", axum::routing::delete(model::delete_logs))
        .route("/logs/properties", get(model::log_properties))
        .route("/logs/interactions", post(model::binary_logs))
        .route("/logs/observations", post(model::binary_logs))
        .route("/evaluations", get(evaluations::list).post(evaluations::create))
        .route(
            "/evaluations/{id}",
            get(evaluations::show).put(evaluations::put).delete(evaluations::remove),
        )
        .route("/featureImportances", get(evaluations::no_importances))
        .route(
            "/featureImportances/{id}",
            get(evaluations::no_importance)
                .put(evaluations::importance_refused)
                .delete(evaluations::no_importance),
        )
}

/// Whether an address is one of this dialect, so that whatever is wrong with it is told in it.
pub(super) fn speaks(path: &str) -> bool {
    let rest = path.strip_prefix("/apps/").and_then(|rest| rest.split_once('/'));
    let rest = rest.map_or(path.strip_prefix('/').unwrap_or_default(), |(_, rest)| rest);
    rest == "personalizer" || rest.starts_with("personalizer/")
}

/// Nothing is at this address.
pub(super) fn not_found() -> Response {
    let sentence = "there is nothing at this address";
    with_request_id(DialectError::new(404, "ResourceNotFound", sentence).into_response())
}

/// Nothing is asked with that method.
pub(super) fn wrong_method() -> Response {
    let sentence = "this is not asked with that method";
    with_request_id(DialectError::new(405, "BadRequest", sentence).into_response())
}

/// A refusal by a node that has not sent the request to a partition yet.
pub(crate) fn refused_at_front(path: &str, why: ApiError) -> Response {
    match speaks(path) {
        true => with_request_id(DialectError::from_api(why, "BadRequest").into_response()),
        false => why.into_response(),
    }
}

/// Clients quote it when they ask for help.
async fn add_request_id(response: Response) -> Response {
    with_request_id(response)
}

/// Refusals of layers that know no dialect, as clients of this one expect them.
pub(super) async fn translate(request: Request, next: Next) -> Response {
    let is_ours = speaks(request.uri().path());
    let response = next.run(request).await;
    translated(is_ours, response)
}

/// The same for what was asked at an address.
pub(crate) fn in_dialect(target: &str, response: Response) -> Response {
    let path = target.split('?').next().unwrap_or_default();
    translated(speaks(path), response)
}

fn translated(is_ours: bool, mut response: Response) -> Response {
    match response.extensions_mut().remove::<ApiError>() {
        Some(why) if is_ours => {
            with_request_id(DialectError::from_api(why, "BadRequest").into_response())
        }
        _ => response,
    }
}

fn with_request_id(mut response: Response) -> Response {
    let id = new_id().ok().and_then(|id| HeaderValue::from_str(&id).ok());
    if let Some(id) = id {
        response.headers_mut().insert(HeaderName::from_static("apim-request-id"), id);
    }
    response
}

/// A client of a loop asks, with a key that has a scope. It names the loop in its address or by its key.
pub(super) struct Loop<const SCOPE: u8> {
    app: String,
    who: Who,
    names: HashMap<String, String>,
}

impl<const SCOPE: u8> FromRequestParts<Arc<Service>> for Loop<SCOPE> {
    type Rejection = DialectError;

    async fn from_request_parts(
        parts: &mut Parts,
        service: &Arc<Service>,
    ) -> Result<Self, DialectError> {
        let told = |why| DialectError::from_api(why, "BadRequest");
        let names = Path::<HashMap<String, String>>::from_request_parts(parts, service).await;
        let Path(mut names) = names.map_err(told)?;
        let (app, is_default) = match names.remove("app") {
            Some(app) => (app, false),
            None => service.app_for(&parts.headers),
        };
        let who = service.admit_client(&parts.headers, &app, SCOPE).map_err(told)?;
        if is_default && service.engine.directory().app(&app).is_none() {
            service.create_loop(&app, &who).await?;
        }
        Ok(Self { app, who, names })
    }
}

impl<const SCOPE: u8> Loop<SCOPE> {
    /// The event that the address names.
    fn event(&self, code: &'static str) -> Result<&str, DialectError> {
        let event = self.names.get("event").map_or("", String::as_str);
        check_id("the eventId", event, code)?;
        Ok(event)
    }
}

/// A body of JSON, whose mistakes are told in this dialect; handlers say with which code.
pub(super) struct Sent(Result<(bool, Received), ApiError>);

impl FromRequest<Arc<Service>> for Sent {
    type Rejection = std::convert::Infallible;

    async fn from_request(request: Request, _: &Arc<Service>) -> Result<Self, Self::Rejection> {
        let is_json = check_is_json(&request).is_ok();
        Ok(Self(receive(request).await.map(|received| (is_json, received))))
    }
}

impl Sent {
    /// Whether what is made of it is made apart, as it is read.
    fn is_large(&self) -> bool {
        self.0.as_ref().is_ok_and(|(_, received)| received.bytes.len() > SMALL_BYTES)
    }

    fn received(self, code: &'static str) -> Result<(bool, Received), DialectError> {
        self.0.map_err(|why| DialectError::from_api(why, code))
    }

    /// The bytes.
    fn bytes(self, code: &'static str) -> Result<(bool, Bytes), DialectError> {
        self.received(code).map(|(is_json, received)| (is_json, received.bytes))
    }

    /// The body as JSON of one form.
    async fn json<T>(self, code: &'static str) -> Result<T, DialectError>
    where
        T: DeserializeOwned + Send + 'static,
    {
        match self.received(code)? {
            (true, received) => {
                read(received).await.map_err(|why| DialectError::from_api(why, code))
            }
            (false, _) => {
                let sentence = "send JSON, with the header `Content-Type: application/json`";
                Err(DialectError::bad(code, sentence))
            }
        }
    }
}

/// Whom a rank is for, as far as that can be told: for a node that looks where to send it.
pub(crate) fn dialect_user(headers: &axum::http::HeaderMap, context: &serde_json::Value) -> String {
    rank::user_of(headers, context).unwrap_or_default()
}

/// An id as clients may choose it.
fn check_id(what: &str, id: &str, code: &'static str) -> Result<(), DialectError> {
    let fits = !id.is_empty() && id.chars().count() <= 256 && !id.chars().any(char::is_control);
    match fits {
        true => Ok(()),
        false => {
            let sentence = format!("{what} must be 1 to 256 characters, none of them invisible");
            Err(DialectError::bad(code, sentence))
        }
    }
}

impl Service {
    /// The app whose loop is meant where the address names none: the key's, or the only one, or the one
    /// that is made for it. Says whether it is made where it is not there.
    pub(crate) fn app_for(&self, headers: &axum::http::HeaderMap) -> (String, bool) {
        let directory = self.engine.directory();
        let of_key = super::access::key_in(headers).and_then(|key| directory.app_of(&key));
        match of_key.or_else(|| directory.only_app()) {
            Some(app) => (app.to_owned(), false),
            None => (DEFAULT_APP.to_owned(), true),
        }
    }

    /// What an app is.
    async fn view(&self, app: &str) -> Result<Box<AppView>, DialectError> {
        let request = crate::engine::Request::ShowApp { app: app.to_owned() };
        match self.engine.ask(request).await {
            Ok(Answer::App(view)) => Ok(view),
            Ok(_) => Err(bug()),
            Err(why) => Err(DialectError::from_refusal(why, "ResourceNotFound")),
        }
    }

    /// Makes the app that a client expects to be there.
    async fn create_loop(&self, app: &str, who: &Who) -> Result<(), DialectError> {
        let request = configuration::new_loop(app)?;
        match self.engine.ask(request).await {
            Ok(_) => {
                who.did("app created", app, "for a client of Personalizer");
                Ok(())
            }
            // Somebody else was faster.
            Err(Refusal::AppExists { .. }) => Ok(()),
            Err(why) => Err(DialectError::from_refusal(why, "InternalServerError")),
        }
    }
}

/// An id that nobody else has.
fn new_id() -> Result<String, DialectError> {
    let mut bytes = [0; 16];
    SysRng.try_fill_bytes(&mut bytes).map_err(|_| {
        let sentence = "the machine gives no random numbers; try again";
        DialectError::new(503, "InternalServerError", sentence)
    })?;
    Ok(hex(&bytes))
}

/// An answer to another question.
fn bug() -> DialectError {
    DialectError::new(500, "InternalServerError", "this is a bug in the service")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_dialect_are_known() {
        for path in ["/personalizer", "/personalizer/v1.0/rank", "/apps/shop/personalizer/rank"] {
            assert!(speaks(path), "{path}");
        }
        for path in
            ["/", "/v1/apps", "/personalizers/rank", "/apps/personalizer", "/x/personalizer/"]
        {
            assert!(!speaks(path), "{path}");
        }
    }
}
