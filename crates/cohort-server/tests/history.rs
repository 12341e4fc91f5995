//! Decisions that were made elsewhere, learned as if they had been made here.
#![allow(missing_docs)]

mod running;

use running::Running;
use serde_json::{Value, json};

fn past(number: usize) -> Value {
    let item = ["tea", "coffee"][number % 2];
    let device = ["phone", "desktop"][number % 3 % 2];
    json!({
        "user": format!("u{}", number % 7),
        "item": item,
        "features": {"kind": item, "price": number % 5},
        "context": {"device": device},
        "reward": f64::from(item == "tea"),
        "probability": 0.5,
        "decision_id": format!("log-{number}"),
    })
}

#[test]
fn an_app_learns_from_a_log_once() {
    let service = Running::start();
    service.post("/v1/apps", json!({"name": "shop", "features": "json"}));
    let body = json!({"decisions": (0..400).map(past).collect::<Vec<_>>()});
    let said = service.post("/v1/apps/shop/history", body.clone());
    assert_eq!(said, json!({"learned": 400, "others": []}));
    let again = service.post("/v1/apps/shop/history", body);
    assert_eq!((&again["learned"], again["others"].as_array().unwrap().len()), (&json!(0), 400));
    assert_eq!(again["others"][7]["outcome"], "repeated");
    let app = service.get("/v1/apps/shop");
    assert_eq!((&app["decisions"], &app["rewards"]), (&json!(400), &json!(400)));
    // It knows what it was told.
    let items = json!([{"id": "tea", "features": {"kind": "tea", "price": 2}},
        {"id": "coffee", "features": {"kind": "coffee", "price": 2}}]);
    let tea = (0..20).filter(|user| {
        let body =
            json!({"user": format!("new-{user}"), "items": items, "context": {"device": "phone"}});
        service.post("/v1/apps/shop/decide", body)["item"] == "tea"
    });
    assert!(tea.count() >= 15);
    let service = service.restart();
    assert_eq!(service.get("/v1/apps/shop")["rewards"], 400);
}

/// A log of Azure Personalizer, as it is read, and a rank through its dialect: features have the same names.
#[test]
fn a_rank_of_the_dialect_knows_what_was_learned_of_features() {
    let service = Running::start();
    service.post("/v1/apps", json!({"name": "personalizer", "features": "json"}));
    let past = |number: usize| {
        let (taste, tod) = (["sour", "mild"][number % 2], ["day", "night"][number / 2 % 2]);
        let is_liked = (taste == "sour") == (tod == "day");
        json!({"user": format!("u{}", number % 50), "item": format!("old-{taste}"), "features": {"taste": taste},
            "context": {"tod": tod}, "reward": f64::from(u8::from(is_liked)), "probability": 0.5,
            "decision_id": format!("log-{number}")})
    };
    let body = json!({"decisions": (0..400).map(past).collect::<Vec<_>>()});
    assert_eq!(service.post("/v1/apps/personalizer/history", body)["learned"], 400);
    let count = |tod: &str, liked: &str| {
        let right = (0..20).filter(|user| {
            let rank = json!({
                "contextFeatures": [{"tod": tod}, {"_user": format!("new-{user}")}],
                "actions": [{"id": "new-mild", "features": [{"taste": "mild"}]},
                    {"id": "new-sour", "features": [{"taste": "sour"}]}],
            });
            let path = "/apps/personalizer/personalizer/v1.0/rank";
            let (status, said) = service.send("POST", path, &rank);
            assert_eq!(status, 201, "{said}");
            said["rewardActionId"] == liked
        });
        right.count()
    };
    // What is fitted of users in general comes into use a moment after the log was read.
    let began = std::time::Instant::now();
    let mut right = (0, 0);
    while right.0 < 16 || right.1 < 16 {
        assert!(began.elapsed().as_secs() < 20, "by day and by night, of 20: {right:?}");
        right = (count("day", "new-sour"), count("night", "new-mild"));
    }
}

