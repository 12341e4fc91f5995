//! A small request can ask for very much. What is that, and is it refused before anything is done?
//!
//! | test | what is bounded |
//! | --- | --- |
//! | `a_batch_from_the_catalogue_…` | users × items that are told × d², journal and answer, where nobody lists candidates |
//! | `places_of_a_slate_…` | the same over all places together |
//! | `what_places_of_a_slate_leave_out_…` | ids that are excluded, for each place |
//! | `places_of_a_multi_slot_rank_…` | the same in the dialect of Personalizer, and products of features |
//! | `a_policy_whose_items_are_scored_one_by_one_…` | users × all items × d² |
//! | `explanations_by_names_…` | the answer, where features have names |
//! | `what_is_meant_is_found_…` | looking through names |
#![allow(missing_docs)]

mod running;

use std::time::{Duration, Instant};

use running::Running;
use serde_json::{Value, json};

const DIM: usize = 20;
const ITEMS: usize = 200;

/// An app with a catalogue, in a service whose requests may bring `max_work`.
fn service(max_work: u64, app: Value) -> Running {
    let service = Running::start_with(|config| {
        config.max_work = max_work;
        config.max_journal_bytes_per_request = 1 << 20;
        config.body_bytes = 256 << 10;
    });
    let mut settings = json!({"name": "shop", "dim": DIM});
    settings.as_object_mut().unwrap().extend(app.as_object().unwrap().clone());
    service.post("/v1/apps", settings);
    let item = |at: usize| json!({"id": format!("item-{at}"), "features": row(at)});
    let items: Vec<Value> = (0..ITEMS).map(item).collect();
    assert_eq!(service.send("PUT", "/v1/apps/shop/items", &json!({"items": items})).0, 204);
    service
}

fn row(at: usize) -> Vec<f64> {
    (0..DIM).map(|k| ((at * 31 + k * 17) % 97) as f64 / 97.0 - 0.5).collect()
}

/// Asks, and tells what the refusal is called; nothing may have been decided by one.
fn refused(service: &Running, path: &str, body: &Value) -> String {
    let before = service.get("/v1/apps/shop")["decisions"].clone();
    let (status, said) = service.send("POST", &format!("/v1/apps/shop/{path}"), body);
    if status == 200 {
        return String::new();
    }
    assert_eq!((status, &service.get("/v1/apps/shop")["decisions"]), (422, &before), "{said}");
    said["error"]["code"].as_str().unwrap().to_owned()
}

fn batch(users: usize, k: usize, explain: bool) -> Value {
    let users: Vec<Value> = (0..users).map(|user| json!({"user": format!("u{user}")})).collect();
    json!({"users": users, "k": k, "explain": explain})
}

fn slate(places: usize, slot: &Value) -> Value {
    let place = |at: usize| {
        let mut place = slot.clone();
        place["id"] = json!(format!("place-{at}"));
        place
    };
    let slots: Vec<Value> = (0..places).map(place).collect();
    json!({"user": "ann", "slots": slots})
}

#[test]
fn a_batch_from_the_catalogue_brings_no_more_than_one_of_listed_candidates_may() {
    // 50 users × 100 items × 20².
    let service = service(2_000_000, json!({"log_candidates": true}));
    let refused = |body: Value| refused(&service, "decide-batch", &body);
    assert_eq!(refused(batch(51, 100, false)), "too_much_work");
    // Some 170 bytes a candidate and user.
    assert_eq!(refused(batch(50, 100, false)), "");
    assert_eq!(refused(batch(100, 49, false)), "");
    assert_eq!(refused(batch(90, 55, true)), "");
    // What is not scored for many users is still too much to be written for few.
    let service = self::service(200_000_000, json!({"log_candidates": true}));
    let refused = |body: Value| self::refused(&service, "decide-batch", &body);
    assert_eq!(refused(batch(70, 100, false)), "too_much_written");
    let service = self::service(200_000_000, json!({}));
    let refused = |body: Value| self::refused(&service, "decide-batch", &body);
    assert_eq!(refused(batch(60, 100, false)), "");
    assert_eq!(refused(batch(100, 100, true)), "answer_too_large");
    assert_eq!(refused(batch(100, 100, false)), "");
}

#[test]
fn places_of_a_slate_are_bounded_together_and_none_is_filled_where_one_cannot_be() {
    let service = service(1_000_000, json!({"log_candidates": true}));
    let refused = |body: Value| refused(&service, "slate", &body);
    // 40 places of 62 of the catalogue, or of 62 that are listed, are 20² × 2480 = 992,000.
    let of_catalogue = |places: usize, k: usize| {
        let mut body = slate(places, &json!({}));
        body["k"] = json!(k);
        body
    };
    assert_eq!(refused(of_catalogue(40, 62)), "");
    assert_eq!(refused(of_catalogue(41, 62)), "too_much_work");
    let ids: Vec<Value> = (0..62).map(|at| json!({"id": format!("item-{at}")})).collect();
    assert_eq!(refused(slate(40, &json!({"items": ids}))), "");
    assert_eq!(refused(slate(41, &json!({"items": ids}))), "too_much_work");
    let shared = |places: usize, items: &[Value]| {
        let mut body = slate(places, &json!({}));
        body["items"] = json!(items);
        body
    };
    assert_eq!(refused(shared(41, &ids)), "too_much_work");
    // Written: 64 places × 130 candidates × 160 bytes.
    let service = self::service(200_000_000, json!({"log_candidates": true}));
    let refused = |body: Value| self::refused(&service, "slate", &body);
    assert_eq!(refused(of_catalogue(64, 130)), "too_much_written");
    assert_eq!(refused(of_catalogue(60, 50)), "");
    // Long ids that all places share are not copied for each of them.
    let long = |at: usize| json!({"id": format!("{at:0>200}"), "features": row(at)});
    let long: Vec<Value> = (0..300).map(long).collect();
    assert_eq!(refused(shared(64, &long)), "too_much_held");
}

