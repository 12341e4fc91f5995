//! A real browser, driven over the WebDriver protocol: just enough of it to look at a page and to use
//! it as a person does. Tests of several crates share it, and each uses a part.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long to wait for an answer before giving up.
const PATIENCE: Duration = Duration::from_secs(120);

/// A browser with one page.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts one.
    ///
    /// # Panics
    /// If there is none: `scripts/install-test-tools` installs it.
    pub fn start() -> Self {
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
        let arguments = [
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
            assert!(started.elapsed() < PATIENCE, "chromedriver does not answer");
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

    /// Presses the mouse's button at a place in the window.
    pub fn click_at(&self, x: f64, y: f64) {
        let (x, y) = (x as i64, y as i64);
        let actions = json!({"actions": [{"type": "pointer", "id": "mouse",
            "parameters": {"pointerType": "mouse"}, "actions": [
                {"type": "pointerMove", "duration": 0, "x": x, "y": y},
                {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]}]});
        self.post("actions", &actions);
    }

    /// Clicks the first element that a CSS selector finds.
    pub fn click(&self, selector: &str) {
        let element = self.find(selector);
        self.post(&format!("element/{element}/click"), &json!({}));
    }

    /// Types into the first element that a CSS selector finds, over what is there.
    pub fn type_into(&self, selector: &str, text: &str) {
        let element = self.find(selector);
        self.post(&format!("element/{element}/clear"), &json!({}));
        self.post(&format!("element/{element}/value"), &json!({"text": text}));
    }

    /// Presses a key, wherever the focus is. Keys that are no letters have the code points that
    /// WebDriver gives them: `\u{E004}` is Tab, `\u{E007}` Enter, `\u{E014}` the right arrow.
    pub fn press(&self, key: &str) {
        let actions = json!({"actions": [{"type": "key", "id": "keyboard", "actions": [
            {"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]}]});
        self.post("actions", &actions);
    }

    /// Makes the window of a size, as that of a phone.
    pub fn resize(&self, width: u32, height: u32) {
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": height, "deviceScaleFactor": 2, "mobile": width < 600}),
        );
    }

    /// What the page looks like from top to bottom, as PNG.
    pub fn screenshot(&self, path: &std::path::Path) {
        let size = &self.devtools("Page.getLayoutMetrics", json!({}))["cssContentSize"];
        let clip =
            json!({"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1});
        let whole = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let taken = self.devtools("Page.captureScreenshot", whole);
        let bytes = from_base64(taken["data"].as_str().expect("a picture"));
        std::fs::create_dir_all(path.parent().expect("a folder")).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// A command of the developer tools.
    pub fn devtools(&self, command: &str, params: Value) -> Value {
        self.post("goog/cdp/execute", &json!({"cmd": command, "params": params}))
    }

    /// Waits until a script returns something true, and gives that.
    pub fn wait_for(&self, what: &str, seconds: u64, script: &str) -> Value {
        let started = Instant::now();
        loop {
            let found = self.run(script);
            if !found.is_null() && found != false {
                return found;
            }
            let waited = started.elapsed();
            assert!(waited < Duration::from_secs(seconds), "{what}: not within {seconds} s");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn find(&self, selector: &str) -> String {
        let found = self.post("element", &json!({"using": "css selector", "value": selector}));
        let id = found.as_object().and_then(|object| object.values().next()?.as_str());
        id.unwrap_or_else(|| panic!("there is no {selector}")).to_owned()
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
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let content = read_answer(&mut BufReader::new(stream)).unwrap();
        let json: Value = serde_json::from_slice(&content).expect("an answer in JSON");
        assert!(json["value"].get("error").is_none(), "{path}: {}", json["value"]);
        json["value"].clone()
    }
}

/// The body of an answer, as long as its head says: the driver leaves connections open.
fn read_answer(stream: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(body)
}

impl Drop for Browser {
    fn drop(&mut self) {
        // A test that failed must not leave its browser behind; nothing here may fail once more.
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
            let path = format!("/session/{}", self.session);
            let head = "HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n";
            let _ = write!(stream, "DELETE {path} {head}");
            let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
            let _ = read_answer(&mut BufReader::new(stream));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    let value = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let letters: Vec<u8> = text.bytes().filter(|c| *c != b'=').map(value).collect();
    let four = |four: &[u8]| {
        let bits = (0..4).fold(0u32, |bits, at| bits << 6 | u32::from(*four.get(at).unwrap_or(&0)));
        bits.to_be_bytes()[1..four.len()].to_vec()
    };
    letters.chunks(4).flat_map(four).collect()
}
