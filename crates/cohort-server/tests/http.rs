//! The service over HTTP: what each request answers, with which status and code, in every case
//! that docs/service.md describes.
#![allow(missing_docs)]

use std::time::Duration;

use cohort_server::config::Config;
use cohort_server::server::Server;
use serde_json::{Value, json};

/// A running service, stopped when dropped.
struct Running {
    url: String,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
    agent: ureq::Agent,
    key: Option<String>,
    folder: Option<tempfile::TempDir>,
}

fn start(change: impl FnOnce(&mut Config)) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let mut running = start_in(folder.path(), change);
    running.folder = Some(folder);
    running
}

fn start_in(folder: &std::path::Path, change: impl FnOnce(&mut Config)) -> Running {
    let mut config = Config { data_dir: folder.into(), ..Config::default() };
    config.listen = "127.0.0.1:0".to_owned();
    config.shutdown_ms = 500;
    change(&mut config);
    let key = config.needs_keys().then(|| config.admin_key.clone());
    let server = Server::open(config).unwrap();
    let url = format!("http://{}", server.address());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let stopped = async { stopped.await.unwrap_or_default() };
        runtime.block_on(server.serve(stopped)).unwrap();
    });
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(20)))
        .build();
    let agent = ureq::Agent::new_with_config(config);
    Running { url, stop: Some(stop), thread: Some(thread), agent, key, folder: None }
}

