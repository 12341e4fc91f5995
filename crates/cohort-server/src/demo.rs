//! Who comes when nobody does? Readers that are made up, so that a newcomer sees cohorts form.
//!
//! Readers of a magazine: each belongs to one of five kinds with tastes of its own, and differs a
//! little from its kind. They come at very different rates, more of them as time goes on; how much
//! they liked an article is known some seconds later, and of every seventh never. A tenth of the
//! decisions are of the control group.
//!
//! The demo asks the engine as every client does, through the same queue.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::engine::Refusal;
use crate::engine::request::{Answer, ForUser, Offer, Request};
use crate::engine::runtime::Handle;
use crate::settings::AppSettings;
use crate::trial::Trial;

/// The app that the readers come to.
pub const APP: &str = "demo";
/// Where a demo keeps its data, beside nobody else's.
pub const FOLDER: &str = "cohort-demo-data";

/// What articles are about: the features.
pub const TOPICS: [&str; 6] = ["science", "sport", "food", "travel", "music", "politics"];
const ARTICLES_PER_TOPIC: usize = 6;
const READERS: usize = 400;
/// Readers at the beginning; the others come one after the other.
const FIRST_READERS: f64 = 60.0;
const NEW_READERS_PER_SECOND: f64 = 8.0;
const DECISIONS_PER_SECOND: f64 = 150.0;
const OFFERED: usize = 8;
const NOISE: f64 = 0.18;
/// How much readers of one kind differ.
const SPREAD: f64 = 0.07;
/// The share of readers who never say how they liked it.
const SILENT: f64 = 1.0 / 7.0;
const CONTROL: f64 = 0.1;
const WINDOW_MS: u64 = 30_000;
const STEP: Duration = Duration::from_millis(50);

/// Share of readers and taste of each kind.
const KINDS: [(f64, [f64; 6]); 5] = [
    (0.30, [0.9, 0.1, 0.2, 0.3, 0.1, 0.6]),
    (0.25, [0.1, 0.9, 0.3, 0.2, 0.4, 0.1]),
    (0.20, [0.2, 0.1, 0.9, 0.8, 0.2, 0.0]),
    (0.15, [0.3, 0.2, 0.1, 0.4, 0.9, 0.2]),
    (0.10, [0.5, 0.4, 0.1, 0.0, 0.0, 0.9]),
];

/// A made-up reader.
struct Reader {
    name: String,
    taste: Vec<f64>,
    /// How often it comes, compared with others.
    rate: f64,
}

/// A reader that comes.
struct Visit {
    reader: usize,
    request: Option<Request>,
}

/// The made-up world.
struct World {
    rng: ChaCha8Rng,
    readers: Vec<Reader>,
    articles: Vec<(String, Vec<f64>)>,
}

/// Drives the service until it stops.
pub async fn run(engine: Handle) {
    let mut world = World::new(1);
    if let Err(why) = set_up(&engine, &world).await {
        tracing::error!(%why, "the demo cannot begin");
        return;
    }
    let started = Instant::now();
    let (mut asked, mut opinions) = (0.0, BinaryHeap::new());
    let mut clock = tokio::time::interval(STEP);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        clock.tick().await;
        let seconds = started.elapsed().as_secs_f64();
        // What could not be asked in time is not made up for.
        asked = f64::max(asked, seconds * DECISIONS_PER_SECOND - DECISIONS_PER_SECOND / 2.0);
        let mut visits = Vec::new();
        while asked < seconds * DECISIONS_PER_SECOND {
            asked += 1.0;
            visits.push(world.visit(seconds));
        }
        // All at once, as readers come: their answers share a sync of the disk.
        let answers =
            join_all(visits.iter_mut().filter_map(|visit| Some(engine.ask(visit.request.take()?))));
        for (answer, visit) in answers.await.into_iter().zip(&visits) {
            match answer {
                Ok(answer) => {
                    if let Some((later_s, decision, reward)) = world.opinion(visit.reader, answer) {
                        let due = started.elapsed() + Duration::from_secs_f64(later_s);
                        opinions.push(Reverse((due, decision, reward.to_bits())));
                    }
                }
                Err(Refusal::Overloaded) => {}
                Err(Refusal::AppDeleted { .. } | Refusal::ShuttingDown) => return,
                Err(why) => tracing::warn!(%why, "a made-up reader was refused"),
            }
        }
        let mut rewards = Vec::new();
        while opinions.peek().is_some_and(|Reverse((due, ..))| *due <= started.elapsed()) {
            let Some(Reverse((_, decision, reward))) = opinions.pop() else { break };
            rewards.push((decision, f64::from_bits(reward)));
        }
        if !rewards.is_empty() {
            let _ = engine.ask(Request::Reward { app: APP.to_owned(), rewards }).await;
        }
    }
}

