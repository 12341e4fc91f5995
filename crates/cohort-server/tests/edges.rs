//! The edges of the service over HTTP: who may ask, by which name, how much and how often, what is
//! said before a body is read, and what operators and readers of the documentation see of it.
#![allow(missing_docs)]

mod running;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cohort_server::config::Config;
use cohort_server::server::Server;
use running::Running;
use serde_json::{Value, json};

const ADMIN: &str = "correct horse battery staple";

/// Sends these bytes and nothing more, and reads one answer: its status, headers and body.
fn raw(service: &Running, request: &str) -> (u16, String, Value) {
    let address = service.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut from = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(from.read_line(&mut head).unwrap() > 0, "no answer to {request}");
    }
    let head = head.to_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    from.read_exact(&mut body).unwrap();
    let text = String::from_utf8(body).unwrap();
    (status, head, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// Sends only the head of a request, whose body never comes: what is answered does not depend on it.
fn head_only(service: &Running, method: &str, path: &str, key: &str) -> (u16, String, Value) {
    let key = match key {
        "" => String::new(),
        key => format!("Authorization: Bearer {key}\r\n"),
    };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         {key}Content-Length: 5000\r\n\r\n"
    );
    raw(service, &request)
}

fn code(answer: &(u16, String, Value)) -> (u16, &str) {
    (answer.0, answer.2["error"]["code"].as_str().unwrap_or_default())
}

/// Every operation that is described: its method, path and description.
fn operations(service: &Running) -> Vec<(String, String, Value)> {
    let (_, api) = service.send("GET", "/openapi.json", &Value::Null);
    let mut found = Vec::new();
    for (path, methods) in api["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let operation = match operation.get("security") {
                Some(_) => operation.clone(),
                None => {
                    let mut operation = operation.clone();
                    operation["security"] = api["security"].clone();
                    operation
                }
            };
            found.push((method.to_uppercase(), path.clone(), operation));
        }
    }
    assert!(found.len() > 20, "{found:?}");
    found
}

fn items() -> Value {
    json!([{"id": "tea", "features": [0.9, 0.1]}, {"id": "coffee", "features": [0.1, 0.9]}])
}

/// A path with its names filled in.
fn filled(path: &str, app: &str) -> String {
    let path = path.replace("{app}", app);
    ["{item}", "{user}", "{decision}", "{key}"]
        .iter()
        .fold(path, |path, name| path.replace(name, "some"))
}

/// The key is looked at before the body is waited for, on every route, and as it is described.
#[test]
fn keys_are_checked_before_the_body_as_described() {
    let service = Running::start_with(|config| config.admin_key = ADMIN.to_owned());
    let create = |name: &str| {
        let body = json!({"name": name, "dim": 2});
        let made = service.send_with_key("POST", "/v1/apps", &body, ADMIN).1;
        made["key"]["key"].as_str().unwrap().to_owned()
    };
    let (own, other) = (create("shop"), create("blog"));
    let mut seen = [0; 3];
    for (method, path, operation) in operations(&service) {
        let needs = operation["security"].as_array().unwrap();
        let takes = |key: &str| needs.iter().any(|need| need.get(key).is_some());
        let at = filled(&path, "shop");
        let asked = |key: &str| head_only(&service, &method, &at, key);
        if needs == &[json!({})] {
            // A single service has no cluster to tell of.
            let expected = if path == "/v1/cluster" { 404 } else { 200 };
            assert_eq!(asked("").0, expected, "{method} {path}");
            seen[0] += 1;
            continue;
        }
        assert!(takes("admin_key"), "{method} {path}: {needs:?}");
        assert_eq!(code(&asked("")), (401, "key_missing"), "{method} {path}");
        assert_eq!(code(&asked("ck_guess")), (403, "key_refused"), "{method} {path}");
        assert_eq!(code(&asked(&other)), (403, "key_refused"), "{method} {path}");
        match takes("app_key") {
            true => seen[1] += 1,
            false => {
                assert_eq!(code(&asked(&own)), (403, "key_refused"), "{method} {path}");
                seen[2] += 1;
            }
        }
    }
    assert!(seen.iter().all(|count| *count >= 3), "{seen:?}");
    // Schemes are named, whatever their case.
    let (_, api) = service.send("GET", "/openapi.json", &Value::Null);
    for scheme in ["admin_key", "app_key"] {
        let scheme = &api["components"]["securitySchemes"][scheme];
        assert_eq!((&scheme["type"], &scheme["scheme"]), (&json!("http"), &json!("bearer")));
    }
    let request = format!(
        "GET /v1/apps HTTP/1.1\r\nHost: anything.example\r\nauthorization: bearer {ADMIN}\r\n\r\n"
    );
    assert_eq!(raw(&service, &request).0, 200);
}