impl Running {
    fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Connections that are kept alive would be waited for.
            self.agent = ureq::Agent::new_with_defaults();
            thread.join().unwrap();
        }
    }

    fn send(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let mut request =
            ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.url));
        if let Some(key) = &self.key {
            request = request.header("Authorization", format!("Bearer {key}"));
        }
        let request = request.header("Content-Type", "application/json");
        let mut response = match body {
            "" => self.agent.run(request.body(()).unwrap()).unwrap(),
            body => self.agent.run(request.body(body.to_owned()).unwrap()).unwrap(),
        };
        let status = response.status().as_u16();
        let text = response.body_mut().read_to_string().unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.send("POST", path, &body.to_string())
    }

    fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, "")
    }

    /// A refusal's status and code.
    fn refused(&self, path: &str, body: Value) -> (u16, String) {
        let (status, said) = self.post(path, body);
        let message = said["error"]["message"].as_str().unwrap_or_default();
        assert!(status >= 400 && message.len() > 10, "{path}: {status} {said}");
        (status, said["error"]["code"].as_str().unwrap_or_default().to_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

fn items() -> Value {
    json!([{"id": "tea", "features": [0.9, 0.1]}, {"id": "coffee", "features": [0.1, 0.9]}])
}

#[test]
fn a_user_is_learned() {
    let service = start(|_| {});
    let (status, created) =
        service.post("/v1/apps", json!({"name": "shop", "dim": 2, "policy": "linucb-ind"}));
    assert_eq!(status, 201, "{created}");
    assert!(created["key"]["key"].as_str().unwrap().starts_with("ck_"));
    let mut shown = Vec::new();
    for turn in 0..30 {
        let (status, decision) =
            service.post("/v1/apps/shop/decide", json!({"user": "ann", "items": items()}));
        assert_eq!(status, 200, "{decision}");
        // Of a new user nothing is known: both items, equally long, are equally good.
        assert_eq!(decision["probability"], if turn == 0 { 0.5 } else { 1.0 });
        assert_eq!(decision["ranking"].as_array().unwrap().len(), 2);
        let likes_it = decision["item"] == "tea";
        shown.push(likes_it);
        let body = json!({"decision_id": decision["decision_id"], "reward": f64::from(likes_it)});
        assert_eq!(service.post("/v1/apps/shop/reward", body).1["outcome"], "learned");
    }
    // With σ = 1 it still looks at the other now and then.
    let tea = shown[20..].iter().filter(|tea| **tea).count();
    assert!(tea >= 8, "it should know by now: {shown:?}");
    let (_, app) = service.get("/v1/apps/shop");
    assert_eq!((&app["users"], &app["rewards"]), (&json!(1), &json!(30)));

    let body = json!({"user": "ann", "items": items(), "explain": true});
    let (_, decision) = service.post("/v1/apps/shop/decide", body);
    let explanation = decision["explanation"].as_array().unwrap();
    assert_eq!(explanation[0]["item"], decision["item"]);
    let number = |scored: &Value, what: &str| scored[what].as_f64().unwrap();
    for scored in explanation {
        let sum = number(scored, "expected") + number(scored, "bonus");
        assert_eq!(number(scored, "score"), sum);
    }
    assert!(number(&explanation[0], "score") >= number(&explanation[1], "score"));
}

#[test]
fn every_reward_has_one_outcome() {
    let mut service = start(|_| {});
    service.post("/v1/apps", json!({"name": "shop", "dim": 2, "window_ms": 600_000}));
    let decide = |service: &Running, id: &str, extra: Value| {
        let mut body = json!({"user": "ann", "items": items(), "decision_id": id});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        service.post("/v1/apps/shop/decide", body)
    };
    let reward = |id: &str, reward: f64| json!({"decision_id": id, "reward": reward});
    const REWARD: &str = "/v1/apps/shop/reward";

    // Out of order: the later decision first.
    let (_, first) = decide(&service, "a", json!({}));
    decide(&service, "b", json!({}));
    assert_eq!(service.post(REWARD, reward("b", 1.0)).1["outcome"], "learned");
    assert_eq!(service.post(REWARD, reward("a", 0.5)).1["outcome"], "learned");
    // Repeated, also with another number: the first stays.
    let (status, repeated) = service.post(REWARD, reward("a", 9.0));
    assert_eq!(
        (status, &repeated["outcome"], &repeated["reward"]),
        (200, &json!("repeated"), &json!(0.5))
    );
    // A retried decide gets the same decision, even when the reward is there.
    let (status, again) = decide(&service, "a", json!({}));
    assert_eq!((status, &again["ranking"]), (200, &first["ranking"]));
    let other = json!({"user": "bob", "items": items(), "decision_id": "a"});
    assert_eq!(service.refused("/v1/apps/shop/decide", other), (409, "decision_reused".to_owned()));
    // Unknown.
    assert_eq!(service.refused(REWARD, reward("never", 1.0)), (404, "decision_unknown".to_owned()));
    // Not shown yet, then activated.
    decide(&service, "c", json!({"shown": false}));
    assert_eq!(service.refused(REWARD, reward("c", 1.0)), (409, "not_shown".to_owned()));
    for _ in 0..2 {
        assert_eq!(service.post("/v1/apps/shop/activate", json!({"decision_id": "c"})).0, 204);
    }
    assert_eq!(service.post(REWARD, reward("c", 1.0)).1["outcome"], "learned");
    // Many at once, each with its own.
    decide(&service, "d", json!({}));
    let many = json!({"rewards": [reward("d", 1.0), reward("d", 2.0), reward("x", 1.0)]});
    let (_, outcomes) = service.post("/v1/apps/shop/rewards", many);
    assert_eq!(outcomes["outcomes"][0]["outcome"], "learned");
    assert_eq!(outcomes["outcomes"][1]["outcome"], "repeated");
    assert_eq!(outcomes["outcomes"][2]["error"]["code"], "decision_unknown");
    let (_, status) = service.get("/v1/apps/shop/decisions/d");
    assert_eq!((&status["status"], &status["reward"]), (&json!("rewarded"), &json!(1.0)));
    // Late, and the default.
    let patch = json!({"window_ms": 500, "default_reward": 0.25}).to_string();
    assert_eq!(service.send("PATCH", "/v1/apps/shop", &patch).0, 200);
    decide(&service, "e", json!({}));
    let patch = json!({"window_ms": 600_000}).to_string();
    assert_eq!(service.send("PATCH", "/v1/apps/shop", &patch).0, 200);
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(service.refused(REWARD, reward("e", 1.0)), (410, "late".to_owned()));
    assert_eq!(service.get("/v1/apps/shop/decisions/e").1["reward"], 0.25);
    assert_eq!(service.get("/v1/apps/shop").1["defaults"], 1);
    // All of it again after a restart.
    let before = service.get("/v1/apps/shop").1;
    let folder = service.folder.take().unwrap();
    service.stop();
    let service = start_in(folder.path(), |_| {});
    assert_eq!(service.get("/v1/apps/shop").1, before);
    assert_eq!(service.post(REWARD, reward("a", 9.0)).1["outcome"], "repeated");
    // A deleted app.
    assert_eq!(service.send("DELETE", "/v1/apps/shop", "").0, 204);
    assert_eq!(service.refused(REWARD, reward("a", 1.0)), (410, "app_deleted".to_owned()));
    assert_eq!(
        service.refused("/v1/apps/other/reward", reward("a", 1.0)),
        (404, "app_unknown".to_owned())
    );
}

#[test]
fn batches_and_the_catalogue() {
    let service = start(|_| {});
    service.post("/v1/apps", json!({"name": "shop", "dim": 2, "policy": "random"}));
    let put = json!({ "items": items() }).to_string();
    assert_eq!(service.send("PUT", "/v1/apps/shop/items", &put).0, 204);
    assert_eq!(service.get("/v1/apps/shop/items").1["items"], json!(["coffee", "tea"]));
    let users: Vec<Value> = (0..50).map(|n| json!({"user": format!("u{n}")})).collect();
    let body = json!({"users": users, "items": [{"id": "tea"}, {"id": "coffee"}]});
    let (status, said) = service.post("/v1/apps/shop/decide-batch", body);
    assert_eq!(status, 200, "{said}");
    let decisions = said["decisions"].as_array().unwrap();
    assert_eq!(decisions.len(), 50);
    assert!(decisions.iter().all(|decision| decision["probability"] == 0.5));
    let tea = decisions.iter().filter(|decision| decision["item"] == "tea").count();
    assert!((10..=40).contains(&tea), "{tea} of 50");
    let body = json!({"user": "u", "items": [{"id": "milk"}]});
    assert_eq!(service.refused("/v1/apps/shop/decide", body), (422, "item_unknown".to_owned()));
    assert_eq!(service.send("DELETE", "/v1/apps/shop/items/tea", "").0, 204);
    assert_eq!(service.send("DELETE", "/v1/apps/shop/items/tea", "").0, 422);
}

#[test]
fn bad_input_is_refused_with_a_code_and_a_sentence() {
    let service = start(|config| {
        config.max_candidates = 3;
        config.max_dim = 8;
        config.body_bytes = 2000;
    });
    let apps = |body| service.refused("/v1/apps", body);
    assert_eq!(apps(json!({"name": "A b", "dim": 2})), (422, "bad_name".to_owned()));
    assert_eq!(apps(json!({"name": "a", "dim": 9})), (422, "too_many".to_owned()));
    assert_eq!(apps(json!({"name": "a", "dim": 0})), (422, "bad_settings".to_owned()));
    assert_eq!(
        apps(json!({"name": "a", "dim": 2, "policy": "cmlb"})),
        (422, "bad_settings".to_owned())
    );
    assert_eq!(
        apps(json!({"name": "a", "dim": 2, "epsilon": 2.0})),
        (422, "bad_settings".to_owned())
    );
    assert_eq!(apps(json!({"name": "a", "dim": 2, "colour": 2})), (400, "bad_body".to_owned()));
    service.post("/v1/apps", json!({"name": "shop", "dim": 2}));
    assert_eq!(apps(json!({"name": "shop", "dim": 2})), (409, "app_exists".to_owned()));

    let decide = |items: Value| {
        service.refused("/v1/apps/shop/decide", json!({"user": "u", "items": items}))
    };
    let item = |features: Value| json!([{"id": "a", "features": features}]);
    assert_eq!(decide(json!([])), (422, "bad_count".to_owned()));
    assert_eq!(decide(json!([{"id": ""}])), (422, "bad_id".to_owned()));
    assert_eq!(
        decide(json!([{"id": "a"}, {"id": "b"}, {"id": "c"}, {"id": "d"}])),
        (422, "bad_count".to_owned())
    );
    assert_eq!(decide(json!([{"id": "a"}, {"id": "a"}])), (422, "item_twice".to_owned()));
    assert_eq!(decide(item(json!([1.0]))), (422, "wrong_dim".to_owned()));
    assert_eq!(decide(item(json!([1e300, 0.0]))), (422, "bad_feature".to_owned()));
    assert_eq!(decide(item(json!([null, 0.0]))), (400, "bad_body".to_owned()));
    let reward = json!({"decision_id": "d", "reward": 1e9});
    assert_eq!(service.refused("/v1/apps/shop/reward", reward), (422, "bad_reward".to_owned()));
    let large = json!({"user": "u".repeat(3000), "items": []});
    assert_eq!(service.refused("/v1/apps/shop/decide", large), (413, "body_too_large".to_owned()));
    for body in ["{", "[]", "nul", "{\"user\": 1e999}", "\u{0}"] {
        let (status, said) = service.send("POST", "/v1/apps/shop/decide", body);
        assert_eq!((status, &said["error"]["code"]), (400, &json!("bad_body")), "{body}");
    }
    assert_eq!(service.get("/v1/nothing").1["error"]["code"], "no_such_page");
    assert_eq!(service.send("DELETE", "/v1/apps", "").1["error"]["code"], "wrong_method");
    let form = service.agent.post(format!("{}/v1/apps", service.url)).send("name=a").unwrap();
    assert_eq!(form.status().as_u16(), 415);
    // After all that it is well.
    assert_eq!(service.get("/readyz").0, 200);
}

/// Features and rewards at the end of their range leave every number of the model finite, and what
/// is kept of it can be read.
#[test]
fn no_number_becomes_infinite() {
    for policy in cohort_server::settings::online_policies() {
        no_number_becomes_infinite_in(policy);
    }
}

fn no_number_becomes_infinite_in(policy: &str) {
    let folder = tempfile::tempdir().unwrap();
    let service = start_in(folder.path(), |_| {});
    service.post("/v1/apps", json!({"name": "shop", "dim": 2, "policy": policy}));
    for round in 0..60 {
        let (x, y) =
            (if round % 2 == 0 { 1e4 } else { -1e4 }, if round % 3 == 0 { 1e-6 } else { 1e4 });
        let items = json!([{"id": "a", "features": [x, y]}, {"id": "b", "features": [y, x]}]);
        let body = json!({"user": "u", "items": items, "explain": true});
        let (status, decision) = service.post("/v1/apps/shop/decide", body);
        assert_eq!(status, 200);
        for scored in decision["explanation"].as_array().unwrap() {
            assert!(scored["score"].as_f64().is_some_and(f64::is_finite), "{scored}");
        }
        let body = json!({"decision_id": decision["decision_id"], "reward": -100.0 * x});
        assert_eq!(service.post("/v1/apps/shop/reward", body).0, 200);
    }
    let before = service.get("/v1/apps/shop").1;
    drop(service);
    assert_eq!(std::fs::read_dir(folder.path().join("snapshots")).unwrap().count(), 1);
    let again = start_in(folder.path(), |_| {});
    assert_eq!(again.get("/v1/apps/shop").1, before);
    let names = std::fs::read_dir(folder.path().join("snapshots")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(names.into_iter().all(|name| name.ends_with(".snapshot")), "it was damaged");
}

/// A small request that would be answered, and remembered, at great length.
#[test]
fn rankings_that_are_too_long_together_are_refused() {
    let service = start(|config| config.body_bytes = 8192);
    service.post("/v1/apps", json!({"name": "shop", "dim": 1}));
    let ask = |users: usize| {
        let users: Vec<Value> = (0..users).map(|user| json!({"user": user.to_string()})).collect();
        let items: Vec<Value> =
            (0..10).map(|item| json!({"id": format!("{item:0100}"), "features": [1]})).collect();
        service.post("/v1/apps/shop/decide-batch", json!({"users": users, "items": items}))
    };
    assert_eq!(ask(28).0, 200);
    let (status, said) = ask(29);
    assert_eq!((status, &said["error"]["code"]), (422, &json!("answer_too_large")), "{said}");
}

#[test]
fn keys_open_their_own_app_and_no_other() {
    const ADMIN: &str = "correct horse battery staple";
    let mut service = start(|config| config.admin_key = ADMIN.to_owned());
    let make = |service: &Running, name: &str| {
        let (_, created) = service.post("/v1/apps", json!({"name": name, "dim": 2}));
        (created["key"]["id"].clone(), created["key"]["key"].as_str().unwrap().to_owned())
    };
    let (shop_id, shop) = make(&service, "shop");
    let (_, blog) = make(&service, "blog");
    let (_, second) = service.send("POST", "/v1/apps/shop/keys", "{}");
    let second = second["key"].as_str().unwrap().to_owned();
    let decide = |service: &mut Running, key: Option<&str>| {
        service.key = key.map(str::to_owned);
        let body = json!({"user": "u", "items": items()});
        let answer = service.post("/v1/apps/shop/decide", body);
        let listed = service.get("/v1/apps").0;
        service.key = Some(ADMIN.to_owned());
        (answer.0, listed)
    };
    assert_eq!(decide(&mut service, Some(ADMIN)), (200, 200));
    assert_eq!(decide(&mut service, Some(&shop)), (200, 403));
    assert_eq!(decide(&mut service, Some(&second)), (200, 403));
    assert_eq!(decide(&mut service, Some(&blog)), (403, 403));
    assert_eq!(decide(&mut service, Some("ck_guess")), (403, 403));
    assert_eq!(decide(&mut service, None), (401, 401));
    let at = format!("/v1/apps/shop/keys/{}", shop_id.as_str().unwrap());
    assert_eq!(service.send("DELETE", &at, "").0, 204);
    assert_eq!(service.send("DELETE", &at, "").0, 404);
    assert_eq!(decide(&mut service, Some(&shop)), (403, 403));
    assert_eq!(decide(&mut service, Some(&second)), (200, 403));
    // Nothing on disk gives a key away.
    let folder = service.folder.take().unwrap();
    service.stop();
    let mut folders = vec![folder.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = std::fs::read(path).unwrap();
                for key in [ADMIN, &shop, &second] {
                    assert!(!bytes.windows(key.len()).any(|bytes| bytes == key.as_bytes()));
                }
            }
        }
    }
}

#[test]
fn too_much_is_refused_with_the_advice_to_come_back() {
    let service = start(|config| {
        config.rate_per_second = 5;
        config.max_waiting = 3;
    });
    service.post("/v1/apps", json!({"name": "shop", "dim": 2}));
    let body = json!({"user": "u", "items": items()}).to_string();
    let mut codes = Vec::new();
    for _ in 0..8 {
        let response = service
            .agent
            .post(format!("{}/v1/apps/shop/decide", service.url))
            .header("Content-Type", "application/json")
            .send(&body)
            .unwrap();
        let retry = response.headers().get("retry-after").cloned();
        let status = response.status().as_u16();
        assert_eq!(status == 429, retry.is_some());
        codes.push(status);
    }
    assert_eq!(codes[..4], [200, 200, 200, 429], "the fourth waits for rewards: {codes:?}");
    assert_eq!(codes[7], 429);
}

#[test]
fn operators_see_what_they_need() {
    let service = start(|_| {});
    service.post("/v1/apps", json!({"name": "shop", "dim": 2}));
    assert_eq!(service.get("/healthz").0, 200);
    assert_eq!(service.get("/readyz").0, 200);
    let (_, metrics) = service.get("/metrics");
    let metrics = metrics.as_str().unwrap();
    for name in
        ["cohort_requests_total", "cohort_request_seconds_bucket", "cohort_journal_sync_seconds"]
    {
        assert!(metrics.contains(name), "{name} is not in\n{metrics}");
    }
    let (_, api) = service.get("/openapi.json");
    assert_eq!(api["openapi"], "3.1.0");
    for (path, method) in [
        ("/v1/apps", "post"),
        ("/v1/apps/{app}", "patch"),
        ("/v1/apps/{app}/decide", "post"),
        ("/v1/apps/{app}/decide-batch", "post"),
        ("/v1/apps/{app}/reward", "post"),
        ("/v1/apps/{app}/activate", "post"),
        ("/v1/apps/{app}/items", "put"),
    ] {
        assert!(api["paths"][path][method].is_object(), "{method} {path}");
    }
    let (status, page) = service.get("/docs");
    assert!(status == 200 && page.as_str().unwrap().contains("/openapi.json"));
}

/// Everything that was acknowledged before a stop is there after it, under load, and every
/// request is answered: with a success or with the advice to come back.
#[test]
fn stopping_under_load_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut service = start_in(folder.path(), |_| {});
    service.post("/v1/apps", json!({"name": "shop", "dim": 2}));
    let url = service.url.clone();
    let clients: Vec<_> = (0..4)
        .map(|client| {
            let url = format!("{url}/v1/apps/shop/decide");
            std::thread::spawn(move || {
                let config = ureq::Agent::config_builder().http_status_as_error(false).build();
                let agent = ureq::Agent::new_with_config(config);
                for n in 0u64.. {
                    let body = json!({"user": format!("u{client}"), "items": items()});
                    let sent = agent.post(&url).header("Content-Type", "application/json");
                    match sent.send(body.to_string()) {
                        Ok(response) if response.status().as_u16() == 200 => {}
                        Ok(response) => {
                            assert_eq!(response.status().as_u16(), 503);
                            return n;
                        }
                        Err(_) => return n,
                    }
                }
                unreachable!()
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    service.stop();
    let acknowledged: u64 = clients.into_iter().map(|client| client.join().unwrap()).sum();
    let service = start_in(folder.path(), |_| {});
    let found = service.get("/v1/apps/shop").1["decisions"].as_u64().unwrap();
    assert!(acknowledged > 0);
    // An answer may have been lost on the way to a client when its connection was closed.
    assert!((acknowledged..=acknowledged + 4).contains(&found), "{acknowledged} {found}");
}
