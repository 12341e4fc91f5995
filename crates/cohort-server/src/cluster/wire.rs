//! How nodes ask each other: an HTTP request and its answer as messages of NATS, cut into parts where they are larger
//! than a message may be. What is asked is the service's own interface, so that nodes of different versions understand
//! each other as clients of different versions do.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_nats::{Client, StatusCode as NatsStatus};
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use futures_util::StreamExt;
use tokio::sync::oneshot;

use crate::bytes::{Malformed, Put, Take};

/// A request for a partition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Call {
    /// The partition; the control partition is the one after all others.
    pub partition: u32,
    /// The control number that the partition must have come to before.
    pub control: u64,
    /// How long whoever asks waits.
    pub patience_ms: u64,
    /// The method.
    pub method: Method,
    /// Path and query.
    pub target: String,
    /// Headers that matter.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// An answer over HTTP.
    Answered {
        /// The control number that the partition had come to.
        control: u64,
        /// The status.
        status: u16,
        /// Headers.
        headers: HeaderMap,
        /// The body.
        body: Bytes,
    },
    /// The node does not own that partition, and nothing was done.
    NotMine,
    /// Nobody is there, and nothing was done.
    NobodyThere,
    /// Nobody knows whether it was done.
    Lost,
}

fn put_headers(out: &mut Vec<u8>, headers: &HeaderMap) -> std::io::Result<()> {
    // A value that is no text is none that a client of the service sends.
    let text = |(name, value): (_, &HeaderValue)| Some((name, value.to_str().ok()?.to_owned()));
    let headers: Vec<(&HeaderName, String)> = headers.iter().filter_map(text).collect();
    out.put_len(headers.len())?;
    headers.iter().try_for_each(|(name, value)| {
        out.put_str(name.as_str())?;
        out.put_str(value)
    })
}

fn take_headers(from: &mut &[u8]) -> Result<HeaderMap, Malformed> {
    let mut headers = HeaderMap::new();
    for _ in 0..from.take_len()? {
        let (name, value) = (from.take_str()?, from.take_str()?);
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.append(name, value);
        }
    }
    Ok(headers)
}

impl Call {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.body.len() + 256);
        self.write(&mut out).expect("memory takes all bytes");
        out
    }

    fn write(&self, out: &mut Vec<u8>) -> std::io::Result<()> {
        out.put_u32(self.partition)?;
        out.put_u64(self.control)?;
        out.put_u64(self.patience_ms)?;
        out.put_str(self.method.as_str())?;
        out.put_str(&self.target)?;
        put_headers(out, &self.headers)?;
        out.extend(&self.body);
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut from = bytes;
        let from = &mut from;
        let (partition, control, patience_ms) =
            (from.take_u32()?, from.take_u64()?, from.take_u64()?);
        let method = Method::from_bytes(from.take_str()?.as_bytes());
        let method = method.map_err(|why| Malformed::odd(why.to_string()))?;
        let target = from.take_str()?;
        let headers = take_headers(from)?;
        let body = Bytes::copy_from_slice(from);
        Ok(Self { partition, control, patience_ms, method, target, headers, body })
    }
}

impl Reply {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out).expect("memory takes all bytes");
        out
    }

    fn write(&self, out: &mut Vec<u8>) -> std::io::Result<()> {
        match self {
            Self::Answered { control, status, headers, body } => {
                out.put_u8(1)?;
                out.put_u64(*control)?;
                out.put_u32((*status).into())?;
                put_headers(out, headers)?;
                out.extend(body);
                Ok(())
            }
            Self::NotMine => out.put_u8(2),
            Self::NobodyThere | Self::Lost => out.put_u8(3),
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut from = bytes;
        let from = &mut from;
        Ok(match from.take_u8()? {
            1 => {
                let (control, status) = (from.take_u64()?, from.take_u32()? as u16);
                let headers = take_headers(from)?;
                let body = Bytes::copy_from_slice(from);
                Self::Answered { control, status, headers, body }
            }
            2 => Self::NotMine,
            _ => Self::Lost,
        })
    }
}