/// Most clients send all of a request before they read: one that is refused early must not find its connection broken.
#[test]
fn a_refusal_is_read_by_a_client_that_sends_all_of_its_body_first() {
    let service = Running::start_with(|config| {
        (config.admin_key, config.body_bytes) = (ADMIN.to_owned(), 100_000);
    });
    let length = 40 << 20;
    for (key, path, expected) in [
        (ADMIN, "/v1/apps", (413, "body_too_large")),
        ("a guess", "/v1/apps", (403, "key_refused")),
        (ADMIN, "/v1/nothing", (404, "no_such_page")),
    ] {
        let lengths = [format!("Content-Length: {length}"), "Transfer-Encoding: chunked".into()];
        for (is_chunked, length_line) in [false, true].into_iter().zip(lengths) {
            let mut request = format!(
                "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                 Authorization: Bearer {key}\r\n{length_line}\r\n\r\n"
            );
            match is_chunked {
                true => {
                    let piece = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
                    (0..length >> 16).for_each(|_| request += &piece);
                    request += "0\r\n\r\n";
                }
                false => request += &"x".repeat(length),
            }
            let answer = raw(&service, &request);
            assert_eq!(code(&answer), expected, "{path} {length_line}");
        }
    }
    // Nobody is kept waiting by connections that are on their way out.
    let began = std::time::Instant::now();
    let _open: Vec<_> = (0..5).map(|_| head_only(&service, "POST", "/v1/nothing", ADMIN)).collect();
    drop(service);
    assert!(began.elapsed() < Duration::from_secs(8), "it stops in {:?}", began.elapsed());
}

#[test]
fn the_rate_is_checked_before_the_body_and_has_its_code() {
    let service = Running::start_with(|config| config.rate_per_second = 1);
    service.post("/v1/apps", json!({"name": "shop", "dim": 2}));
    while service.send("GET", "/v1/apps/shop", &Value::Null).0 != 429 {}
    let refused = head_only(&service, "POST", "/v1/apps/shop/decide", "");
    assert_eq!(code(&refused), (429, "rate_limited"));
    assert!(refused.1.contains("retry-after: 1"), "{}", refused.1);
}

/// A page of somebody else whose name leads here is not answered; with keys, names do not matter.
#[test]
fn a_service_without_keys_answers_to_its_own_names_only() {
    let service = Running::start();
    let ask = |path: &str, host: &str| raw(&service, &format!("GET {path} HTTP/1.1\r\n{host}\r\n"));
    for path in ["/v1/apps", "/", "/metrics", "/nothing"] {
        let refused = ask(path, "Host: evil.example:7700\r\n");
        assert_eq!(code(&refused), (403, "wrong_host"), "{path}");
        assert!(refused.2["error"]["message"].as_str().unwrap().contains("set admin_key"));
    }
    for host in ["localhost", "LOCALHOST:7700", "127.0.0.1", "127.0.0.1:1", "[::1]:7700"] {
        assert_eq!(ask("/v1/apps", &format!("Host: {host}\r\n")).0, 200, "{host}");
    }
    let twice = "Host: localhost\r\nHost: evil.example\r\n";
    assert!(ask("/v1/apps", twice).0 >= 400);
    let address = "GET http://evil.example/v1/apps HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(code(&raw(&service, address)), (403, "wrong_host"));
    assert_eq!(raw(&service, "GET /v1/apps HTTP/1.0\r\n\r\n").0, 200, "no host is no browser");
}

#[test]
fn names_that_are_not_utf_8_are_refused_with_a_code() {
    let service = Running::start();
    let mut refused = 0;
    for (method, path, _) in operations(&service) {
        let Some((before, rest)) = path.split_once('{') else { continue };
        let after = rest.split_once('}').unwrap().1;
        let answer = head_only(&service, &method, &filled(&format!("{before}%ff{after}"), "a"), "");
        assert_eq!(code(&answer), (400, "bad_path"), "{method} {path}");
        refused += 1;
    }
    assert!(refused >= 15, "{refused}");
    for path in ["/v1/apps/shop/users/%ff", "/v1/apps/shop/decisions/%ff"] {
        assert_eq!(code(&head_only(&service, "GET", path, "")), (400, "bad_path"), "{path}");
    }
}

