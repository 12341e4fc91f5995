//! What JSON costs: decides with 25 items of 30 names each, beside the same with vectors of as many numbers as they become.

use std::cell::RefCell;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::client::{Connection, Workload, closed_loop, post};
use super::{DECIDE_CLIENTS, ITEMS, SECONDS, TURNS, USERS, figures};

/// As apps that take JSON have it.
const DIM: usize = 32;
const NAMES: usize = 30;
/// Bodies that are made beforehand: they are large.
const BODIES: usize = 500;
/// Decides before the measurement: names and moments are learned at first.
const WARM_UP_SECONDS: f64 = 2.0;

/// Measures decides of both kinds in turns.
pub async fn measure(address: &str) {
    let mut admin = Connection::open(address).await;
    for (name, form) in [("numbers", "vectors"), ("names", "json")] {
        let app =
            format!(r#"{{"name":"{name}","dim":{DIM},"features":"{form}","window_ms":20000}}"#);
        assert_eq!(admin.ask(&post("/v1/apps", &app)).await, 201);
    }
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut bodies = |item: &mut dyn FnMut(&mut ChaCha8Rng, usize) -> String| -> Vec<String> {
        let body = |at: usize| {
            let items: Vec<String> = (0..ITEMS).map(|number| item(&mut rng, number)).collect();
            let user = at * 7919 % USERS;
            format!(r#"{{"user":"user-{user}","items":[{}]}}"#, items.join(","))
        };
        (0..BODIES).map(body).collect()
    };
    let vectors = bodies(&mut |rng, number| {
        let feature = |_| format!("{:.4}", 0.4 * rng.random::<f64>() - 0.2);
        let features: Vec<String> = (0..DIM).map(feature).collect();
        format!(r#"{{"id":"item-{number}","features":[{}]}}"#, features.join(","))
    });
    let objects = bodies(&mut |rng, number| {
        // Half of them words of a few, half of them numbers.
        let feature = |name: usize| match name % 2 {
            0 => format!(r#""name{name}":"word{}""#, rng.random_range(0..4)),
            _ => format!(r#""name{name}":{:.3}"#, rng.random::<f64>()),
        };
        let features: Vec<String> = (0..NAMES).map(feature).collect();
        format!(r#"{{"id":"item-{number}","features":{{{}}}}}"#, features.join(","))
    });
    let workload = |path: &'static str, bodies: Vec<String>| {
        let next = RefCell::new(0usize);
        let requests: Vec<Vec<u8>> = bodies.iter().map(|body| post(path, body)).collect();
        Workload::new(move || {
            let at = next.replace_with(|at| *at + 1);
            requests[at % requests.len()].clone()
        })
    };
    let of_vectors = workload("/v1/apps/numbers/decide", vectors);
    let of_objects = workload("/v1/apps/names/decide", objects);
    closed_loop(address, DECIDE_CLIENTS, WARM_UP_SECONDS, &of_objects).await;
    let (mut best_vectors, mut best_objects) = (0.0f64, 0.0f64);
    for _ in 0..TURNS {
        let rate = closed_loop(address, DECIDE_CLIENTS, SECONDS, &of_vectors).await.rate;
        best_vectors = best_vectors.max(rate);
        let rate = closed_loop(address, DECIDE_CLIENTS, SECONDS, &of_objects).await.rate;
        best_objects = best_objects.max(rate);
    }
    figures::keep(
        "json",
        &[
            ("clients", DECIDE_CLIENTS as f64, ""),
            ("names_of_an_item", NAMES as f64, ""),
            ("decides_with_vectors_per_second", best_vectors, ""),
            ("decides_with_json_per_second", best_objects, ""),
            ("json_against_vectors", best_objects / best_vectors, "at least 0.7"),
        ],
    );
}
