//! A real browser, driven over the WebDriver protocol: just enough of it to look at a page.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A browser with one page.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts one that looks at pages in the light or in the dark.
    ///
    /// # Panics
    /// If there is none: `scripts/install-test-tools` installs it.
    pub fn start(dark: bool) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver is needed: scripts/install-test-tools installs it");
        let profile = tempfile::tempdir().unwrap();
        let mut browser = Self { driver, port, session: String::new(), _profile: profile };
        browser.wait_until_ready();
        let folder = format!("--user-data-dir={}", browser._profile.path().display());
        let mut arguments = vec![
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--window-size=1400,1000",
            &folder,
        ];
        if dark {
            arguments.push("--force-dark-mode");
        }
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            "goog:chromeOptions": {"args": arguments},
        }}});
        let made = browser.call("POST", "/session", &wanted);
        browser.session = made["sessionId"].as_str().expect("a session").to_owned();
        browser
    }

    fn wait_until_ready(&self) {
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(started.elapsed() < Duration::from_secs(60), "chromedriver does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Opens a page.
    pub fn open(&self, url: &str) {
        self.post("url", &json!({"url": url}));
    }

    /// Runs a script in the page and gives what it returns.
    pub fn run(&self, script: &str) -> Value {
        self.post("execute/sync", &json!({"script": script, "args": []}))
    }

    /// Moves the mouse to a place in the window.
    pub fn point_at(&self, x: f64, y: f64) {
        let moves = json!([{"type": "pointerMove", "duration": 0, "x": x as i64, "y": y as i64}]);
        let actions = json!({"actions": [{"type": "pointer", "id": "mouse",
            "parameters": {"pointerType": "mouse"}, "actions": moves}]});
        self.post("actions", &actions);
    }

    /// What was written to the console, and every message about the network.
    pub fn log(&self, kind: &str) -> Vec<String> {
        let entries = self.post("se/log", &json!({"type": kind}));
        let text = |entry: &Value| entry["message"].as_str().unwrap_or_default().to_owned();
        entries.as_array().map(|all| all.iter().map(text).collect()).unwrap_or_default()
    }

    fn post(&self, command: &str, body: &Value) -> Value {
        self.call("POST", &format!("/session/{}/{command}", self.session), body)
    }

    /// One request; its answer's `value`.
    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer);
        let (_, content) = answer.split_once("\r\n\r\n").expect("an answer with a body");
        let json: Value = serde_json::from_str(content).expect("an answer in JSON");
        assert!(json["value"].get("error").is_none(), "{path}: {}", json["value"]);
        json["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.call("DELETE", &format!("/session/{}", self.session), &json!({}));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
