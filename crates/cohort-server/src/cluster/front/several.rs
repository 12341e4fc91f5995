//! Where does a request go that is about several places of a page, or about many decisions of the past?

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::split::{give_id, told, with_id};
use super::{Asked, Front, answer_of};
use crate::cluster::wire::Reply;

/// What of a slate says where it goes.
#[derive(Deserialize)]
struct Whose {
    user: String,
    slate_id: Option<String>,
}

/// What of rewards for one does.
#[derive(Deserialize)]
struct SlotRewards {
    slate_id: String,
    rewards: Vec<Place>,
}

#[derive(Deserialize)]
struct Place {
    slot: String,
}

impl Front {
    pub(super) async fn slate(&self, asked: Asked) -> Response {
        // What cannot be read is told by a partition in the words of the service.
        let Ok(whose) = serde_json::from_slice::<Whose>(&asked.body) else {
            return self.send(0, &asked, false).await;
        };
        let partition = self.partition_of(&asked.app, &whose.user);
        let mut call = Self::call(&asked, partition, asked.body.clone());
        let mut twice_is_once = whose.slate_id.is_some();
        if !twice_is_once && let Some(body) = with_id(&asked.body, "slate_id", partition) {
            (call.body, twice_is_once) = (body, true);
        }
        answer_of(partition, self.node.ask(call, twice_is_once, asked.until).await)
    }

    pub(super) async fn slate_rewards(&self, asked: Asked) -> Response {
        match serde_json::from_slice::<SlotRewards>(&asked.body) {
            Ok(SlotRewards { slate_id, rewards }) if !rewards.is_empty() => {
                let id = format!("{slate_id}/{}", rewards[0].slot);
                self.send_to(&id, None, &asked, false).await
            }
            _ => self.send(0, &asked, false).await,
        }
    }

    /// What came of several places in the Personalizer dialect: each is a decision `EVENT/SLOT`.
    pub(super) async fn slot_events(&self, event: String, asked: Asked) -> Response {
        let headers = asked.headers.clone();
        let asked = match self.with_loop(asked, &headers).await {
            Ok(asked) => asked,
            Err(refused) => return refused,
        };
        if super::partition_in(&event, self.partitions()).is_some() {
            return self.send_to(&event, None, &asked, false).await;
        }
        let body = serde_json::from_slice::<Value>(&asked.body).unwrap_or_default();
        if let Some(slot) = body["reward"][0]["slotId"].as_str() {
            return self.send_to(&format!("{event}/{slot}"), None, &asked, false).await;
        }
        // To activate says nothing of places: whoever knows the event does it.
        let asking = (0..self.partitions()).map(|partition| self.send(partition, &asked, true));
        let mut answers = futures_util::future::join_all(asking).await;
        let done = answers.iter().position(|answer| answer.status().is_success());
        answers.swap_remove(done.unwrap_or(0))
    }

    pub(super) async fn history(&self, asked: Asked) -> Response {
        let read = serde_json::from_slice::<Map<String, Value>>(&asked.body).ok();
        let decisions = read.filter(|read| read.len() == 1).and_then(|mut read| {
            match read.remove("decisions")? {
                Value::Array(all) if all.iter().all(|one| one["user"].is_string()) => Some(all),
                _ => None,
            }
        });
        let most = self.node.context.config.max_batch;
        let Some(decisions) = decisions.filter(|all| !all.is_empty() && all.len() <= most) else {
            return self.send(0, &asked, false).await;
        };
        let mut by_partition = BTreeMap::<u32, (Vec<usize>, Vec<Value>)>::new();
        for (at, mut one) in decisions.into_iter().enumerate() {
            let partition = self.partition_of(&asked.app, one["user"].as_str().unwrap_or_default());
            // With an id, what was learned is not learned again.
            give_id(&mut one, partition);
            let (places, theirs) = by_partition.entry(partition).or_default();
            places.push(at);
            theirs.push(one);
        }
        let asking = by_partition.into_iter().map(|(partition, (places, theirs))| {
            let body = serde_json::to_vec(&json!({"decisions": theirs})).unwrap_or_default();
            let call = Self::call(&asked, partition, Bytes::from(body));
            async move { (partition, places, self.node.ask(call, true, asked.until).await) }
        });
        let (mut learned, mut others, mut refused) = (0, Vec::new(), None);
        let mut taken = false;
        for (partition, places, reply) in futures_util::future::join_all(asking).await {
            let answer = match &reply {
                Reply::Answered { status: 200, body, .. } => {
                    serde_json::from_slice::<Value>(body).ok()
                }
                _ => None,
            };
            let Some(answer) = answer else {
                let (response, error) = told(partition, reply).await;
                others.extend(places.into_iter().map(|at| json!({"at": at, "error": error})));
                refused.get_or_insert(response);
                continue;
            };
            taken = true;
            learned += answer["learned"].as_u64().unwrap_or(0);
            for other in answer["others"].as_array().into_iter().flatten() {
                let mut other = other.clone();
                let at = other["at"].as_u64().and_then(|at| places.get(at as usize));
                other["at"] = json!(at);
                others.push(other);
            }
        }
        match refused {
            Some(response) if !taken => response,
            _ => {
                others.sort_by_key(|other| other["at"].as_u64());
                axum::Json(json!({"learned": learned, "others": others})).into_response()
            }
        }
    }
}
