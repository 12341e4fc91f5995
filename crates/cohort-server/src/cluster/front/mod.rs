//! What a node is asked, over HTTP: it is sent to the partition that it is for, on this node or another, split where it
//! is for several, and gathered where it is about all users.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `class` | for which partitions is a request? |
//! | `split` | how does a batch become several, and their answers one? |
//! | `gather` | how do answers of all partitions become one? |
//! | [`dispatch`] | how is it sent, and what is said where nobody answers? |

mod class;
mod gather;
mod several;
mod split;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use rand::TryRng;
use rand::rngs::SysRng;
use xxhash_rust::xxh3::Xxh3;

use super::node::{Node, is_in_doubt};
use super::wire::{Call, Reply};
use crate::auth::hex;
use crate::http::{ApiError, Service, receive, refused_at_front};
pub use class::{Class, class_of};
pub use gather::{ClusterStatus, status_of};
pub(super) use split::encoded;

/// Headers that a partition needs.
const PASSED_ON: [HeaderName; 5] = [
    header::CONTENT_TYPE,
    header::AUTHORIZATION,
    HeaderName::from_static("ocp-apim-subscription-key"),
    HeaderName::from_static("x-cohort-user"),
    header::ACCEPT,
];
/// What is kept of the time of a request for telling that nobody answered.
const MARGIN: Duration = Duration::from_millis(200);

/// How long this node may take to learn of a key that was made at another.
const HEARS: Duration = Duration::from_secs(1);

/// What a node needs to send requests on.
pub struct Front {
    /// The node.
    pub node: Arc<Node>,
    /// How long a request may take.
    pub timeout: Duration,
    /// This node's own service, on a state that follows the control stream.
    pub service: Arc<Service>,
}

/// A request with its body.
struct Asked {
    app: String,
    method: Method,
    /// Path and query.
    target: String,
    headers: HeaderMap,
    body: Bytes,
    until: Instant,
}

/// The partition of a user.
pub fn partition_of(app: &str, user: &str, partitions: u32) -> u32 {
    let mut hasher = Xxh3::new();
    hasher.update(app.as_bytes());
    hasher.update(&[0]);
    hasher.update(user.as_bytes());
    (hasher.digest() % u64::from(partitions.max(1))) as u32
}

/// An id for a decision of a partition: it says where the decision is.
fn new_id(partition: u32) -> Option<String> {
    let mut bytes = [0; 16];
    SysRng.try_fill_bytes(&mut bytes).ok()?;
    Some(format!("{partition:x}-{}", hex(&bytes)))
}

/// The partition that an id names, if it was made by [`new_id`].
fn partition_in(id: &str, partitions: u32) -> Option<u32> {
    let (partition, rest) = id.split_once('-')?;
    // A place of a slate: `SLATE_ID/SLOT`.
    let rest = rest.split('/').next().unwrap_or_default();
    let is_ours = rest.len() == 32 && rest.bytes().all(|byte| byte.is_ascii_hexdigit());
    let partition = u32::from_str_radix(partition, 16).ok()?;
    (is_ours && partition < partitions).then_some(partition)
}

/// Sends a request where it belongs; what is this node's own business goes on as in a single service.
pub async fn dispatch(State(front): State<Arc<Front>>, request: Request, next: Next) -> Response {
    let matched = request.extensions().get::<MatchedPath>();
    let Some(route) = matched.map(|matched| matched.as_str().to_owned()) else {
        return next.run(request).await;
    };
    let class = class_of(request.method(), &route);
    match class {
        Class::Own => return next.run(request).await,
        Class::Health => return front.health(),
        Class::Cluster => return front.status(),
        _ => {}
    }
    let path = request.uri().path().to_owned();
    let names = class::names(&route, &path);
    let until = Instant::now() + front.timeout.saturating_sub(MARGIN);
    let (method, headers) = (request.method().clone(), request.headers().clone());
    let target = target_of(request.uri());
    let app = names.iter().find(|(name, _)| name == "app");
    let app = app.map(|(_, value)| value.clone()).unwrap_or_default();
    let of_key = match app.is_empty() && route.contains("/personalizer") {
        true => front.service.app_for(&headers).0,
        false => app.clone(),
    };
    if let Err(refused) = front.admit(&headers, &of_key, until).await {
        return refused_at_front(&path, refused);
    }
    // What large bodies take is counted until they are answered.
    let received = match receive(request).await {
        Ok(received) => received,
        Err(refused) => return refused_at_front(&path, refused),
    };
    let (passed, body) = (passed_on(&headers), received.bytes.clone());
    let asked = Asked { app, method, target, headers: passed, body, until };
    match class {
        Class::Decide => front.decide(asked).await,
        Class::Reward => front.reward(asked).await,
        // Boxed: what every request would take otherwise is as large as the largest of them.
        _ => Box::pin(answer_rarely(front, class, asked, headers, &names)).await,
    }
}

