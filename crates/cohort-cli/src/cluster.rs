//! `cohort cluster`: MAXIMAL-CLUSTER on points from a file; `cohort cluster status` and `drain`: the nodes of a service on
//! several machines.

use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, Subcommand};
use cohort::cluster::{maximal_cluster, partition};
use cohort_lab::{npy, results};
use cohort_server::cluster::moving::{Moved, export, import};
use cohort_server::config::Config;
use cohort_server::server::ServeError;
use serde_json::{Value, json};

use crate::connection::Connection;
use crate::failure::{Done, Failure, print};
use crate::serve::Keys;

const EXAMPLES: &str = "\
Examples:
  cohort cluster --points P.npy --gamma 0.3
      how many clusters there are at distance 0.3, and their sizes
  cohort cluster --points P.npy --gamma 0.3 --min-share 0.01 --labels L.npy
      clusters with fewer than 1 % of all points are merged; writes the cluster of every point
  cohort cluster status --url http://a:7700
      nodes and partitions of a service on several machines
  cohort cluster drain b --url http://a:7700
      node b gives up its partitions; then it can be stopped
  cohort cluster import --data-dir cohort-data --nats nats://a:4222,nats://b:4222,nats://c:4222
      moves what a single service has learned into a new cluster; export moves it back";

/// Find the connected components of points: MAXIMAL-CLUSTER, Algorithm 3 of the paper; or look at a cluster of machines
#[derive(Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Cluster {
    #[command(subcommand)]
    machines: Option<Machines>,
    #[command(flatten)]
    points: Option<Points>,
}

/// What can be asked of a service on several machines.
#[derive(Subcommand)]
enum Machines {
    /// Nodes, partitions, who owns which, how far each is behind, how large it is
    Status {
        #[command(flatten)]
        connection: Connection,
        /// Print JSON, and nothing else
        #[arg(long)]
        json: bool,
    },
    /// Let a node give up its partitions, so that it can be stopped without anybody waiting
    Drain {
        /// The node
        node: String,
        /// Let it own partitions again
        #[arg(long)]
        undo: bool,
        #[command(flatten)]
        connection: Connection,
    },
    /// Move the data folder of a single service, which is stopped, into a cluster that has nothing yet
    Import(Box<Moving>),
    /// Put a cluster whose nodes are stopped together in a data folder that does not exist, for a single service
    Export(Box<Moving>),
}

/// What is moved: the configuration says which folder (`--data-dir`) and which cluster (`--nats`, `--partitions`, …).
#[derive(Args)]
struct Moving {
    /// Configuration file in TOML
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    keys: Keys,
}

impl Moving {
    fn run(self, how: fn(&Config) -> Result<Moved, ServeError>, what: &str) -> Result<(), Failure> {
        let config = self.keys.load(self.config.as_deref())?;
        if config.nats.is_empty() {
            return Err(Failure::bad_input(
                "expected the cluster's servers: --nats nats://HOST:4222,…",
            ));
        }
        let Moved { apps, users, partitions, anew } =
            how(&config).map_err(|why| Failure::failed(why.to_string()))?;
        print(&format!("{what}. apps: {apps}, users: {users}, partitions: {partitions}\n"))?;
        for app in anew {
            print(&format!(
                "app {app}: its model begins anew, since what partitions learned of it cannot be put together; users, decisions that \
                 wait and counts are there\n"
            ))?;
        }
        Ok(())
    }
}

/// What MAXIMAL-CLUSTER needs.
#[derive(Args)]
struct Points {
    /// The points, (N, d) float64
    #[arg(long, value_name = "P.npy")]
    points: PathBuf,
    /// Points this close to each other are neighbours
    #[arg(long, value_name = "G", allow_hyphen_values = true)]
    gamma: f64,
    /// p*: clusters with fewer than this share of all points are merged into one
    #[arg(long, value_name = "P", default_value_t = 0.0, allow_hyphen_values = true)]
    min_share: f64,
    /// Write the cluster of every point as (N,) int64, numbered by smallest member
    #[arg(long, value_name = "L.npy")]
    labels: Option<PathBuf>,
    /// Print the result as JSON, and nothing else
    #[arg(long)]
    json: bool,
}

