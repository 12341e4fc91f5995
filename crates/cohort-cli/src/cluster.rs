//! `cohort cluster`: MAXIMAL-CLUSTER on points from a file.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use cohort::cluster::{maximal_cluster, partition};
use cohort_lab::{npy, results};
use serde_json::json;

use crate::failure::{Done, Failure, print};

const EXAMPLES: &str = "\
Examples:
  cohort cluster --points P.npy --gamma 0.3
      how many clusters there are at distance 0.3, and their sizes
  cohort cluster --points P.npy --gamma 0.3 --min-share 0.01 --labels L.npy
      clusters with fewer than 1 % of all points are merged; writes the cluster of every point";

/// Find the connected components of points: MAXIMAL-CLUSTER, Algorithm 3 of the paper
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Cluster {
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
    /// Reads, clusters, writes, prints.
    pub fn run(self) -> Result<Done, Failure> {
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
