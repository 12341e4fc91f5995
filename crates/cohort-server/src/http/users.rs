//! One user: all that is known of it, and how that is forgotten.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::Shared;
use super::access::Client;
use super::apps::unexpected;
use super::error::{ApiError, ErrorBody};
use super::path::Path;
use crate::auth::Scopes;
use crate::engine::{Answer, Request};
use crate::export::rows;
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

/// All that is known of a user: what was learned, and its decisions.
#[utoipa::path(get, path = "/v1/apps/{app}/users/{user}/export", tag = "insight",
    params(("app" = String, Path), ("user" = String, Path)),
    responses((status = 200, body = UserExport), (status = "4XX", body = ErrorBody),
        (status = 503, body = ErrorBody, description = "as many logs are read as may be at once")))]
pub async fn export(
    State(service): Shared,
    _: Client<{ Scopes::READ }>,
    Path((app, user)): Path<(String, String)>,
) -> Result<Json<UserExport>, ApiError> {
    let Answer::App(view) = service.engine.ask(Request::ShowApp { app: app.clone() }).await? else {
        return Err(unexpected());
    };
    let permit = service.permit_to_read()?;
    let labels = service.hub.labels(&app).await;
    let learned = maker::user(&service.engine, &app, &user, &labels).await?;
    let (journals, whose) = (service.journals.clone(), user.clone());
    let rows = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        rows::of_user(
            &super::Service::readers(&journals),
            rows::App { name: app, settings: view.settings, learning: view.learning },
            &whose,
        )
    });
    let failed = |why: String| ApiError::new(500, "journal_unreadable", why);
    let rows = rows.await.map_err(|why| failed(why.to_string()))?;
    let (rows, left_out) = rows.map_err(|why| failed(why.to_string()))?;
    if left_out > 0 {
        let sentence =
            format!("{left_out} events were removed by retention before they were read; try again");
        return Err(ApiError::later(503, "log_removed", &sentence, 1));
    }
    if learned.is_none() && rows.is_empty() {
        let sentence = format!("nothing is known of user `{user}`");
        return Err(ApiError::new(404, "user_unknown", sentence));
    }
    let decisions = rows.into_iter().map(|row| UserDecision {
        decision_id: row.made.id,
        decided_ms: row.decided_ms,
        item: row.made.ranking.first().to_owned(),
        candidates: row.made.ranking.iter().map(str::to_owned).collect(),
        probability: row.made.probability,
        context: row.made.context.into(),
        status: row.status.to_owned(),
        reward: row.reward,
    });
    Ok(Json(UserExport { learned, decisions: decisions.collect() }))
}

/// Forget a user: all that was learned of it, and its decisions that wait. Snapshots and the journal
/// lose it with time, as the documentation of operations says.
#[utoipa::path(delete, path = "/v1/apps/{app}/users/{user}", tag = "insight",
    params(("app" = String, Path), ("user" = String, Path)),
    responses((status = 204), (status = "4XX", body = ErrorBody)))]
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
