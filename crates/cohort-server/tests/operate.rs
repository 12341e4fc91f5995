//! Strangers, bad days and time: keys that open what they should, data that ends, room that becomes
//! scarce, readers that do not read.
//!
//! What once broke the service, and the test that it does not any more:
//!
//! | tried | test |
//! | --- | --- |
//! | silent connections, few descriptors | `cohort-cli` `cli/silent.rs`: `four_hundred_silent_connections_…`; `hostile.rs` |
//! | the engine or its journal dead | `src/server/mod.rs`: `a_journal_that_fails_is_told_and_ends_the_service_…`; `runtime.rs`: `a_journal_that_fails_…`, `an_app_that_panics_is_quarantined_…` |
//! | the clock a day ahead, then right again; or behind | `clocks.rs`; `hostile.rs` |
//! | a small batch that means much work, journal or answer | `engine.rs`: `a_small_request_for_very_much_is_refused_…`; `http.rs`: `rankings_that_are_too_long_together_are_refused` |
//! | large batches of one app, requests that nobody waits for | `src/engine/runtime/queue.rs`: `small_requests_pass_a_crowd_of_large_ones`, `turns_are_fair`; `src/http/large.rs`; `runtime.rs`: `what_nobody_waits_for_any_more_is_not_done`; `hostile.rs` |
//! | made-up users | `users_end_the_longest_unseen_first_…` |
//! | a journal that grows, a disk that is full | `the_journal_keeps_no_more_than_it_may_…`, `where_the_disk_becomes_full_…`; `src/server/housekeeping.rs` |
//! | an app deleted and created again | `an_app_that_is_created_again_shows_nothing_of_the_one_before` |
//! | what an app's key opens | `keys_open_what_their_scopes_say_and_nothing_else` |
//! | slow readers of the log | `readers_that_do_not_read_keep_nobody_waiting` |
//! | a Python client that waits for minutes | `cohort-python` `test_client.py`: `test_a_call_ends_within_its_timeout_…` |
//! | power that is lost | `cohort-cli` `kill.rs`: `a_loss_of_power_takes_nothing_that_was_acknowledged` |
#![allow(missing_docs)]

mod running;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use running::Running;
use serde_json::{Value, json};

const ADMIN: &str = "the admin's own key";

fn items() -> Value {
    json!([{"id": "a", "features": [1.0, 0.0]}, {"id": "b", "features": [0.0, 1.0]}])
}

/// Decides for users and rewards them.
fn visit(service: &Running, app: &str, users: impl Iterator<Item = usize>, salt: &str) {
    for user in users {
        let id = format!("{salt}{user}");
        let body = json!({"user": format!("u{user}"), "decision_id": id, "items": items()});
        service.post(&format!("/v1/apps/{app}/decide"), body);
        let body = json!({"decision_id": id, "reward": f64::from(user as u32 % 2)});
        service.post(&format!("/v1/apps/{app}/reward"), body);
    }
}