#[test]
fn what_places_of_a_slate_leave_out_counts_for_each_of_them() {
    let service = service(1_000_000, json!({}));
    let refused = |body: Value| refused(&service, "slate", &body);
    let without = |places: usize, ids: usize, slot: &Value| {
        let mut body = slate(places, slot);
        let ids: Vec<String> = (0..ids).map(|at| format!("left-out-{at}")).collect();
        (body["k"], body["exclude"]) = (json!(1), json!(ids));
        body
    };
    // An id costs 64: 15,625 of them, all places together.
    assert_eq!(refused(without(64, 230, &json!({}))), "");
    assert_eq!(refused(without(64, 250, &json!({}))), "too_much_work");
    assert_eq!(refused(without(2, 8000, &json!({}))), "too_much_work");
    // Listed candidates are looked up once for all places.
    let ids: Vec<Value> = (0..3).map(|at| json!({"id": format!("item-{at}")})).collect();
    let mut listed = without(3, 12_000, &json!({"items": ids}));
    listed.as_object_mut().unwrap().remove("k");
    assert_eq!(refused(listed.clone()), "");
    listed["slate_id"] = json!("another");
    let ids = ["item-0", "item-1", "item-2"];
    listed["exclude"] = json!(ids);
    assert_eq!(refused(listed.clone()), "nothing_matches");
    listed["exclude"] = json!(["item-1"]);
    let slots = listed["slots"].as_array_mut().unwrap();
    slots.truncate(2);
    let made = service.post("/v1/apps/shop/slate", listed);
    let shown: Vec<&Value> =
        made["slots"].as_array().unwrap().iter().map(|one| &one["item"]).collect();
    assert!(shown.iter().all(|item| ["item-0", "item-2"].iter().any(|id| *item == id)), "{made}");
    // A filter that all share is not copied without end either.
    let mut filtered = slate(64, &json!({}));
    (filtered["k"], filtered["filter"]) = (json!(1), json!({"genre": "x".repeat(100_000)}));
    assert_eq!(refused(filtered), "too_much_held");
}

/// Asks for a rank of several places with so many actions; what is refused leaves nothing behind.
fn rank_places(service: &Running, slots: usize, actions: usize, of: [Value; 2]) -> (u16, String) {
    let [context, features] = of;
    let action = |at: usize| json!({"id": format!("a{at}"), "features": [features, {"at": at}]});
    let slot = |at: usize| json!({"id": format!("s{at}"), "baselineAction": format!("a{at}")});
    let body = json!({
        "contextFeatures": [context],
        "actions": (0..actions).map(action).collect::<Vec<_>>(),
        "slots": (0..slots).map(slot).collect::<Vec<_>>(),
    });
    let before = service.get("/v1/apps/shop")["decisions"].clone();
    let path = "/apps/shop/personalizer/v1.1-preview.3/multislot/rank";
    let (status, said) = service.send("POST", path, &body);
    if status != 201 {
        assert_eq!(service.get("/v1/apps/shop")["decisions"], before, "{said}");
        assert_eq!(said["error"]["code"], "InvalidRankRequest", "{said}");
    }
    (status, said["error"]["message"].as_str().unwrap_or_default().to_owned())
}

/// Numbers are the shortest features.
fn numbers(count: usize) -> Value {
    json!({"of": vec![1; count]})
}

