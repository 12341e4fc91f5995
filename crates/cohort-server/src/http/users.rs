//! One user: all that is known of it, and how that is forgotten.

use std::io::{self, Write};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::Shared;
use super::access::Client;
use super::apps::unexpected;
use super::downloads::Chunks;
use super::error::{ApiError, ErrorBody};
use super::log::{body_of, whole};
use super::path::Path;
use crate::auth::Scopes;
use crate::engine::{Answer, Request};
use crate::export::Table;
use crate::export::rows::{self, ExportRow};
use crate::insight::maker;
use crate::insight::view::UserInsight;

/// All that is known of a user.
#[derive(Debug, Serialize, ToSchema)]
pub struct UserExport {
    /// What was learned of it; absent if nothing was, or nothing is any more.
    pub learned: Option<UserInsight>,
    /// Every decision for it that the journal still has, in the order in which it was known what came of
    /// them.
    pub decisions: Vec<UserDecision>,
}

/// A decision for a user.
#[derive(Debug, Serialize, ToSchema)]
pub struct UserDecision {
    /// Its id.
    pub decision_id: String,
    /// When it was made, in milliseconds since 1970.
    pub decided_ms: u64,
    /// What was chosen.
    pub item: String,
    /// All that was offered, the chosen one first.
    pub candidates: Vec<String>,
    /// With what probability.
    pub probability: f64,
    /// The features of the chosen item.
    pub context: Vec<f64>,
    /// `not_shown`, `open`, `rewarded` or `expired`.
    pub status: String,
    /// What was learned, if anything.
    pub reward: Option<f64>,
}

/// All that is known of a user: what was learned, and its decisions. Of many decisions the answer is sent as it is made;
/// where it cannot be completed the transfer is broken off, as that of the log. Nothing is known of whoever was forgotten.
#[utoipa::path(get, path = "/v1/apps/{app}/users/{user}/export", tag = "insight",
    params(("app" = String, Path), ("user" = String, Path)),
    responses((status = 200, body = UserExport), (status = "4XX", body = ErrorBody),
        (status = 503, body = ErrorBody, description = "as many logs are read as may be at once")))]
pub async fn export(
    State(service): Shared,
    _: Client<{ Scopes::READ }>,
    Path((app, user)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let Answer::App(view) = service.engine.ask(Request::ShowApp { app: app.clone() }).await? else {
        return Err(unexpected());
    };
    let permit = service.permit_to_read(&app)?;
    let labels = service.hub.labels(&app).await;
    let learned = maker::user(&service.engine, &app, &user, &labels).await?;
    let is_known = learned.is_some();
    let (journals, whose) = (service.journals.clone(), user.clone());
    let (settings, learning, scratch) = (view.settings, view.learning, service.scratch());
    let app = rows::App { name: app, settings, learning, scratch };
    let (to, mut received) = service.chunks();
    tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let wanted = to.wanted();
        let mut theirs = Theirs { to, is_first: true };
        let readers = super::Service::readers(&journals);
        let done = rows::of_user(&readers, &app, &whose, &mut theirs, &wanted);
        let Theirs { mut to, is_first } = theirs;
        let ended = whole(done).and_then(|()| match is_first && !is_known {
            true => Err(io::Error::new(io::ErrorKind::NotFound, "nothing is known")),
            false => to.write_all(b"]}").and_then(|()| to.flush()),
        });
        if let Err(why) = ended {
            to.fail(why);
        }
    });
    // Whoever has few decisions is answered at once, or told why not; a longer answer is sent as it is made.
    let patience = Duration::from_millis(service.config.request_timeout_ms / 2);
    let first = match tokio::time::timeout(patience, received.recv()).await {
        Err(_) if is_known => Bytes::new(),
        Err(_) => first_of(received.recv().await, &user)?,
        Ok(first) => first_of(first, &user)?,
    };
    let learned = serde_json::to_string(&learned)
        .map_err(|why| ApiError::new(500, "bug", why.to_string()))?;
    let mut head = Vec::from(format!("{{\"learned\":{learned},\"decisions\":["));
    head.extend_from_slice(&first);
    let headers = [(header::CONTENT_TYPE, "application/json")];
    Ok((headers, body_of(head.into(), received)).into_response())
}

/// The first piece of an answer, or why there is none.
fn first_of(first: Option<io::Result<Bytes>>, user: &str) -> Result<Bytes, ApiError> {
    first.ok_or_else(unexpected)?.map_err(|why| match why.kind() {
        io::ErrorKind::NotFound => {
            let sentence = format!("nothing is known of user `{user}`");
            ApiError::new(404, "user_unknown", sentence)
        }
        io::ErrorKind::StaleNetworkFileHandle => {
            ApiError::later(503, "log_removed", &format!("{why}; try again"), 1)
        }
        _ => ApiError::new(500, "journal_unreadable", why.to_string()),
    })
}

/// Decisions for a user on their way, one after the other.
struct Theirs {
    to: Chunks,
    is_first: bool,
}

impl Table for Theirs {
    fn add(&mut self, row: ExportRow) -> io::Result<()> {
        if !std::mem::take(&mut self.is_first) {
            self.to.write_all(b",")?;
        }
        let decision = UserDecision {
            decision_id: row.made.id,
            decided_ms: row.decided_ms,
            item: row.made.ranking.first().to_owned(),
            candidates: row.made.ranking.iter().map(str::to_owned).collect(),
            probability: row.made.probability,
            context: row.made.context.into(),
            status: row.status.to_owned(),
            reward: row.reward,
        };
        let decision = serde_json::to_vec(&decision)?;
        self.to.write_all(&decision)
    }

    fn wants_features(&self) -> bool {
        false
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Forget a user: all that was learned of it, its decisions that wait, and what the log has of it, also where it was let go
/// before because it did not come for long. Snapshots and the journal lose it with time, as the documentation of operations
/// says. The answer is 204 for every name: nobody keeps a list of those who went, so one that never came looks the same.
#[utoipa::path(delete, path = "/v1/apps/{app}/users/{user}", tag = "insight",
    params(("app" = String, Path), ("user" = String, Path)),
    responses((status = 204, description = "nothing is known of a user of that name, whether there was one or not"),
        (status = "4XX", body = ErrorBody)))]
pub async fn forget(
    State(service): Shared,
    Client(_app, who): Client<{ Scopes::ADMIN }>,
    Path((app, user)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    service.engine.ask(Request::ForgetUser { app: app.clone(), user }).await?;
    // The audit must not keep what was to be forgotten.
    who.did("user forgotten", &app, "");
    Ok(StatusCode::NO_CONTENT)
}