/// Bytes of a part beside what it carries.
const PART_BYTES: usize = 16;
/// Requests whose parts have not all come are forgotten after this.
const PARTS_TIMEOUT: Duration = Duration::from_secs(30);

/// Cuts a message into parts: `part u32 · parts u32 · id u64 · bytes`.
fn parts(id: u64, bytes: &[u8], most: usize) -> Vec<Vec<u8>> {
    let most = most.saturating_sub(PART_BYTES).max(1);
    let count = bytes.len().div_ceil(most).max(1) as u32;
    let cut = |part: u32| {
        let begin = part as usize * most;
        let carried = &bytes[begin.min(bytes.len())..(begin + most).min(bytes.len())];
        let mut out = Vec::with_capacity(PART_BYTES + carried.len());
        out.extend(part.to_le_bytes());
        out.extend(count.to_le_bytes());
        out.extend(id.to_le_bytes());
        out.extend(carried);
        out
    };
    (0..count).map(cut).collect()
}

/// Parts that have come, by who sent them.
struct Gathering<K>(HashMap<K, (u32, Vec<u8>, Instant)>);

impl<K: std::hash::Hash + Eq + Clone> Gathering<K> {
    /// Takes a part; the whole when it was the last. Parts of one message come in order.
    fn push(&mut self, from: impl FnOnce(u64) -> K, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut rest = bytes;
        let (part, count) = (rest.take_u32().ok()?, rest.take_u32().ok()?);
        let key = from(rest.take_u64().ok()?);
        if count == 1 {
            return Some(rest.to_vec());
        }
        if part == 0 {
            self.0.retain(|_, (_, _, begun)| begun.elapsed() < PARTS_TIMEOUT);
            self.0.insert(key.clone(), (0, Vec::new(), Instant::now()));
        }
        let (next, whole, _) = self.0.get_mut(&key)?;
        if *next != part {
            self.0.remove(&key);
            return None;
        }
        *next += 1;
        whole.extend(rest);
        match part + 1 == count {
            true => self.0.remove(&key).map(|(_, whole, _)| whole),
            false => None,
        }
    }
}

type Waiting = Mutex<HashMap<u64, oneshot::Sender<Reply>>>;

/// Somebody waits for an answer, until this is dropped.
struct Waits<'a>(&'a Waiting, u64);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        locked(self.0).remove(&self.1);
    }
}

/// Asks other nodes, and lets them ask this one. Clones are the same.
#[derive(Clone)]
pub struct Wire {
    client: Client,
    prefix: String,
    node: String,
    waiting: Arc<Waiting>,
    ids: Arc<AtomicU64>,
}

impl Wire {
    /// For a node; `answers` are listened to on the client's threads.
    pub async fn open(
        client: &Client,
        prefix: &str,
        node: &str,
    ) -> Result<Self, async_nats::SubscribeError> {
        let waiting: Arc<Waiting> = Arc::default();
        let subject = format!("{prefix}.answer.{node}.*");
        let mut answers = client.subscribe(subject).await?;
        let wire = Self {
            client: client.clone(),
            prefix: prefix.to_owned(),
            node: node.to_owned(),
            waiting: waiting.clone(),
            ids: Arc::default(),
        };
        tokio::spawn(async move {
            let mut gathering = Gathering(HashMap::new());
            while let Some(message) = answers.next().await {
                let id = message.subject.rsplit('.').next().and_then(|id| id.parse::<u64>().ok());
                let Some(id) = id else { continue };
                let reply = match message.status {
                    Some(NatsStatus::NO_RESPONDERS) => Some(Reply::NobodyThere),
                    _ => gathering
                        .push(|_| id, &message.payload)
                        .map(|bytes| Reply::decode(&bytes).unwrap_or(Reply::Lost)),
                };
                if let Some(reply) = reply
                    && let Some(asked) = locked(&waiting).remove(&id)
                {
                    let _ = asked.send(reply);
                }
            }
        });
        Ok(wire)
    }

    fn most_bytes(&self) -> usize {
        self.client.server_info().max_payload.clamp(4096, 1 << 20) - 1024
    }

