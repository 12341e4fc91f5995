//! What the service tells of itself: the control group, the curve, users, decisions, and its log.
#![allow(missing_docs)]

mod common;
mod running;

use std::collections::BTreeMap;

use cohort_server::engine::Request;
use cohort_server::journal::memory::{MemoryDisk, MemoryJournal};
use cohort_server::settings::AppSettings;
use cohort_server::snapshot::disk::MemoryFolder;
use cohort_server::trial::Trial;
use common::{Simulation, create, decide, reward};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use running::Running;
use serde_json::{Value, json};

fn items(salt: usize) -> Value {
    let feature = |item: usize, k: usize| ((salt * 7 + item * 3 + k * 5) % 11) as f64 / 11.0;
    let item = |item: usize| json!({"id": format!("item-{item}"), "features": [feature(item, 0), feature(item, 1)]});
    (0..4).map(item).collect()
}

/// An app whose users like the first feature, with a control group; every third decision gets no
/// reward.
fn shop(service: &Running, decisions: usize) -> Vec<Value> {
    service.post(
        "/v1/apps",
        json!({"name": "shop", "dim": 2, "control": 0.3, "log_candidates": true,
            "feature_names": ["sweet", "hot"]}),
    );
    (0..decisions)
        .map(|turn| {
            let user = format!("user-{}", turn % 5);
            let offered = items(turn);
            let asked = json!({"user": user, "items": offered, "explain": turn % 10 == 0});
            let mut made = service.post("/v1/apps/shop/decide", asked);
            let chosen = offered.as_array().unwrap().iter().find(|item| item["id"] == made["item"]);
            let features = chosen.unwrap()["features"].clone();
            if turn % 3 != 0 {
                let reward = features[0].as_f64().unwrap();
                let body = json!({"decision_id": made["decision_id"], "reward": reward});
                service.post("/v1/apps/shop/reward", body);
                made["reward"] = reward.into();
            }
            made["user"] = user.into();
            made["features"] = features;
            made
        })
        .collect()
}

#[test]
fn the_control_group_is_counted_apart_and_the_averages_add_up() {
    let service = Running::start();
    let made = shop(&service, 600);
    let insight = service.get("/v1/apps/shop/insight");
    let curve = &insight["curve"];
    assert_eq!(curve["control_share"], 0.3);
    let of = |group: &str, what: &str| curve[group][what].as_f64().unwrap();
    assert_eq!(of("policy", "count") + of("control", "count"), 400.0);
    assert!((90.0..150.0).contains(&of("control", "count")), "about 30 % of 400");
    let sum: f64 = made.iter().filter_map(|made| made["reward"].as_f64()).sum();
    let told = of("policy", "count") * of("policy", "mean")
        + of("control", "count") * of("control", "mean");
    assert!((told - sum).abs() < 1e-9);
    let listed = service.get("/v1/apps")["apps"][0]["average_reward"].as_f64().unwrap();
    assert!((listed - sum / 400.0).abs() < 1e-12, "{listed} in the list of apps");
    assert!(
        of("policy", "low") < of("policy", "mean") && of("policy", "mean") < of("policy", "high")
    );
    assert_eq!(curve["points"].as_array().unwrap().last().unwrap()["rewards"], 400);
    assert!(["better", "unknown"].contains(&curve["lift"]["verdict"].as_str().unwrap()));
    assert_eq!(insight["feature_names"], json!(["sweet", "hot"]));
    assert_eq!((&insight["users"], &insight["decisions"]), (&json!(5), &json!(600)));
    // Without ε an item that is not the best has the probability 0.3/4, the best one 0.7 more (or its
    // part of it where several are best).
    for made in &made {
        let probability = made["probability"].as_f64().unwrap();
        assert!(probability >= 0.3 / 4.0 - 1e-12, "{made}");
    }
    let lowest = made.iter().filter(|made| made["probability"].as_f64().unwrap() < 0.0751).count();
    assert!((80..190).contains(&lowest), "{lowest}: three quarters of the control group");
    let refused = service.send("PATCH", "/v1/apps/shop", &json!({"control": 1.5}));
    assert_eq!((refused.0, &refused.1["error"]["code"]), (422, &json!("bad_settings")));
    let (_, changed) = service.send("PATCH", "/v1/apps/shop", &json!({"control": 0.0}));
    assert_eq!(changed["control"], 0.0);
}

#[test]
fn users_and_decisions_are_explained_in_numbers_that_add_up() {
    let service = Running::start();
    let made = shop(&service, 300);
    let user = service.get("/v1/apps/shop/users/user-3");
    assert_eq!(user["rewards"], 40.0);
    assert_eq!(user["estimate"].as_array().unwrap().len(), 2);
    let deviations = user["deviations"].as_array().unwrap();
    assert!(deviations.iter().all(|deviation| deviation.as_f64().unwrap() >= 0.0));
    let shares = user["memberships"].as_array().unwrap().iter();
    let total: f64 = shares.map(|one| one["share"].as_f64().unwrap()).sum();
    assert!((total - 1.0).abs() < 0.01, "{user}");
    assert_eq!(service.send("GET", "/v1/apps/shop/users/nobody", &Value::Null).0, 404);

    // Decisions made with `explain` keep their reasons.
    let explained = &made[290];
    let id = explained["decision_id"].as_str().unwrap();
    let decision = service.get(&format!("/v1/apps/shop/decisions/{id}"));
    let reasons = &decision["reasons"];
    let candidates = reasons["candidates"].as_array().unwrap();
    assert_eq!(candidates.len(), 4);
    assert_eq!(candidates[0]["item"], explained["item"]);
    for (candidate, told) in candidates.iter().zip(explained["explanation"].as_array().unwrap()) {
        let of = |part: &str| candidate[part].as_f64().unwrap();
        assert!((of("own") + of("cohort") + of("population") - of("expected")).abs() < 1e-9);
        assert!((of("expected") + of("bonus") - of("score")).abs() < 1e-9);
        assert_eq!(candidate["score"], told["score"], "as it was answered then");
    }
    let recent = service.get("/v1/apps/shop/insight")["recent"].clone();
    assert!(recent.as_array().unwrap().iter().any(|one| one["decision_id"] == id));
}

