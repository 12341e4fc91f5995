//! Apps that take JSON: decided, learned, kept, replayed bit by bit, looked into, and all that is refused.
#![allow(missing_docs)]

mod common;
mod running;

use std::sync::Arc;

use cohort_features::{EncoderSettings, Features, Side};
use cohort_server::engine::request::{ForUser, Offer};
use cohort_server::engine::{Answer, Request};
use cohort_server::event::{Event, What};
use cohort_server::journal::memory::{MemoryDisk, MemoryJournal};
use cohort_server::settings::AppSettings;
use cohort_server::snapshot::disk::MemoryFolder;
use cohort_server::state::State;
use common::{Simulation, create, reward, state_bytes};
use running::Running;
use serde_json::{Value, json};

fn read(side: Side, json: &str) -> Arc<Features> {
    Arc::new(Features::parse(side, json).unwrap())
}

fn settings() -> AppSettings {
    AppSettings { features: Some(EncoderSettings::default()), ..AppSettings::new(16) }
}

fn decide(id: &str, salt: usize) -> Request {
    let genre = ["drama", "war", "comedy"][salt % 3];
    let films = [
        format!(r#"{{"genre": "{genre}", "year": {}}}"#, 1950 + salt),
        format!(r#"{{"genres": ["a", "b{salt}"], "year": null, "new": true}}"#),
    ];
    let mut offer = Offer::new(
        vec!["one".to_owned(), "two".to_owned(), "known".to_owned(), "numbers".to_owned()],
        vec![None, None, None, Some(vec![0.25; 16])],
    );
    offer.described = films.iter().map(|film| Some(read(Side::Item, film))).collect();
    offer.context = Some(read(Side::Context, r#"{"device": "mobile", "hour": 7}"#));
    offer.user = Some(read(Side::User, &format!(r#"{{"age": {}}}"#, 20 + salt % 40)));
    let users = vec![ForUser {
        user: format!("u{}", salt % 5),
        decision: Some(id.to_owned()),
        shown: true,
    }];
    Request::Decide { app: "films".to_owned(), offer, users, explain: true }
}

#[test]
fn what_was_decided_by_json_is_replayed_bit_by_bit() {
    let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
    let open = || MemoryJournal::open(&disk).unwrap();
    let mut service = Simulation::start(open(), &folder, 1).unwrap();
    service.ask(0, create("films", settings())).unwrap();
    let known = read(Side::Item, r#"{"genre": "drama", "year": 1999, "embedding": [1, 2, 3]}"#);
    let items = vec![("known".to_owned(), (*known).clone())];
    service.ask(0, Request::DescribeItems { app: "films".to_owned(), items }).unwrap();
    for step in 0..120 {
        let id = format!("d{step}");
        let Answer::Decided(made) = service.ask(step, decide(&id, step as usize)).unwrap() else {
            panic!()
        };
        let made = made.into_iter().next().unwrap().unwrap();
        assert_eq!(made.ranking.iter().count(), 4);
        if step > 100 {
            let parts = made.parts.unwrap();
            let at = made.ranking.iter().position(|item| item == "one").unwrap();
            assert!(parts[at].iter().any(|part| part.name.starts_with("item.year")), "{parts:?}");
            // All of it has a name, and adds up.
            for (item, (parts, score)) in
                made.ranking.iter().zip(parts.iter().zip(made.scores.as_ref().unwrap()))
            {
                let sum: f64 = parts.iter().map(|part| part.part).sum();
                let whole = if item == "numbers" { 0.0 } else { score.expected };
                assert!((sum - whole).abs() < 1e-9, "{item}: {sum}, not {whole}: {parts:?}");
            }
            let has = |name| parts[at].iter().any(|part| part.name == name);
            assert!(has("level") && has("item") && !has("constant"), "{parts:?}");
        }
        service.ask(step, reward("films", &id, f64::from(step % 3 == 0))).unwrap();
        if step == 60 {
            service.snapshot().unwrap();
        }
    }
    let app = service.engine.state().app("films").unwrap();
    assert!(
        app.encoder()
            .unwrap()
            .names()
            .any(|named| &*named.name == "item.genre=drama^context.device=mobile")
    );
    assert_eq!((app.described().len(), app.items().len()), (1, 0));
    // What matters is told by name, for everybody, a user and a decision.
    let app = service.engine.state_mut().app_mut("films").unwrap();
    let (everybody, of_user) =
        (app.coefficients(None, None).unwrap(), app.coefficients(Some(0), None).unwrap());
    assert_eq!((everybody.len(), of_user.len()), (16, 16));
    assert!(app.coefficients(None, Some(999)).is_none());
    assert!(app.effect_of("one").1 > 0.0 && app.effect_of("never") == (0.0, 0.0));
    let bytes = service.bytes();
    let mut from_snapshot = Simulation::start(open(), &folder, 2).unwrap();
    assert!(from_snapshot.bytes() == bytes, "from a snapshot and the rest of the journal");
    let mut replayed = Simulation::start(open(), &MemoryFolder::default(), 3).unwrap();
    assert!(replayed.bytes() == bytes, "from the journal alone");
    let mut loaded = State::load(&mut bytes.as_slice()).unwrap();
    assert!(state_bytes(&mut loaded) == bytes);
    // A catalogue may have both forms; an item is in one.
    let items = vec![("known".to_owned(), vec![0.5; 16])];
    service.ask(200, Request::PutItems { app: "films".to_owned(), items }).unwrap();
    let app = service.engine.state().app("films").unwrap();
    assert_eq!((app.described().len(), app.items().len()), (0, 1));
}

/// Everybody is one user, who likes another item in every context.
#[test]
fn the_same_user_may_like_another_item_in_another_context() {
    for policy in ["cohort", "linucb-ind"] {
        let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
        let open = || MemoryJournal::open(&disk).unwrap();
        let mut service = Simulation::start(open(), &folder, 1).unwrap();
        let settings = AppSettings { policy: policy.to_owned(), ..settings() };
        service.ask(0, create("films", settings)).unwrap();
        let mut right = 0;
        for step in 0..1000u64 {
            let ids: Vec<String> = (0..4).map(|item| format!("item {item}")).collect();
            let mut offer = Offer::new(ids, vec![None; 4]);
            let items = (0..4).map(|item| format!(r#"{{"kind": "k{item}"}}"#));
            offer.described = items.map(|item| Some(read(Side::Item, &item))).collect();
            // A pattern that does not repeat with the noise.
            let mixed = step.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
            let (context, noise) = (mixed % 3, mixed / 3 % 10 == 0);
            offer.context = Some(read(Side::Context, &format!(r#"{{"page": "p{context}"}}"#)));
            let id = format!("d{step}");
            let (user, decision) = ("everybody".to_owned(), Some(id.clone()));
            let users = vec![ForUser { user, decision, shown: true }];
            let asked = Request::Decide { app: "films".to_owned(), offer, users, explain: true };
            let Answer::Decided(made) = service.ask(step, asked).unwrap() else { panic!() };
            let made = made.into_iter().next().unwrap().unwrap();
            let best = format!("item {context}");
            let expected = made.scores.as_ref().unwrap().iter().map(|score| score.expected);
            let greedy = made.ranking.iter().zip(expected).max_by(|a, b| a.1.total_cmp(&b.1));
            right += usize::from(step >= 700 && greedy.unwrap().0 == best);
            let is_liked = (made.ranking.first() == best) != noise;
            service.ask(step, reward("films", &id, f64::from(u8::from(is_liked)))).unwrap();
            if step == 500 {
                service.snapshot().unwrap();
            }
        }
        assert!(right >= 270, "{policy}: {right} of 300");
        let bytes = service.bytes();
        let mut from_snapshot = Simulation::start(open(), &folder, 2).unwrap();
        assert!(from_snapshot.bytes() == bytes, "from a snapshot and the rest of the journal");
        let mut replayed = Simulation::start(open(), &MemoryFolder::default(), 3).unwrap();
        assert!(replayed.bytes() == bytes, "from the journal alone");
    }
}

/// The layout of what JSON adds to the journal never changes.
#[test]
fn events_of_json_are_those_of_the_first_release() {
    let mut encoder =
        cohort_features::Encoder::new(4, EncoderSettings { seed: 5, ..Default::default() });
    let film = read(Side::Item, r#"{"g": "x", "n": 2.5, "e": [1]}"#);
    let offer = cohort_features::Offer { items: vec![&film], ..Default::default() };
    let seen = encoder.look(&offer).unwrap();
    let events = [
        What::FeaturesSet(encoder.settings().clone()),
        What::FeaturesSeen(seen),
        What::ItemDescribed("film".to_owned(), (*film).clone()),
    ];
    let mut text = String::new();
    for what in events {
        let event = Event { app: "films".to_owned(), at_ms: 7, what };
        let mut bytes = Vec::new();
        event.encode(&mut bytes);
        assert_eq!(Event::decode(&bytes).unwrap(), event);
        text += &format!("{}\n", cohort_server::auth::hex(&bytes));
    }
    assert_eq!(text, include_str!("json.golden"), "{text}");
}

#[test]
fn json_over_http() {
    let service = Running::start();
    let apps = "/v1/apps";
    service.post(apps, json!({"name": "films", "features": "json"}));
    service.post(apps, json!({"name": "plain", "dim": 2}));
    let app = service.get("/v1/apps/films");
    assert_eq!((app["features"].as_str(), app["dim"].as_u64()), (Some("json"), Some(32)));
    let items = json!({"items": [
        {"id": "a", "features": {"genre": "drama", "year": 1950}},
        {"id": "b", "features": {"genre": "war", "year": 1970}},
    ]});
    assert_eq!(service.send("PUT", "/v1/apps/films/items", &items).0, 204);
    let decide = |id: &str| {
        json!({"user": "ann", "decision_id": id, "context": {"device": "mobile"},
        "user_features": {"age": 30}, "explain": true,
        "items": [{"id": "a"}, {"id": "b"}, {"id": "c", "features": {"genre": ["drama", "war"]}}]})
    };
    for step in 0..40 {
        let id = format!("d{step}");
        let made = service.post("/v1/apps/films/decide", decide(&id));
        let liked = f64::from(made["item"] == "a");
        service.post("/v1/apps/films/reward", json!({"decision_id": id, "reward": liked}));
    }
    let found = service.get("/v1/apps/films/features");
    let names: Vec<&str> = found["features"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    for name in [
        "item.genre=drama",
        "item.year",
        "context.device=mobile",
        "item.year^context.device=mobile",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
    // The page calls coordinates by what is there, and by which sign.
    let shown = service.get("/v1/apps/films/insight");
    let shown: Vec<&str> = shown["feature_names"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one.as_str().unwrap())
        .collect();
    assert_eq!(shown.len(), 32);
    assert!(
        shown.iter().any(|name| name.trim_start_matches('−') == "item.genre=drama"),
        "{shown:?}"
    );
    let ann = service.get("/v1/apps/films/users/ann/features");
    let of_ann = ann["features"].as_array().unwrap();
    assert_eq!(of_ann.len(), names.len(), "weights come with the first refit, names at once");
    assert_eq!(service.send("GET", "/v1/apps/films/users/eve/features", &json!(null)).0, 404);
    for number in ["99", "18446744073709551615", "18446744073709551616", "none"] {
        let path = format!("/v1/apps/films/cohorts/{number}/features");
        assert_eq!(service.send("GET", &path, &json!(null)).0, 404);
    }
    // Whatever cannot be used is refused with a code and a sentence, and nothing changes.
    let before = service.get("/v1/apps/films")["decisions"].clone();
    let wide: serde_json::Map<_, _> = (0..200).map(|i| (format!("n{i}"), json!("w"))).collect();
    let many: serde_json::Map<_, _> = (0..2000).map(|i| (format!("n{i}"), json!(i))).collect();
    let deep = (0..20).fold(json!(1), |inside, _| json!({"a": inside}));
    for (app, path, body, status, code) in [
        (
            "films",
            "decide",
            json!({"user": "u", "items": [{"id": "x", "features": deep}]}),
            400,
            "bad_body",
        ),
        (
            "films",
            "decide",
            json!({"user": "u", "items": [{"id": "x", "features": many}]}),
            400,
            "bad_body",
        ),
        (
            "films",
            "decide",
            json!({"user": "u", "items": [{"id": "x", "features": {"age": "NaN"}}]}),
            400,
            "bad_body",
        ),
        (
            "films",
            "decide",
            json!({"user": "u", "items": [{"id": "x", "features": [1, 2]}]}),
            422,
            "wrong_dim",
        ),
        ("films", "decide", json!({"user": "u", "items": [{"id": "x"}]}), 422, "item_unknown"),
        (
            "films",
            "decide",
            json!({"user": "u", "context": wide, "items": [{"id": "x", "features": wide}]}),
            422,
            "too_many_interactions",
        ),
        (
            "plain",
            "decide",
            json!({"user": "u", "items": [{"id": "x", "features": {"a": 1}}]}),
            422,
            "not_json_app",
        ),
        (
            "plain",
            "decide",
            json!({"user": "u", "context": {}, "items": [{"id": "x", "features": [1, 2]}]}),
            422,
            "not_json_app",
        ),
    ] {
        let (found, said) = service.send("POST", &format!("/v1/apps/{app}/{path}"), &body);
        assert_eq!((found, said["error"]["code"].as_str()), (status, Some(code)), "{said}");
    }
    let (status, said) =
        service.send("POST", apps, &json!({"name": "new", "dim": 2, "interactions": []}));
    assert_eq!((status, said["error"]["code"].as_str()), (422, Some("not_json_app")));
    assert_eq!(
        service.send("POST", apps, &json!({"name": "new"})).1["error"]["code"],
        "dim_missing"
    );
    assert_eq!(service.get("/v1/apps/films")["decisions"], before);
    let service = service.restart();
    let after = service.get("/v1/apps/films/features");
    assert_eq!(without_weights(&after), without_weights(&found), "kept over a restart");
}

/// Features by name without their weights: a refit may end at any time, before or after a restart.
fn without_weights(features: &Value) -> Vec<Value> {
    let mut found = features["features"].as_array().unwrap().clone();
    for one in &mut found {
        assert!(one.as_object_mut().unwrap().remove("weight").is_some());
    }
    found.sort_by_key(|one| one["name"].to_string());
    found
}
