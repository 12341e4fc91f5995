//! How do answers of all partitions become one? Counts add up, averages follow from them, and who did not answer is
//! named: `missing_partitions`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::split::encoded;
use super::{Asked, Front, answer_of};
use crate::cluster::members::{NodeState, View};
use crate::cluster::wire::Reply;
use crate::http::ApiError;
use crate::http::operations::DrainBody;
use crate::insight::maker::curve;
use crate::insight::view::AppInsight;
use crate::state::{Bucket, Outcomes};

/// Counts of an app that add up.
const COUNTS: [&str; 7] =
    ["users", "waiting", "decisions", "rewards", "reward_sum", "defaults", "unrewarded"];
/// How often a page is told what is known.
const TICK: Duration = Duration::from_secs(1);
/// The newest decisions of all partitions that are shown.
const RECENT: usize = 40;

/// The cluster, as everybody sees it.
#[derive(Debug, Serialize)]
pub struct ClusterStatus {
    /// This node.
    pub node: String,
    /// How many partitions users are spread over.
    pub partitions: u32,
    /// On how many servers everything is kept.
    pub replicas: usize,
    /// The last event of the control stream.
    pub control: u64,
    /// All nodes.
    pub nodes: Vec<NodeStatus>,
    /// All partitions; the last is the control partition.
    pub owners: Vec<PartitionStatus>,
}

/// A node.
#[derive(Debug, Serialize)]
pub struct NodeStatus {
    /// Its name.
    pub node: String,
    /// Where it listens for HTTP.
    pub address: String,
    /// The version of its program.
    pub version: String,
    /// Whether it lives.
    pub lives: bool,
    /// How long ago it last spoke.
    pub silent_ms: u64,
    /// Whether it is to give up what it owns.
    pub drains: bool,
    /// How many partitions it owns.
    pub owns: usize,
}

/// A partition.
#[derive(Debug, Serialize)]
pub struct PartitionStatus {
    /// Its name.
    pub partition: String,
    /// The node that owns it and lives; absent where there is none.
    pub owner: Option<String>,
    /// The owner's epoch.
    pub epoch: u64,
    /// The last event; absent until its owner has told.
    pub events: Option<u64>,
    /// How many events of the control stream it lacks.
    pub lag: Option<u64>,
    /// Users of all its apps.
    pub users: Option<u64>,
    /// Bytes of its stream on each server.
    pub bytes: Option<u64>,
}

/// What a view says.
pub fn status_of(
    view: &View,
    node: &str,
    shape: &crate::cluster::members::Shape,
    control: u64,
) -> ClusterStatus {
    let now = Instant::now();
    let nodes = view.nodes(now).into_iter().map(|(state, silent)| NodeStatus {
        lives: silent < crate::cluster::members::DEAD,
        silent_ms: silent.as_millis() as u64,
        drains: view.drains(&state.node),
        owns: state.owns.len(),
        node: state.node,
        address: state.address,
        version: state.version,
    });
    let owners = (0..=shape.partitions).map(|partition| {
        let owner = view.owner(partition, now);
        let told =
            |owner: &NodeState| owner.owns.iter().find(|one| one.partition == partition).cloned();
        let told = owner.and_then(told);
        let is_control = partition == shape.partitions;
        PartitionStatus {
            partition: shape.name_of(partition),
            owner: owner.map(|owner| owner.node.clone()),
            epoch: view.lease(partition).0.epoch,
            lag: told
                .as_ref()
                .filter(|_| !is_control)
                .map(|told| control.saturating_sub(told.followed)),
            events: told.as_ref().map(|told| told.events),
            users: told.as_ref().map(|told| told.users),
            bytes: told.as_ref().map(|told| told.bytes),
        }
    });
    ClusterStatus {
        node: node.to_owned(),
        partitions: shape.partitions,
        replicas: shape.replicas,
        control,
        nodes: nodes.collect(),
        owners: owners.collect(),
    }
}

/// Adds counts of one app to those of another.
fn add(sum: &mut Map<String, Value>, more: &Map<String, Value>) {
    for key in COUNTS {
        let number = |of: &Map<String, Value>| of.get(key).and_then(Value::as_f64).unwrap_or(0.0);
        let total = number(sum) + number(more);
        let is_sum = key == "reward_sum";
        sum.insert(key.to_owned(), if is_sum { total.into() } else { (total as u64).into() });
    }
    let (mut before, after) = (sum.get("apprentice").cloned(), more.get("apprentice"));
    if let Some(after) = after {
        match before.as_mut().and_then(Value::as_object_mut) {
            Some(before) => {
                for (key, value) in after.as_object().into_iter().flatten() {
                    let number =
                        |value: Option<&Value>| value.and_then(Value::as_f64).unwrap_or(0.0);
                    let total = number(before.get(key)) + number(Some(value));
                    let whole = total.fract() == 0.0 && value.is_u64();
                    before.insert(
                        key.clone(),
                        if whole { (total as u64).into() } else { total.into() },
                    );
                }
            }
            None => before = Some(after.clone()),
        }
    }
    if let Some(apprentice) = before {
        sum.insert("apprentice".to_owned(), apprentice);
    }
}

