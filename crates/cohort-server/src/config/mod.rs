//! How the service is set up: a file, the environment and flags, each over the one before.
//!
//! Every key is in [`keys::KEYS`], once: from there come defaults, the commented example, the
//! names of environment variables (`COHORT_SERVE_` and the key in capitals) and of flags (`--key-name`).

pub mod keys;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use toml::{Table, Value};

use crate::auth::{KeyHash, MIN_ADMIN_KEY_CHARS};
use crate::engine::Limits;
use crate::engine::runtime::{Durability, Options};
use keys::{KEYS, Key, VARIABLE_PREFIX};

/// What can be wrong with the configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("the configuration {path} cannot be read: {why}")]
    File {
        /// The file.
        path: String,
        /// Why not.
        why: std::io::Error,
    },
    /// The file is not TOML.
    #[error("the configuration {path} is not TOML: {why}")]
    Syntax {
        /// The file.
        path: String,
        /// Where and why.
        why: String,
    },
    /// A key that does not exist.
    #[error("{source_name}: there is no key `{key}`{}", hint(.nearest))]
    UnknownKey {
        /// Where it was found.
        source_name: String,
        /// The key.
        key: String,
        /// The known key most like it.
        nearest: Option<&'static str>,
    },
    /// A value of the wrong kind or outside its range.
    #[error("{source_name}: {key} = {found}: expected {expected}")]
    Value {
        /// Where it was found.
        source_name: String,
        /// The key.
        key: &'static str,
        /// What was found.
        found: String,
        /// What is accepted.
        expected: String,
    },
    /// Keys that do not fit together.
    #[error("{0}")]
    Together(String),
}

fn hint(nearest: &Option<&'static str>) -> String {
    nearest.map_or_else(String::new, |key| format!("; did you mean `{key}`?"))
}

/// Everything that is configured. What each means is said in [`keys`].
#[derive(Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the meaning of every key is in KEYS, in one place")]
pub struct Config {
    pub listen: String,
    pub data_dir: PathBuf,
    pub durability: String,
    pub nats: String,
    pub partitions: u32,
    pub node_name: String,
    pub nats_replicas: usize,
    pub nats_credentials: PathBuf,
    pub nats_tls_ca: PathBuf,
    pub nats_tls_cert: PathBuf,
    pub nats_tls_key: PathBuf,
    pub nats_monitor: String,
    pub nats_prefix: String,
    pub sync_interval_ms: u64,
    pub snapshot_events: u64,
    /// What is kept of the journal.
    pub journal_keep: String,
    pub snapshot_hours: u64,
    pub journal_max_bytes: u64,
    pub journal_max_hours: u64,
    pub retention_interval_ms: u64,
    pub min_free_disk_bytes: u64,
    pub max_memory_bytes: u64,
    pub admin_key: String,
    pub admin_key_file: PathBuf,
    pub tls_cert: PathBuf,
    pub tls_key: PathBuf,
    pub body_bytes: usize,
    pub rate_per_second: u64,
    pub max_connections: usize,
    pub max_connections_per_address: usize,
    pub first_byte_timeout_ms: u64,
    pub header_timeout_ms: u64,
    pub idle_timeout_ms: u64,
    pub queue: usize,
    pub request_timeout_ms: u64,
    pub min_download_bytes_per_second: u64,
    pub shutdown_ms: u64,
    pub max_apps: usize,
    pub max_dim: usize,
    pub max_items: usize,
    pub max_candidates: usize,
    pub max_batch: usize,
    pub max_users: usize,
    pub user_expiry_hours: u64,
    pub max_work: u64,
    pub max_journal_bytes_per_request: usize,
    pub max_id_bytes: usize,
    pub max_waiting: usize,
    pub max_decision_bytes: usize,
    pub log_level: String,
    pub log_format: String,
}

/// Windows × d² that are ended at once: some milliseconds of work.
const WINDOW_WORK: u64 = 500_000;

