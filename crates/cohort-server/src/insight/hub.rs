//! How do many pages share one answer? Each app that somebody watches is looked at once a second,
//! and all who watch get the same bytes. An app that nobody watches costs nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use tokio::sync::{Mutex, watch};

use super::labels::Labels;
use super::maker::Maker;
use super::view::AppInsight;
use crate::engine::refusal::Refusal;
use crate::engine::runtime::Handle;

/// How often.
pub const TICK: Duration = Duration::from_secs(1);

/// One moment of an app, as JSON.
#[derive(Clone, Debug)]
pub struct Tick {
    /// The bytes of an [`AppInsight`].
    pub json: Bytes,
    /// The same as a server-sent event: made once, however many pages are open.
    pub event: Bytes,
    made: Instant,
}

/// All apps that were ever watched.
#[derive(Default)]
pub struct Hub {
    apps: Mutex<HashMap<String, Arc<Watched>>>,
}

/// One app.
struct Watched {
    maker: Mutex<Maker>,
    latest: watch::Sender<Option<Tick>>,
    is_watched: AtomicBool,
}

impl Hub {
    /// What cohorts are called, as far as somebody has looked.
    pub async fn labels(&self, app: &str) -> Labels {
        let watched = self.apps.lock().await.get(app).cloned();
        match watched {
            Some(watched) => watched.maker.lock().await.labels().clone(),
            None => Labels::default(),
        }
    }

    /// The app as it is: of this second if somebody watches, else made for the caller.
    pub async fn latest(&self, engine: &Handle, app: &str) -> Result<Tick, Refusal> {
        let watched = self.app(app).await;
        let fresh = watched.latest.borrow().clone();
        if let Some(tick) = fresh.filter(|tick| tick.made.elapsed() < TICK + TICK / 2) {
            return Ok(tick);
        }
        let made = watched.tick(engine, app).await;
        self.or_forget(app, made).await
    }

    /// The app from now on, second by second; ends when the app or the service does.
    pub async fn watch(
        &self,
        engine: &Handle,
        app: &str,
    ) -> Result<watch::Receiver<Option<Tick>>, Refusal> {
        let watched = self.app(app).await;
        let receiver = watched.latest.subscribe();
        if !watched.is_watched.swap(true, Ordering::AcqRel) {
            // The first answer is made before anything is promised: an app must be there.
            let first = watched.tick(engine, app).await;
            if first.is_err() {
                watched.is_watched.store(false, Ordering::Release);
            }
            self.or_forget(app, first).await?;
            tokio::spawn(keep_ticking(watched, engine.clone(), app.to_owned()));
        }
        Ok(receiver)
    }

    /// An app that is no more is not remembered.
    pub async fn forget(&self, app: &str) {
        self.apps.lock().await.remove(app);
    }

    async fn app(&self, app: &str) -> Arc<Watched> {
        self.apps.lock().await.entry(app.to_owned()).or_default().clone()
    }

    /// An app that cannot be looked at is not remembered: anybody can ask for any name.
    async fn or_forget<T>(&self, app: &str, made: Result<T, Refusal>) -> Result<T, Refusal> {
        if made.is_err() {
            self.apps.lock().await.remove(app);
        }
        made
    }
}

impl Default for Watched {
    fn default() -> Self {
        Self {
            maker: Mutex::default(),
            latest: watch::Sender::new(None),
            is_watched: AtomicBool::new(false),
        }
    }
}

impl Watched {
    async fn tick(&self, engine: &Handle, app: &str) -> Result<Tick, Refusal> {
        let mut maker = self.maker.lock().await;
        let insight: AppInsight = maker.make(engine, app).await?;
        let json = serde_json::to_string(&insight)
            .map_err(|why| Refusal::Bug { why: format!("an insight that is no JSON: {why}") })?;
        let event = Bytes::from(format!("data: {json}\n\n"));
        let json = event.slice(6..event.len() - 2);
        let tick = Tick { json, event, made: Instant::now() };
        self.latest.send_replace(Some(tick.clone()));
        Ok(tick)
    }
}

/// Looks once a second until nobody watches, or there is nothing to see any more.
async fn keep_ticking(watched: Arc<Watched>, engine: Handle, app: String) {
    let mut clock = tokio::time::interval(TICK);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    clock.tick().await;
    loop {
        clock.tick().await;
        let seen = watched.latest.receiver_count() > 0;
        let ended = seen
            && match watched.tick(&engine, &app).await {
                Ok(_) | Err(Refusal::Overloaded) => false,
                Err(_) => true,
            };
        if !seen || ended {
            watched.is_watched.store(false, Ordering::Release);
            // Whoever still watches is told that there is no more.
            watched.latest.send_replace(None);
            return;
        }
    }
}