impl Cluster {
    /// Clusters points, or looks at machines.
    pub fn run(self) -> Result<Done, Failure> {
        match (self.machines, self.points) {
            (Some(machines), _) => machines.run(),
            (None, Some(points)) => points.run(),
            (None, None) => Err(Failure::bad_input(
                "expected --points and --gamma, or one of: status, drain, import, export",
            )),
        }
    }
}

impl Machines {
    fn run(self) -> Result<Done, Failure> {
        match self {
            Self::Status { connection, json } => {
                let status = connection.ask("GET", "/v1/cluster", None)?;
                print(&if json { format!("{status}\n") } else { told(&status) })?;
            }
            Self::Import(moving) => moving.run(import, "moved into the cluster")?,
            Self::Export(moving) => moving.run(export, "moved out of the cluster")?,
            Self::Drain { node, undo, connection } => {
                let body = json!({"node": node, "drain": !undo});
                connection.ask("POST", "/v1/cluster/drain", Some(body))?;
                print(&match undo {
                    false => format!(
                        "{node} gives up its partitions; `cohort cluster status` tells when it has\n"
                    ),
                    true => format!("{node} may own partitions again\n"),
                })?;
            }
        }
        Ok(Done::Complete)
    }
}

/// A status for people.
fn told(status: &Value) -> String {
    let text = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut said = format!(
        "partitions: {}, replicas of each: {}, control event: {}\n\n{:<20} {:<22} {:<8} {:>5}  {}\n",
        text(&status["partitions"]),
        text(&status["replicas"]),
        text(&status["control"]),
        "node",
        "address",
        "version",
        "owns",
        "state"
    );
    let list = |key: &str| status[key].as_array().cloned().unwrap_or_default();
    for node in list("nodes") {
        let state = match (node["lives"] == true, node["drains"] == true) {
            (false, _) => format!("silent for {} ms", text(&node["silent_ms"])),
            (true, true) => "drains".to_owned(),
            (true, false) => "lives".to_owned(),
        };
        said.push_str(&format!(
            "{:<20} {:<22} {:<8} {:>5}  {state}\n",
            text(&node["node"]),
            text(&node["address"]),
            text(&node["version"]),
            text(&node["owns"]),
        ));
    }
    said.push_str(&format!(
        "\n{:<10} {:<20} {:>6} {:>12} {:>6} {:>10} {:>14}\n",
        "partition", "owner", "epoch", "events", "lag", "users", "bytes"
    ));
    for partition in list("owners") {
        said.push_str(&format!(
            "{:<10} {:<20} {:>6} {:>12} {:>6} {:>10} {:>14}\n",
            text(&partition["partition"]),
            text(&partition["owner"]),
            text(&partition["epoch"]),
            text(&partition["events"]),
            text(&partition["lag"]),
            text(&partition["users"]),
            text(&partition["bytes"]),
        ));
    }
    said
}

impl Points {
    /// Reads, clusters, writes, prints.
    fn run(self) -> Result<Done, Failure> {
        self.labels.as_deref().map_or(Ok(()), results::check_place)?;
        let points = npy::read::<f64>(&self.points, &["points", "coordinates"])?;
        let started = Instant::now();
        let labels = maximal_cluster(&points.values, points.shape[1], self.gamma, self.min_share)?;
        let seconds = started.elapsed().as_secs_f64();

        let sizes = partition::sizes(&labels);
        if let Some(path) = &self.labels {
            let labels: Vec<i64> = labels.iter().map(|label| *label as i64).collect();
            results::write_whole(path, |file| npy::write(file, &[labels.len()], &labels))?;
        }
        let (points, clusters) = (labels.len(), sizes.len());
        print(&if self.json {
            let result =
                json!({"points": points, "clusters": clusters, "sizes": sizes, "seconds": seconds});
            format!("{result}\n")
        } else {
            format!("{points} points, {clusters} clusters, sizes {sizes:?}, {seconds:.3} s\n")
        })?;
        Ok(Done::Complete)
    }
}