impl Config {
    /// The defaults, and over them a file, the environment and flags.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let mut layers = Layers::default();
        if let Some(path) = file {
            let path_name = path.display().to_string();
            let text = std::fs::read_to_string(path)
                .map_err(|why| ConfigError::File { path: path_name.clone(), why })?;
            layers.add_file(&path_name, &text)?;
        }
        for (name, value) in environment {
            if let Some(key) = name.strip_prefix(VARIABLE_PREFIX) {
                layers.add_word(&format!("environment {name}"), &key.to_lowercase(), &value)?;
            }
        }
        for (key, value) in flags {
            layers.add_word(&format!("flag --{}", key.replace('_', "-")), &key, &value)?;
        }
        layers.finish()
    }

    /// From the text of a file alone.
    pub fn from_text(name: &str, text: &str) -> Result<Self, ConfigError> {
        let mut layers = Layers::default();
        layers.add_file(name, text)?;
        layers.finish()
    }

    /// Whether requests need keys: always, but on a machine that only talks to itself and whose
    /// owner set no admin key.
    pub fn needs_keys(&self) -> bool {
        !self.admin_key.is_empty() || !self.admin_key_file.as_os_str().is_empty()
    }

    /// What is kept of the admin's keys: that of the configuration, and one a line of the file.
    pub fn admin_keys(&self) -> Result<Vec<KeyHash>, ConfigError> {
        let file = &self.admin_key_file;
        let text = match file.as_os_str().is_empty() {
            true => String::new(),
            false => std::fs::read_to_string(file)
                .map_err(|why| ConfigError::File { path: file.display().to_string(), why })?,
        };
        let in_file = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let keys: Vec<&str> = Some(self.admin_key.as_str())
            .filter(|key| !key.is_empty())
            .into_iter()
            .chain(in_file)
            .collect();
        let together = |sentence: &str| Err(ConfigError::Together(sentence.to_owned()));
        if self.needs_keys() && keys.is_empty() {
            return together("admin_key_file has no key: expected one a line");
        }
        if keys.iter().any(|key| key.chars().count() < MIN_ADMIN_KEY_CHARS) {
            return together("an admin key is too short: it needs 16 characters or more");
        }
        Ok(keys.into_iter().map(KeyHash::of).collect())
    }

    fn check(&self) -> Result<(), ConfigError> {
        let together = |sentence: &str| Err(ConfigError::Together(sentence.to_owned()));
        self.admin_keys()?;
        let Some(stays_here) = stays_here(&self.listen) else {
            return Err(ConfigError::Together(format!(
                "listen = {:?}: expected HOST:PORT, such as 127.0.0.1:7700",
                self.listen
            )));
        };
        if !self.needs_keys() && !stays_here {
            return together(
                "listen is an address that other machines can reach: set admin_key (and better \
                 tls_cert and tls_key), or listen on 127.0.0.1",
            );
        }
        let fits = |name: &str| {
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        if !fits(&self.node_name) || !fits(&self.nats_prefix) || self.nats_prefix.is_empty() {
            return together("node_name and nats_prefix: expected letters, digits, - and _");
        }
        match (self.nats.is_empty(), self.durability.as_str()) {
            (true, "replicated") => {
                return together(
                    "durability = \"replicated\" is for a cluster: set nats, or use always",
                );
            }
            (false, "interval") => {
                return together(
                    "durability = \"interval\" is not for a cluster: use always, or replicated",
                );
            }
            _ => {}
        }
        if self.tls_cert.as_os_str().is_empty() != self.tls_key.as_os_str().is_empty() {
            return together("tls_cert and tls_key go together: set both or none");
        }
        Ok(())
    }

    /// What the engine's threads need.
    pub fn options(&self) -> Options {
        Options {
            durability: match self.durability.as_str() {
                "interval" => Durability::Interval(Duration::from_millis(self.sync_interval_ms)),
                _ => Durability::Always,
            },
            queue: self.queue,
            snapshot_events: self.snapshot_events,
            snapshot_interval: Duration::from_secs(3600 * self.snapshot_hours),
            prunes: self.journal_keep == "snapshots",
        }
    }

    /// What apps may take up.
    pub fn limits(&self) -> Limits {
        Limits {
            apps: self.max_apps,
            dim: self.max_dim,
            items: self.max_items,
            waiting: self.max_waiting,
            decision_bytes: self.max_decision_bytes,
            window_work: WINDOW_WORK,
            users: self.max_users,
            user_age_ms: self.user_expiry_hours * 3_600_000,
            work: self.max_work,
            journal_bytes: self.max_journal_bytes_per_request,
            answer_bytes: 4 * self.body_bytes,
        }
    }
}

/// Logs are read by many: keys are not shown.
impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let Self { listen, data_dir, .. } = self;
        f.debug_struct("Config")
            .field("listen", listen)
            .field("data_dir", data_dir)
            .field("needs_keys", &self.needs_keys())
            .finish_non_exhaustive()
    }
}

impl Default for Config {
    fn default() -> Self {
        Layers::default().finish().expect("the defaults are right")
    }
}

/// Values by key, later ones over earlier ones.
#[derive(Default)]
struct Layers(Table);

impl Layers {
    fn add_file(&mut self, name: &str, text: &str) -> Result<(), ConfigError> {
        let table: Table = text.parse().map_err(|why: toml::de::Error| ConfigError::Syntax {
            path: name.to_owned(),
            why: why.to_string().lines().collect::<Vec<_>>().join(" "),
        })?;
        for (key, value) in table {
            self.add(name, &key, value)?;
        }
        Ok(())
    }