#[test]
fn keys_open_what_their_scopes_say_and_nothing_else() {
    let service = Running::start_with_key(ADMIN);
    let ask = |method: &str, path: &str, body: &Value, key: &str| {
        let (status, said) = service.send_with_key(method, path, body, key);
        (status, said["error"]["code"].as_str().unwrap_or_default().to_owned())
    };
    let made =
        service.send_with_key("POST", "/v1/apps", &json!({"name": "shop", "dim": 2}), ADMIN).1;
    assert_eq!(made["key"]["scopes"], json!(["decide", "reward"]));
    let key = made["key"]["key"].as_str().unwrap();
    let decide = json!({"user": "ann", "decision_id": "d", "items": items()});
    assert_eq!(ask("POST", "/v1/apps/shop/decide", &decide, key).0, 200);
    assert_eq!(
        ask("POST", "/v1/apps/shop/reward", &json!({"decision_id": "d", "reward": 1}), key).0,
        200
    );
    assert_eq!(ask("GET", "/v1/apps/shop", &Value::Null, key).0, 200);
    let item = json!({"items": [{"id": "a", "features": [1.0, 0.0]}]});
    assert_eq!(ask("PUT", "/v1/apps/shop/items", &item, ADMIN).0, 204);
    let lacks = (403, "key_lacks_scope".to_owned());
    let of_others = [
        ("GET", "/v1/apps/shop/log.csv"),
        ("GET", "/v1/apps/shop/users/ann"),
        ("GET", "/v1/apps/shop/users/ann/export"),
        ("GET", "/v1/apps/shop/insight"),
        ("GET", "/v1/apps/shop/decisions/d"),
        ("DELETE", "/v1/apps/shop/items/a"),
        ("DELETE", "/v1/apps/shop/users/ann"),
        ("GET", "/v1/apps/shop/keys"),
        ("POST", "/v1/apps/shop/keys"),
    ];
    for (method, path) in of_others {
        assert_eq!(ask(method, path, &Value::Null, key), lacks, "{method} {path}");
    }
    let add = |terms: Value| {
        let (status, said) = service.send_with_key("POST", "/v1/apps/shop/keys", &terms, ADMIN);
        assert_eq!(status, 201, "{said}");
        said["key"].as_str().unwrap().to_owned()
    };
    let read = add(json!({"scopes": ["read"]}));
    for (_, path) in &of_others[..5] {
        assert_eq!(ask("GET", path, &Value::Null, &read).0, 200, "{path}");
    }
    assert_eq!(ask("POST", "/v1/apps/shop/decide", &decide, &read), lacks);
    let expired = add(json!({"scopes": ["read"], "expires_ms": 1}));
    let told = ask("GET", "/v1/apps/shop/insight", &Value::Null, &expired);
    assert_eq!(told, (403, "key_expired".to_owned()));
    // Whoever administers an app adds and removes its keys while it runs, and nothing of other apps.
    let admin = add(json!({"scopes": ["admin"], "expires_ms": u64::MAX / 2}));
    let (_, listed) = service.send_with_key("GET", "/v1/apps/shop/keys", &Value::Null, &admin);
    assert_eq!(listed["keys"].as_array().unwrap().len(), 4);
    assert!(!listed.to_string().contains("ck_"), "keys themselves are not kept");
    let id = listed["keys"][1]["id"].as_str().unwrap();
    assert_eq!(ask("DELETE", &format!("/v1/apps/shop/keys/{id}"), &Value::Null, &admin).0, 204);
    assert_eq!(ask("GET", "/v1/apps/shop/insight", &Value::Null, &read).1, "key_refused");
    assert_eq!(ask("GET", "/v1/apps", &Value::Null, &admin).1, "key_refused");
    assert_eq!(ask("DELETE", "/v1/apps/shop", &Value::Null, &admin).1, "key_refused");
    let bad = ask("POST", "/v1/apps/shop/keys", &json!({"scopes": ["all"]}), ADMIN);
    assert_eq!(bad, (422, "bad_scopes".to_owned()));
}

#[test]
fn admin_keys_are_changed_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    std::fs::write(&file, "the first admin key\n").unwrap();
    let config = file.clone();
    let service = Running::start_with(move |c| c.admin_key_file = config);
    let opens = |key: &str| service.send_with_key("GET", "/v1/apps", &Value::Null, key).0 == 200;
    assert!(opens("the first admin key") && !opens("the other admin key") && !opens(""));
    std::fs::write(&file, "the first admin key\n\nthe other admin key\n").unwrap();
    let wait_until = |done: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !done() {
            assert!(began.elapsed() < Duration::from_secs(30), "the file is not read anew");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    wait_until(&|| opens("the other admin key"));
    assert!(opens("the first admin key"), "both are good meanwhile");
    std::fs::write(&file, "the other admin key").unwrap();
    wait_until(&|| !opens("the first admin key"));
    // A file that cannot be used closes nothing and opens nothing.
    std::fs::write(&file, "").unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    assert!(opens("the other admin key") && !opens(""));
}

#[test]
fn keys_are_not_in_what_is_logged() {
    let config =
        cohort_server::config::Config { admin_key: ADMIN.to_owned(), ..Default::default() };
    assert!(!format!("{config:?}").contains(ADMIN));
}

