//! What would others have earned? The log is read from the beginning; each decision of the time that is
//! asked about and whose reward is known counts with w = π(a|x)/p, as in `cohort evaluate`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::configuration::Kept;
use super::error::DialectError;
use super::time::{date, duration, parse_date};
use super::{Loop, Sent, bug, check_id, new_id};
use crate::auth::Scopes;
use crate::clock::{Clock, SystemClock};
use crate::export::rows::{self, ExportRow};
use crate::http::Service;
use crate::learning::Learning;
use crate::settings::AppSettings;
use crate::trial::Trial;

const BAD: &str = "InvalidEvaluationContract";

/// Evaluations that are remembered.
const MOST_KEPT: usize = 50;

/// What is asked for.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Contract {
    name: String,
    start_time: String,
    end_time: String,
}

/// A sum over the log for one policy.
#[derive(Default)]
struct Sums {
    rows: f64,
    weights: f64,
    weighted: f64,
    squares: f64,
    rewarded: f64,
}

impl Sums {
    fn add(&mut self, weight: f64, reward: f64) {
        self.rows += 1.0;
        self.weights += weight;
        self.weighted += weight * reward;
        self.squares += (weight * reward).powi(2);
        self.rewarded += f64::from(u8::from(reward != 0.0));
    }

    fn summary(&self, from_ms: u64, to_ms: u64) -> Value {
        let mean = self.weighted / self.rows;
        let variance = (self.squares / self.rows - mean * mean).max(0.0);
        json!({
            "timeStamp": date(from_ms),
            "ipsEstimatorNumerator": self.weighted,
            "ipsEstimatorDenominator": self.rows,
            "snipsEstimatorDenominator": self.weights,
            "aggregateTimeWindow": duration(to_ms - from_ms),
            "nonZeroProbability": self.rewarded / self.rows,
            "sumOfSquares": self.squares,
            "confidenceInterval": 1.96 * (variance / self.rows).sqrt(),
            "averageReward": mean,
        })
    }
}

/// What the decisions of some time say.
struct Judged {
    from_ms: u64,
    to_ms: u64,
    online: Sums,
    random: Sums,
}

impl crate::export::Table for Judged {
    fn add(&mut self, row: ExportRow) -> std::io::Result<()> {
        let Some(reward) = row.reward else { return Ok(()) };
        let (candidates, p) = (row.made.ranking.iter().count(), row.made.probability);
        if (self.from_ms..self.to_ms).contains(&row.decided_ms) && p > 0.0 && candidates > 0 {
            self.online.add(1.0, reward);
            self.random.add(1.0 / (candidates as f64 * p), reward);
        }
        Ok(())
    }

    fn wants_features(&self) -> bool {
        false
    }