/// Answers what is asked less often than decisions and rewards.
async fn answer_rarely(
    front: Arc<Front>,
    class: Class,
    asked: Asked,
    headers: HeaderMap,
    names: &[(String, String)],
) -> Response {
    let name = |key: &str| {
        let found = names.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    match class {
        Class::Own | Class::Health | Class::Cluster | Class::Decide | Class::Reward => {
            unreachable!("answered by `dispatch`")
        }
        Class::Drain => front.drain(&asked, &headers).await,
        Class::Control => front.send(front.control(), &asked, false).await,
        Class::User => {
            front.send(front.partition_of(&asked.app, &name("user")), &asked, true).await
        }
        Class::First => front.of_first(&asked).await,
        Class::DecideBatch => front.decide_batch(asked).await,
        Class::Decision => front.about(&name("decision"), asked).await,
        Class::Activate => front.activate(asked).await,
        Class::Rewards => front.rewards(asked).await,
        Class::Slate => front.slate(asked).await,
        Class::SlateRewards => front.slate_rewards(asked).await,
        Class::SlotEvents => front.slot_events(name("event"), asked).await,
        Class::History => front.history(asked).await,
        Class::Apps => front.apps(asked).await,
        Class::App => front.app(asked).await,
        Class::Insight => front.insight(asked).await,
        Class::Live => front.live(asked),
        Class::Rank => front.rank(asked, headers).await,
        Class::Event => front.event(name("event"), asked).await,
        Class::LoopControl => front.loop_control(asked).await,
        Class::Refused => {
            let sentence = "this is not done in a cluster; see docs/cluster.md";
            ApiError::new(501, "not_in_cluster", sentence).into_response()
        }
    }
}

fn target_of(uri: &Uri) -> String {
    uri.path_and_query().map_or("/", |target| target.as_str()).to_owned()
}

fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let value = |name: &HeaderName| Some((name.clone(), headers.get(name)?.clone()));
    PASSED_ON.iter().filter_map(value).collect()
}

/// What is said where nobody knows whether something was done.
pub(super) fn in_doubt() -> Response {
    let sentence = "the owner of this user's partition went away while this was done: it may have been done or not; \
                    ask again with the same decision_id";
    ApiError::later(503, "in_doubt", sentence, 1).into_response()
}

fn nobody(partition: u32) -> Response {
    let sentence = format!(
        "nobody serves partition {partition} at the moment, and nothing was done; ask again"
    );
    ApiError::later(503, "partition_unserved", &sentence, 1).into_response()
}

/// A reply as an answer.
fn answer_of(partition: u32, reply: Reply) -> Response {
    match reply {
        Reply::Answered { status: 503, body, .. } if is_in_doubt(&body) => in_doubt(),
        Reply::Answered { status, headers, body, .. } => {
            let mut response = Response::new(Body::from(body));
            *response.status_mut() =
                StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            *response.headers_mut() = headers;
            response
        }
        Reply::Lost => in_doubt(),
        Reply::NotMine | Reply::NobodyThere => nobody(partition),
    }
}

impl Front {
    fn partitions(&self) -> u32 {
        self.node.context.shape.partitions
    }

