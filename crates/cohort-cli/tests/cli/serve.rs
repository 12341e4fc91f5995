//! `cohort serve`: errors at start-up.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;

use crate::command::{Called, called, command};
use crate::serving::Serving;

/// `cohort serve` on a folder that cannot be used, so that it ends, with one variable set.
fn serve_with(name: &str, value: &[u8]) -> Called {
    let file = tempfile::NamedTempFile::new().unwrap();
    let output = command(&["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(file.path())
        .env(name, OsStr::from_bytes(value))
        .output();
    called(output.unwrap())
}

#[test]
fn variables_of_others_may_be_anything() {
    let of_others = serve_with("SOMETHING_ELSE", b"caf\xe9");
    assert_eq!(of_others.code, 1, "{}", of_others.err);
    assert!(of_others.err.contains("data folder"), "it got as far: {}", of_others.err);
    let ours = serve_with("COHORT_SERVE_LISTEN", b"caf\xe9");
    assert_eq!(ours.code, 2, "{}", ours.err);
    assert!(ours.err.contains("environment COHORT_SERVE_LISTEN: its value is not UTF-8"));
}

#[test]
fn a_folder_that_is_served_is_not_served_twice() {
    let service = Serving::start(&["--data-dir", "data"], 1);
    let data = service.folder.path().join("data");
    let output = command(&["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data).output();
    let second = called(output.unwrap());
    assert_eq!((second.code, second.out.as_str()), (1, ""));
    assert!(second.err.contains("another process serves the data folder"), "{}", second.err);
}

#[test]
fn an_address_is_a_host_and_a_port() {
    let bare = called(command(&["serve", "--listen", "18010"]).output().unwrap());
    assert_eq!(bare.code, 2);
    assert!(bare.err.contains("\"18010\": expected HOST:PORT"), "{}", bare.err);
}

#[test]
fn a_certificate_that_cannot_be_used_is_named_before_it_listens() {
    let folder = tempfile::tempdir().unwrap();
    let tls = ["--tls-cert", "none.pem", "--tls-key", "none.pem"];
    let output = command(&["serve", "--listen", "127.0.0.1:0"])
        .args(tls)
        .current_dir(folder.path())
        .output();
    let ended = called(output.unwrap());
    assert_eq!((ended.code, ended.out.as_str()), (1, ""), "nothing listens");
    assert!(ended.err.contains("tls_cert none.pem cannot be used"), "{}", ended.err);
}

/// Every change leaves a line with who, what and where, at any log level; no key and no name of a forgotten user is in it.
#[test]
fn every_change_is_in_the_audit() {
    let admin = "a-long-key-of-the-admin-0123456789";
    let flags = ["--data-dir", "data", "--admin-key", admin, "--log-format", "json"];
    let (service, mut log) = Serving::start_logged(&flags, 1);
    let url = |path: &str| format!("{}{path}", service.url);
    let bearer = format!("Bearer {admin}");
    let send = |method: &str, path: &str, body: serde_json::Value| -> serde_json::Value {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(url(path))
            .header("Authorization", &bearer)
            .header("Content-Type", "application/json")
            .body(body.to_string())
            .unwrap();
        let mut answer = ureq::run(request).unwrap_or_else(|why| panic!("{method} {path}: {why}"));
        answer.body_mut().read_json().unwrap_or(serde_json::Value::Null)
    };
    let app = send("POST", "/v1/apps", serde_json::json!({"name": "shop", "dim": 2}));
    let secret = app["key"]["key"].as_str().unwrap().to_owned();
    let added = send("POST", "/v1/apps/shop/keys", serde_json::json!({"scopes": ["decide"]}));
    let key = added["id"].as_str().unwrap().to_owned();
    let item = serde_json::json!({"items": [{"id": "shoe", "features": [1.0, 0.0]}]});
    send("PUT", "/v1/apps/shop/items", item);
    let decide = serde_json::json!({"user": "jane-doe", "decision_id": "d1"});
    send("POST", "/v1/apps/shop/decide", decide);
    send("PATCH", "/v1/apps/shop", serde_json::json!({"window_ms": 60_000}));
    send("DELETE", "/v1/apps/shop/users/jane-doe", serde_json::Value::Null);
    send("DELETE", "/v1/apps/shop/items/shoe", serde_json::Value::Null);
    send("DELETE", &format!("/v1/apps/shop/keys/{key}"), serde_json::Value::Null);
    send("DELETE", "/v1/apps/shop", serde_json::Value::Null);
    let _folder = service.end();
    let mut text = String::new();
    log.read_to_string(&mut text).unwrap();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(|line: &serde_json::Value| line["target"] == "cohort_server::audit")
        .collect();
    let told: Vec<&str> = lines.iter().filter_map(|line| line["fields"]["what"].as_str()).collect();
    let changes = [
        "app created",
        "key added",
        "items put",
        "app changed",
        "user forgotten",
        "item removed",
        "key removed",
        "app deleted",
    ];
    assert_eq!(told, changes, "{text}");
    for line in &lines {
        assert_eq!(line["fields"]["who"], "admin", "{line}");
        assert_eq!(line["fields"]["app"], "shop", "{line}");
        assert!(line["timestamp"].is_string(), "{line}");
    }
    for kept_secret in [admin, secret.as_str(), added["key"].as_str().unwrap(), "jane-doe"] {
        assert!(!text.contains(kept_secret), "{kept_secret} is in the log");
    }
}