/// What follows from counts.
fn finish(app: &mut Map<String, Value>, missing: &[u32]) {
    let number = |key: &str| app.get(key).and_then(Value::as_f64).unwrap_or(0.0);
    let (rewards, sum) = (number("rewards"), number("reward_sum"));
    let average = if rewards > 0.0 { Value::from(sum / rewards) } else { Value::Null };
    app.insert("average_reward".to_owned(), average);
    name_missing(app, missing);
}

fn name_missing(answer: &mut Map<String, Value>, missing: &[u32]) {
    if !missing.is_empty() {
        answer.insert("missing_partitions".to_owned(), json!(missing));
    }
}

fn object(body: &Bytes) -> Option<Map<String, Value>> {
    serde_json::from_slice(body).ok()
}

impl Front {
    /// The cluster: nodes, partitions, owners, sizes.
    pub(super) fn status(&self) -> Response {
        let node = &self.node;
        let control = node.control();
        Json(status_of(&node.view(), node.name(), &node.context.shape, control)).into_response()
    }

    /// Has a node give up what it owns, or own again.
    pub(super) async fn drain(&self, asked: &Asked, headers: &HeaderMap) -> Response {
        let drain = match self
            .service
            .admit_admin(headers)
            .map(|who| (who, serde_json::from_slice::<DrainBody>(&asked.body)))
        {
            Err(refused) => return refused.into_response(),
            Ok((_, Err(why))) => {
                return ApiError::new(422, "bad_body", why.to_string()).into_response();
            }
            Ok((who, Ok(drain))) => {
                who.did("node drained", "", &drain.node);
                drain
            }
        };
        if self.node.view().node(&drain.node, Instant::now()).is_none() {
            let sentence = format!("there is no node `{}`; GET /v1/cluster lists them", drain.node);
            return ApiError::new(404, "node_unknown", sentence).into_response();
        }
        match self.node.drain(&drain.node, drain.drain).await {
            Ok(()) => axum::http::StatusCode::NO_CONTENT.into_response(),
            Err(why) => ApiError::later(503, "nats_failed", &why.to_string(), 1).into_response(),
        }
    }

    /// What the control partition says, if it is an object; else the answer to give.
    async fn of_control(&self, asked: &Asked) -> Result<Map<String, Value>, Response> {
        let call = Self::call(asked, self.control(), asked.body.clone());
        match self.node.ask(call, true, asked.until).await {
            Reply::Answered { status: 200, body, .. } => object(&body)
                .ok_or_else(|| ApiError::new(500, "bug", "an answer that is none").into_response()),
            reply => Err(answer_of(self.control(), reply)),
        }
    }

    pub(super) async fn app(&self, asked: Asked) -> Response {
        let mut app = match self.of_control(&asked).await {
            Ok(app) => app,
            Err(refused) => return refused,
        };
        let (answered, missing) = self.ask_all(&asked).await;
        for (_, _, body) in answered.iter().filter(|(_, status, _)| *status == 200) {
            if let Some(part) = object(body) {
                add(&mut app, &part);
            }
        }
        finish(&mut app, &missing);
        Json(app).into_response()
    }