/// The head of an answer, as it comes.
fn head(service: &Running, request: &str) -> String {
    let mut stream = TcpStream::connect(service.url.rsplit('/').next().unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let request = format!("{request}\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    let said = String::from_utf8_lossy(&said).to_lowercase();
    said.split("\r\n\r\n").next().unwrap().to_owned()
}

#[test]
fn every_answer_says_what_a_browser_must_not_do_with_it() {
    let service = Running::start();
    for path in
        ["/", "/docs", "/docs/docs.js", "/page/main.js", "/v1/status", "/openapi.json", "/no"]
    {
        let head = head(&service, &format!("GET {path} HTTP/1.1"));
        for header in [
            "x-content-type-options: nosniff",
            "x-frame-options: deny",
            "referrer-policy: no-referrer",
            "content-security-policy: default-src 'none'",
            "cache-control: no-",
        ] {
            assert!(head.contains(header), "{path} lacks {header}: {head}");
        }
        assert!(!head.contains("unsafe"), "{path}: {head}");
    }
    for kind in ["application/jsonp", "text/plain", "application/json-seq"] {
        let head = head(
            &service,
            &format!("POST /v1/apps HTTP/1.1\r\nContent-Type: {kind}\r\nContent-Length: 0"),
        );
        assert!(head.contains(" 415 "), "{kind}: {head}");
    }
}

#[test]
fn an_app_that_is_created_again_shows_nothing_of_the_one_before() {
    let service = Running::start();
    let create = || service.post("/v1/apps", json!({"name": "shop", "dim": 2}));
    create();
    visit(&service, "shop", 0..40, "old");
    let mut points = 0;
    // Refits take only time that nobody else wants.
    for _ in 0..1200 {
        let insight = service.get("/v1/apps/shop/insight");
        points = insight["map"]["points"].as_array().unwrap().len();
        if points > 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(points > 0, "the page shows users");
    assert_eq!(service.send("DELETE", "/v1/apps/shop", &Value::Null).0, 204);
    create();
    let insight = service.get("/v1/apps/shop/insight");
    assert_eq!(insight["map"]["points"], json!([]), "{insight}");
    assert_eq!((&insight["users"], &insight["recent"]), (&json!(0), &json!([])));
    visit(&service, "shop", 50..52, "new");
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.csv");
    service.download("/v1/apps/shop/log.csv", &log);
    let log = std::fs::read_to_string(log).unwrap();
    assert!(!log.contains("old") && log.lines().count() == 3, "{log}");
}

#[test]
fn users_end_the_longest_unseen_first_and_whoever_is_asked_to_be_forgotten() {
    let service = Running::start_with(|config| config.max_users = 5);
    service.post("/v1/apps", json!({"name": "shop", "dim": 2}));
    visit(&service, "shop", 0..5, "first");
    visit(&service, "shop", 0..2, "again");
    visit(&service, "shop", 5..8, "new");
    assert_eq!(service.get("/v1/apps/shop")["users"], 5);
    let is_known = |user: &str| {
        service.send("GET", &format!("/v1/apps/shop/users/{user}"), &Value::Null).0 == 200
    };
    let known: Vec<_> = (0..8).filter(|user| is_known(&format!("u{user}"))).collect();
    assert_eq!(known, [0, 1, 5, 6, 7], "those that were not seen for longest are gone");

    let export = service.get("/v1/apps/shop/users/u0/export");
    let decisions = export["decisions"].as_array().unwrap();
    assert_eq!(decisions.len(), 2, "{export}");
    assert!(decisions.iter().all(|one| one["status"] == "rewarded"), "{export}");
    // A decision that waits goes with its user.
    let open = json!({"user": "u0", "decision_id": "open", "items": items()});
    service.post("/v1/apps/shop/decide", open);
    assert_eq!(service.send("DELETE", "/v1/apps/shop/users/u0", &Value::Null).0, 204);
    assert!(!is_known("u0"));
    let late = json!({"decision_id": "open", "reward": 1.0});
    let (status, said) = service.send("POST", "/v1/apps/shop/reward", &late);
    assert_eq!((status, &said["error"]["code"]), (404, &json!("decision_unknown")));
    // Once more, and of one that never came: nothing is known of them, which is all that was asked for.
    for user in ["u0", "nobody"] {
        let path = format!("/v1/apps/shop/users/{user}");
        assert_eq!(service.send("DELETE", &path, &Value::Null).0, 204);
    }
    let insight = service.get("/v1/apps/shop/insight");
    assert!(!insight.to_string().contains("\"u0\""), "{insight}");

    // Nor is what was closed before, in any answer, also where somebody of the same name comes.
    let (status, said) = service.send("GET", "/v1/apps/shop/users/u0/export", &Value::Null);
    assert_eq!((status, &said["error"]["code"]), (404, &json!("user_unknown")), "{said}");
    let folder = tempfile::tempdir().unwrap();
    let log = |ending: &str| {
        let file = folder.path().join(ending);
        service.download(&format!("/v1/apps/shop/log.{ending}"), &file);
        std::fs::read(file).unwrap()
    };
    let of = |user: &str| {
        let (log, cell) = (String::from_utf8(log("csv")).unwrap(), format!(",{user},"));
        log.lines().filter(|line| line.contains(&cell)).count()
    };
    let of_u0 = || of("u0");
    assert_eq!(of_u0(), 0);
    assert!(!log("parquet").windows(2).any(|some| some == b"u0"));

    // Whoever was retired goes on being in the log until that is asked for, too.
    assert!(!is_known("u2") && of("u2") == 1);
    assert_eq!(service.send("DELETE", "/v1/apps/shop/users/u2", &Value::Null).0, 204);
    assert!(of("u2") == 0 && of("u3") == 1);
    assert!(!log("parquet").windows(2).any(|some| some == b"u2"));
    let (status, said) = service.send("GET", "/v1/apps/shop/users/u2/export", &Value::Null);
    assert_eq!((status, &said["error"]["code"]), (404, &json!("user_unknown")), "{said}");
    visit(&service, "shop", 0..1, "reborn");
    let export = service.get("/v1/apps/shop/users/u0/export");
    assert_eq!((export["decisions"].as_array().unwrap().len(), of_u0()), (1, 1), "{export}");

    // A policy that cannot forget takes no more users than may be.
    service.post("/v1/apps", json!({"name": "paper", "dim": 2, "policy": "linucb-ind"}));
    visit(&service, "paper", 0..5, "paper");
    let one_more = json!({"user": "u9", "items": items()});
    let (status, said) = service.send("POST", "/v1/apps/paper/decide", &one_more);
    assert_eq!((status, &said["error"]["code"]), (429, &json!("too_many_users")));
    let (status, said) = service.send("DELETE", "/v1/apps/paper/users/u1", &Value::Null);
    assert_eq!((status, &said["error"]["code"]), (422, &json!("cannot_forget")));
}

#[test]
fn where_the_disk_becomes_full_decisions_are_refused_before_anything_fails() {
    let service = Running::start_with(|config| config.min_free_disk_bytes = 1 << 50);
    let refused = |path: &str, body: &Value| {
        for _ in 0..200 {
            let (status, said) = service.send("POST", path, body);
            if status == 503 {
                return said["error"]["code"].as_str().unwrap().to_owned();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        String::new()
    };
    assert_eq!(refused("/v1/apps", &json!({"name": "shop", "dim": 2})), "disk_low");
    assert_eq!(service.send("GET", "/healthz", &Value::Null).0, 200, "nothing has failed");
    let (_, metrics) = text(&service, "/metrics");
    for metric in ["cohort_disk_free_bytes", "cohort_resident_bytes", "cohort_work_refused"] {
        assert!(metrics.contains(metric), "{metric}: {metrics}");
    }
}

fn text(service: &Running, path: &str) -> (u16, String) {
    let mut answer = ureq::get(format!("{}{path}", service.url)).call().unwrap();
    (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
}

#[test]
fn the_journal_keeps_no_more_than_it_may_and_all_that_a_restart_needs() {
    let service = Running::start_with(|config| {
        (config.journal_max_bytes, config.retention_interval_ms) = (1, 100);
        config.snapshot_events = 40;
    });
    service.post("/v1/apps", json!({"name": "shop", "dim": 2}));
    let began = Instant::now();
    let mut round = 0;
    loop {
        visit(&service, "shop", 0..50, &format!("r{round}-"));
        round += 1;
        let (_, metrics) = text(&service, "/metrics");
        let pruned =
            metrics.lines().find(|line| line.starts_with("cohort_journal_pruned_segments_total"));
        if pruned.is_some_and(|line| !line.ends_with(" 0")) {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(40), "nothing is removed: {metrics}");
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.csv");
    std::thread::sleep(Duration::from_millis(300));
    service.download("/v1/apps/shop/log.csv", &log);
    let rows = std::fs::read_to_string(log).unwrap().lines().count() - 1;
    assert!(rows < 50 * round, "{rows} rows of {} decisions", 50 * round);
    assert_eq!(service.get("/v1/apps/shop")["decisions"], 50 * round);
    // A restart has all that it needs.
    let service = service.restart();
    assert_eq!(service.get("/v1/apps/shop")["rewards"], 50 * round);
}

#[test]
fn readers_that_do_not_read_keep_nobody_waiting() {
    let service = Running::start();
    service.post("/v1/apps", json!({"name": "shop", "dim": 8, "log_candidates": true}));
    let items: Vec<Value> = (0..25)
        .map(|item| json!({"id": format!("item-{item}"), "features": vec![1.0 / f64::from(item + 3); 8]}))
        .collect();
    // A log that fits into no buffer: some 4 KB a decision.
    for batch in 0..8 {
        let users: Vec<Value> =
            (0..250).map(|user| json!({"user": format!("u{batch}-{user}")})).collect();
        service.post("/v1/apps/shop/decide-batch", json!({"users": users, "items": items}));
    }
    let address = service.url.rsplit('/').next().unwrap();
    let slow: Vec<_> = (0..60)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream
                .write_all(b"GET /v1/apps/shop/log.csv HTTP/1.1\r\nHost: localhost\r\n\r\n")
                .unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let mut first = [0; 12];
            stream.read_exact(&mut first).unwrap();
            (stream, String::from_utf8_lossy(&first).into_owned())
        })
        .collect();
    let with = |status: &str| slow.iter().filter(|(_, said)| said.ends_with(status)).count();
    assert!(with("200") >= 8 && with("503") > 0, "{} {}", with("200"), with("503"));
    let held = slow.iter().filter(|(_, said)| said.ends_with("200")).count();
    assert!(held < 60, "each of them would hold a thread");
    let began = Instant::now();
    visit_one(&service);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    drop(slow);
}

fn visit_one(service: &Running) {
    let items = json!([{"id": "a", "features": vec![0.5; 8]}]);
    service.post("/v1/apps/shop/decide", json!({"user": "zoe", "items": items}));
}

/// Bodies and answers of more than some kilobytes are read and written elsewhere; nobody can tell.
#[test]
fn what_is_large_is_answered_like_what_is_small() {
    let service = Running::start();
    service.post("/v1/apps", json!({"name": "shop", "dim": 20}));
    let item = |n: usize| json!({"id": format!("item-{n:05}"), "features": vec![0.125; 20]});
    let items: Vec<Value> = (0..500).map(item).collect();
    let users: Vec<Value> = (0..40).map(|n| json!({"user": format!("u{n}")})).collect();
    for (items, users) in [(&items[..], &users[..]), (&items[..2], &users[..2])] {
        let body = json!({"items": items, "users": users});
        let answer = service.post("/v1/apps/shop/decide-batch", body);
        let decisions = answer["decisions"].as_array().unwrap();
        assert_eq!(decisions.len(), users.len());
        for made in decisions {
            let ranking = made["ranking"].as_array().unwrap();
            assert_eq!((ranking.len(), &ranking[0]), (items.len(), &made["item"]));
        }
    }
    let many: Vec<Value> = (0..5000).map(item).collect();
    let (status, said) = service.send("PUT", "/v1/apps/shop/items", &json!({"items": many}));
    assert_eq!(status, 204, "{said}");
    let listed = service.get("/v1/apps/shop/items");
    let listed: Vec<&str> =
        listed["items"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    assert!(listed.is_sorted() && listed.len() == 5000);
    // A large body with a mistake is refused as a small one is.
    let mut wrong = json!({"items": items, "users": users});
    wrong["nobody"] = json!(1);
    let (status, said) = service.send("POST", "/v1/apps/shop/decide-batch", &wrong);
    assert_eq!((status, &said["error"]["code"]), (400, &json!("bad_body")), "{said}");
}
