//! `cohort serve` with clients that connect and send nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

/// A service that may open 256 files, ended when dropped.
struct Few(Child);

impl Drop for Few {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut said = String::new();
    let _ = stream.read_to_string(&mut said);
    said
}

fn post(address: &str, path: &str, body: &str) -> String {
    let length = body.len();
    let head = "Host: localhost\r\nContent-Type: application/json\r\nConnection: close";
    ask(
        address,
        &format!("POST {path} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}"),
    )
}

#[test]
fn four_hundred_silent_connections_cost_nobody_an_answer_and_the_journal_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let serve = "ulimit -n 256 && exec \"$0\" serve --listen 127.0.0.1:0 --data-dir data \
                 --log-level error --first-byte-timeout-ms 4000 --snapshot-events 200";
    let mut child = Command::new("sh")
        .args(["-c", serve, env!("CARGO_BIN_EXE_cohort")])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let few = Few(child);
    let address = said.trim().rsplit('/').next().unwrap().to_owned();
    assert!(post(&address, "/v1/apps", "{\"name\": \"shop\", \"dim\": 2}").contains("201 Created"));

    let silent: Vec<_> = (0..400).map(|_| TcpStream::connect(&address).unwrap()).collect();
    // While they stay connected others are served, through journal and snapshots.
    for step in 0..200 {
        let items =
            json!([{"id": "a", "features": [1.0, 0.0]}, {"id": "b", "features": [0.0, 1.0]}]);
        let id = format!("d{step}");
        let body = json!({"user": format!("u{step}"), "decision_id": id, "items": items});
        let said = post(&address, "/v1/apps/shop/decide", &body.to_string());
        assert!(said.contains("200 OK"), "decide {step}: {said}");
        let said = post(
            &address,
            "/v1/apps/shop/reward",
            &json!({"decision_id": id, "reward": 1.0}).to_string(),
        );
        assert!(said.contains("learned"), "reward {step}: {said}");
    }
    // The silent connections are closed when their time is over.
    let (mut last, mut byte) = (silent.last().unwrap(), [0]);
    last.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let began = Instant::now();
    assert!(!matches!(last.read(&mut byte), Ok(1)), "nothing was asked, nothing is answered");
    assert!(began.elapsed() < Duration::from_secs(25), "it stays for ever");
    drop(silent);
    assert!(
        ask(&address, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .contains("200 OK")
    );
    drop(few);
}

/// An endless request head does not hold a connection for ever, nor does an idle client.
#[test]
fn heads_that_do_not_end_and_connections_that_rest_are_ended() {
    let flags = ["--header-timeout-ms", "300", "--idle-timeout-ms", "700"];
    let service = crate::serving::Serving::start(&flags, 1);
    let address = service.url.rsplit('/').next().unwrap();
    let ended = |said: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(said.as_bytes()).unwrap();
        let (began, mut answer) = (Instant::now(), Vec::new());
        let _ = stream.read_to_end(&mut answer);
        (began.elapsed(), String::from_utf8_lossy(&answer).into_owned())
    };
    let (took, _) = ended("GET /healthz HT");
    assert!(took >= Duration::from_millis(250) && took < Duration::from_secs(10), "{took:?}");
    let (took, said) = ended("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(said.contains("200 OK"), "{said}");
    assert!(took >= Duration::from_millis(600) && took < Duration::from_secs(10), "{took:?}");
}
