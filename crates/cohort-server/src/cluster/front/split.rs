//! How does a batch become several, and their answers one? And where is a decision whose id somebody else chose?

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::http::{HeaderMap, Method};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Asked, Front, answer_of, new_id, nobody, partition_in};
use crate::cluster::wire::{Call, Reply};
use crate::http::ApiError;

/// What of a decide says where it goes.
#[derive(Deserialize)]
struct Whom {
    user: String,
    decision_id: Option<String>,
}

/// What of a reward, or an activation, says where it goes.
#[derive(Deserialize)]
struct Which {
    decision_id: String,
    user: Option<String>,
}

/// Where a decision is.
enum Place {
    Partition(u32),
    /// Nobody knows it, and everybody was asked.
    Nowhere,
    /// Nobody who answered knows it, and these did not answer.
    Unknown(u32),
    /// Several know it, as decisions for different users.
    Several,
}

fn several(id: &str) -> Response {
    let sentence = format!(
        "the decision id `{id}` was used for users of several partitions; say which `user` is meant, and use new ids"
    );
    ApiError::new(409, "decision_reused", sentence).into_response()
}

/// Adds an id to a decide that has none, so that asking twice is asking once. Null is as good as none.
pub(super) fn with_id(body: &Bytes, key: &str, partition: u32) -> Option<Bytes> {
    let text = std::str::from_utf8(body).ok()?;
    let at = text.find('{')? + 1;
    let id = new_id(partition)?;
    // It may be there as null, where a second one would be an error, or as a name in an item.
    if contains(body, format!("\"{key}\"").as_bytes()) {
        let mut whole = serde_json::from_slice::<Map<String, Value>>(body).ok()?;
        match whole.get_mut(key) {
            Some(Value::Null) => {
                whole.insert(key.to_owned(), id.into());
                return serde_json::to_vec(&whole).ok().map(Bytes::from);
            }
            Some(_) => return None,
            None => {}
        }
    }
    Some(Bytes::from(format!("{}\"{key}\":\"{id}\",{}", &text[..at], &text[at..])))
}

/// The same for one of a batch.
pub(super) fn give_id(one: &mut Value, partition: u32) {
    if one.get("decision_id").is_none_or(Value::is_null)
        && let (Some(entry), Some(id)) = (one.as_object_mut(), new_id(partition))
    {
        entry.insert("decision_id".to_owned(), id.into());
    }
}

impl Front {
    pub(super) async fn decide(&self, asked: Asked) -> Response {
        // What cannot be read is told by a partition in the words of the service.
        let Ok(whom) = serde_json::from_slice::<Whom>(&asked.body) else {
            return self.send(0, &asked, false).await;
        };
        let partition = self.partition_of(&asked.app, &whom.user);
        let mut call = Self::call(&asked, partition, asked.body.clone());
        let mut twice_is_once = whom.decision_id.is_some();
        if !twice_is_once && let Some(body) = with_id(&asked.body, "decision_id", partition) {
            (call.body, twice_is_once) = (body, true);
        }
        answer_of(partition, self.node.ask(call, twice_is_once, asked.until).await)
    }

    pub(super) async fn decide_batch(&self, asked: Asked) -> Response {
        let read = serde_json::from_slice::<Map<String, Value>>(&asked.body).ok();
        let Some((mut rest, users)) = read.and_then(|mut rest| match rest.remove("users") {
            Some(Value::Array(users))
                if users.iter().all(|user| user.get("user").is_some_and(Value::is_string)) =>
            {
                Some((rest, users))
            }
            _ => None,
        }) else {
            return self.send(0, &asked, false).await;
        };
        if users.is_empty() || users.len() > self.node.context.config.max_batch {
            return self.send(0, &asked, false).await;
        }
        let mut by_partition = BTreeMap::<u32, (Vec<usize>, Vec<Value>)>::new();
        for (at, mut user) in users.iter().cloned().enumerate() {
            let name = user["user"].as_str().unwrap_or_default();
            let partition = self.partition_of(&asked.app, name);
            give_id(&mut user, partition);
            let (places, theirs) = by_partition.entry(partition).or_default();
            places.push(at);
            theirs.push(user);
        }
        let mut calls = Vec::new();
        for (partition, (places, theirs)) in by_partition {
            rest.insert("users".to_owned(), theirs.into());
            let body = Bytes::from(serde_json::to_vec(&rest).unwrap_or_default());
            calls.push((Self::call(&asked, partition, body), places));
        }
        self.merge("decisions", users.len(), calls, true, &asked).await
    }

