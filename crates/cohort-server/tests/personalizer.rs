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

#[test]
fn an_action_is_in_no_two_slots_also_where_slots_of_an_event_come_later() {
    let service = Running::start();
    let base = "/personalizer/v1.0/multislot/rank";
    let slot = |id: &str, baseline: &str| json!({"id": id, "baselineAction": baseline});
    let (one, two) = (slot("s1", "News"), slot("s2", "Sports"));
    let three = slot("s3", "Entertainment");
    for event in 0..40 {
        let rank = |slots: &[&Value]| {
            let body =
                json!({"actions": actions(), "slots": slots, "eventId": format!("e{event}")});
            let (status, said) = service.send("POST", base, &body);
            assert_eq!(status, 201, "{said}");
            let slots = said["slots"].as_array().unwrap().iter();
            slots
                .map(|slot| slot["rewardActionId"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let first = rank(&[&one]);
        let both = rank(&[&two, &one]);
        assert_eq!(both[1], first[0], "what was shown stays");
        assert_ne!(both[0], both[1]);
        // As many slots as actions: the only one that is left goes to the third.
        let all = rank(&[&three, &two, &one]);
        assert_eq!(all[1..], both);
        assert!(!both.contains(&all[0]));
    }
}

#[test]
fn an_event_that_was_ranked_is_told_as_it_was_whatever_is_excluded_now() {
    let service = Running::start();
    let rank = |body: &Value| {
        let (status, said) = service.send("POST", "/personalizer/v1.0/rank", body);
        assert_eq!(status, 201, "{said}");
        said
    };
    let told = |said: &Value| -> Vec<(String, f64)> {
        let ranking = said["ranking"].as_array().unwrap().iter();
        let one = |of: &Value| {
            (of["id"].as_str().unwrap().to_owned(), of["probability"].as_f64().unwrap())
        };
        ranking.map(one).collect()
    };
    for event in 0..10 {
        let mut body = json!({"actions": actions(), "eventId": format!("e{event}"),
            "excludedActions": ["News"]});
        let first = rank(&body);
        let shown = first["rewardActionId"].clone();
        for excluded in [json!([shown]), json!([]), json!(["Sports"]), json!(["News", "Sports"])] {
            body["excludedActions"] = excluded;
            let again = rank(&body);
            assert_eq!(again["rewardActionId"], shown);
            let (before, ranking) = (told(&first), told(&again));
            assert_eq!(before[0], ("News".to_owned(), 0.0));
            assert_eq!(ranking[0], before[0]);
            let ids: std::collections::BTreeSet<&String> =
                ranking.iter().map(|(id, _)| id).collect();
            assert_eq!((ranking.len(), ids.len()), (3, 3), "{again}");
            assert!((ranking.iter().map(|(_, p)| p).sum::<f64>() - 1.0).abs() < 1e-9);
            assert!(ranking.iter().any(|(id, p)| *id == shown && *p > 0.0));
        }
        // Nor does it matter which actions come with it.
        let few =
            json!({"actions": [{"id": "Weather"}, {"id": "News"}], "eventId": format!("e{event}")});
        let again = rank(&few);
        assert_eq!(again["rewardActionId"], shown);
        assert_eq!(told(&again).iter().filter(|(_, p)| *p == 0.0).count(), 2, "{again}");
    }
}

/// Of four actions each was shown with probability 0.25 and one is liked: `random` earns a quarter. A log of the past says
/// among how many it chose; where it does not the decision is left out and counted.
#[test]
fn random_is_judged_by_how_many_actions_there_were() {
    let service = Running::start();
    service.post("/v1/apps", json!({"name": "shop", "features": "json"}));
    let past = |at: usize| {
        let action = ["a", "b", "c", "d"][at % 4];
        let mut past = json!({"user": "u", "item": action, "features": {"kind": action},
            "reward": f64::from(action == "a"), "probability": 0.25});
        match at % 3 {
            0 => past["among"] = json!(4),
            1 => past["candidates"] = json!(["a", "b", "c", "d"]),
            _ => {}
        }
        past
    };
    let body = json!({"decisions": (0..240).map(past).collect::<Vec<_>>()});
    assert_eq!(service.post("/v1/apps/shop/history", body)["learned"], 240);
    let contract = |name: &str| {
        json!({"name": name, "startTime": "2020-01-01T00:00:00Z",
        "endTime": "2100-01-01T00:00:00Z", "policies": []})
    };
    let base = "/apps/shop/personalizer/v1.1-preview.3/evaluations";
    let (status, said) = service.send("POST", base, &contract("past"));
    assert_eq!((status, &said["status"]), (201, &json!("completed")), "{said}");
    let of = |said: &Value, at: usize| {
        let one = &said["policyResults"][at];
        (
            one["totalSummary"]["averageReward"].as_f64().unwrap(),
            one["decisionsLeftOut"].as_u64().unwrap(),
        )
    };
    assert_eq!(of(&said, 0), (0.25, 0));
    let (random, left_out) = of(&said, 1);
    assert!((random - 0.25).abs() < 1e-9 && left_out == 80, "{said}");

    // Decisions from a catalogue list the best items alone, of many.
    service.post("/v1/apps", json!({"name": "films", "features": "json", "epsilon": 1.0}));
    let items: Vec<Value> =
        (0..40).map(|at| json!({"id": format!("i{at}"), "features": {"n": at % 7}})).collect();
    let (status, said) = service.send("PUT", "/v1/apps/films/items", &json!({"items": items}));
    assert!(status < 300, "{said}");
    for _ in 0..50 {
        let decided = service.post("/v1/apps/films/decide", json!({"user": "u", "k": 3}));
        let id = decided["decision_id"].clone();
        service.post("/v1/apps/films/reward", json!({"decision_id": id, "reward": 0.5}));
    }
    let base = "/apps/films/personalizer/v1.1-preview.3/evaluations";
    let (_, said) = service.send("POST", base, &contract("films"));
    let (random, left_out) = of(&said, 1);
    assert!((random - 0.5).abs() < 1e-9 && left_out == 0, "{said}");

    // Versions in the query expect another form.
    let base = "/apps/films/personalizer/evaluations";
    let version = "api-version=2022-09-01-preview";
    let (status, said) = service.send("PUT", &format!("{base}/two?{version}"), &contract("two"));
    assert_eq!((status, &said["status"]), (200, &json!("Succeeded")), "{said}");
    let window = "startTime=2020-01-01T00:00:00Z&endTime=2100-01-01T00:00:00Z";
    let shown = service.get(&format!("{base}/two?{version}&{window}"));
    assert_eq!(shown, said);
    let random = &shown["content"]["value"][1];
    assert_eq!(random["policySource"], "Random");
    assert!((random["summary"]["expectedReward"].as_f64().unwrap() - 0.5).abs() < 1e-9);
    assert_eq!(random["summary"]["confidenceInterval"].as_array().unwrap().len(), 2);
    assert_eq!(
        random["timeseries"]["data"][0]["expectedReward"],
        random["summary"]["expectedReward"]
    );
    let listed = service.get(&format!("{base}?{version}"))["value"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 2);
    assert!(listed[0]["status"] == "Succeeded" && listed[0]["content"].is_null(), "{listed}");
    // What is not judged is not passed over.
    let mut custom = contract("custom");
    custom["policies"] = json!([{"name": "mine", "arguments": "--cb_explore_adf --epsilon 0.1"}]);
    let (status, said) = service.send("PUT", &format!("{base}/three?{version}"), &custom);
    assert_eq!((status, &said["error"]["code"]), (400, &json!("InvalidEvaluationContract")));
}

#[test]
fn what_a_configuration_says_is_so() {
    let service = Running::start();
    let base = "/personalizer/v1.1-preview.3";
    let mut configuration = service.get(&format!("{base}/configurations/service"));
    assert_eq!(configuration["modelRetrainDays"], 2);
    let path = format!("{base}/configurations/service");
    configuration["modelRetrainDays"] = json!(-1);
    let (status, said) = service.send("PUT", &path, &configuration);
    assert_eq!((status, &said["modelRetrainDays"]), (200, &json!(2)), "{said}");
    configuration["modelRetrainDays"] = json!(20);
    configuration["logRetentionDays"] = json!(10);
    let (status, said) = service.send("PUT", &path, &configuration);
    assert_eq!(
        (status, &said["error"]["code"]),
        (400, &json!("InvalidModelRetrainDays")),
        "{said}"
    );
    configuration["modelRetrainDays"] = json!(7);
    assert_eq!(service.send("PUT", &path, &configuration).1["modelRetrainDays"], 7);

    let properties = || service.get(&format!("{base}/model/properties"));
    let before = properties();
    assert_eq!(before["lastModifiedTime"], before["creationTime"], "nothing was learned");
    let rank = |event: &str| {
        let context = json!([{"device": "phone"}, {"_user": event}]);
        let body = json!({"actions": actions(), "contextFeatures": context, "eventId": event});
        let (status, said) = service.send("POST", &format!("{base}/rank"), &body);
        assert_eq!(status, 201, "{said}");
        said
    };
    let reward = |said: &Value| {
        let event = said["eventId"].as_str().unwrap();
        let value = json!({"value": f64::from(said["rewardActionId"] == "News")});
        service.send("POST", &format!("{base}/events/{event}/reward"), &value);
    };
    for event in 0..30 {
        let said = rank(&format!("e{event}"));
        assert!(said["inferenceExplanation"].is_null());
        reward(&said);
    }
    let after = properties();
    assert!(after["lastModifiedTime"].as_str() > before["lastModifiedTime"].as_str(), "{after}");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    rank("no reward");
    assert_eq!(properties(), after, "a rank changes no model");

    configuration["isInferenceExplainabilityEnabled"] = json!(true);
    assert_eq!(service.send("PUT", &path, &configuration).0, 200);
    let began = std::time::Instant::now();
    let last = properties();
    // Coefficients are told after the first refit.
    let explained = loop {
        let said = rank(&format!("e{}", began.elapsed().as_nanos()));
        if said["inferenceExplanation"].as_array().is_some_and(|all| all.len() == 3) {
            break said;
        }
        reward(&said);
        assert!(began.elapsed() < std::time::Duration::from_secs(30), "{said}");
    };
    assert_eq!(last, after);
    let last = properties();
    for one in explained["inferenceExplanation"].as_array().unwrap() {
        let feature = &one["features"][0];
        assert!(one["id"].is_string() && feature["name"].is_string() && feature["score"].is_f64());
    }
    let again = service.restart();
    let told = again.get(&format!("{base}/model/properties"));
    assert_eq!(told["lastModifiedTime"], last["lastModifiedTime"]);
}
