//! A running service in this process, for tests that ask it over HTTP.
#![allow(dead_code, missing_docs)]

use std::path::Path;
use std::time::Duration;

use cohort_server::config::Config;
use cohort_server::server::{ServeError, Server};
use serde_json::Value;

/// How a service is opened.
pub type Open = fn(Config) -> Result<Server, ServeError>;

/// What is logged in this process from now on, so far.
pub fn hear() -> impl Fn() -> String {
    let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let writer = heard.clone();
    let logs = tracing_subscriber::fmt().with_ansi(false);
    let logs = logs.with_writer(move || Heard(writer.clone()));
    logs.try_init().expect("one listens in a process");
    move || String::from_utf8_lossy(&heard.lock().unwrap()).into_owned()
}

struct Heard(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Heard {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A service, stopped when dropped.
pub struct Running {
    pub url: String,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
    agent: ureq::Agent,
    config: Config,
    folder: Option<tempfile::TempDir>,
}

impl Running {
    /// With nothing in it.
    pub fn start() -> Self {
        Self::open(|_| {}, Server::open)
    }

    /// With a configuration of its own.
    pub fn start_with(configure: impl FnOnce(&mut Config)) -> Self {
        Self::open(configure, Server::open)
    }

    /// With a configuration and a clock of its own.
    pub fn start_by(configure: impl FnOnce(&mut Config), open: Open) -> Self {
        Self::open(configure, open)
    }

    /// With a key that every request needs.
    pub fn start_with_key(key: &'static str) -> Self {
        Self::start_with(|config| config.admin_key = key.to_owned())
    }

    /// With readers that are made up.
    pub fn start_demo() -> Self {
        Self::open(|_| {}, |config| Server::open(config).map(Server::with_demo))
    }

    fn open(configure: impl FnOnce(&mut Config), open: Open) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config {
            data_dir: folder.path().into(),
            listen: "127.0.0.1:0".to_owned(),
            shutdown_ms: 500,
            log_level: "error".to_owned(),
            ..Config::default()
        };
        configure(&mut config);
        Self::on(folder, config, open)
    }

    /// Where its data is.
    pub fn data_dir(&self) -> &Path {
        &self.config.data_dir
    }

    /// How many segments its journal has; the room that is kept for the next one is none.
    pub fn journal_files(&self) -> usize {
        let entries = std::fs::read_dir(self.config.data_dir.join("journal/segments")).unwrap();
        entries.filter(|entry| entry.as_ref().unwrap().file_name() != "spare").count()
    }

    /// Stops it, and starts it again on what is on disk.
    pub fn restart(self) -> Self {
        self.restart_after(|_| {})
    }

    /// The same, and something happens to its folder between.
    pub fn restart_after(mut self, between: impl FnOnce(&Path)) -> Self {
        let (folder, config) = (self.folder.take().unwrap(), self.config.clone());
        drop(self);
        between(&config.data_dir);
        Self::on(folder, config, Server::open)
    }

    fn on(folder: tempfile::TempDir, config: Config, open: Open) -> Self {
        let server = open(config.clone()).unwrap();
        let url = format!("http://{}", server.address());
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let stopped = async { stopped.await.unwrap_or_default() };
            runtime.block_on(server.serve(stopped)).unwrap();
        });
        let asking = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(60)))
            .build();
        let agent = ureq::Agent::new_with_config(asking);
        Self { url, stop: Some(stop), thread: Some(thread), agent, config, folder: Some(folder) }
    }

    pub fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.send_with_key(method, path, body, "")
    }

    pub fn send_with_key(&self, method: &str, path: &str, body: &Value, key: &str) -> (u16, Value) {
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("Content-Type", "application/json");
        if !key.is_empty() {
            request = request.header("Authorization", format!("Bearer {key}"));
        }
        let mut response = match body {
            Value::Null => self.agent.run(request.body(()).unwrap()).unwrap(),
            body => self.agent.run(request.body(body.to_string()).unwrap()).unwrap(),
        };
        let text = response.body_mut().read_to_string().unwrap();
        (response.status().as_u16(), serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    /// Sends a body as it stands, be it JSON or not.
    pub fn send_text(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("Content-Type", "application/json");
        let mut response = self.agent.run(request.body(body.to_owned()).unwrap()).unwrap();
        let text = response.body_mut().read_to_string().unwrap();
        (response.status().as_u16(), serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    pub fn get(&self, path: &str) -> Value {
        let (status, said) = self.send("GET", path, &Value::Null);
        assert_eq!(status, 200, "{path}: {said}");
        said
    }

    pub fn post(&self, path: &str, body: Value) -> Value {
        let (status, said) = self.send("POST", path, &body);
        assert!(status < 300, "{path}: {said}");
        said
    }

    /// What is at a path, as a file.
    pub fn download(&self, path: &str, to: &Path) {
        let mut response = self.agent.get(format!("{}{path}", self.url)).call().unwrap();
        assert_eq!(response.status().as_u16(), 200);
        let bytes = response.body_mut().with_config().limit(1 << 30).read_to_vec().unwrap();
        std::fs::write(to, bytes).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        // Connections that are kept alive would be waited for.
        self.agent = ureq::Agent::new_with_defaults();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