    fn finish(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// All evaluations.
pub async fn list(
    State(service): State<Arc<Service>>,
    asked: Loop<{ Scopes::READ }>,
    axum::extract::RawQuery(query): axum::extract::RawQuery,
) -> Result<Json<Value>, DialectError> {
    let kept = Kept::of(&service.view(&asked.app).await?.learning).evaluations;
    // Clients that name their version in the query expect pages.
    let pages = query.is_some_and(|query| query.contains("api-version="));
    Ok(Json(if pages { json!({ "value": kept }) } else { Value::from(kept) }))
}

/// A new evaluation, done at once.
pub async fn create(
    State(service): State<Arc<Service>>,
    asked: Loop<{ Scopes::ADMIN }>,
    sent: Sent,
) -> Result<Response, DialectError> {
    let id = new_id()?;
    let done = service.evaluate(&asked, sent, &id).await?;
    let mut response = (StatusCode::CREATED, Json(done)).into_response();
    if let Ok(place) = HeaderValue::from_str(&format!("evaluations/{id}")) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// A new evaluation under an id of the caller's.
pub async fn put(
    State(service): State<Arc<Service>>,
    asked: Loop<{ Scopes::ADMIN }>,
    sent: Sent,
) -> Result<Json<Value>, DialectError> {
    let id = id_in(&asked)?;
    Ok(Json(service.evaluate(&asked, sent, &id).await?))
}

/// One evaluation.
pub async fn show(
    State(service): State<Arc<Service>>,
    asked: Loop<{ Scopes::READ }>,
) -> Result<Json<Value>, DialectError> {
    let id = id_in(&asked)?;
    let kept = Kept::of(&service.view(&asked.app).await?.learning).evaluations;
    kept.into_iter().find(|one| one["id"] == id.as_str()).map(Json).ok_or_else(not_there)
}

/// Forgets one.
pub async fn remove(
    State(service): State<Arc<Service>>,
    asked: Loop<{ Scopes::ADMIN }>,
) -> Result<StatusCode, DialectError> {
    let id = id_in(&asked)?;
    let kept = Kept::of(&service.view(&asked.app).await?.learning).evaluations;
    if !kept.iter().any(|one| one["id"] == id.as_str()) {
        return Err(not_there());
    }
    service.keep(&asked, move |all| all.retain(|one| one["id"] != id.as_str())).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Evaluations find no other learning settings that could be applied.
pub async fn apply(_: Loop<{ Scopes::ADMIN }>) -> DialectError {
    let sentence = "there are no learning settings to apply: the service adapts its own";
    DialectError::bad("OperationNotAllowed", sentence)
}

/// There are none: what features matter is in the app's insight.
pub async fn no_importances(_: Loop<{ Scopes::READ }>) -> Json<Value> {
    Json(json!({"value": []}))
}

/// None is there.
pub async fn no_importance(_: Loop<{ Scopes::READ }>) -> DialectError {
    DialectError::new(404, "ResourceNotFound", "there is no such feature importance")
}

/// None is made.
pub async fn importance_refused(_: Loop<{ Scopes::ADMIN }>) -> DialectError {
    let sentence =
        "feature importances are not worked out as jobs: GET /v1/apps/NAME/features has them";
    DialectError::bad("OperationNotAllowed", sentence)
}

fn not_there() -> DialectError {
    DialectError::new(404, "EvaluationNotFound", "there is no such evaluation")
}

fn id_in<const SCOPE: u8>(asked: &Loop<SCOPE>) -> Result<String, DialectError> {
    let id = asked.names.get("id").cloned().unwrap_or_default();
    check_id("the evaluation's id", &id, BAD)?;
    Ok(id)
}

impl Service {
    async fn evaluate(
        &self,
        asked: &Loop<{ Scopes::ADMIN }>,
        sent: Sent,
        id: &str,
    ) -> Result<Value, DialectError> {
        let Contract { name, start_time, end_time } = sent.json(BAD).await?;
        check_id("the name", &name, BAD)?;
        let (Some(from_ms), Some(to_ms)) = (parse_date(&start_time), parse_date(&end_time)) else {
            let sentence = "startTime and endTime must be dates such as 2026-08-25T00:00:00Z";
            return Err(DialectError::bad(BAD, sentence));
        };
        if from_ms >= to_ms {
            return Err(DialectError::bad(BAD, "startTime must be before endTime"));
        }
        let view = *self.view(&asked.app).await?;
        let (settings, learning) = (view.settings, view.learning);
        let app = rows::App { name: asked.app.clone(), settings, learning };
        let permit =
            self.permit_to_read(&asked.app).map_err(|why| DialectError::from_api(why, BAD))?;
        let journals = self.journals.clone();
        // Dropped with whoever asked.
        let (gone, _here) = oneshot::channel::<()>();
        let read = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let (online, random) = Default::default();
            let mut judged = Judged { from_ms, to_ms, online, random };
            // Decisions that retention removes meanwhile are not judged, as those before them.
            let wanted = || !gone.is_closed();
            rows::fold(&Self::readers(&journals), &app, &mut judged, &wanted).map(|_| judged)
        });
        let judged = read.await.map_err(|_| bug())?.map_err(|why| {
            DialectError::new(500, "InternalServerError", format!("the log is not read: {why}"))
        })?;
        if judged.online.rows == 0.0 {
            let sentence = "no decision of that time has a reward yet";
            return Err(DialectError::bad("NoLogsExistInDateRange", sentence));
        }
        let result = |name: &str, source: &str, sums: &Sums| {
            let summary = sums.summary(from_ms, to_ms);
            json!({
                "name": name, "arguments": "", "policySource": source,
                "summary": [summary.clone()], "totalSummary": summary,
            })
        };
        let done = json!({
            "id": id,
            "name": name,
            "startTime": date(from_ms),
            "endTime": date(to_ms),
            "jobId": id,
            "status": "completed",
            "creationTime": date(SystemClock.now_ms()),
            "evaluationType": "Manual",
            "policyResults": [
                result("Online Policy", "Online", &judged.online),
                result("Random Policy", "Random", &judged.random),
            ],
            "featureImportance": [],
        });
        let kept = done.clone();
        self.keep(asked, move |all| {
            all.retain(|one| one["id"] != kept["id"]);
            all.push(kept);
            let surplus = all.len().saturating_sub(MOST_KEPT);
            all.drain(..surplus);
        })
        .await?;
        Ok(done)
    }

    async fn keep(
        &self,
        asked: &Loop<{ Scopes::ADMIN }>,
        change: impl FnOnce(&mut Vec<Value>) + Send + 'static,
    ) -> Result<(), DialectError> {
        let change = move |_: &mut AppSettings, _: &mut Trial, learning: &mut Learning| {
            let mut kept = Kept::of(learning);
            change(&mut kept.evaluations);
            learning.dialect = kept.text();
        };
        self.change_loop(asked, BAD, Box::new(change)).await.map(drop)
    }
}
