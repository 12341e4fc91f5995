//! What refits do to decides: the same decides and rewards while the app refits all the time and
//! while it does not.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::client::{self, Connection, Step, Workload, open_loop};
use super::{DIM, ITEMS, TURNS, figures};

const CLIENTS: usize = 64;
const SECONDS: f64 = 4.0;
/// Rewards of all users before the measurement: a refit looks at all of them.
const REWARDS: usize = 200_000;
/// Kinds of users; each likes one direction.
const KINDS: usize = 10;

/// At a quarter of the rate at which decides alone saturate the service: every decide is followed
/// by its reward. Users have at least two rewards each.
pub async fn measure(address: &str, saturation: f64, users: usize) {
    let mut admin = Connection::open(address).await;
    let app = format!(r#"{{"name":"refits","dim":{DIM},"window_ms":20000}}"#);
    assert_eq!(admin.ask(&client::post("/v1/apps", &app)).await, 201);
    teach(address, "refits", users, (REWARDS / users).max(2)).await;
    // The service closes connections on which nobody has asked for long.
    let mut admin = Connection::open(address).await;
    let workload = decide_and_reward("refits", users);
    let rate = saturation / 4.0;
    // A refit that was under way must be done before decides without one are measured, and some
    // must be done, and taken over, while those with refits are.
    let a_refit = users as f64 / 100_000.0;
    let (settled, seconds) = (Duration::from_secs_f64(a_refit), SECONDS + a_refit);
    let (mut still, mut restless, mut refits) = (f64::INFINITY, f64::INFINITY, 0.0);
    for _ in 0..TURNS {
        set_ratio(&mut admin, 10.0).await;
        tokio::time::sleep(settled).await;
        still = still.min(open_loop(address, CLIENTS, seconds, rate, &workload).await.p99_ms);
        set_ratio(&mut admin, 1.000_001).await;
        let (_, before) = admin.histogram("cohort_refit_seconds").await;
        restless = restless.min(open_loop(address, CLIENTS, seconds, rate, &workload).await.p99_ms);
        refits += admin.histogram("cohort_refit_seconds").await.1 - before;
    }
    let (took, count) = admin.histogram("cohort_refit_seconds").await;
    figures::keep(
        if users > super::USERS { "refits_of_many" } else { "refits" },
        &[
            ("users", users as f64, ""),
            ("decides_per_second", rate, ""),
            ("refits_while_measured", refits, ""),
            ("seconds_a_refit", took / count.max(1.0), ""),
            ("p99_without_refits_ms", still, ""),
            ("p99_while_refitting_ms", restless, ""),
            ("p99_while_refitting_against_without", restless / still, "at most 2"),
        ],
    );
}

/// Refits as often as this, and waits a second: what a change of settings costs is not measured.
async fn set_ratio(admin: &mut Connection, ratio: f64) {
    let body = format!(r#"{{"params":{{"refit_ratio":{ratio}}}}}"#);
    let request = client::send("PATCH", "/v1/apps/refits", &body);
    assert_eq!(admin.ask(&request).await, 200, "{}", admin.answer());
    tokio::time::sleep(Duration::from_secs(1)).await;
}

/// Gives every user of an app some rewards for items at random.
pub async fn teach(address: &str, app: &str, users: usize, rewards: usize) {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut connection = Connection::open(address).await;
    let decide = format!("/v1/apps/{app}/decide-batch");
    let reward = format!("/v1/apps/{app}/rewards");
    for round in 0..rewards {
        for first in (0..users).step_by(1000) {
            let users: Vec<String> = (first..first + 1000)
                .map(|user| {
                    format!(r#"{{"user":"user-{user}","decision_id":"taught-{round}-{user}"}}"#)
                })
                .collect();
            let item = features(&mut rng);
            let body =
                format!(r#"{{"items":[{}],"users":[{}]}}"#, as_item(0, &item), users.join(","));
            assert_eq!(connection.ask(&client::post(&decide, &body)).await, 200);
            let rewards: Vec<String> = (first..first + 1000)
                .map(|user| {
                    let liked = liking(user, &item) + rng.random_range(-0.1..0.1);
                    format!(r#"{{"decision_id":"taught-{round}-{user}","reward":{liked}}}"#)
                })
                .collect();
            let body = format!(r#"{{"rewards":[{}]}}"#, rewards.join(","));
            assert_eq!(connection.ask(&client::post(&reward, &body)).await, 200);
        }
    }
}

pub fn decide_and_reward(app: &'static str, users: usize) -> Workload {
    let state = RefCell::new((0usize, ChaCha8Rng::seed_from_u64(4)));
    let offers: Vec<Rc<Vec<Vec<f64>>>> = {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let mut offer = || Rc::new((0..ITEMS).map(|_| features(&mut rng)).collect());
        (0..500).map(|_| offer()).collect()
    };
    let bodies: Vec<String> = offers.iter().map(|offer| as_items(offer)).collect();
    Workload::of_steps(move || {
        let (at, rng) = &mut *state.borrow_mut();
        *at += 1;
        let (user, noise) = (rng.random_range(0..users), rng.random_range(-0.1..0.1));
        let (offer, body) = (offers[*at % offers.len()].clone(), &bodies[*at % offers.len()]);
        let id = format!("d-{at}");
        let decide = format!(r#"{{"user":"user-{user}","decision_id":"{id}","items":[{body}]}}"#);
        let follow = move |answer: &str| {
            let item = answer.split_once(r#""item":"item-"#).map_or("", |(_, rest)| rest);
            let digits = item.split('"').next().unwrap_or_default();
            let chosen: usize = digits.parse().expect("an item was chosen");
            let liked = liking(user, &offer[chosen]) + noise;
            let reward = format!(r#"{{"decision_id":"{id}","reward":{liked}}}"#);
            client::post(&format!("/v1/apps/{app}/reward"), &reward)
        };
        let request = client::post(&format!("/v1/apps/{app}/decide"), &decide);
        Step { request, follow: Some(Box::new(follow)) }
    })
}

/// How a user likes an item.
fn liking(user: usize, item: &[f64]) -> f64 {
    item[user % KINDS] - 0.5 * item[(user + 3) % KINDS]
}

fn features(rng: &mut ChaCha8Rng) -> Vec<f64> {
    let bound = 1.0 / (DIM as f64).sqrt();
    (0..DIM).map(|_| rng.random_range(-bound..bound)).collect()
}

fn as_item(at: usize, features: &[f64]) -> String {
    let features: Vec<String> = features.iter().map(f64::to_string).collect();
    format!(r#"{{"id":"item-{at}","features":[{}]}}"#, features.join(","))
}

fn as_items(offer: &[Vec<f64>]) -> String {
    let items = offer.iter().enumerate().map(|(at, features)| as_item(at, features));
    items.collect::<Vec<_>>().join(",")
}

/// Candidates as they are sent.
pub fn items(rng: &mut ChaCha8Rng, count: usize) -> String {
    as_items(&(0..count).map(|_| features(rng)).collect::<Vec<_>>())
}
