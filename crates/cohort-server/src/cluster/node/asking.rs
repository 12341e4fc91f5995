//! How does a node ask the owner of a partition, and when does it ask again?

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{LOOK, Node};
use crate::cluster::members::View;
use crate::cluster::wire::{Call, Reply};

/// How long whoever asks waits before it looks again who owns a partition.
const AGAIN: Duration = Duration::from_millis(15);

impl Node {
    /// Asks the owner of a partition, whoever that is, until somebody answers or time is up. What may have been done is
    /// asked again only where asking twice is asking once.
    pub async fn ask(&self, mut call: Call, twice_is_once: bool, until: Instant) -> Reply {
        call.control = self.control();
        let mut is_sure = false;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Reply::NobodyThere;
            }
            call.patience_ms = left.as_millis() as u64;
            let here = self.serves(call.partition);
            let reply = match here {
                Some(owned) => owned.answer(&call).await,
                None => {
                    let owner =
                        self.view().owner(call.partition, Instant::now()).map(|o| o.node.clone());
                    match owner.filter(|owner| *owner != self.name()) {
                        // Boxed, as is what is rare below: most requests are answered here.
                        Some(owner) => {
                            let patience = left.min(self.patience());
                            Box::pin(self.ask_owner(&owner, &call, patience)).await
                        }
                        None => Reply::NotMine,
                    }
                }
            };
            match reply {
                Reply::Answered { status: 503, ref body, .. } if is_not_done(body) => {}
                Reply::Answered { status: 503, ref body, .. }
                    if twice_is_once && is_in_doubt(body) => {}
                // What was made at another node a moment ago may not have been heard of here.
                Reply::Answered { status: 400..500, ref body, .. }
                    if !is_sure && is_not_known(body) =>
                {
                    is_sure = true;
                    Box::pin(self.hear_of_apps(left)).await;
                    if self.control() <= call.control {
                        return reply;
                    }
                    call.control = self.control();
                    continue;
                }
                Reply::Answered { control, .. } => {
                    self.control.fetch_max(control, Ordering::Relaxed);
                    return reply;
                }
                Reply::Lost if !twice_is_once => return reply,
                _ => {}
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Asks another node as long as it owns the partition: one that died will not answer, and whoever asks need not wait
    /// for that longer than others need to notice.
    async fn ask_owner(&self, owner: &str, call: &Call, patience: Duration) -> Reply {
        let mut asking = std::pin::pin!(self.wire.ask(owner, call, patience));
        loop {
            if let Ok(reply) = tokio::time::timeout(LOOK, &mut asking).await {
                return reply;
            }
            let owns =
                |view: &View| view.owner(call.partition, Instant::now()).map(|o| o.node == owner);
            if owns(&self.view()) != Some(true) {
                // What it answered before it gave the partition up may be under way.
                return tokio::time::timeout(3 * LOOK, asking).await.unwrap_or(Reply::Lost);
            }
        }
    }

    /// Hears of everything that was asked of apps until now, unless that takes too long.
    pub(in crate::cluster) async fn hear_of_apps(&self, patience: Duration) {
        let (feed, now) = (self.context.feed.clone(), Instant::now());
        let look = tokio::task::spawn_blocking(move || feed.catch_up(now));
        if let Ok(Ok(Err(why))) = tokio::time::timeout(patience, look).await {
            tracing::warn!(%why, "the control stream could not be read");
        }
    }

    /// How long one attempt at another node may take: a dead node must not take all the time there is.
    fn patience(&self) -> Duration {
        let timeout = Duration::from_millis(self.context.config.request_timeout_ms);
        timeout.max(Duration::from_secs(1))
    }
}

fn code_of(body: &[u8]) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    Some(body.get("error")?.get("code")?.as_str()?.to_owned())
}

/// Whether a refusal says that nothing was done because the partition goes elsewhere.
fn is_not_done(body: &[u8]) -> bool {
    code_of(body).as_deref() == Some("shutting_down")
}

/// Whether a refusal says that there is no such app, key or item.
fn is_not_known(body: &[u8]) -> bool {
    let unknown = ["app_unknown", "key_refused", "item_unknown", "nothing_matches"];
    code_of(body).is_some_and(|code| unknown.contains(&code.as_str()))
}

/// Whether a refusal says that nobody knows whether it was done.
pub(in crate::cluster) fn is_in_doubt(body: &[u8]) -> bool {
    code_of(body).is_some_and(|code| code == "journal_failed" || code == "in_doubt")
}