    /// Asks a node.
    pub async fn ask(&self, node: &str, call: &Call, patience: Duration) -> Reply {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let (send, receive) = oneshot::channel();
        locked(&self.waiting).insert(id, send);
        // Whoever does not want the answer any more drops this.
        let _waits = Waits(&self.waiting, id);
        let subject = format!("{}.ask.{node}", self.prefix);
        let answer_to = format!("{}.answer.{}.{id}", self.prefix, self.node);
        let mut sent = true;
        for part in parts(id, &call.encode(), self.most_bytes()) {
            let publish =
                self.client.publish_with_reply(subject.clone(), answer_to.clone(), part.into());
            sent &= publish.await.is_ok();
        }
        let reply = match sent {
            true => tokio::time::timeout(patience, receive).await,
            false => Ok(Ok(Reply::Lost)),
        };
        reply.ok().and_then(Result::ok).unwrap_or(Reply::Lost)
    }

    /// Answers what others ask, each in a task of its own on `threads`, until it is dropped.
    pub async fn answer<F, A>(
        &self,
        threads: tokio::runtime::Handle,
        answer: F,
    ) -> Result<tokio::task::JoinHandle<()>, async_nats::SubscribeError>
    where
        F: Fn(Call) -> A + Send + Sync + 'static,
        A: Future<Output = Reply> + Send + 'static,
    {
        let mut calls = self.client.subscribe(format!("{}.ask.{}", self.prefix, self.node)).await?;
        let wire = self.clone();
        Ok(tokio::spawn(async move {
            let mut gathering = Gathering(HashMap::new());
            while let Some(message) = calls.next().await {
                let Some(answer_to) = message.reply.clone() else { continue };
                let key = answer_to.to_string();
                let Some(bytes) = gathering.push(|_| key, &message.payload) else { continue };
                let Ok(call) = Call::decode(&bytes) else { continue };
                let (reply, wire) = (answer(call), wire.clone());
                threads.spawn(async move {
                    let reply = reply.await.encode();
                    for part in parts(0, &reply, wire.most_bytes()) {
                        // Whoever asked may have gone away.
                        let _ = wire.client.publish(answer_to.clone(), part.into()).await;
                    }
                });
            }
        }))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::header;

    #[test]
    fn requests_and_answers_come_back_as_they_were_sent() {
        let call = Call {
            partition: 7,
            control: 3,
            patience_ms: 9,
            method: Method::POST,
            target: "/v1/apps/shop/decide?x=1".to_owned(),
            headers: HeaderMap::from_iter([(
                header::CONTENT_TYPE,
                HeaderValue::from_static("application/json"),
            )]),
            body: Bytes::from_static(b"{}"),
        };
        assert_eq!(Call::decode(&call.encode()).unwrap(), call);
        let (headers, body) = (call.headers.clone(), call.body.clone());
        let answered = Reply::Answered { control: 5, status: 201, headers, body };
        for reply in [answered, Reply::NotMine] {
            assert_eq!(Reply::decode(&reply.encode()).unwrap(), reply);
        }
        assert!(Call::decode(&call.encode()[..9]).is_err());
    }

    #[test]
    fn parts_become_the_whole_in_order_and_nothing_without_one_of_them() {
        let bytes: Vec<u8> = (0..1000u32).map(|n| n as u8).collect();
        for most in [17, 100, 999, 1015, 1016, 5000] {
            let all = parts(4, &bytes, most);
            assert!(all.iter().all(|part| part.len() <= most));
            let mut gathering = Gathering(HashMap::new());
            let whole: Vec<_> =
                all.iter().filter_map(|part| gathering.push(|id| id, part)).collect();
            assert_eq!(whole, std::slice::from_ref(&bytes));
            if all.len() > 2 {
                let mut gathering = Gathering(HashMap::new());
                let lacks = all.iter().enumerate().filter(|(at, _)| *at != 1);
                assert_eq!(lacks.filter_map(|(_, p)| gathering.push(|id| id, p)).count(), 0);
            }
        }
        assert_eq!(parts(1, &[], 100).len(), 1);
    }
}
