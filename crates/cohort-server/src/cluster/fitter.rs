//! What users of all partitions have in common: whoever owns the control partition fits it.
//!
//! Owners say when an app has clearly more rewards than before. Whoever fits then asks all of them ([`cohort::SharedFits`]), and what
//! it finds is an event of the control stream, which all partitions follow and write down where they take it over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::http::Method;
use futures_util::StreamExt;
use tokio::sync::mpsc;

use super::front::encoded;
use super::node::Node;
use super::partition::Partition;
use super::wire::{Call, Reply};
use crate::bytes::{Malformed, Put, Take};
use crate::engine::Request;
use crate::engine::runtime::Handle;

/// How often all apps are looked at, whatever was said: what is said may be lost.
const LOOK: Duration = Duration::from_secs(30);
/// How long is waited for one answer of all partitions.
const PATIENCE: Duration = Duration::from_secs(20);
/// Growth of an app's rewards from one look to the next.
const GROWTH: f64 = 1.01;
/// How long is waited where a fit of the same app is under way.
const AGAIN: Duration = Duration::from_millis(20);

/// What an owner says of an app.
#[derive(Clone, Debug, PartialEq)]
struct Hint {
    partition: u32,
    app: String,
    rewards: f64,
}

impl Hint {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut write = || -> std::io::Result<()> {
            out.put_u32(self.partition)?;
            out.put_str(&self.app)?;
            out.put_f64(self.rewards)
        };
        write().expect("memory takes all bytes");
        out
    }

    fn decode(mut from: &[u8]) -> Result<Self, Malformed> {
        let (partition, app, rewards) = (from.take_u32()?, from.take_str()?, from.take_f64()?);
        Ok(Self { partition, app, rewards })
    }
}

fn subject(prefix: &str) -> String {
    format!("{prefix}.learned")
}

/// Says what a partition learns, until its engine ends.
pub(super) async fn tell(
    client: async_nats::Client,
    prefix: String,
    partition: u32,
    handle: Handle,
) {
    let mut learned = handle.learned();
    let mut told = BTreeMap::new();
    while learned.changed().await.is_ok() {
        let now = learned.borrow_and_update().clone();
        for (app, rewards) in &now {
            if told.get(app) != Some(rewards) {
                let hint = Hint { partition, app: app.clone(), rewards: *rewards };
                // Whoever does not hear of it looks by itself after a while.
                let _ = client.publish(subject(&prefix), hint.encode().into()).await;
            }
        }
        told = now;
    }
}

/// What is known of an app.
#[derive(Default)]
struct Known {
    /// Rewards by partition, as they said.
    rewards: BTreeMap<u32, f64>,
    /// All of them, when it was last looked at.
    looked: f64,
    /// When users are looked at for changes.
    next_look: Arc<Mutex<f64>>,
}

impl Known {
    fn total(&self) -> f64 {
        self.rewards.values().sum()
    }
}

/// Tells that a fit has ended, however it did.
struct Ends(String, mpsc::UnboundedSender<String>);

impl Drop for Ends {
    fn drop(&mut self) {
        // Nobody may be there any more.
        let _ = self.1.send(std::mem::take(&mut self.0));
    }
}

/// Fits while this node owns the control partition, for ever.
pub(super) async fn run(node: Arc<Node>) {
    let (ended, mut ends) = mpsc::unbounded_channel();
    let mut known = BTreeMap::<String, Known>::new();
    let mut busy = BTreeSet::new();
    let mut looked_at: Option<Instant> = None;
    let client = node.context.nats.client();
    loop {
        let prefix = node.context.config.nats_prefix.clone();
        let Ok(mut hints) = client.subscribe(subject(&prefix)).await else {
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        };
        loop {
            tokio::select! {
                hint = hints.next() => match hint {
                    Some(hint) => {
                        if let Ok(Hint { partition, app, rewards }) = Hint::decode(&hint.payload) {
                            known.entry(app).or_default().rewards.insert(partition, rewards);
                        }
                    }
                    None => break,
                },
                Some(app) = ends.recv() => { busy.remove(&app); }
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
            }
            let Some(control) = node.owned(node.context.shape.control()) else {
                (known, looked_at) = (BTreeMap::new(), None);
                continue;
            };
            let directory = control.handle().directory();
            known.retain(|app, _| directory.app(app).is_some());
            let all = looked_at.is_none_or(|at| at.elapsed() > LOOK);
            if all {
                looked_at = Some(Instant::now());
                for app in directory.names() {
                    known.entry(app.to_owned()).or_default();
                }
            }
            for (app, of_app) in &mut known {
                let total = of_app.total();
                let grew = total > of_app.looked && total >= of_app.looked * GROWTH;
                if busy.contains(app) || !(all || grew || total < of_app.looked) {
                    continue;
                }
                of_app.looked = total;
                busy.insert(app.clone());
                let ends = Ends(app.clone(), ended.clone());
                tokio::spawn(begin(node.clone(), control.clone(), ends, of_app.next_look.clone()));
            }
        }
    }
}

/// Has the engine of the control partition look whether a fit is due.
async fn begin(node: Arc<Node>, control: Arc<Partition>, ends: Ends, next_look: Arc<Mutex<f64>>) {
    let app = ends.0.clone();
    let ends = Arc::new(ends);
    for _ in 0..50 {
        let (asking, asked, ends) = (node.clone(), app.clone(), ends.clone());
        let ask = move |question: &[u8]| {
            let _until_dropped = &ends;
            // The client's threads are there as long as the node is, those of requests end before.
            let nats = asking.context.nats.clone();
            nats.wait(ask_all(&asking, &asked, Bytes::copy_from_slice(question)))
        };
        let request = Request::FitTogether {
            app: app.clone(),
            ask: Box::new(ask),
            next_look: next_look.clone(),
        };
        match control.handle().ask(request).await {
            Err(crate::engine::Refusal::Overloaded) => tokio::time::sleep(AGAIN).await,
            _ => return,
        }
    }
}

/// Asks all partitions; `None` where one does not answer.
async fn ask_all(node: &Node, app: &str, question: Bytes) -> Option<Vec<Vec<u8>>> {
    let until = Instant::now() + PATIENCE;
    let asking = (0..node.context.shape.partitions).map(|partition| {
        let call = Call {
            partition,
            method: Method::POST,
            target: format!("/internal/fit/{}", encoded(app)),
            body: question.clone(),
            ..Call::default()
        };
        node.ask(call, true, until)
    });
    let replies = futures_util::future::join_all(asking).await;
    let told = replies.into_iter().map(|reply| match reply {
        Reply::Answered { status: 200, body, .. } => Some(body.to_vec()),
        _ => None,
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_read_as_written() {
        let hint = Hint { partition: 7, app: "shop é".to_owned(), rewards: 12.5 };
        let bytes = hint.encode();
        assert_eq!(Hint::decode(&bytes).unwrap(), hint);
        assert!((0..bytes.len()).all(|length| Hint::decode(&bytes[..length]).is_err()));
    }
}
