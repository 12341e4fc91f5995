//! What would others have earned? The log is read from the beginning; each decision of the time that is
//! asked about and whose reward is known counts with w = π(a|x)/p, as in `cohort evaluate`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
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
    policies: Option<Vec<Value>>,
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
        // Where there is none, nothing is known: a number that is none becomes `null`.
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
    /// Decisions of which it is not known among how many actions they were made: `random` does without.
    left_out: u64,
}

impl crate::export::Table for Judged {
    fn add(&mut self, row: ExportRow) -> std::io::Result<()> {
        let Some(reward) = row.reward else { return Ok(()) };
        let p = row.made.probability;
        if !(self.from_ms..self.to_ms).contains(&row.decided_ms) || p <= 0.0 {
            return Ok(());
        }
        self.online.add(1.0, reward);
        match row.choices() {
            Some(choices) => self.random.add(1.0 / (choices as f64 * p), reward),
            None => self.left_out += 1,
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

/// In which form an evaluation is told: that of versions in the path, or that of versions in the query (2022-09).
#[derive(Clone, Copy)]
enum Form {
    Path,
    Query,
}

fn form_of(query: Option<&str>) -> Form {
    let named =
        query.is_some_and(|query| query.split('&').any(|one| one.starts_with("api-version=")));
    if named { Form::Query } else { Form::Path }
}

/// An evaluation in a form; it is kept in that of versions in the path.
fn told_in(form: Form, kept: &Value) -> Value {
    if let Form::Path = form {
        return kept.clone();
    }
    let of = |names: &[&str]| -> serde_json::Map<String, Value> {
        names.iter().map(|name| ((*name).to_owned(), kept[*name].clone())).collect()
    };
    let policies = kept["policyResults"].as_array().into_iter().flatten().map(|one| {
        let summary = &one["totalSummary"];
        let number = |name: &str| summary[name].as_f64();
        let mean = number("averageReward");
        let interval: Vec<f64> = match (mean, number("confidenceInterval")) {
            (Some(mean), Some(half)) => vec![mean - half, mean + half],
            _ => Vec::new(),
        };
        let at = &kept["startTime"];
        json!({
            "name": one["name"],
            "arguments": one["arguments"],
            "policySource": one["policySource"],
            "slotId": "",
            "summary": {"expectedReward": mean, "confidenceInterval": interval},
            "timeseries": {"data": [
                {"timeStamp": at, "expectedReward": mean, "confidenceInterval": interval},
            ]},
            "decisionsLeftOut": one["decisionsLeftOut"],
        })
    });
    let mut content = Value::Object(of(&["startTime", "endTime"]));
    content["value"] = policies.collect();
    let names = ["id", "name", "startTime", "endTime", "creationTime", "evaluationType"];
    let mut told = Value::Object(of(&names));
    told["status"] = "Succeeded".into();
    told["content"] = content;
    told
}

/// All evaluations.
pub async fn list(
    State(service): State<Arc<Service>>,
    asked: Loop<{ Scopes::READ }>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, DialectError> {
    let kept = Kept::of(&service.view(&asked.app).await?.learning).evaluations;
    // Clients that name their version in the query expect pages, of evaluations without what came of them.
    Ok(Json(match form_of(query.as_deref()) {
        Form::Query => {
            let told = kept.iter().map(|one| {
                let mut told = told_in(Form::Query, one);
                told.as_object_mut().map(|fields| fields.remove("content"));
                told
            });
            json!({ "value": told.collect::<Vec<_>>() })
        }
        Form::Path => Value::from(kept),
    }))
}

/// A new evaluation, done at once.
pub async fn create(
    State(service): State<Arc<Service>>,
    asked: Loop<{ Scopes::ADMIN }>,
    RawQuery(query): RawQuery,
    sent: Sent,
) -> Result<Response, DialectError> {
    let id = new_id()?;
    let done = service.evaluate(&asked, sent, &id).await?;
    let told = told_in(form_of(query.as_deref()), &done);
    let mut response = (StatusCode::CREATED, Json(told)).into_response();
    if let Ok(place) = HeaderValue::from_str(&format!("evaluations/{id}")) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// A new evaluation under an id of the caller's.
pub async fn put(
    State(service): State<Arc<Service>>,
    asked: Loop<{ Scopes::ADMIN }>,
    RawQuery(query): RawQuery,
    sent: Sent,
) -> Result<Json<Value>, DialectError> {
    let id = id_in(&asked)?;
    let done = service.evaluate(&asked, sent, &id).await?;
    Ok(Json(told_in(form_of(query.as_deref()), &done)))
}

/// One evaluation.
pub async fn show(
    State(service): State<Arc<Service>>,
    asked: Loop<{ Scopes::READ }>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, DialectError> {
    let id = id_in(&asked)?;
    let kept = Kept::of(&service.view(&asked.app).await?.learning).evaluations;
    let found = kept.iter().find(|one| one["id"] == id.as_str()).ok_or_else(not_there)?;
    Ok(Json(told_in(form_of(query.as_deref()), found)))
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
        let Contract { name, start_time, end_time, policies } = sent.json(BAD).await?;
        check_id("the name", &name, BAD)?;
        if policies.is_some_and(|policies| !policies.is_empty()) {
            let sentence = "policies: learning settings of Vowpal Wabbit cannot be evaluated here: send none; \
                            `cohort evaluate` judges other policies by the log (docs/evaluate.md)";
            return Err(DialectError::bad(BAD, sentence));
        }
        let (Some(from_ms), Some(to_ms)) = (parse_date(&start_time), parse_date(&end_time)) else {
            let sentence = "startTime and endTime must be dates such as 2026-08-25T00:00:00Z";
            return Err(DialectError::bad(BAD, sentence));
        };
        if from_ms >= to_ms {
            return Err(DialectError::bad(BAD, "startTime must be before endTime"));
        }
        let view = *self.view(&asked.app).await?;
        let (settings, learning, scratch) = (view.settings, view.learning, self.scratch());
        let app = rows::App { name: asked.app.clone(), settings, learning, scratch };
        let permit =
            self.permit_to_read(&asked.app).map_err(|why| DialectError::from_api(why, BAD))?;
        let journals = self.journals.clone();
        // Dropped with whoever asked.
        let (gone, _here) = oneshot::channel::<()>();
        let read = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let (online, random, left_out) = Default::default();
            let mut judged = Judged { from_ms, to_ms, online, random, left_out };
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
        let result = |name: &str, source: &str, sums: &Sums, left_out: u64| {
            let summary = sums.summary(from_ms, to_ms);
            json!({
                "name": name, "arguments": "", "policySource": source,
                "summary": [summary.clone()], "totalSummary": summary,
                "decisionsLeftOut": left_out,
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
                result("Online Policy", "Online", &judged.online, 0),
                result("Random Policy", "Random", &judged.random, judged.left_out),
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
