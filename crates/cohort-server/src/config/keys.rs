//! Every key of the configuration, once.

use std::fmt;

use toml::Value;

/// What the names of environment variables begin with.
pub const VARIABLE_PREFIX: &str = "COHORT_SERVE_";

/// One key.
#[derive(Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What values it takes, and the default.
    pub kind: Kind,
    /// What it means.
    pub meaning: &'static str,
    /// Whether its value must not be shown.
    pub secret: bool,
}

/// The values a key takes.
#[derive(Debug)]
pub enum Kind {
    /// A word; the default.
    Word(&'static str),
    /// One of these words, the first by default.
    Choice(&'static [&'static str]),
    /// A whole number between two bounds; the default.
    Number {
        /// The least.
        least: i64,
        /// The most.
        most: i64,
        /// The default.
        default: i64,
    },
}

const fn word(name: &'static str, default: &'static str, meaning: &'static str) -> Key {
    Key { name, kind: Kind::Word(default), meaning, secret: false }
}

const fn number(
    name: &'static str,
    (least, most): (i64, i64),
    default: i64,
    meaning: &'static str,
) -> Key {
    Key { name, kind: Kind::Number { least, most, default }, meaning, secret: false }
}

const fn choice(name: &'static str, words: &'static [&'static str], meaning: &'static str) -> Key {
    Key { name, kind: Kind::Choice(words), meaning, secret: false }
}

/// All keys.
pub const KEYS: &[Key] = &[
    word("listen", "127.0.0.1:7700", "Address and port to listen on; port 0 takes any free one."),
    word("data_dir", "cohort-data", "Folder of the journal and the snapshots; made if not there."),
    choice(
        "durability",
        &["always", "interval", "replicated"],
        "When an answer is given. `always`: when what it acknowledges would survive a loss of \
         power. `replicated`, in a cluster alone: when a quorum of servers has it, synced or not. `interval`: when it would survive the end of the process; a loss of power takes \
         at most the last sync_interval_ms of what was acknowledged, and what was while one request \
         took longer.",
    ),
    word(
        "nats",
        "",
        "Addresses of NATS servers with JetStream, nats://HOST:PORT, several with commas: the service is a node of a cluster \
         then, and data_dir is not used. Empty: a single service.",
    ),
    number(
        "partitions",
        (1, 4096),
        64,
        "How many partitions users are spread over; fixed when the cluster is made, and ignored from then on.",
    ),
    word(
        "node_name",
        "",
        "What this node is called; empty: by machine and port. No two nodes may have the same.",
    ),
    number(
        "nats_replicas",
        (0, 5),
        0,
        "On how many NATS servers everything is kept; 0: on three where there are three, else on one.",
    ),
    word("nats_credentials", "", "A credentials file of NATS."),
    word(
        "nats_tls_ca",
        "",
        "Certificates of authorities that NATS servers are checked against, in PEM.",
    ),
    word("nats_tls_cert", "", "The certificate by which NATS servers know this node, in PEM."),
    word("nats_tls_key", "", "Its key, in PEM."),
    word(
        "nats_monitor",
        "",
        "Monitoring addresses of all NATS servers, http://HOST:PORT with commas, where they are asked whether they sync on \
         every write; empty: port 8222 of each.",
    ),
    word(
        "nats_prefix",
        "cohort",
        "What names of streams and subjects begin with: clusters that share servers have each its own.",
    ),
    number("sync_interval_ms", (1, 60_000), 100, "How often `interval` syncs the disk."),
    number(
        "snapshot_events",
        (0, i64::MAX),
        2_000_000,
        "Events after which a snapshot is written, so that a restart reads less; 0 writes one only \
         when the service stops. It is written beside requests.",
    ),
    choice(
        "journal_keep",
        &["all", "snapshots"],
        "What is kept of the journal, within journal_max_bytes and journal_max_hours. `all`: every \
         event, so that what was decided can be looked at and evaluated later. `snapshots`: what the two newest snapshots do not have, which is \
         all that a restart needs; the disk then holds little more than the state.",
    ),
    number(
        "snapshot_hours",
        (0, 1 << 20),
        24,
        "Hours after which a snapshot is written if anything has happened; 0 for never.",
    ),
    number(
        "journal_max_bytes",
        (0, 1 << 50),
        50 << 30,
        "The most that the journal may take on disk, roughly; the oldest events go first, once two \
         snapshots have them. 0 for no limit.",
    ),
    number(
        "journal_max_hours",
        (0, 1 << 20),
        24 * 90,
        "How old events in the journal may become, in the same way: 90 days by default. 0 for no limit.",
    ),
    number(
        "retention_interval_ms",
        (100, 86_400_000),
        60_000,
        "How often the journal is shortened to what it may keep.",
    ),
    number(
        "min_free_disk_bytes",
        (0, 1 << 50),
        1 << 30,
        "Where less than this is free on the disk of data_dir, decisions are refused with 503 \
         `disk_low` until there is more; where less than half of it is, rewards too.",
    ),
    number(
        "max_memory_bytes",
        (0, 1 << 50),
        0,
        "Where the process takes more memory than this, decisions are refused with 503 `memory_low` \
         until it takes less. 0 for nine tenths of what the machine or its control group has.",
    ),
    Key {
        name: "admin_key",
        kind: Kind::Word(""),
        meaning: "The key that may create, change and delete apps, 16 characters or more. Without \
                  one the service listens on this machine only and asks nobody for a key.",
        secret: true,
    },
    word(
        "admin_key_file",
        "",
        "File with admin keys, one a line, beside admin_key or instead of it. It is read anew every few \
         seconds and on SIGHUP: to change a key add the new one, change all who use the old one, then \
         remove that.",
    ),
    word(
        "tls_cert",
        "",
        "PEM file with the certificate chain; with tls_key the service speaks TLS.",
    ),
    word("tls_key", "", "PEM file with the certificate's private key."),
    number("body_bytes", (1024, 1 << 30), 4 << 20, "The largest request body."),
    number(
        "rate_per_second",
        (0, 1_000_000_000),
        0,
        "Requests an app may make in a second, and in one burst; 0 for no limit.",
    ),
    number(
        "max_connections",
        (1, 1_000_000),
        4096,
        "The most connections. A newcomer then gets the place of whoever has been silent for longest; \
         where all are being served it gets 503. Fewer where the limit on open files (ulimit -n) \
         leaves fewer: 144 descriptors are not for connections.",
    ),
    number(
        "max_connections_per_address",
        (1, 1_000_000),
        2048,
        "The most connections of one address, in the same way.",
    ),
    number(
        "first_byte_timeout_ms",
        (10, 3_600_000),
        10_000,
        "How long a connection may say nothing at all before it is ended.",
    ),
    number(
        "header_timeout_ms",
        (10, 3_600_000),
        10_000,
        "How long the head of a request may take from its first byte to its last.",
    ),
    number(
        "idle_timeout_ms",
        (10, 3_600_000),
        75_000,
        "How long a connection may rest between two requests, and how long a client may take \
         nothing of its answer.",
    ),
    number("queue", (1, 1_000_000), 4096, "Requests that may wait for the engine; more get 503."),
    number("request_timeout_ms", (10, 3_600_000), 30_000, "The longest that a request may take."),
    number(
        "min_download_bytes_per_second",
        (0, 1_000_000_000),
        4096,
        "A download of the log that is read more slowly is ended; 0 for never.",
    ),
    number(
        "shutdown_ms",
        (0, 3_600_000),
        10_000,
        "How long requests under way may go on when the service is asked to stop.",
    ),
    number("max_apps", (1, 1_000_000), 1000, "The most apps."),
    number("max_dim", (1, 4096), 256, "The most features that an app's items may have."),
    number("max_items", (0, 10_000_000), 100_000, "The most items in an app's catalogue."),
    number("max_candidates", (1, 100_000), 1000, "The most candidates of a decide."),
    number("max_batch", (1, 100_000), 1000, "The most users or rewards in one request."),
    number(
        "max_users",
        (1, 1 << 32),
        10_000_000,
        "The most users of an app. For one more, the one that was not seen for longest is forgotten; \
         where the policy cannot forget, the new one gets 429.",
    ),
    number(
        "user_expiry_hours",
        (0, 1 << 20),
        0,
        "Hours after which a user for whom nothing was decided is forgotten; 0 for never.",
    ),
    number(
        "max_work",
        (1, i64::MAX),
        200_000_000,
        "The most work that one request may bring: users × candidates × dim². More gets 422.",
    ),
    number(
        "max_journal_bytes_per_request",
        (1 << 10, 1 << 40),
        16 << 20,
        "The most that one request may have written to the journal; more gets 422.",
    ),
    number("max_id_bytes", (1, 65_536), 256, "The longest id of a user, an item or a decision."),
    number(
        "max_waiting",
        (1, 1_000_000_000),
        1_000_000,
        "The most decisions of an app that wait for their reward; more get 429.",
    ),
    number(
        "max_decision_bytes",
        (1 << 16, 1 << 50),
        2 << 30,
        "The most memory that decisions of an app may take, from being made until they are \
         forgotten, one window after their reward; more get 429.",
    ),
    choice("log_level", &["info", "error", "warn", "debug", "trace"], "What is logged."),
    choice("log_format", &["text", "json"], "How it is logged, on standard error."),
];

impl Key {
    /// Its default.
    pub fn default_value(&self) -> Value {
        match self.kind {
            Kind::Word(word) => Value::from(word),
            Kind::Choice(words) => Value::from(words[0]),
            Kind::Number { default, .. } => Value::from(default),
        }
    }

    /// Whether a value is one that it takes.
    pub fn accepts(&self, value: &Value) -> bool {
        match (&self.kind, value) {
            (Kind::Word(_), Value::String(_)) => true,
            (Kind::Choice(words), Value::String(word)) => words.contains(&word.as_str()),
            (Kind::Number { least, most, .. }, Value::Integer(number)) => {
                (*least..=*most).contains(number)
            }
            _ => false,
        }
    }

    /// Its environment variable.
    pub fn variable(&self) -> String {
        format!("{VARIABLE_PREFIX}{}", self.name.to_uppercase())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Kind::Word(_) => write!(f, "a word in quotes"),
            Kind::Choice(words) => write!(f, "{}", words.join(" or ")),
            Kind::Number { least, most: i64::MAX, .. } => {
                write!(f, "a whole number from {least}")
            }
            Kind::Number { least, most, .. } => write!(f, "a whole number from {least} to {most}"),
        }
    }
}

/// A file that sets every key to its default and says what it means.
pub fn example() -> String {
    let mut text = String::from(
        "# The configuration of `cohort serve`. Every key with its default; a key that is left out\n\
         # has it too. A key can also be given as a flag (--max-dim 64) or in the environment\n\
         # (COHORT_SERVE_MAX_DIM=64); flags go first, then the environment, then this file.\n",
    );
    for key in KEYS {
        text.push('\n');
        for line in wrap(&format!("{} ({})", key.meaning, key.kind), 98) {
            text.push_str(&format!("# {line}\n"));
        }
        text.push_str(&format!("{} = {}\n", key.name, key.default_value()));
    }
    text
}

/// Lines of at most `width` characters, broken between words.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        match line.chars().count() + word.chars().count() < width {
            true if line.is_empty() => line.push_str(word),
            true => line.push_str(&format!(" {word}")),
            false => lines.push(word.to_owned()),
        }
    }
    lines
}