#[test]
fn places_of_a_multi_slot_rank_are_bounded_together_before_any_is_read() {
    for app in [json!({}), json!({"features": "json"})] {
        let service = Running::start_with(|config| config.max_work = 1_000_000);
        let mut settings = json!({"name": "shop", "dim": DIM});
        settings.as_object_mut().unwrap().extend(app.as_object().unwrap().clone());
        service.post("/v1/apps", settings);
        let rank = |slots, actions| rank_places(&service, slots, actions, [json!({}), json!({})]);
        assert_eq!(rank(40, 62).0, 201);
        let (status, why) = rank(41, 62);
        assert!(status == 400 && why.contains("max_work"), "{status} {why}");
        let (status, why) = rank(65, 65);
        assert!(status == 400 && why.contains("1 to 64"), "{status} {why}");
    }
    let service = Running::start();
    service.post("/v1/apps", json!({"name": "shop", "dim": DIM}));
    let rank = |slots, actions, context, features| {
        rank_places(&service, slots, actions, [numbers(context), numbers(features)])
    };
    // Of one action: its features and a constant, each with those of the context and of the place.
    assert_eq!(rank(1, 1, 1000, 14).0, 201);
    let (status, why) = rank(1, 1, 1000, 16);
    assert!(status == 400 && why.contains("products"), "{status} {why}");
    // Of all: 64 places × 1000 actions × 4 × 1000.
    let (status, why) = rank(64, 1000, 1000, 3);
    assert!(status == 400 && why.contains("over all places"), "{status} {why}");
    assert_eq!(rank(10, 300, 1000, 3).0, 201, "12 million of them are");
    // One place that is not one of several.
    let action = json!({"id": "a", "features": [numbers(200)]});
    let body = json!({"contextFeatures": [numbers(100)], "actions": [action]});
    let (status, said) = service.send("POST", "/apps/shop/personalizer/v1.0/rank", &body);
    assert_eq!((status, &said["error"]["code"]), (400, &json!("InvalidRankRequest")), "{said}");
}

#[test]
fn history_brings_no_more_work_than_anything_else() {
    let service = service(20_000, json!({}));
    let past = |at: usize| json!({"user": format!("u{at}"), "item": "item-1", "reward": 1.0});
    let history = |count: usize| json!({"decisions": (0..count).map(past).collect::<Vec<_>>()});
    assert_eq!(refused(&service, "history", &history(50)), "");
    assert_eq!(refused(&service, "history", &history(51)), "too_much_work");
}

#[test]
fn a_policy_whose_items_are_scored_one_by_one_is_bounded_by_all_of_them() {
    // 10 users × 200 items × 20².
    let service = service(800_000, json!({"params": {"exploration_rule": "thompson"}}));
    let of = |users: usize| {
        service.send("POST", "/v1/apps/shop/decide-batch", &batch(users, 1, false)).1
    };
    assert!(of(10)["decisions"][9]["item"].is_string());
    assert_eq!(of(11)["decisions"][0]["error"]["code"], "too_much_work");
}

#[test]
fn explanations_by_names_of_features_count_as_long_as_they_are() {
    let service = Running::start_with(|config| config.body_bytes = 256 << 10);
    service.post("/v1/apps", json!({"name": "shop", "dim": 16, "features": "json"}));
    let features = |at: usize| -> Value {
        let one = |k: usize| (format!("a name of a feature, the {k}th"), json!((at * k) % 7));
        Value::Object((0..20).map(one).collect())
    };
    let item = |at: usize| json!({"id": format!("item-{at}"), "features": features(at)});
    let items: Vec<Value> = (0..100).map(item).collect();
    assert_eq!(service.send("PUT", "/v1/apps/shop/items", &json!({"items": items})).0, 204);
    for n in 0..40 {
        let id = format!("d{n}");
        service.post("/v1/apps/shop/decide", json!({"user": "u1", "decision_id": id}));
        service.post("/v1/apps/shop/reward", json!({"decision_id": id, "reward": n % 3}));
    }
    let asked =
        |users: usize| service.send("POST", "/v1/apps/shop/decide-batch", &batch(users, 100, true));
    // Explanations are there once what was learned of features has been fitted, a moment after the rewards.
    let began = Instant::now();
    let bytes = loop {
        let (status, made) = asked(8);
        assert_eq!(status, 200, "{made}");
        let bytes = made.to_string().len();
        if bytes > 300_000 || began.elapsed() > Duration::from_secs(30) {
            break bytes;
        }
    };
    // The limit is a mebibyte: what is allowed is not much longer.
    assert!((300_000..1_400_000).contains(&bytes), "{bytes}");
    let (status, said) = asked(20);
    assert_eq!((status, &said["error"]["code"]), (422, &json!("answer_too_large")), "{said}");
}

/// A newcomer finds all items alike: any is chosen, and told with the first by name behind it, of those that are meant.
#[test]
fn what_is_meant_is_found_at_the_end_of_the_catalogue_as_at_its_beginning() {
    let service = service(200_000_000, json!({}));
    let mut names: Vec<String> = (0..ITEMS).map(|at| format!("item-{at}")).collect();
    names.sort();
    for (from, to) in
        [(0, ITEMS), (ITEMS - 10, ITEMS), (ITEMS - 2, ITEMS), (50, 60), (0, 100), (7, ITEMS)]
    {
        let exclude: Vec<&String> = names[..from].iter().chain(&names[to..]).collect();
        let body = json!({"user": format!("new-{from}-{to}"), "k": 4, "exclude": exclude});
        let made = service.post("/v1/apps/shop/decide", body);
        let ranking: Vec<&str> =
            made["ranking"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
        let others = names[from..to].iter().map(String::as_str).filter(|name| *name != ranking[0]);
        let expected: Vec<&str> = others.take(3).collect();
        assert_eq!(ranking[1..], expected[..], "{from} to {to}");
        assert!(names[from..to].iter().any(|name| name == ranking[0]), "{ranking:?}");
    }
}