    /// Sends parts of a batch, and puts the answers into the order of what was asked. A part that is refused as a whole
    /// is refused for each of its users, unless all are.
    async fn merge(
        &self,
        list: &str,
        count: usize,
        calls: Vec<(Call, Vec<usize>)>,
        twice_is_once: bool,
        asked: &Asked,
    ) -> Response {
        let asking = calls.into_iter().map(|(call, places)| async move {
            let partition = call.partition;
            (partition, places, self.node.ask(call, twice_is_once, asked.until).await)
        });
        let mut merged = vec![Value::Null; count];
        let (mut taken, mut refused) = (false, None);
        for (partition, places, reply) in futures_util::future::join_all(asking).await {
            let answers = match &reply {
                Reply::Answered { status: 200, body, .. } => serde_json::from_slice::<Value>(body)
                    .ok()
                    .and_then(|mut body| match body.get_mut(list).map(Value::take) {
                        Some(Value::Array(answers)) if answers.len() == places.len() => {
                            Some(answers)
                        }
                        _ => None,
                    }),
                _ => None,
            };
            match answers {
                Some(answers) => {
                    taken = true;
                    places.into_iter().zip(answers).for_each(|(at, answer)| merged[at] = answer);
                }
                None => {
                    let (response, error) = told(partition, reply).await;
                    places.into_iter().for_each(|at| merged[at] = json!({"error": error}));
                    refused.get_or_insert(response);
                }
            }
        }
        match refused {
            Some(response) if !taken => response,
            _ => axum::Json(json!({ list: merged })).into_response(),
        }
    }

    /// Where a decision is: by its id, by its user, or by asking everybody.
    async fn find(&self, asked: &Asked, id: &str, user: Option<&str>) -> Place {
        if let Some(user) = user {
            return Place::Partition(self.partition_of(&asked.app, user));
        }
        if self.partitions() == 1 {
            return Place::Partition(0);
        }
        // An id that looks like one of ours is one, unless somebody chose it so.
        match partition_in(id, self.partitions()) {
            Some(partition) => Place::Partition(partition),
            None => Box::pin(self.look_for(asked, id)).await,
        }
    }

    /// Asks everybody where a decision is.
    async fn look_for(&self, asked: &Asked, id: &str) -> Place {
        let path = |id: &str| format!("/internal/knows/{}/{}", encoded(&asked.app), encoded(id));
        let look = |partition: u32| Call {
            partition,
            control: 0,
            patience_ms: 0,
            method: Method::GET,
            target: path(id),
            headers: HeaderMap::new(),
            body: Bytes::new(),
        };
        let asking = (0..self.partitions()).map(|partition| async move {
            (partition, self.node.ask(look(partition), true, asked.until).await)
        });
        let (mut found, mut silent) = (Vec::new(), None);
        for (partition, reply) in futures_util::future::join_all(asking).await {
            match reply {
                Reply::Answered { status: 204, .. } => found.push(partition),
                Reply::Answered { status: 404, .. } => {}
                _ => silent = Some(partition),
            }
        }
        match (found.as_slice(), silent) {
            ([partition], _) => Place::Partition(*partition),
            ([], Some(silent)) => Place::Unknown(silent),
            ([], None) => Place::Nowhere,
            _ => Place::Several,
        }
    }

    /// Sends what is about one decision to where that is.
    pub(super) async fn send_to(
        &self,
        id: &str,
        user: Option<&str>,
        asked: &Asked,
        twice_is_once: bool,
    ) -> Response {
        match self.find(asked, id, user).await {
            Place::Partition(partition) => self.send(partition, asked, twice_is_once).await,
            Place::Nowhere => self.send(0, asked, twice_is_once).await,
            Place::Unknown(silent) => nobody(silent),
            Place::Several => several(id),
        }
    }

    pub(super) async fn about(&self, id: &str, asked: Asked) -> Response {
        self.send_to(id, None, &asked, true).await
    }

    pub(super) async fn activate(&self, asked: Asked) -> Response {
        match serde_json::from_slice::<Which>(&asked.body) {
            Ok(which) => {
                self.send_to(&which.decision_id, which.user.as_deref(), &asked, true).await
            }
            Err(_) => self.send(0, &asked, true).await,
        }
    }

    pub(super) async fn reward(&self, asked: Asked) -> Response {
        match serde_json::from_slice::<Which>(&asked.body) {
            Ok(which) => {
                self.send_to(&which.decision_id, which.user.as_deref(), &asked, false).await
            }
            Err(_) => self.send(0, &asked, false).await,
        }
    }

    pub(super) async fn rewards(&self, asked: Asked) -> Response {
        #[derive(Deserialize)]
        struct All {
            rewards: Vec<Value>,
        }
        let read = serde_json::from_slice::<All>(&asked.body).ok().map(|all| all.rewards);
        let which = |reward: &Value| serde_json::from_value::<Which>(reward.clone()).ok();
        let read = read.and_then(|rewards| {
            let which: Option<Vec<Which>> = rewards.iter().map(which).collect();
            Some((which?, rewards))
        });
        let most = self.node.context.config.max_batch;
        let Some((which, rewards)) = read.filter(|(_, all)| !all.is_empty() && all.len() <= most)
        else {
            return self.send(0, &asked, false).await;
        };
        let finding =
            which.iter().map(|one| self.find(&asked, &one.decision_id, one.user.as_deref()));
        let mut by_partition = BTreeMap::<u32, (Vec<usize>, Vec<Value>)>::new();
        for (at, place) in futures_util::future::join_all(finding).await.into_iter().enumerate() {
            let partition = match place {
                Place::Partition(partition) => partition,
                Place::Nowhere => 0,
                Place::Unknown(silent) => return nobody(silent),
                Place::Several => return several(&which[at].decision_id),
            };
            let (places, theirs) = by_partition.entry(partition).or_default();
            places.push(at);
            theirs.push(rewards[at].clone());
        }
        let calls = by_partition.into_iter().map(|(partition, (places, theirs))| {
            let body = serde_json::to_vec(&json!({"rewards": theirs})).unwrap_or_default();
            (Self::call(&asked, partition, body.into()), places)
        });
        self.merge("outcomes", rewards.len(), calls.collect(), false, &asked).await
    }

