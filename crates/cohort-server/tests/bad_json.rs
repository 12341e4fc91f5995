//! JSON that nobody should send, and calls in an order that nobody should make: each is told in the dialect in which
//! it came, nothing is lost, and the service goes on.
#![allow(missing_docs)]

mod running;

use running::Running;
use serde_json::{Value, json};

/// Objects that are no features, as text, and what makes them so.
fn objects() -> Vec<(&'static str, String)> {
    let million: Vec<String> = (0..1_000_000).map(|name| format!("\"n{name}\":1")).collect();
    let deep = |levels: usize| "{\"a\":".repeat(levels) + "1" + &"}".repeat(levels);
    vec![
        ("a million names", format!("{{{}}}", million.join(","))),
        ("17 levels", deep(17)),
        ("100,000 levels", deep(100_000)),
        ("lists in lists", "{\"a\":".to_owned() + &"[".repeat(50_000) + &"]".repeat(50_000) + "}"),
        ("a name twice", r#"{"a": 1, "a": 2}"#.to_owned()),
        ("a name twice in a namespace", r#"{"s": {"a": 1, "b": 2, "a": "x"}}"#.to_owned()),
        ("NaN as a word", r#"{"a": "NaN"}"#.to_owned()),
        ("NaN in a list", r#"{"a": ["x", "NaN"]}"#.to_owned()),
        ("NaN as it is", r#"{"a": NaN}"#.to_owned()),
        ("Infinity as a word", r#"{"a": "-Infinity"}"#.to_owned()),
        ("a number beyond all", r#"{"a": 1e400}"#.to_owned()),
        ("an integer beyond all", format!(r#"{{"a": {}}}"#, "9".repeat(400))),
        ("numbers and words in a list", r#"{"a": [1, "b"]}"#.to_owned()),
        ("half of a character", r#"{"a": "\ud800"}"#.to_owned()),
        ("an end too early", r#"{"a": 1"#.to_owned()),
        ("a long name", format!(r#"{{"{}": 1}}"#, "n".repeat(600))),
    ]
}

/// A service to which a million names are not too many bytes: a client that is refused for those may not get to read why.
fn running() -> Running {
    Running::start_with(|config| config.body_bytes = 64 << 20)
}

/// What the service answers to a request that it cannot use.
fn refused((status, said): (u16, Value), what: &str) -> String {
    assert!((400..500).contains(&status), "{what}: {status} {said}");
    assert!(
        said["error"]["message"].as_str().is_some_and(|text| text.len() > 10),
        "{what}: {said}"
    );
    said["error"]["code"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn objects_that_are_no_features_are_refused_wherever_they_stand() {
    let service = running();
    service.post("/v1/apps", json!({"name": "films", "features": "json"}));
    let good = r#"{"genre": "drama", "größe": "groß", "大": 1, "big": 18446744073709551616}"#;
    for (what, bad) in objects() {
        for (item, context, user) in [(&*bad, good, good), (good, &*bad, good), (good, good, &*bad)]
        {
            let body = format!(
                r#"{{"user": "ann", "items": [{{"id": "a", "features": {item}}}], "context": {context}, "user_features": {user}}}"#
            );
            let code = refused(service.send_text("POST", "/v1/apps/films/decide", &body), what);
            assert!(["bad_body", "body_too_large"].contains(&code.as_str()), "{what}: {code}");
        }
        let body = format!(r#"{{"items": [{{"id": "a", "features": {bad}}}]}}"#);
        refused(service.send_text("PUT", "/v1/apps/films/items", &body), what);
        let body = format!(
            r#"{{"decisions": [{{"user": "ann", "item": "a", "reward": 1, "features": {bad}}}]}}"#
        );
        refused(service.send_text("POST", "/v1/apps/films/history", &body), what);
    }
    let twice = r#"{"user": "ann", "user": "bob", "items": [{"id": "a", "features": {}}]}"#;
    assert_eq!(
        refused(service.send_text("POST", "/v1/apps/films/decide", twice), "twice"),
        "bad_body"
    );
    let app = service.get("/v1/apps/films");
    assert_eq!(
        (&app["decisions"], &app["items"], &app["users"]),
        (&json!(0), &json!(0), &json!(0))
    );
    let features = service.get("/v1/apps/films/features");
    assert_eq!(features["features"], json!([]), "nothing of it was kept");
    let body = format!(r#"{{"user": "ann", "items": [{{"id": "a", "features": {good}}}]}}"#);
    let (status, said) = service.send_text("POST", "/v1/apps/films/decide", &body);
    assert_eq!((status, &said["item"]), (200, &json!("a")), "{said}");
}

#[test]
fn the_personalizer_dialect_refuses_them_in_its_own_form() {
    let service = running();
    // The loop that a client finds, which takes JSON, and one that was made for vectors.
    service.post("/v1/apps", json!({"name": "vectors", "dim": 16}));
    service.post("/v1/apps", json!({"name": "another", "dim": 16}));
    for (what, bad) in objects() {
        for base in ["/personalizer/v1.0", "/apps/vectors/personalizer/v1.0"] {
            // Names are hashed for vectors, however long they are.
            if what == "a long name" && base.contains("vectors") {
                continue;
            }
            for body in [
                format!(r#"{{"actions": [{{"id": "a", "features": [{bad}]}}]}}"#),
                format!(
                    r#"{{"contextFeatures": [{bad}], "actions": [{{"id": "a", "features": [{{}}]}}]}}"#
                ),
            ] {
                let told = service.send_text("POST", &format!("{base}/rank"), &body);
                let code = refused(told, what);
                assert!(
                    ["InvalidRankRequest", "PayloadSizeExceeded"].contains(&code.as_str()),
                    "{base}, {what}: {code}"
                );
            }
        }
    }
    assert_eq!(service.get("/v1/apps/vectors")["decisions"], 0);
    assert_eq!(service.get("/v1/apps/personalizer/features")["features"], json!([]));
    let twice = r#"{"value": 1, "value": 0.5}"#;
    let told = service.send_text("POST", "/personalizer/v1.0/events/e/reward", twice);
    assert_eq!(refused(told, "twice"), "InvalidRewardRequest");
    let rank = json!({"actions": [{"id": "a", "features": [{"x": 1}]}]});
    assert_eq!(service.send("POST", "/personalizer/v1.0/rank", &rank).0, 201);
    assert_eq!(service.get("/v1/apps/personalizer")["decisions"], 1);
}

/// Every place is read before the first is filled, or what was shown to nobody would learn the default reward.
#[test]
fn a_slate_with_one_unreadable_place_shows_nothing() {
    let service = Running::start();
    let actions = json!([
        {"id": "a", "features": [{"x": 1}]}, {"id": "b", "features": [{"x": 2}]},
    ]);
    let rank = |features: Value| {
        json!({"actions": actions, "slots": [
            {"id": "top", "baselineAction": "a"},
            {"id": "side", "baselineAction": "b", "features": features},
        ]})
    };
    let path = "/personalizer/v1.1-preview.3/multislot/rank";
    assert_eq!(service.send("POST", path, &rank(json!([{"size": "small"}]))).0, 201);
    for bad in [json!([{"size": "NaN"}]), json!([{"sizes": [1, "two"]}])] {
        let (status, said) = service.send("POST", path, &rank(bad));
        assert_eq!(status, 400, "{said}");
    }
    assert_eq!(service.get("/v1/apps/personalizer")["decisions"], 2, "those of the first slate");
}

/// Baselines are what is shown where the policy does not decide; where it does, a place may show another one's.
#[test]
fn a_place_may_show_the_baseline_of_another() {
    let service = Running::start();
    let actions = json!([
        {"id": "a", "features": [{"kind": "news"}]}, {"id": "b", "features": [{"kind": "sport"}]},
    ]);
    let slots = json!([
        {"id": "top", "baselineAction": "a"}, {"id": "side", "baselineAction": "b"},
    ]);
    let mut at_top = Vec::new();
    for turn in 0..60 {
        let rank = json!({"actions": actions, "slots": slots, "eventId": format!("page-{turn}")});
        let base = "/personalizer/v1.1-preview.3/multislot";
        let (status, said) = service.send("POST", &format!("{base}/rank"), &rank);
        assert_eq!(status, 201, "{said}");
        let shown = said["slots"][0]["rewardActionId"].as_str().unwrap().to_owned();
        assert_ne!(said["slots"][1]["rewardActionId"], shown);
        let value = f64::from(u8::from(shown == "b"));
        let rewards = json!({"reward": [{"slotId": "top", "value": value}]});
        let path = format!("{base}/events/page-{turn}/reward");
        assert_eq!(service.send("POST", &path, &rewards).0, 204);
        at_top.push(shown);
    }
    assert!(at_top[40..].iter().filter(|shown| *shown == "b").count() > 10, "{at_top:?}");
}

#[test]
fn calls_out_of_order_do_no_harm() {
    let service = Running::start();
    let post = |path: &str, body: Value| {
        service.send("POST", &format!("/personalizer/v1.1-preview.3{path}"), &body).0
    };
    let actions = json!([
        {"id": "a", "features": [{"x": 1}]}, {"id": "b", "features": [{"x": 2}]},
    ]);
    let rank = |event: &str, deferred: bool| {
        post("/rank", json!({"actions": actions, "eventId": event, "deferActivation": deferred}))
    };
    let slots = json!([
        {"id": "top", "baselineAction": "a"}, {"id": "side", "baselineAction": "b"},
    ]);
    let counts = || {
        let app = service.get("/v1/apps/personalizer");
        (app["decisions"].as_u64().unwrap(), app["rewards"].as_u64().unwrap())
    };
    // A reward and an activation before the rank: the event is not known, and none of it counts later.
    assert_eq!(post("/events/early/reward", json!({"value": 1})), 204);
    assert_eq!(post("/events/early/activate", Value::Null), 204);
    assert_eq!(rank("early", false), 201);
    assert_eq!(counts(), (1, 0));
    // Twice the same.
    assert_eq!(rank("early", false), 201);
    assert_eq!(post("/events/early/reward", json!({"value": 1})), 204);
    assert_eq!(post("/events/early/reward", json!({"value": -1})), 204);
    assert_eq!(counts(), (1, 1));
    assert_eq!(rank("later", true), 201);
    assert_eq!(post("/events/later/reward", json!({"value": 1})), 204, "not shown: passed over");
    for _ in 0..2 {
        assert_eq!(post("/events/later/activate", Value::Null), 204);
    }
    assert_eq!(counts(), (2, 1));
    assert_eq!(post("/events/later/reward", json!({"value": 1})), 204);
    assert_eq!(post("/events/later/activate", Value::Null), 204, "after its reward");
    assert_eq!(counts(), (2, 2));
    // Calls for one place about an event of several, and the other way round.
    let page = json!({"actions": actions, "slots": slots, "eventId": "page"});
    assert_eq!(post("/multislot/rank", page.clone()), 201);
    assert_eq!(post("/multislot/rank", page), 201, "the same event is the same slate");
    let of_slot = |slot: &str| json!({"reward": [{"slotId": slot, "value": 1}]});
    assert_eq!(counts(), (4, 2));
    assert_eq!(post("/events/page/reward", json!({"value": 1})), 204);
    assert_eq!(post("/events/page/activate", Value::Null), 204);
    assert_eq!(post("/multislot/events/later/reward", of_slot("top")), 204);
    assert_eq!(post("/multislot/events/later/activate", Value::Null), 204);
    assert_eq!(post("/multislot/events/page/reward", of_slot("nowhere")), 204);
    assert_eq!(counts(), (4, 2), "nothing was learned by any of these");
    assert_eq!(post("/multislot/events/page/reward", of_slot("side")), 204);
    assert_eq!(counts(), (4, 3));
    let reward = service.get("/v1/apps/personalizer")["reward_sum"].clone();
    assert_eq!(service.restart().get("/v1/apps/personalizer")["reward_sum"], reward);
}
