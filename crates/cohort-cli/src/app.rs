//! `cohort app`: the apps of a running service.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::failure::{Done, Failure, print};

/// Create, list, change and delete the apps of a running service
#[derive(Args)]
pub struct App {
    /// Where the service is
    #[arg(long, global = true, default_value = "http://127.0.0.1:7700")]
    url: String,
    /// The admin key, where the service has one
    #[arg(long, global = true, env = "COHORT_SERVE_ADMIN_KEY", hide_env_values = true)]
    key: Option<String>,
    /// A file with the admin key, which other users of this machine cannot see as they can flags
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "key")]
    key_file: Option<PathBuf>,
    #[command(subcommand)]
    command: AppCommand,
}

#[derive(Subcommand)]
enum AppCommand {
    /// All apps
    List,
    /// One app
    Show { name: String },
    /// Create an app; prints its first key, this once
    Create {
        name: String,
        /// How many features its items have
        #[arg(long)]
        dim: usize,
        /// The policy; `cohort policies` lists them
        #[arg(long)]
        policy: Option<String>,
        #[command(flatten)]
        settings: Settings,
    },
    /// Change an app; what is not named stays
    Change {
        name: String,
        /// Learn nothing when no reward came in time
        #[arg(long, conflicts_with = "default_reward")]
        no_default_reward: bool,
        #[command(flatten)]
        settings: Settings,
    },
    /// Delete an app with all it has learned
    Delete { name: String },
    /// Add a key; prints it, this once
    AddKey { name: String },
    /// Remove a key
    RemoveKey { name: String, key_id: String },
}

#[derive(Args)]
struct Settings {
    /// The share of decisions that are taken uniformly at random
    #[arg(long)]
    epsilon: Option<f64>,
    /// How long a decision waits for its reward
    #[arg(long)]
    window_ms: Option<u64>,
    /// What is learned when no reward came in time
    #[arg(long, allow_negative_numbers = true)]
    default_reward: Option<f64>,
    /// A parameter of the policy
    #[arg(long = "set", value_name = "PARAM=VALUE")]
    params: Vec<String>,
}

impl App {
    /// Ask the service and print what it says, as JSON.
    pub fn run(self) -> Result<Done, Failure> {
        let key = match &self.key_file {
            Some(file) => {
                let key = std::fs::read_to_string(file)
                    .map_err(|why| Failure::bad_input(format!("{}: {why}", file.display())))?;
                Some(key.trim().to_owned())
            }
            None => self.key,
        };
        let (method, path, body) = self.command.request()?;
        let said = ask(&self.url, key.as_deref(), method, &path, body)?;
        if !said.is_null() {
            print(&format!("{said:#}\n"))?;
        }
        Ok(Done::Complete)
    }
}

/// What the service says to a request.
fn ask(
    url: &str,
    key: Option<&str>,
    method: &str,
    path: &str,
    body: Option<Value>,
) -> Result<Value, Failure> {
    let url = format!("{}{path}", url.trim_end_matches('/'));
    let unreachable =
        |why: ureq::Error| Failure::failed(format!("{url}: {why}; is the service running there?"));
    let mut request = ureq::http::Request::builder().method(method).uri(&url);
    if let Some(key) = key {
        request = request.header("Authorization", format!("Bearer {key}"));
    }
    let text = body.map_or_else(String::new, |body| body.to_string());
    let request = request
        .header("Content-Type", "application/json")
        .body(text)
        .map_err(|why| Failure::bad_input(format!("{url}: {why}")))?;
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .allow_non_standard_methods(true)
        .build();
    let mut response = ureq::Agent::new_with_config(config).run(request).map_err(unreachable)?;
    let status = response.status();
    let text = response.body_mut().read_to_string().map_err(unreachable)?;
    let said: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
    match status.is_success() {
        true => Ok(said),
        false => {
            let sentence = said["error"]["message"].as_str().unwrap_or("no reason was given");
            Err(Failure::bad_input(format!("{sentence} ({status})")))
        }
    }
}

impl AppCommand {
    /// Method, path and body of what is asked.
    fn request(self) -> Result<(&'static str, String, Option<Value>), Failure> {
        let at = |name: &str| format!("/v1/apps/{name}");
        Ok(match self {
            Self::List => ("GET", "/v1/apps".to_owned(), None),
            Self::Show { name } => ("GET", at(&name), None),
            Self::Create { name, dim, policy, settings } => {
                let mut body = settings.body()?;
                body.insert("name".to_owned(), json!(name));
                body.insert("dim".to_owned(), json!(dim));
                if let Some(policy) = policy {
                    body.insert("policy".to_owned(), json!(policy));
                }
                ("POST", "/v1/apps".to_owned(), Some(body.into()))
            }
            Self::Change { name, no_default_reward, settings } => {
                let mut body = settings.body()?;
                if no_default_reward {
                    body.insert("default_reward".to_owned(), Value::Null);
                }
                ("PATCH", at(&name), Some(body.into()))
            }
            Self::Delete { name } => ("DELETE", at(&name), None),
            Self::AddKey { name } => ("POST", format!("{}/keys", at(&name)), None),
            Self::RemoveKey { name, key_id } => {
                ("DELETE", format!("{}/keys/{key_id}", at(&name)), None)
            }
        })
    }
}

impl Settings {
    fn body(&self) -> Result<Map<String, Value>, Failure> {
        let mut body = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                body.insert(name.to_owned(), value);
            }
        };
        put("epsilon", self.epsilon.map(Value::from));
        put("window_ms", self.window_ms.map(Value::from));
        put("default_reward", self.default_reward.map(Value::from));
        if !self.params.is_empty() {
            let mut params = Map::new();
            for param in &self.params {
                let (name, value) = param.split_once('=').ok_or_else(|| {
                    Failure::bad_input(format!("--set {param}: expected PARAM=VALUE"))
                })?;
                let value = value.parse::<f64>().map_or_else(|_| json!(value), Value::from);
                params.insert(name.to_owned(), value);
            }
            put("params", Some(params.into()));
        }
        Ok(body)
    }
}