/// Makes the app and its catalogue; one from an earlier demo is gone on with.
async fn set_up(engine: &Handle, world: &World) -> Result<(), Refusal> {
    let settings = AppSettings { window_ms: WINDOW_MS, ..AppSettings::new(TOPICS.len()) };
    let feature_names = TOPICS.map(str::to_owned).to_vec();
    let trial = Box::new(Trial { control: CONTROL, log_candidates: true, feature_names });
    let learning = Box::default();
    let create = Request::CreateApp { app: APP.to_owned(), settings, trial, learning, key: None };
    match engine.ask(create).await {
        Ok(_) | Err(Refusal::AppExists { .. }) => {}
        Err(why) => return Err(why),
    }
    engine.ask(Request::PutItems { app: APP.to_owned(), items: world.articles.clone() }).await?;
    Ok(())
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let readers = (0..READERS).map(|number| Reader::new(number, &mut rng)).collect();
        let mut articles = Vec::new();
        for (topic, name) in TOPICS.iter().enumerate() {
            for number in 1..=ARTICLES_PER_TOPIC {
                articles.push((format!("{name}-{number}"), features(topic, &mut rng)));
            }
        }
        Self { rng, readers, articles }
    }

    /// A reader comes and is to be shown an article.
    fn visit(&mut self, seconds: f64) -> Visit {
        let known = FIRST_READERS + NEW_READERS_PER_SECOND * seconds;
        let reader = self.next_reader((known as usize).min(READERS));
        let ids: Vec<String> = self.offer().iter().map(|at| self.articles[*at].0.clone()).collect();
        let user = self.readers[reader].name.clone();
        let request = Request::Decide {
            app: APP.to_owned(),
            offer: Offer::new(ids.clone(), vec![None; ids.len()]),
            users: vec![ForUser { user, decision: None, shown: true }],
            explain: false,
        };
        Visit { reader, request: Some(request) }
    }

    /// How the reader likes what it was shown: after how many seconds it says so, of which decision,
    /// and how much; nothing if it never says.
    fn opinion(&mut self, reader: usize, answer: Answer) -> Option<(f64, String, f64)> {
        let Answer::Decided(mut decided) = answer else { return None };
        let made = decided.pop()?.ok()?;
        let shown = made.ranking.first();
        let (_, features) = self.articles.iter().find(|(id, _)| id == shown)?;
        let taste = &self.readers[reader].taste;
        let liked: f64 = taste.iter().zip(features).map(|(taste, feature)| taste * feature).sum();
        if self.rng.random::<f64>() < SILENT {
            return None;
        }
        let reward = (liked + NOISE * normal(&mut self.rng)).clamp(0.0, 1.0);
        let later_s = 0.3 - 1.5 * (1.0 - self.rng.random::<f64>()).ln();
        Some((later_s, made.id, reward))
    }

    /// One of the first readers, as often as each comes.
    fn next_reader(&mut self, known: usize) -> usize {
        let total: f64 = self.readers[..known].iter().map(|reader| reader.rate).sum();
        let mut left = self.rng.random::<f64>() * total;
        for (at, reader) in self.readers[..known].iter().enumerate() {
            left -= reader.rate;
            if left <= 0.0 {
                return at;
            }
        }
        known - 1
    }

    /// Some articles, each once.
    fn offer(&mut self) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.articles.len()).collect();
        for at in 0..OFFERED {
            let other = self.rng.random_range(at..all.len());
            all.swap(at, other);
        }
        all.truncate(OFFERED);
        all
    }
}

impl Reader {
    fn new(number: usize, rng: &mut ChaCha8Rng) -> Self {
        let mut left = rng.random::<f64>();
        let kind = KINDS.iter().find(|(share, _)| {
            left -= share;
            left < 0.0
        });
        let (_, taste) = kind.unwrap_or(&KINDS[0]);
        Self {
            name: format!("reader-{number:03}"),
            taste: taste.iter().map(|liking| liking + SPREAD * normal(rng)).collect(),
            rate: normal(rng).exp(),
        }
    }
}

/// An article is mostly about one topic and a little about others; its length is 1.
fn features(topic: usize, rng: &mut ChaCha8Rng) -> Vec<f64> {
    let about = |at: usize, rng: &mut ChaCha8Rng| {
        if at == topic { 1.0 } else { 0.45 * rng.random::<f64>().powi(2) }
    };
    let mut features: Vec<f64> = (0..TOPICS.len()).map(|at| about(at, rng)).collect();
    let length = features.iter().map(|value| value * value).sum::<f64>().sqrt();
    features.iter_mut().for_each(|value| *value /= length);
    features
}

/// A standard normal number, by Box and Muller.
fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}