/// The control group, its decisions and the curve come back bit by bit, from the journal alone and
/// from a snapshot of the middle.
#[test]
fn a_trial_survives_a_restart() {
    for snapshot_at in [None, Some(70)] {
        let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
        let journal = || MemoryJournal::open(&disk).unwrap();
        let mut service = Simulation::start(journal(), &folder, 1).unwrap();
        let settings =
            AppSettings { window_ms: 900, default_reward: Some(0.5), ..AppSettings::new(3) };
        service.ask(1000, create("shop", settings)).map(drop).unwrap();
        let change = Box::new(|_: &mut AppSettings, trial: &mut Trial, _: &mut _| {
            let feature_names = ["a", "b", "c"].map(str::to_owned).to_vec();
            *trial = Trial { control: 0.4, log_candidates: true, feature_names };
        });
        service.ask(1000, Request::ChangeApp { app: "shop".to_owned(), change }).map(drop).unwrap();
        for turn in 0..200 {
            let id = format!("d{turn}");
            let user = format!("user-{}", turn % 7);
            let now_ms = 1000 + turn * 20;
            service.ask(now_ms, decide("shop", &user, Some(&id), 3, turn)).map(drop).unwrap();
            if turn % 4 != 0 {
                let answer = reward("shop", &id, (turn % 5) as f64 / 5.0);
                service.ask(now_ms + 5, answer).map(drop).unwrap();
            }
            if snapshot_at == Some(turn) {
                service.snapshot().unwrap();
            }
        }
        let before = service.bytes();
        let app = service.engine.state().app("shop").unwrap();
        let total = app.outcomes().total();
        assert!(total.control.count > 40 && total.policy.count > 80, "{total:?}");
        let mut again = Simulation::start(journal(), &folder, 2).unwrap();
        assert_eq!(again.bytes(), before, "snapshot at {snapshot_at:?}");
        assert_eq!(again.engine.state().app("shop").unwrap().trial().control, 0.4);
    }
}

/// Both formats hold every decision with its context, propensity and reward; in both the same.
#[test]
fn the_log_is_exported_while_the_service_runs() {
    let service = Running::start();
    let mut expected: BTreeMap<String, Value> = BTreeMap::new();
    for made in shop(&service, 200) {
        expected.insert(made["decision_id"].as_str().unwrap().to_owned(), made);
    }
    let folder = tempfile::tempdir().unwrap();
    let (csv, parquet) = (folder.path().join("log.csv"), folder.path().join("log.parquet"));
    service.download("/v1/apps/shop/log.csv", &csv);
    service.download("/v1/apps/shop/log.parquet", &parquet);

    let mut rows = 0;
    for record in csv::Reader::from_path(&csv).unwrap().deserialize::<BTreeMap<String, String>>() {
        let row = record.unwrap();
        let made = &expected[&row["decision_id"]];
        let json = |column: &str| serde_json::from_str::<Value>(&row[column]).unwrap();
        assert_eq!(made["user"], row["user"].as_str());
        assert_eq!(made["item"], row["item"].as_str());
        assert_eq!(made["probability"], json("propensity"));
        assert_eq!(made["ranking"], json("candidates"));
        assert_eq!(made["features"], json("context"));
        assert_eq!(json("features").as_array().unwrap().len(), 8, "two of each candidate");
        match made["reward"].as_f64() {
            Some(reward) => assert_eq!(json("reward"), reward),
            None => assert_eq!((row["reward"].as_str(), row["status"].as_str()), ("", "open")),
        }
        rows += 1;
    }
    assert_eq!(rows, 200);

    let reader = SerializedFileReader::new(std::fs::File::open(&parquet).unwrap()).unwrap();
    let mut rows = 0;
    for row in reader.get_row_iter(None).unwrap() {
        let row: Value = (row.unwrap().into_columns().into_iter())
            .map(|(name, field)| (name, value_of(&field)))
            .collect();
        let made = &expected[row["decision_id"].as_str().unwrap()];
        assert_eq!(made["ranking"], row["candidates"]);
        assert_eq!(made["features"], row["context"]);
        assert_eq!(made["probability"], row["propensity"]);
        assert_eq!(made["reward"], row["reward"]);
        rows += 1;
    }
    assert_eq!(rows, 200);
}

/// A field of Parquet as JSON.
fn value_of(field: &Field) -> Value {
    match field {
        Field::Str(text) => text.as_str().into(),
        Field::Double(number) => (*number).into(),
        Field::Long(number) => (*number).into(),
        Field::Bool(yes) => (*yes).into(),
        Field::ListInternal(list) => list.elements().iter().map(value_of).collect(),
        _ => Value::Null,
    }
}
