//! `cohort app`: the apps of a running service.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::connection::{Connection, escaped};
use crate::failure::{Done, Failure, print};
use crate::warm_start::WarmStart;

/// Create, list, change and delete the apps of a running service
#[derive(Args)]
pub struct App {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: AppCommand,
}

#[derive(Subcommand)]
enum AppCommand {
    /// List all apps
    List,
    /// Show one app
    Show { name: String },
    /// Create an app; prints its first key, this once
    Create {
        name: String,
        /// The number of features of its items; with --json, the number of coordinates they are
        /// encoded into [default: 32]
        #[arg(long, required_unless_present = "json")]
        dim: Option<usize>,
        /// Features are JSON objects, not lists of numbers
        #[arg(long)]
        json: bool,
        /// The policy; `cohort policies` lists them
        #[arg(long)]
        policy: Option<String>,
        #[command(flatten)]
        settings: Settings,
    },
    /// Change an app; what is not named stays the same
    Change {
        name: String,
        /// Learn nothing when no reward came in time
        #[arg(long, conflicts_with = "default_reward")]
        no_default_reward: bool,
        #[command(flatten)]
        settings: Settings,
    },
    /// Delete an app with everything it has learned
    Delete { name: String },
    /// Add a key; prints it, this once
    AddKey {
        name: String,
        /// Its scopes: decide, reward, read, items, admin [default: decide,reward]
        #[arg(long, value_name = "SCOPE,…", value_delimiter = ',')]
        scopes: Vec<String>,
        /// Its expiry, in milliseconds since 1970
        #[arg(long)]
        expires_ms: Option<u64>,
    },
    /// List all keys: ids, scopes, expiry
    Keys { name: String },
    /// Remove a key
    RemoveKey { name: String, key_id: String },
    /// Forget a user
    ForgetUser { name: String, user: String },
    /// Learn from a log of Vowpal Wabbit or Azure Personalizer; what was learned before is not learned again
    WarmStart(WarmStart),
}

#[derive(Args)]
struct Settings {
    /// The share of decisions that are made uniformly at random
    #[arg(long, value_parser = finite)]
    epsilon: Option<f64>,
    /// How long a decision waits for its reward
    #[arg(long)]
    window_ms: Option<u64>,
    /// The reward that is learned when none came in time
    #[arg(long, allow_negative_numbers = true, value_parser = finite)]
    default_reward: Option<f64>,
    /// The share of decisions in the control group: made at random, and counted apart
    #[arg(long, value_parser = finite)]
    control: Option<f64>,
    /// Whether the log keeps the features of all candidates, for `cohort evaluate`
    #[arg(long, value_name = "true|false")]
    log_candidates: Option<bool>,
    /// The names of features, separated by commas
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    feature_names: Option<Vec<String>>,
    /// A parameter of the policy
    #[arg(long = "set", value_name = "PARAM=VALUE")]
    params: Vec<String>,
}

/// Parses a number that JSON can carry: anything else would arrive as `null`, which means "none".
fn finite(text: &str) -> Result<f64, &'static str> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or("expected a finite number")
}

impl App {
    /// Sends the request and prints the answer as JSON.
    pub fn run(self) -> Result<Done, Failure> {
        if let AppCommand::WarmStart(warm_start) = self.command {
            return warm_start.run(&self.connection);
        }
        let (method, path, body) = self.command.request()?;
        let said = self.connection.ask(method, &path, body)?;
        if !said.is_null() {
            print(&format!("{said:#}\n"))?;
        }
        Ok(Done::Complete)
    }
}

impl AppCommand {
    /// The method, path and body of the request.
    fn request(self) -> Result<(&'static str, String, Option<Value>), Failure> {
        let at = |name: &str| format!("/v1/apps/{}", escaped(name));
        Ok(match self {
            Self::List => ("GET", "/v1/apps".to_owned(), None),
            Self::Show { name } => ("GET", at(&name), None),
            Self::Create { name, dim, json, policy, settings } => {
                let mut body = settings.body()?;
                body.insert("name".to_owned(), json!(name));
                if let Some(dim) = dim {
                    body.insert("dim".to_owned(), json!(dim));
                }
                if json {
                    body.insert("features".to_owned(), json!("json"));
                }
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
            // It is asked several times.
            Self::WarmStart(_) => return Err(Failure::failed("not one request".to_owned())),
            Self::Delete { name } => ("DELETE", at(&name), None),
            Self::AddKey { name, scopes, expires_ms } => {
                let mut terms = Map::new();
                if !scopes.is_empty() {
                    terms.insert("scopes".to_owned(), json!(scopes));
                }
                terms.extend(expires_ms.map(|at| ("expires_ms".to_owned(), json!(at))));
                ("POST", format!("{}/keys", at(&name)), Some(terms.into()))
            }
            Self::Keys { name } => ("GET", format!("{}/keys", at(&name)), None),
            Self::ForgetUser { name, user } => {
                ("DELETE", format!("{}/users/{}", at(&name), escaped(&user)), None)
            }
            Self::RemoveKey { name, key_id } => {
                ("DELETE", format!("{}/keys/{}", at(&name), escaped(&key_id)), None)
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
        put("control", self.control.map(Value::from));
        put("log_candidates", self.log_candidates.map(Value::from));
        put("feature_names", self.feature_names.clone().map(Value::from));
        if !self.params.is_empty() {
            let mut params = Map::new();
            for param in &self.params {
                let (name, value) = param.split_once('=').ok_or_else(|| {
                    Failure::bad_input(format!("--set {param}: expected PARAM=VALUE"))
                })?;
                let value = finite(value).map_or_else(|_| json!(value), Value::from);
                params.insert(name.to_owned(), value);
            }
            put("params", Some(params.into()));
        }
        Ok(body)
    }
}