    fn control(&self) -> u32 {
        self.node.context.shape.control()
    }

    fn partition_of(&self, app: &str, user: &str) -> u32 {
        partition_of(app, user, self.partitions())
    }

    fn call(asked: &Asked, partition: u32, body: Bytes) -> Call {
        Call {
            partition,
            control: 0,
            patience_ms: 0,
            method: asked.method.clone(),
            target: asked.target.clone(),
            headers: asked.headers.clone(),
            body,
        }
    }

    /// Lets those pass who have a key of the app, as often as they may.
    async fn admit(&self, headers: &HeaderMap, app: &str, until: Instant) -> Result<(), ApiError> {
        match self.service.admit_at_front(headers, app) {
            // The key may have been made at another node a moment ago.
            Err(refused) if refused.code() == "key_refused" => {
                Box::pin(self.hear_of_keys(until)).await;
                self.service.admit_at_front(headers, app)
            }
            admitted => admitted,
        }
    }

    async fn hear_of_keys(&self, until: Instant) {
        let left = until.saturating_duration_since(Instant::now());
        self.node.hear_of_apps(left).await;
        self.service.follows(self.node.control(), left.min(HEARS)).await;
    }

    /// Sends a request to a partition as it is.
    async fn send(&self, partition: u32, asked: &Asked, twice_is_once: bool) -> Response {
        let call = Self::call(asked, partition, asked.body.clone());
        answer_of(partition, self.node.ask(call, twice_is_once, asked.until).await)
    }

    /// Asks every partition the same; returns those that answered, and the others' numbers.
    async fn ask_all(&self, asked: &Asked) -> (Vec<(u32, u16, Bytes)>, Vec<u32>) {
        let asking = (0..self.partitions()).map(|partition| async move {
            let call = Self::call(asked, partition, asked.body.clone());
            (partition, self.node.ask(call, true, asked.until).await)
        });
        let (mut answered, mut missing) = (Vec::new(), Vec::new());
        for (partition, reply) in futures_util::future::join_all(asking).await {
            match reply {
                Reply::Answered { status, body, .. } if status != 503 => {
                    answered.push((partition, status, body));
                }
                _ => missing.push(partition),
            }
        }
        (answered, missing)
    }

    /// Whether this node is heard, and all partitions are served without trouble, by what all nodes tell.
    fn health(&self) -> Response {
        let failed =
            |sentence: String| ApiError::later(503, "unwell", &sentence, 5).into_response();
        if !self.node.is_heard() {
            return failed("NATS does not answer this node".to_owned());
        }
        let mut wrong = self.node.unserved();
        wrong.extend(self.node.troubles());
        let (now, me) = (Instant::now(), self.node.name());
        let told = self.node.view();
        let others = told.living(now).filter(|node| node.node != me);
        wrong.extend(others.flat_map(|node| node.troubles.iter().cloned()));
        drop(told);
        match wrong.is_empty() {
            true => "ok\n".into_response(),
            false => failed(wrong.join("; ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_where_its_decision_is() {
        for partition in [0, 9, 63] {
            let id = new_id(partition).unwrap();
            assert_eq!(partition_in(&id, 64), Some(partition));
        }
        for id in ["", "d1", "3-abc", "40-00000000000000000000000000000000", "-", "x-0"] {
            assert_eq!(partition_in(id, 64), None, "{id}");
        }
    }

    #[test]
    fn users_are_spread_evenly_and_each_stays_where_it_is() {
        let mut counts = [0u32; 16];
        for user in 0..16_000 {
            counts[partition_of("shop", &format!("user-{user}"), 16) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
        assert_eq!(partition_of("shop", "ann", 64), partition_of("shop", "ann", 64));
        // What a cluster was made with must never change: ids and streams rest on it.
        let known = [("shop", "ann"), ("shop", "bob"), ("blog", "ann")];
        let found = known.map(|(app, user)| partition_of(app, user, 64));
        assert_eq!(found, [47, 31, 33]);
    }
}
