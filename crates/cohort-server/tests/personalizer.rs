//! The dialect of Azure Personalizer, as its REST interface says it; the published clients are tested in
//! `crates/cohort-python/tests/test_personalizer.py`.
#![allow(missing_docs)]

mod running;

use running::Running;
use serde_json::{Value, json};

fn actions() -> Value {
    json!([
        {"id": "News", "features": [{"topic": "news"}]},
        {"id": "Sports", "features": [{"topic": "sports", "live": true}]},
        {"id": "Entertainment", "features": [{"topic": "fun", "embedding": [0.1, 0.7]}]},
    ])
}

#[test]
fn every_version_of_a_client_finds_its_address() {
    let service = Running::start();
    for (at, base) in [
        "/personalizer",
        "/personalizer/v1.0",
        "/personalizer/v1.1",
        "/personalizer/v1.1-preview.1",
        "/personalizer/v1.1-preview.2",
        "/personalizer/v1.1-preview.3",
        "/apps/personalizer/personalizer/v1.0",
        "/apps/personalizer/personalizer",
    ]
    .into_iter()
    .enumerate()
    {
        let query =
            if base.ends_with("personalizer") { "?api-version=2022-09-01-preview" } else { "" };
        let event = format!("e{at}");
        let rank = json!({
            "contextFeatures": [{"device": "mobile"}],
            "actions": actions(),
            "excludedActions": ["Sports"],
            "eventId": event,
            "deferActivation": true,
        });
        let (status, said) = service.send("POST", &format!("{base}/rank{query}"), &rank);
        assert_eq!(status, 201, "{base}: {said}");
        assert_eq!(
            (&said["eventId"], said["ranking"].as_array().unwrap().len()),
            (&json!(event), 3)
        );
        assert_eq!(said["ranking"][1], json!({"id": "Sports", "probability": 0.0}));
        let sum: f64 = (0..3).map(|at| said["ranking"][at]["probability"].as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-9);
        let activate = format!("{base}/events/{event}/activate{query}");
        assert_eq!(service.send("POST", &activate, &Value::Null).0, 204);
        let reward = format!("{base}/events/{event}/reward{query}");
        assert_eq!(service.send("POST", &reward, &json!({"value": 0.5})).0, 204);
        let slots = json!([
            {"id": "top", "baselineAction": "News"},
            {"id": "side", "baselineAction": "Sports", "excludedActions": ["News"]},
        ]);
        let rank = json!({"actions": actions(), "slots": slots, "eventId": format!("m{at}")});
        let (status, said) = service.send("POST", &format!("{base}/multislot/rank{query}"), &rank);
        assert_eq!(status, 201, "{base}: {said}");
        assert_ne!(said["slots"][0]["rewardActionId"], said["slots"][1]["rewardActionId"]);
        let reward = format!("{base}/multislot/events/m{at}/reward{query}");
        let rewards = json!({"reward": [{"slotId": "top", "value": 1.0}]});
        assert_eq!(service.send("POST", &reward, &rewards).0, 204);
        let configuration = service.get(&format!("{base}/configurations/service{query}"));
        assert_eq!(configuration["rewardWaitTime"], "PT10M");
    }
    let app = service.get("/v1/apps/personalizer");
    assert_eq!((&app["rewards"], &app["reward_sum"]), (&json!(16), &json!(12.0)));
    assert_eq!(app["users"], 1, "nobody was named: everybody is one user");
    let (status, said) = service.send("GET", "/personalizer/v9/rank", &Value::Null);
    assert_eq!((status, &said["error"]["code"]), (404, &json!("ResourceNotFound")));
    let (status, said) = service.send("GET", "/personalizer/v1.0/rank", &Value::Null);
    assert_eq!((status, &said["error"]["code"]), (405, &json!("BadRequest")));
}

#[test]
fn a_key_opens_its_loop_and_names_it() {
    let service = Running::start_with_key("an admin key that is long");
    let admin = "an admin key that is long";
    let create = |name: &str| {
        let new = json!({"name": name, "dim": 16, "key": {"scopes": ["decide", "reward"]}});
        let (status, said) = service.send_with_key("POST", "/v1/apps", &new, admin);
        assert_eq!(status, 201, "{said}");
        said["key"]["key"].as_str().unwrap().to_owned()
    };
    let (shop, _) = (create("shop"), create("blog"));
    let rank = json!({"actions": actions()});
    let (status, said) = service.send("POST", "/personalizer/v1.0/rank", &rank);
    assert_eq!((status, &said["error"]["code"]), (401, &json!("401")));
    let (status, said) = service.send_with_key("POST", "/personalizer/v1.0/rank", &rank, &shop);
    assert_eq!(status, 201, "{said}");
    let path = "/apps/blog/personalizer/v1.0/rank";
    assert_eq!(service.send_with_key("POST", path, &rank, &shop).0, 401, "another app's");
    let path = "/personalizer/v1.0/configurations/service";
    assert_eq!(
        service.send_with_key("GET", path, &Value::Null, &shop).0,
        401,
        "it opens no reading"
    );
    let (_, app) = service.send_with_key("GET", "/v1/apps/shop", &Value::Null, admin);
    assert_eq!(app["decisions"], 1);
}

#[test]
fn an_app_says_at_its_creation_what_is_learned_when_nobody_answers() {
    let service = Running::start();
    let created = service.post("/v1/apps", json!({"name": "shop", "dim": 2}));
    assert_eq!(created["app"]["default_reward"], 0.0);
    assert!(created["hint"].as_str().unwrap().contains("default_reward"));
    let none = json!({"name": "silent", "dim": 2, "default_reward": null, "aggregation": "sum",
        "mode": "apprentice", "sticky_control": true, "control": 0.1});
    let created = service.post("/v1/apps", none);
    assert!(created["app"]["default_reward"].is_null() && created["hint"].is_null());
    let paper = json!({"name": "paper", "dim": 2, "policy": "club", "default_reward": null});
    let hint = service.post("/v1/apps", paper)["hint"].as_str().unwrap().to_owned();
    assert!(hint.contains("cannot forget") && !hint.contains("default_reward"), "{hint}");
    let app = &created["app"];
    assert_eq!((&app["aggregation"], &app["mode"]), (&json!("sum"), &json!("apprentice")));
    assert_eq!(app["sticky_control"], true);
    let (status, said) = service.send("PATCH", "/v1/apps/silent", &json!({"mode": "online"}));
    assert_eq!((status, &said["mode"]), (200, &json!("online")));
    let (status, _) = service.send("PATCH", "/v1/apps/silent", &json!({"mode": "offline"}));
    assert_eq!(status, 400);
}
