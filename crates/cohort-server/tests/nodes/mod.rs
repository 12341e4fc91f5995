//! Nodes of a cluster in this process.
#![allow(dead_code, missing_docs)]

use std::time::{Duration, Instant};

use cohort_server::cluster::server::ClusterServer;
use cohort_server::config::Config;
use serde_json::{Value, json};

use super::nats::Servers;

/// A node, stopped when dropped.
pub struct Node {
    pub url: String,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

pub fn config(servers: &Servers, name: &str, partitions: u32) -> Config {
    Config {
        listen: "127.0.0.1:0".to_owned(),
        log_level: "error".to_owned(),
        shutdown_ms: 3000,
        nats: servers.url(),
        nats_monitor: servers.monitor(),
        node_name: name.to_owned(),
        partitions,
        ..Config::default()
    }
}

impl Node {
    pub fn start(config: Config) -> Self {
        let server = ClusterServer::open(config).unwrap();
        let url = format!("http://{}", server.address());
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let stopped = async { stopped.await.unwrap_or_default() };
            runtime.block_on(server.serve(stopped)).unwrap();
        });
        Self { url, stop: Some(stop), thread: Some(thread) }
    }

    pub fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(30)))
            .build();
        let agent = ureq::Agent::new_with_config(config);
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("Content-Type", "application/json");
        let mut response = match body {
            Value::Null => agent.run(request.body(()).unwrap()).unwrap(),
            body => agent.run(request.body(body.to_string()).unwrap()).unwrap(),
        };
        let text = response.body_mut().read_to_string().unwrap();
        (response.status().as_u16(), serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    pub fn get(&self, path: &str) -> Value {
        let (status, said) = self.send("GET", path, &Value::Null);
        assert_eq!(status, 200, "{path}: {said}");
        said
    }

    pub fn post(&self, path: &str, body: &Value) -> Value {
        let (status, said) = self.send("POST", path, body);
        assert!(status < 300, "{path}: {status} {said}");
        said
    }

    /// Waits until every partition has an owner, and each node about as many.
    pub fn wait_until_even(&self, nodes: usize) {
        let started = Instant::now();
        loop {
            let status = self.get("/v1/cluster");
            let living =
                status["nodes"].as_array().unwrap().iter().filter(|node| node["lives"] == true);
            let owns: Vec<u64> = living.map(|node| node["owns"].as_u64().unwrap()).collect();
            let owned =
                status["owners"].as_array().unwrap().iter().all(|one| !one["owner"].is_null());
            let all: u64 = owns.iter().sum();
            let even = owns.iter().all(|own| own.abs_diff(all / owns.len() as u64) <= 1);
            let served = self.send("GET", "/healthz", &Value::Null).0 == 200;
            if owns.len() == nodes
                && owned
                && even
                && served
                && all == status["owners"].as_array().unwrap().len() as u64
            {
                return;
            }
            assert!(started.elapsed() < Duration::from_secs(60), "{status}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub fn items() -> Value {
    json!([{"id": "tea", "features": [0.9, 0.1]}, {"id": "coffee", "features": [0.1, 0.9]}])
}
