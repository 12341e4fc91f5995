//! How long does one decision among all items of a catalogue take? Items of JSON, without a context and in one that is never
//! the same as before, while the policy learns.

use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::client::{Connection, post, send};
use super::figures;

/// As apps that take JSON have it.
const DIM: usize = 32;
const DECIDES: usize = 200;
/// Decisions before, each with a reward: a policy that knows nothing finds all items alike.
const BEFORE: usize = 2000;
const USERS: usize = 200;

pub async fn measure(address: &str, items: usize) {
    let mut admin = Connection::open(address).await;
    let app = format!(r#"{{"name":"shop","dim":{DIM},"features":"json","window_ms":3600000}}"#);
    assert_eq!(admin.ask(&post("/v1/apps", &app)).await, 201);
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for from in (0..items).step_by(1000) {
        let mut item = |number: usize| {
            let [kind, maker, tag] = [20, 300, 50].map(|most| rng.random_range(0..most));
            let price = rng.random::<f64>() * 100.0;
            format!(
                r#"{{"id":"item-{number}","features":{{"kind":"k{kind}","maker":"m{maker}","tags":["t{tag}","u{}"],"price":{price:.2}}}}}"#,
                tag % 7
            )
        };
        let listed: Vec<String> = (from..items.min(from + 1000)).map(&mut item).collect();
        let body = format!(r#"{{"items":[{}]}}"#, listed.join(","));
        let status = admin.ask(&send("PUT", "/v1/apps/shop/items", &body)).await;
        assert_eq!(status, 204, "items are put");
    }
    let mut ask = async |number: usize, in_context: bool| {
        let hour = rng.random_range(0.0..24.0);
        let device = ["phone", "desktop", "tablet"][rng.random_range(0..3)];
        let context = match in_context {
            true => format!(r#","context":{{"device":"{device}","hour":{hour:.3}}}"#),
            false => String::new(),
        };
        let user = number * 7919 % USERS;
        let body = format!(r#"{{"user":"user-{user}","decision_id":"d{number}","k":10{context}}}"#);
        let (request, started) = (post("/v1/apps/shop/decide", &body), Instant::now());
        assert_eq!(admin.ask(&request).await, 200);
        let took = started.elapsed().as_secs_f64() * 1000.0;
        let reward = rng.random_range(0..2);
        let body = format!(r#"{{"decision_id":"d{number}","reward":{reward}}}"#);
        assert_eq!(admin.ask(&post("/v1/apps/shop/reward", &body)).await, 200);
        took
    };
    for number in 0..BEFORE {
        ask(number, number % 2 == 0).await;
    }
    let (mut without, mut within) = (Vec::new(), Vec::new());
    for number in 0..DECIDES {
        without.push(ask(BEFORE + 2 * number, false).await);
        within.push(ask(BEFORE + 2 * number + 1, true).await);
    }
    without.sort_by(f64::total_cmp);
    within.sort_by(f64::total_cmp);
    figures::keep(
        "catalogue",
        &[
            ("items", items as f64, ""),
            ("features", DIM as f64, ""),
            ("without_a_context_median_ms", without[DECIDES / 2], ""),
            ("without_a_context_p99_ms", without[DECIDES * 99 / 100], ""),
            ("in_a_context_median_ms", within[DECIDES / 2], ""),
            ("in_a_context_p99_ms", within[DECIDES * 99 / 100], ""),
        ],
    );
}
