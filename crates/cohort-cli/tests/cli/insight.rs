//! A service from the command line: apps, insight, its log, and policies evaluated by that log.

use serde_json::{Value, json};

use crate::command::{cohort, json};
use crate::serving::Serving;

#[test]
fn a_log_of_the_service_is_judged_from_the_command_line() {
    let service = Serving::start(&["--data-dir", "data"], 1);
    let url = service.url.clone();
    let create = ["app", "create", "shop", "--dim", "2", "--url", &url];
    let flags = ["--control", "0.5", "--log-candidates", "true", "--feature-names", "sweet,hot"];
    let created = cohort(&[&create[..], &flags].concat());
    assert_eq!(created.code, 0, "{}", created.err);
    let (mut sum, mut decision) = (0.0, Value::Null);
    for turn in 0..400 {
        let hot = f64::from(turn % 7) / 7.0;
        let items =
            json!([{"id": "tea", "features": [0.2, hot]}, {"id": "cake", "features": [0.9, 0.1]}]);
        let user = format!("user-{}", turn % 4);
        let asked = json!({"user": user, "items": items, "explain": turn == 399});
        let made = service.post("/v1/apps/shop/decide", &asked);
        let reward = f64::from(u8::from(made["item"] == "cake"));
        sum += reward;
        let body = json!({"decision_id": made["decision_id"], "reward": reward});
        service.post("/v1/apps/shop/reward", &body);
        decision = made["decision_id"].clone();
    }
    let look = |args: &[&str]| {
        let called = cohort(&[&["insight"], args, &["--url", &url]].concat());
        assert_eq!(called.code, 0, "{}", called.err);
        called.out
    };
    let told = look(&["app", "shop"]);
    assert!(told.contains("4 users, 400 decisions, 400 rewards"), "{told}");
    assert!(told.contains("better than control by"), "{told}");
    let told = look(&["user", "shop", "user-1"]);
    assert!(told.contains("user-1: 100.0 rewards") && told.contains("sweet"), "{told}");
    let told = look(&["decision", "shop", decision.as_str().unwrap()]);
    assert!(told.contains("own rewards") && told.contains("cake"), "{told}");
    assert_eq!(cohort(&["insight", "user", "shop", "nobody", "--url", &url]).code, 2);

    // Both formats of the log give the same evaluation.
    let judged = ["parquet", "csv"].map(|kind| {
        let out = service.folder.path().join(format!("log.{kind}")).display().to_string();
        assert_eq!(look(&["log", "shop", "--out", &out]), "");
        let policies = "logged,random,item=cake,linucb-ind,cohort";
        let mut found = json(&["evaluate", &out, "--policy", policies]);
        found["log"] = Value::Null;
        found
    });
    assert_eq!(judged[0], judged[1]);
    let found = &judged[0];
    assert_eq!((&found["rows"], &found["users"]), (&json!(400), &json!(4)));
    let of = |policy: usize, estimator: usize, what: &str| {
        found["policies"][policy]["estimates"][estimator][what].as_f64().unwrap()
    };
    assert!((of(0, 1, "value") - sum / 400.0).abs() < 1e-12, "the log's own mean");
    // Random earns a half, always-cake 1; the intervals contain them.
    for estimator in 1..4 {
        assert!(of(1, estimator, "low") < 0.5 && of(1, estimator, "high") > 0.5);
        assert!(of(2, estimator, "high") > 0.99, "always cake");
    }
    for learner in [3, 4] {
        assert!(of(learner, 2, "value") > 0.8, "it learns to serve cake");
    }
}

#[test]
fn a_demo_says_so_and_keeps_its_data_apart() {
    let service = Serving::start(&["--demo"], 3);
    assert!(service.said.contains("this is a demo"), "{}", service.said);
    assert!(service.folder.path().join("cohort-demo-data").is_dir());
    assert!(!service.folder.path().join("cohort-data").exists());
    let status = ureq::get(format!("{}/v1/status", service.url)).call();
    let status: Value = status.unwrap().body_mut().read_json().unwrap();
    assert_eq!(status["demo"], true);
}