/// How often a route was answered with a status.
fn counted(service: &Running, route: &str, status: u16) -> u64 {
    let (_, _, text) = raw(service, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let text = text.as_str().unwrap().to_owned();
    let begin = format!("cohort_requests_total{{route=\"{route}\",status=\"{status}\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&begin).map(str::to_owned));
    line.map_or(0, |count| count.parse().unwrap())
}

#[test]
fn what_takes_too_long_or_is_not_there_is_refused_and_counted() {
    let service = Running::start_with(|config| config.request_timeout_ms = 300);
    let route = "/v1/apps/{app}/activate";
    let before = (counted(&service, route, 503), counted(&service, "none", 404));
    let late = head_only(&service, "POST", "/v1/apps/shop/activate", "");
    assert_eq!(code(&late), (503, "timed_out"));
    assert!(late.1.contains("retry-after: 1"), "{}", late.1);
    for path in ["/no/such/page", "/another"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(code(&raw(&service, &request)), (404, "no_such_page"));
    }
    assert!(counted(&service, route, 503) > before.0);
    assert!(counted(&service, "none", 404) >= before.1 + 2);
    let (_, _, text) = raw(&service, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let text = text.as_str().unwrap();
    assert!(!text.contains("/no/such/page"), "labels are the service's own");
    for name in ["cohort_requests_total", "cohort_request_seconds", "cohort_requests_waiting"] {
        assert!(text.contains(&format!("# HELP {name} ")), "{text}");
    }
}

#[test]
fn decisions_are_counted_by_their_outcome() {
    let service = Running::start();
    service.post("/v1/apps", json!({"name": "shop", "dim": 2}));
    let count = |outcome: &str| {
        let (_, _, text) = raw(&service, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let begin = format!("cohort_decisions_total{{outcome=\"{outcome}\"}} ");
        let count = text.as_str().unwrap().lines().find_map(|line| line.strip_prefix(&begin));
        count.map_or(0, |count| count.parse::<u64>().unwrap())
    };
    let before = count("decision_reused");
    let body = |user: &str| json!({"user": user, "decision_id": "d", "items": items()});
    service.post("/v1/apps/shop/decide", body("ann"));
    assert_eq!(service.send("POST", "/v1/apps/shop/decide", &body("bob")).0, 409);
    assert!(count("decided") >= 1);
    assert_eq!(count("decision_reused"), before + 1);
}

/// An engine that is busy, and a queue of one.
#[test]
fn more_than_may_wait_is_refused_at_once() {
    let service = Running::start_with(|config| (config.queue, config.max_work) = (1, 1 << 40));
    // The service itself, which counts its apps, may be the one that waits.
    let create = json!({"name": "shop", "dim": 64, "policy": "linucb-ind"});
    while service.send("POST", "/v1/apps", &create).0 == 503 {}
    let features = vec![0.5; 64];
    let items: Vec<Value> =
        (0..200).map(|n| json!({"id": format!("i{n}"), "features": features})).collect();
    let users: Vec<Value> = (0..1000).map(|n| json!({"user": format!("u{n}")})).collect();
    let batch = json!({"users": users, "items": items});
    let refused = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                let started = std::time::Instant::now();
                while !refused.load(Ordering::Relaxed) && started.elapsed().as_secs() < 60 {
                    let (status, said) = service.send("POST", "/v1/apps/shop/decide-batch", &batch);
                    if status != 200 {
                        // Of a batch in parts some may have been done before the queue was full.
                        let code = &said["error"]["code"];
                        assert!(
                            status == 503 && (code == "overloaded" || code == "in_doubt"),
                            "{said}"
                        );
                        refused.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert!(refused.into_inner(), "the queue was never full");
    assert_eq!(service.send("GET", "/v1/apps/shop", &Value::Null).0, 200, "it is well again");
}

#[test]
fn a_deleted_app_is_gone_and_its_keys_with_it() {
    let service = Running::start_with(|config| config.admin_key = ADMIN.to_owned());
    let body = json!({"name": "shop", "dim": 2});
    let made = service.send_with_key("POST", "/v1/apps", &body, ADMIN).1;
    let key = made["key"]["key"].as_str().unwrap();
    let decide = |key: &str| {
        let body = json!({"user": "ann", "items": items()});
        let (status, said) = service.send_with_key("POST", "/v1/apps/shop/decide", &body, key);
        (status, said["error"]["code"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(decide(key), (200, String::new()));
    let deleted = service.send_with_key("DELETE", "/v1/apps/shop", &Value::Null, ADMIN);
    assert_eq!(deleted.0, 204);
    assert_eq!(decide(key), (403, "key_refused".to_owned()));
    assert_eq!(decide(ADMIN), (410, "app_deleted".to_owned()));
}

/// The bodies with which the documentation page is filled in do what they should, one after the
/// other, and change nothing that nobody asked for.
#[test]
fn the_examples_of_the_documentation_work() {
    let service = Running::start();
    let (_, api) = service.send("GET", "/openapi.json", &Value::Null);
    let example = |method: &str, path: &str| {
        let operation = &api["paths"][path][method];
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"]["$ref"];
        let name = schema.as_str().unwrap().rsplit('/').next().unwrap();
        let example = api["components"]["schemas"][name]["example"].clone();
        assert!(example.is_object(), "{method} {path} has no example");
        example
    };
    let steps = [
        ("post", "/v1/apps"),
        ("put", "/v1/apps/{app}/items"),
        ("post", "/v1/apps/{app}/decide"),
        ("post", "/v1/apps/{app}/activate"),
        ("post", "/v1/apps/{app}/reward"),
        ("post", "/v1/apps/{app}/rewards"),
        ("post", "/v1/apps/{app}/decide-batch"),
        ("post", "/v1/apps/{app}/slate"),
        ("post", "/v1/apps/{app}/slate-rewards"),
        ("post", "/v1/apps/{app}/history"),
        ("post", "/v1/apps/{app}/keys"),
        ("patch", "/v1/apps/{app}"),
    ];
    for (method, path) in steps {
        let before = service.send("GET", "/v1/apps/shop", &Value::Null).1;
        let at = filled(path, "shop");
        let (status, said) = service.send(&method.to_uppercase(), &at, &example(method, path));
        assert!((200..300).contains(&status), "{method} {path}: {status} {said}");
        assert!(said["outcomes"][0].get("error").is_none(), "{said}");
        if method == "patch" {
            assert_eq!(said, before, "an empty change");
        }
    }
    let with_body = operations(&service);
    let with_body =
        with_body.iter().filter(|(_, _, operation)| operation.get("requestBody").is_some());
    // What only a node of a cluster does is in tests/cluster.rs.
    let with_body = with_body.filter(|(_, path, _)| path != "/v1/cluster/drain");
    assert_eq!(with_body.count(), steps.len(), "every body has its example tried here");
}

#[test]
fn refused_settings_say_what_would_do() {
    let service = Running::start();
    let refused = |method: &str, path: &str, body: Value| {
        let (status, said) = service.send(method, path, &body);
        assert!((400..500).contains(&status), "{status} {said}");
        said["error"]["message"].as_str().unwrap().to_owned()
    };
    for policy in ["cmlb", "oracle", "alb-norm", "common"] {
        let said = refused("POST", "/v1/apps", json!({"name": "a", "dim": 2, "policy": policy}));
        assert!(
            said.contains(policy) && said.contains("cohort") && said.contains("club"),
            "{said}"
        );
    }
    let params = json!({"name": "a", "dim": 2, "params": {"exploration": null}});
    let said = refused("POST", "/v1/apps", params);
    assert!(said.contains("a number or a word") && !said.contains("untagged"), "{said}");
    service.post("/v1/apps", json!({"name": "shop", "dim": 2}));
    let said = refused("PATCH", "/v1/apps/shop", json!({"params": {"half_life": 5}}));
    assert!(said.contains("half_life") && said.contains("cannot be changed"), "{said}");
    assert!(!said.contains("saved state"), "{said}");
}

/// Why a service with this configuration does not open.
fn not_opened(config: Config) -> String {
    match Server::open(config) {
        Ok(_) => panic!("it opened"),
        Err(why) => why.to_string(),
    }
}

#[test]
fn mistakes_are_found_before_it_listens() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let make = || rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (one, other) = (make(), make());
    let cert = file("cert.pem", &one.cert.pem());
    let key = file("key.pem", &one.signing_key.serialize_pem());
    let of_other = file("other.pem", &other.signing_key.serialize_pem());
    let empty = file("empty.pem", "");
    let open = |tls_cert, tls_key| {
        let data_dir = folder.path().join("data");
        let listen = "127.0.0.1:0".to_owned();
        not_opened(Config { data_dir, listen, tls_cert, tls_key, ..Config::default() })
    };
    let none = folder.path().join("none.pem");
    assert!(open(none.clone(), key.clone()).contains("tls_cert"));
    assert!(open(cert.clone(), none).contains("tls_key"));
    assert!(open(empty.clone(), key).contains("no certificate"));
    assert!(open(cert.clone(), empty).contains("tls_key"));
    let said = open(cert, of_other);
    assert!(said.contains("tls_key") && said.contains("other.pem"), "{said}");
    assert!(!folder.path().join("data").exists(), "nothing was begun");
}

#[test]
fn a_folder_is_served_once() {
    let folder = tempfile::tempdir().unwrap();
    let config = || Config {
        data_dir: folder.path().into(),
        listen: "localhost:0".to_owned(),
        ..Config::default()
    };
    let first = Server::open(config()).unwrap();
    assert!(first.address().ip().is_loopback());
    let said = not_opened(config());
    assert!(said.contains("another process serves the data folder"), "{said}");
    assert!(said.contains("data_dir") && !said.contains("Locked"), "{said}");
}