#[test]
fn what_cannot_be_learned_is_told_decision_by_decision() {
    let service = Running::start();
    service.post("/v1/apps", json!({"name": "shop", "dim": 2}));
    let ask = |body: Value| service.send("POST", "/v1/apps/shop/history", &body);
    let (status, said) = ask(json!({"decisions": [
        {"user": "u", "item": "tea", "features": [0.1, 0.2], "reward": 1},
        {"user": "u", "item": "unknown", "reward": 1},
        {"user": "u", "item": "tea", "features": [0.1], "reward": 1},
        {"user": "u", "item": "tea", "features": [0.1, 0.2], "reward": 1e9},
        {"user": "u", "item": "tea", "features": {"a": 1}, "reward": 1},
    ]}));
    assert_eq!(status, 200, "{said}");
    assert_eq!(said["learned"], 1);
    let codes: Vec<(&Value, &Value)> = said["others"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (&one["at"], &one["error"]["code"]))
        .collect();
    let expected = [(1, "item_unknown"), (2, "wrong_dim"), (3, "bad_reward"), (4, "not_json_app")];
    let expected: Vec<(Value, Value)> =
        expected.iter().map(|(at, code)| (json!(at), json!(code))).collect();
    assert_eq!(codes, expected.iter().map(|(at, code)| (at, code)).collect::<Vec<_>>());
    for (body, expected, code) in [
        (json!({"decisions": []}), 422, "bad_count"),
        (
            json!({"decisions": [{"user": "u", "item": "t", "reward": 1, "probability": 0}]}),
            422,
            "bad_probability",
        ),
        (json!({"decisions": [{"user": "u", "item": "", "reward": 1}]}), 422, "bad_id"),
        (
            json!({"decisions": [{"user": "u", "item": "t", "reward": 1, "candidates": ["a", "b"]}]}),
            422,
            "bad_candidates",
        ),
        (
            json!({"decisions": [{"user": "u", "item": "t", "reward": 1, "candidates": ["t", "t"]}]}),
            422,
            "bad_candidates",
        ),
        (
            json!({"decisions": [{"user": "u", "item": "t", "reward": 1, "candidates": ["t", "b"], "among": 1}]}),
            422,
            "bad_candidates",
        ),
        (
            json!({"decisions": [{"user": "u", "item": "t", "reward": 1, "among": u64::MAX}]}),
            422,
            "bad_candidates",
        ),
        (
            json!({"decisions": [{"user": "u", "item": "t", "reward": 1, "among": 0}]}),
            422,
            "bad_candidates",
        ),
        (json!({"decisions": [{"user": "u", "item": "t"}]}), 400, "bad_body"),
    ] {
        let (status, said) = ask(body.clone());
        assert!(status == expected && said["error"]["code"] == code, "{body}: {status} {said}");
    }
}

/// What others decided is learned, and is no outcome of the policy's decisions: not after a restart either, nor where
/// rewards are gathered.
#[test]
fn the_past_is_not_counted_as_the_policys() {
    for aggregation in ["earliest", "sum"] {
        let service = Running::start();
        let new = json!({"name": "shop", "features": "json", "aggregation": aggregation, "window_ms": 1500});
        service.post("/v1/apps", new);
        let body = json!({"decisions": (0..50).map(past).collect::<Vec<_>>()});
        assert_eq!(service.post("/v1/apps/shop/history", body)["learned"], 50);
        let service = service.restart();
        let began = std::time::Instant::now();
        while service.get("/v1/apps/shop")["rewards"] != 50 {
            assert!(began.elapsed() < std::time::Duration::from_secs(30));
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let items = json!([{"id": "tea", "features": {"kind": "tea", "price": 2}}]);
        let decided = service.post("/v1/apps/shop/decide", json!({"user": "u1", "items": items}));
        let id = decided["decision_id"].as_str().unwrap();
        service.post("/v1/apps/shop/reward", json!({"decision_id": id, "reward": 1}));
        while service.get("/v1/apps/shop")["rewards"] != 51 {
            assert!(began.elapsed() < std::time::Duration::from_secs(30));
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let curve = service.get("/v1/apps/shop/insight")["curve"].clone();
        assert_eq!(curve["policy"]["count"], 1, "{curve}");
    }
}
