//! Connected components (MAXIMAL-CLUSTER) against other libraries, and on hard cases. Ours runs in
//! a process of its own, too, so that its memory can be measured.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use cohort_lab::npy;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};

use super::Effort;
use crate::machine::peak_bytes;
use crate::race::seconds;
use crate::world::unit_vectors;

/// The name of the section in the store.
pub const NAME: &str = "components";

/// d of all points.
const DIM: usize = 15;

/// The standard deviation of points around their centre, per coordinate.
const SPREAD: f64 = 0.02;

/// Connects most pairs of a cluster (62 %), as does any γ that connects a Gaussian cluster in R¹⁵.
const GAMMA: f64 = 0.1133;

/// One set of points.
#[derive(Serialize, Deserialize)]
pub struct Measured {
    /// The points.
    pub case: Case,
    /// Ours.
    pub ours: Run,
    /// The peers.
    pub peers: Vec<PeerRun>,
}

/// Points around centres.
#[derive(Clone, Serialize, Deserialize)]
pub struct Case {
    /// N.
    pub points: usize,
    /// The number of centres.
    pub centres: usize,
    /// γ.
    pub gamma: f64,
    /// The reason why it is measured, where it is a hard case.
    pub hard: Option<String>,
}

/// Ours, on one set.
#[derive(Serialize, Deserialize)]
pub struct Run {
    /// The best of the repeats, all threads.
    pub seconds: f64,
    /// The peak memory of the process, points included.
    pub peak_mib: f64,
    /// The number of components.
    pub clusters: usize,
}

/// A peer on one set: a line of `cluster.py`.
#[derive(Serialize, Deserialize)]
pub struct PeerRun {
    /// Its name.
    pub peer: String,
    /// The peak memory of its process.
    pub peak_mib: f64,
    /// Its time, if it finished.
    pub seconds: Option<f64>,
    /// Whether its labels equal ours.
    pub same_labels: Option<bool>,
    /// The reason why it did not finish.
    pub failed: Option<String>,
    /// Its time limit in seconds, if it was exceeded.
    pub gave_up_after: Option<f64>,
}

/// Measures all cases, those with peers first. Results are handed over one by one: a peer may take
/// hours.
pub fn measure(
    effort: &Effort,
    mut keep: impl FnMut(&[Measured]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let clustered = |points, centres| Case { points, centres, gamma: GAMMA, hard: None };
    let blob =
        |points, gamma, what: &str| Case { points, centres: 1, gamma, hard: Some(what.into()) };
    let (mut cases, mut sizes) = (Vec::new(), vec![10_000]);
    if !effort.quick {
        cases.extend([clustered(100_000, 100), clustered(100_000, 10)]);
        cases.extend([clustered(1_000_000, 1_000), clustered(1_000_000, 100)]);
        sizes.extend([30_000, 100_000, 300_000]);
    }
    cases.extend([clustered(10_000, 100), clustered(10_000, 10)]);
    for points in sizes {
        cases.push(blob(points, GAMMA, "one blob, most pairs joined"));
        cases.push(blob(points, 0.045, "one blob, few pairs joined"));
        cases.push(blob(points, 0.01, "one blob, no pair joined"));
    }
    let mut measured = Vec::new();
    for case in &cases {
        measured.push(measure_case(case, effort)?);
        keep(&measured)?;
    }
    Ok(())
}

fn measure_case(case: &Case, effort: &Effort) -> anyhow::Result<Measured> {
    let folder = std::env::temp_dir().join(format!("cohort-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let (points, labels) = (folder.join("points.npy"), folder.join("labels.npy"));
    npy::write(&mut BufWriter::new(File::create(&points)?), &[case.points, DIM], &draw(case))?;

    let mut ours = run_ours(&points, case.gamma, &labels)?;
    let peers =
        if case.hard.is_some() { Vec::new() } else { run_peers(&points, case, &labels, effort) };
    for _repeat in 1..effort.or(1, 3) {
        let again = run_ours(&points, case.gamma, &labels)?;
        ours = if again.seconds < ours.seconds { again } else { ours };
    }
    std::fs::remove_dir_all(&folder)?;
    eprintln!(
        "N={} centres={} gamma={}: {:.3} s",
        case.points, case.centres, case.gamma, ours.seconds
    );
    Ok(Measured { case: case.clone(), ours, peers })
}

/// Draws points, assigned to the centres round-robin.
fn draw(case: &Case) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(case.points as u64 + case.centres as u64);
    let centres = unit_vectors(case.centres, DIM, &mut rng);
    (0..case.points * DIM)
        .map(|at| {
            let (point, k) = (at / DIM, at % DIM);
            let noise: f64 = StandardNormal.sample(&mut rng);
            centres[point % case.centres * DIM + k] + SPREAD * noise
        })
        .collect()
}

fn run_ours(points: &Path, gamma: f64, labels: &Path) -> anyhow::Result<Run> {
    let output = Command::new(std::env::current_exe()?)
        .arg("components-child")
        .args([points.as_os_str(), gamma.to_string().as_ref(), labels.as_os_str()])
        .output()?;
    if !output.status.success() {
        bail!("components: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Reads points, writes labels, prints time and memory.
pub fn child(points: &Path, gamma: f64, labels: &Path) -> anyhow::Result<()> {
    let points = npy::read::<f64>(points, &["points", "coordinates"])?;
    let mut found = Vec::new();
    let seconds =
        seconds(|| found = cohort::cluster::components(&points.values, points.shape[1], gamma));
    let clusters = found.iter().max().map_or(0, |most| most + 1);
    let peak = peak_bytes().context("this system does not tell the memory of a process")?;
    let numbers: Vec<i64> = found.iter().map(|label| *label as i64).collect();
    npy::write(&mut BufWriter::new(File::create(labels)?), &[numbers.len()], &numbers)?;
    let run = Run { seconds, peak_mib: peak / 1024.0 / 1024.0, clusters };
    println!("{}", serde_json::to_string(&run)?);
    Ok(())
}

fn run_peers(points: &Path, case: &Case, labels: &Path, effort: &Effort) -> Vec<PeerRun> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/cluster.py");
    ["dbscan", "sklearn", "scipy", "linfa"]
        .into_iter()
        .map(|peer| {
            eprintln!("{peer} on N={} centres={}", case.points, case.centres);
            let output = Command::new(&effort.python)
                .arg(&script)
                .args([points.as_os_str(), case.gamma.to_string().as_ref()])
                .args(["--peers", peer, "--labels"])
                .arg(labels)
                .args(["--time-limit", &effort.time_limit_s.to_string()])
                .args(["--repeat", effort.or("1", if case.points >= 100_000 { "1" } else { "2" })])
                .output();
            let failed = |why: String| PeerRun {
                peer: peer.to_owned(),
                peak_mib: 0.0,
                seconds: None,
                same_labels: None,
                failed: Some(why),
                gave_up_after: None,
            };
            match output {
                Err(why) => failed(format!("{}: {why}", effort.python.display())),
                Ok(output) => {
                    let said = String::from_utf8_lossy(&output.stdout);
                    let complaint = String::from_utf8_lossy(&output.stderr);
                    serde_json::from_str(said.lines().last().unwrap_or_default()).unwrap_or_else(
                        |_| failed(complaint.lines().last().unwrap_or("no answer").to_owned()),
                    )
                }
            }
        })
        .collect()
}
