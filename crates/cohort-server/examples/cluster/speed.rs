//! Decides and rewards through a cluster of one node, and through one that forwards all of them, beside the embedded service;
//! acknowledged rewards beside raw acknowledged publishes.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use cohort_server::cluster::log::Log;
use cohort_server::cluster::nats::Nats;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::client::{Connection, Step, Workload, closed_loop, post};
use crate::nats::Servers;
use crate::{Running, aside, ask, figures, wait_until_served};

const DIM: usize = 15;
const ITEMS: usize = 25;
const USERS: usize = 10_000;
const CLIENTS: usize = 128;
const TURNS: usize = 6;
const SECONDS: f64 = 3.0;
/// Bytes of a frame with one reward, about.
const FRAME: usize = 200;

/// A decide and the reward for it.
fn pairs() -> Workload {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut body = |user: usize| {
        let items = (0..ITEMS).map(|item| {
            let row: Vec<String> =
                (0..DIM).map(|_| format!("{:.4}", rng.random_range(-0.3..0.3))).collect();
            format!(r#"{{"id":"item-{item}","features":[{}]}}"#, row.join(","))
        });
        let items = items.collect::<Vec<_>>().join(",");
        format!(r#"{{"user":"user-{}","items":[{items}]}}"#, user * 7919 % USERS)
    };
    let bodies: Vec<String> = (0..2000).map(&mut body).collect();
    let next = RefCell::new(0usize);
    Workload::of_steps(move || {
        let at = next.replace_with(|at| *at + 1);
        let reward = |answer: &str| {
            let id = answer.split("\"decision_id\":\"").nth(1).and_then(|id| id.split('"').next());
            let id = id.expect("a decision");
            post("/v1/apps/load/reward", &format!(r#"{{"decision_id":"{id}","reward":0.5}}"#))
        };
        let request = post("/v1/apps/load/decide", &bodies[at % bodies.len()]);
        Step { request, follow: Some(Box::new(reward)) }
    })
}

fn of_rank(mut took: Vec<f64>, part: f64) -> f64 {
    took.sort_by(f64::total_cmp);
    took.get((took.len() as f64 * part) as usize).copied().unwrap_or(f64::NAN)
}

/// Rewards of one client, one after the other; how long each took, in milliseconds.
async fn rewards(address: &str, from: usize, seconds: f64, given: &Cell<usize>) -> Vec<f64> {
    let mut connection = Connection::open(address).await;
    let (started, mut took) = (Instant::now(), Vec::new());
    while started.elapsed().as_secs_f64() < seconds {
        let id = from + given.replace(given.get() + 1);
        let body = format!(r#"{{"decision_id":"d-{id}","user":"u-{}","reward":1}}"#, id % 1000);
        let request = post("/v1/apps/rewards/reward", &body);
        let began = Instant::now();
        assert_eq!(connection.ask(&request).await, 200, "{}", connection.answer());
        took.push(began.elapsed().as_secs_f64() * 1e3);
    }
    took
}

async fn prepare(address: &str, count: usize) {
    let app = format!(r#"{{"name":"rewards","dim":{DIM},"window_ms":86400000}}"#);
    ask(address, "POST", "/v1/apps", &app, 201).await;
    let item = r#"{"id":"a","features":[0.1,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}"#;
    for first in (0..count).step_by(1000) {
        let users: Vec<String> = (first..first + 1000)
            .map(|n| format!(r#"{{"user":"u-{}","decision_id":"d-{n}"}}"#, n % 1000))
            .collect();
        let body = format!(r#"{{"items":[{item}],"users":[{}]}}"#, users.join(","));
        ask(address, "POST", "/v1/apps/rewards/decide-batch", &body, 200).await;
    }
}

/// Measures with so many NATS servers and partitions.
pub async fn measure(servers: usize, partitions: usize) {
    let folder = tempfile::tempdir_in(".").expect("a folder");
    let nats = aside(move || Servers::start(servers));
    let embedded = Running::embedded(folder.path());
    let a = Running::node(&nats, "a", partitions);
    wait_until_served(&a.address, 1).await;
    let b = Running::node(&nats, "b", partitions);
    // It answers, owns nothing, and so forwards everything.
    wait_until_served(&b.address, 2).await;
    ask(&b.address, "POST", "/v1/cluster/drain", r#"{"node":"b"}"#, 204).await;
    wait_until_served(&b.address, 1).await;
    let app = format!(r#"{{"name":"load","dim":{DIM},"window_ms":20000}}"#);
    for address in [&embedded.address, &a.address] {
        ask(address, "POST", "/v1/apps", &app, 201).await;
    }
    println!(
        "{servers} NATS servers, {partitions} partitions, K={ITEMS}, d={DIM}, {CLIENTS} clients"
    );
    let workload = pairs();
    let places = [&embedded.address, &a.address, &b.address];
    let mut rates = [Vec::new(), Vec::new(), Vec::new()];
    for turn in 0..=TURNS {
        for (address, rates) in places.iter().zip(&mut rates) {
            let rate = closed_loop(address, CLIENTS, SECONDS, &workload).await.rate;
            // In the first turn everybody is new.
            if turn > 0 {
                rates.push(rate);
            }
        }
    }
    let [embedded_rate, one, forwarded] = rates.map(|rates| of_rank(rates, 0.5));
    prepare(&a.address, 40_000).await;
    let given = Cell::new(0);
    let (mut acknowledged, mut published) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        acknowledged.extend(rewards(&a.address, 0, 2.0, &given).await);
        let options = nats.options();
        published.extend(aside(move || {
            let nats = Nats::connect(&options, "raw").expect("NATS answers");
            let log = nats.open_log("raw", servers.min(3)).expect("a stream");
            publishes(&log, Duration::from_secs(2))
        }));
    }
    let (reward_p50, reward_p99) =
        (of_rank(acknowledged.clone(), 0.5), of_rank(acknowledged, 0.99));
    let (raw_p50, raw_p99) = (of_rank(published.clone(), 0.5), of_rank(published, 0.99));
    let section = format!("cluster of one node, {servers} servers, {partitions} partitions");
    figures::keep_in(
        "cluster",
        &section,
        &[
            ("embedded_decides_and_rewards_per_second", embedded_rate, ""),
            ("one_node_decides_and_rewards_per_second", one, ""),
            ("forwarded_decides_and_rewards_per_second", forwarded, ""),
            ("one_node_against_embedded", one / embedded_rate, "at least 0.5"),
            ("forwarded_against_embedded", forwarded / embedded_rate, "at least 0.35"),
            ("reward_p50_ms", reward_p50, ""),
            ("reward_p99_ms", reward_p99, ""),
            ("raw_publish_p50_ms", raw_p50, ""),
            ("raw_publish_p99_ms", raw_p99, ""),
            ("reward_p99_against_raw_publish", reward_p99 / raw_p99, "at most 3"),
        ],
    );
}

/// Acknowledged publishes one after the other, each with the sequence that must stand before it.
fn publishes(log: &cohort_server::cluster::nats::NatsLog, time: Duration) -> Vec<f64> {
    let (started, mut took) = (Instant::now(), Vec::new());
    let mut last = log.bounds().expect("the stream answers").last;
    while started.elapsed() < time {
        let began = Instant::now();
        last = log.wait(log.publish(last, &[7; FRAME])).expect("it is acknowledged");
        took.push(began.elapsed().as_secs_f64() * 1e3);
    }
    took
}