    /// A value from somewhere where all values are words.
    fn add_word(&mut self, source: &str, key: &str, word: &str) -> Result<(), ConfigError> {
        let value = match find(source, key)?.default_value() {
            Value::Integer(_) => word.parse().map_or_else(|_| Value::from(word), Value::Integer),
            _ => Value::from(word),
        };
        self.add(source, key, value)
    }

    fn add(&mut self, source: &str, key: &str, value: Value) -> Result<(), ConfigError> {
        let known = find(source, key)?;
        if !known.accepts(&value) {
            return Err(ConfigError::Value {
                source_name: source.to_owned(),
                key: known.name,
                found: if known.secret { "…".to_owned() } else { value.to_string() },
                expected: known.kind.to_string(),
            });
        }
        self.0.insert(known.name.to_owned(), value);
        Ok(())
    }

    fn finish(mut self) -> Result<Config, ConfigError> {
        for key in KEYS {
            self.0.entry(key.name).or_insert_with(|| key.default_value());
        }
        let config: Config =
            self.0.try_into().map_err(|why| ConfigError::Together(why.to_string()))?;
        config.check()?;
        Ok(config)
    }
}

/// Whether only this machine can reach an address; `None` if it is none.
fn stays_here(listen: &str) -> Option<bool> {
    if let Ok(address) = listen.parse::<SocketAddr>() {
        return Some(address.ip().is_loopback());
    }
    let (host, port) = listen.rsplit_once(':')?;
    port.parse::<u16>().ok()?;
    // An IPv6 address in brackets was read above.
    let is_name = !host.is_empty() && !host.contains([':', '/', '[', ' ']);
    is_name.then(|| host.eq_ignore_ascii_case("localhost"))
}

fn find(source: &str, key: &str) -> Result<&'static Key, ConfigError> {
    KEYS.iter().find(|known| known.name == key).ok_or_else(|| ConfigError::UnknownKey {
        source_name: source.to_owned(),
        key: key.to_owned(),
        nearest: cohort::nearest(key, KEYS.iter().map(|known| known.name)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    /// The example in the repository is what the keys say, and sets every key to its default.
    #[test]
    fn the_example_covers_every_key() {
        let example = keys::example();
        let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/cohort.example.toml");
        let kept = std::fs::read_to_string(kept).unwrap_or_default();
        assert_eq!(kept, example, "write it anew with `cohort serve --print-config`");
        let table: Table = example.parse().unwrap();
        for key in KEYS {
            assert_eq!(table.get(key.name), Some(&key.default_value()), "{}", key.name);
        }
        assert_eq!(Config::from_text("example", &example).unwrap(), Config::default());
    }

    #[test]
    fn flags_go_over_the_environment_and_that_over_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.toml");
        std::fs::write(&file, "queue = 7\nmax_dim = 8\nbody_bytes = 9000\n").unwrap();
        let environment =
            words(&[("COHORT_SERVE_QUEUE", "70"), ("COHORT_SERVE_MAX_DIM", "80"), ("HOME", "/")]);
        let flags = words(&[("queue", "700")]);
        let config = Config::load(Some(&file), environment, flags).unwrap();
        assert_eq!((config.queue, config.max_dim, config.body_bytes), (700, 80, 9000));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_source() {
        let said = |pairs: &[(&str, &str)], flags: &[(&str, &str)]| {
            Config::load(None, words(pairs), words(flags)).unwrap_err().to_string()
        };
        assert_eq!(
            said(&[("COHORT_SERVE_QUEUE", "many")], &[]),
            "environment COHORT_SERVE_QUEUE: queue = \"many\": expected a whole number from 1 to 1000000"
        );
        assert!(said(&[], &[("que", "1")]).contains("did you mean `queue`?"));
        assert!(said(&[], &[("listen", "0.0.0.0:80")]).contains("set admin_key"));
        assert!(said(&[], &[("listen", "example.org:80")]).contains("set admin_key"));
        for listen in ["18010", "localhost", ":80", "127.0.0.1:http", "localhost:99999", "::1:80"] {
            let said = said(&[], &[("listen", listen)]);
            assert!(said.contains("expected HOST:PORT"), "{listen}: {said}");
        }
        for listen in ["localhost:18010", "LOCALHOST:0", "127.0.0.1:80", "[::1]:80"] {
            assert!(Config::load(None, [], words(&[("listen", listen)])).is_ok(), "{listen}");
        }
        assert!(said(&[], &[("admin_key", "short")]).contains("16 characters"));
        assert!(said(&[], &[("tls_key", "k.pem")]).contains("go together"));
        assert!(said(&[], &[("durability", "never")]).contains("always"));
        let syntax = Config::from_text("c.toml", "queue = = 3").unwrap_err().to_string();
        assert!(syntax.contains("c.toml") && !syntax.contains('\n'), "{syntax}");
    }
}