    pub(super) async fn apps(&self, asked: Asked) -> Response {
        let mut all = match self.of_control(&asked).await {
            Ok(all) => all,
            Err(refused) => return refused,
        };
        let (answered, missing) = self.ask_all(&asked).await;
        let parts: Vec<Map<String, Value>> =
            answered.iter().filter_map(|(_, _, body)| object(body)).collect();
        let listed = parts.iter().filter_map(|part| part.get("apps")?.as_array()).flatten();
        let listed: Vec<&Map<String, Value>> = listed.filter_map(Value::as_object).collect();
        for app in all.get_mut("apps").and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(app) = app.as_object_mut() else { continue };
            let same = |part: &&&Map<String, Value>| part.get("name") == app.get("name");
            let same: Vec<&Map<String, Value>> = listed.iter().filter(same).copied().collect();
            same.into_iter().for_each(|part| add(app, part));
            finish(app, &[]);
        }
        name_missing(&mut all, &missing);
        Json(all).into_response()
    }

    pub(super) async fn insight(&self, asked: Asked) -> Response {
        match self.known(&asked).await {
            Ok(known) => Json(known).into_response(),
            Err(refused) => refused,
        }
    }

    /// What one partition has seen of features. Weights of several do not add up: whoever reads them is told whose they are.
    pub(super) async fn of_first(&self, asked: &Asked) -> Response {
        let call = Self::call(asked, 0, asked.body.clone());
        match self.node.ask(call, true, asked.until).await {
            Reply::Answered { status: 200, body, .. } if self.partitions() > 1 => {
                let mut told = object(&body).unwrap_or_default();
                told.insert("partition".to_owned(), 0.into());
                told.insert("partitions".to_owned(), self.partitions().into());
                Json(told).into_response()
            }
            reply => answer_of(0, reply),
        }
    }

    /// What all partitions know of an app. Cohorts, and where users are in the plane, are told by the partition that
    /// has seen most; all partitions have the same cohorts.
    async fn known(&self, asked: &Asked) -> Result<Value, Response> {
        let (answered, missing) = self.ask_all(asked).await;
        let parts = answered.iter().filter(|(_, status, _)| *status == 200);
        let mut parts: Vec<AppInsight> =
            parts.filter_map(|(_, _, body)| serde_json::from_slice(body).ok()).collect();
        parts.sort_by_key(|part| std::cmp::Reverse(part.rewards));
        let Some(mut known) = parts.first().cloned() else {
            let refused = answered.into_iter().next().map(|(partition, status, body)| {
                answer_of(
                    partition,
                    Reply::Answered { control: 0, status, headers: json_header(), body },
                )
            });
            return Err(refused.unwrap_or_else(|| super::nobody(0)));
        };
        let outcomes = self.outcomes(asked).await;
        known.curve = curve(&outcomes, known.curve.control_share);
        for part in &parts[1..] {
            known.users += part.users;
            known.waiting += part.waiting;
            known.decisions += part.decisions;
            known.rewards += part.rewards;
            known.decisions_per_second =
                plus(known.decisions_per_second, part.decisions_per_second);
            known.rewards_per_second = plus(known.rewards_per_second, part.rewards_per_second);
            known.at_ms = known.at_ms.max(part.at_ms);
            known.recent.extend(part.recent.iter().cloned());
        }
        known.recent.sort_by_key(|one| std::cmp::Reverse(one.decided_ms));
        known.recent.truncate(RECENT);
        known.map.users = known.users;
        let users = known.users as f64;
        for cohort in known.population.iter_mut().flat_map(|population| &mut population.cohorts) {
            cohort.users = (cohort.share * users).round() as u64;
        }
        let mut told = serde_json::to_value(&known).unwrap_or_default();
        if let Some(told) = told.as_object_mut() {
            name_missing(told, &missing);
        }
        Ok(told)
    }

    async fn outcomes(&self, asked: &Asked) -> Outcomes {
        let look = Asked {
            app: asked.app.clone(),
            method: Method::GET,
            target: format!("/internal/outcomes/{}", encoded(&asked.app)),
            headers: asked.headers.clone(),
            body: Bytes::new(),
            until: asked.until,
        };
        let (answered, _) = self.ask_all(&look).await;
        let buckets = answered
            .iter()
            .filter_map(|(_, _, body)| serde_json::from_slice::<Vec<Bucket>>(body).ok());
        Outcomes::merged(buckets.flatten().collect())
    }

    /// The same, second by second, as server-sent events, until whoever reads has gone.
    pub(super) fn live(self: &Arc<Self>, asked: Asked) -> Response {
        let mut asked = asked;
        asked.target = format!("/v1/apps/{}/insight", encoded(&asked.app));
        let begun = (self.clone(), asked, true);
        let ticks = stream::unfold(begun, async |(front, mut asked, is_first)| {
            if !is_first {
                tokio::time::sleep(TICK).await;
            }
            asked.until = Instant::now() + 5 * TICK;
            let known = front.known(&asked).await.ok()?;
            let event = Bytes::from(format!("data: {known}\n\n"));
            Some((Ok::<_, std::io::Error>(event), (front, asked, false)))
        });
        let headers =
            [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
        (headers, Body::from_stream(ticks)).into_response()
    }
}

fn json_header() -> HeaderMap {
    HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))])
}

fn plus(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_partitions_add_up_and_the_missing_are_named() {
        let part = |users: u64, rewards: u64, sum: f64| {
            let part = json!({"users": users, "waiting": 1, "decisions": 10, "rewards": rewards, "reward_sum": sum,
                "defaults": 2, "unrewarded": 0, "apprentice": {"decisions": 3, "agreed": 1, "reward": 0.5}});
            part.as_object().unwrap().clone()
        };
        let mut app =
            json!({"name": "shop", "users": 0, "reward_sum": 0.0}).as_object().unwrap().clone();
        add(&mut app, &part(3, 4, 2.0));
        add(&mut app, &part(5, 0, 0.0));
        finish(&mut app, &[7]);
        let app = Value::Object(app);
        assert_eq!(
            (&app["users"], &app["decisions"], &app["waiting"]),
            (&json!(8), &json!(20), &json!(2))
        );
        assert_eq!(
            (&app["average_reward"], &app["missing_partitions"]),
            (&json!(0.5), &json!([7]))
        );
        assert_eq!(app["apprentice"], json!({"decisions": 6, "agreed": 2, "reward": 1.0}));
    }
}