    /// A rank of the Personalizer dialect: by the user in a header or in the context.
    pub(super) async fn rank(&self, asked: Asked, headers: HeaderMap) -> Response {
        let asked = match self.with_loop(asked, &headers).await {
            Ok(asked) => asked,
            Err(refused) => return refused,
        };
        let Ok(body) = serde_json::from_slice::<Value>(&asked.body) else {
            return self.send(0, &asked, false).await;
        };
        let user = crate::http::dialect_user(&headers, &body["contextFeatures"]);
        let partition = self.partition_of(&asked.app, &user);
        let mut call = Self::call(&asked, partition, asked.body.clone());
        let mut twice_is_once = body.get("eventId").is_some_and(|id| !id.is_null());
        if !twice_is_once && let Some(body) = with_id(&asked.body, "eventId", partition) {
            (call.body, twice_is_once) = (body, true);
        }
        answer_of(partition, self.node.ask(call, twice_is_once, asked.until).await)
    }

    pub(super) async fn event(&self, event: String, asked: Asked) -> Response {
        let headers = asked.headers.clone();
        let asked = match self.with_loop(asked, &headers).await {
            Ok(asked) => asked,
            Err(refused) => return refused,
        };
        self.send_to(&event, None, &asked, false).await
    }

    pub(super) async fn loop_control(&self, asked: Asked) -> Response {
        self.send(self.control(), &asked, false).await
    }

    /// The same with the name of its app: an address without one means the key's, or the only one.
    pub(super) async fn with_loop(
        &self,
        mut asked: Asked,
        headers: &HeaderMap,
    ) -> Result<Asked, Response> {
        if !asked.app.is_empty() {
            return Ok(asked);
        }
        let (app, is_missing) = self.service.app_for(headers);
        if is_missing {
            // The control partition makes it, as a single service does.
            let make = Asked {
                app: String::new(),
                method: Method::GET,
                target: "/personalizer/v1.0/configurations/service".to_owned(),
                headers: asked.headers.clone(),
                body: Bytes::new(),
                until: asked.until,
            };
            let made = self.send(self.control(), &make, true).await;
            if !made.status().is_success() {
                return Err(made);
            }
        }
        asked.app = app;
        asked.target = format!("/apps/{}{}", encoded(&asked.app), asked.target);
        Ok(asked)
    }
}

/// A refusal as an answer, and as a part of one.
pub(super) async fn told(partition: u32, reply: Reply) -> (Response, Value) {
    let (parts, body) = answer_of(partition, reply).into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    let error = serde_json::from_slice::<Value>(&body)
        .ok()
        .and_then(|mut body| Some(body.get_mut("error")?.take()));
    let error =
        error.unwrap_or_else(|| json!({"code": "bug", "message": "an answer that is none"}));
    (Response::from_parts(parts, body.into()), error)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Text as a part of an address.
pub(in crate::cluster) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(byte.into())
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_added_to_a_body_and_nothing_else_changes() {
        let body = Bytes::from_static(b" { \"user\": \"ann\", \"items\": []}");
        let with: Value =
            serde_json::from_slice(&with_id(&body, "decision_id", 5).unwrap()).unwrap();
        assert_eq!(with["user"], "ann");
        assert_eq!(partition_in(with["decision_id"].as_str().unwrap(), 64), Some(5));
        assert_eq!(encoded("a b/é"), "a%20b%2F%C3%A9");
        // Null is no id, a name inside an item is none either, and an id that is there stays.
        for body in [
            r#"{"user": "ann", "decision_id": null, "items": []}"#,
            r#"{"user": "ann", "items": [{"id": "a", "features": {"decision_id": 7}}]}"#,
        ] {
            let with = with_id(&Bytes::from(body), "decision_id", 5).unwrap();
            let with: Map<String, Value> = serde_json::from_slice(&with).unwrap();
            assert_eq!(partition_in(with["decision_id"].as_str().unwrap(), 64), Some(5));
        }
        for (mut one, is_kept) in [
            (json!({"user": "ann", "decision_id": null}), false),
            (json!({"user": "ann"}), false),
            (json!({"user": "ann", "decision_id": "mine"}), true),
        ] {
            give_id(&mut one, 5);
            let id = one["decision_id"].as_str().unwrap();
            assert_eq!((id == "mine", partition_in(id, 64) == Some(5)), (is_kept, !is_kept));
        }
        let has = Bytes::from_static(b"{\"decision_id\": \"mine\"}");
        assert!(with_id(&has, "decision_id", 5).is_none());
    }
}
