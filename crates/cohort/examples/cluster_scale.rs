//! How the cost of MAXIMAL-CLUSTER's components grows.
//!
//! `cargo run --release -p cohort --example cluster_scale` prints a table: data sets by seed, from
//! the useful case (well-separated clusters) to the hard ones, each at growing N.
//!
//! One data set, and its points as a .npy file for other programs:
//! `… -- clusters=100 users=100000 gamma=0.115 [dim=15] [noise=0.02] [seed=1] [write=points.npy]`.

use cohort::cluster::{components, partition};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use std::{collections::HashMap, error::Error, fs, io::Write, time::Instant};

/// Points around `clusters` centres on the unit sphere.
struct Scene {
    users: usize,
    dim: usize,
    clusters: usize,
    noise: f64,
    gamma: f64,
    seed: u64,
}

impl Scene {
    fn points(&self) -> Vec<f64> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let mut normal = |scale: f64| scale * rng.sample::<f64, _>(StandardNormal);
        let mut centres: Vec<f64> = (0..self.clusters * self.dim).map(|_| normal(1.0)).collect();
        for centre in centres.chunks_exact_mut(self.dim) {
            let norm = centre.iter().map(|v| v * v).sum::<f64>().sqrt();
            centre.iter_mut().for_each(|v| *v /= norm);
        }
        let mut points = Vec::with_capacity(self.users * self.dim);
        for user in 0..self.users {
            let centre = &centres[user % self.clusters * self.dim..][..self.dim];
            points.extend(centre.iter().map(|v| v + normal(self.noise)));
        }
        points
    }

    fn measure(&self, label: &str, write: Option<&String>) -> Result<(), Box<dyn Error>> {
        let points = self.points();
        if let Some(path) = write {
            write_npy(path, &points, self.dim)?;
        }
        fs::write("/proc/self/clear_refs", "5")?;
        let mut best = f64::INFINITY;
        let mut labels = vec![];
        let begin = Instant::now();
        let mut cpu = f64::INFINITY;
        for _ in 0..5 {
            let (start, cpu_start) = (Instant::now(), cpu_seconds()?);
            labels = components(&points, self.dim, self.gamma);
            best = best.min(start.elapsed().as_secs_f64());
            cpu = cpu.min(cpu_seconds()? - cpu_start);
            if begin.elapsed().as_secs_f64() > 5.0 {
                break;
            }
        }
        let sizes = partition::sizes(&labels);
        println!(
            "| {label} | {} | {} | {} | {} | {} | {} | {best:.3} | {cpu:.2} | {} |",
            self.users,
            self.dim,
            self.clusters,
            self.gamma,
            sizes.len(),
            sizes.iter().max().unwrap_or(&0),
            peak_mib()?,
        );
        Ok(())
    }
}

/// The processor time this process has used, in seconds.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat[stat.rfind(')').ok_or("no name")?..].split_whitespace().collect();
    Ok((fields[12].parse::<f64>()? + fields[13].parse::<f64>()?) / 100.0)
}

/// The most memory that this process has had, in MiB.
fn peak_mib() -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM")).ok_or("no VmHWM")?;
    Ok(line.split_whitespace().nth(1).ok_or("no number")?.parse::<u64>()? / 1024)
}

/// Format 1.0 of NumPy: a magic string, the length of the header, the header, the numbers.
fn write_npy(path: &str, values: &[f64], dim: usize) -> Result<(), Box<dyn Error>> {
    let shape = format!("({}, {dim})", values.len() / dim);
    let mut header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
    header.push_str(&" ".repeat(64 - (10 + header.len() + 1) % 64));
    header.push('\n');
    let mut file = std::io::BufWriter::new(fs::File::create(path)?);
    file.write_all(b"\x93NUMPY\x01\x00")?;
    file.write_all(&u16::try_from(header.len())?.to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    for value in values {
        file.write_all(&value.to_le_bytes())?;
    }
    Ok(file.flush()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: HashMap<String, String> = std::env::args()
        .skip(1)
        .map(|arg| arg.split_once('=').map(|(k, v)| (k.into(), v.into())).ok_or(arg))
        .collect::<Result<_, _>>()
        .map_err(|arg| format!("`{arg}`: expected name=value"))?;
    let number =
        |name: &str, default: f64| args.get(name).map_or(Ok(default), |value| value.parse::<f64>());
    println!(
        "| case | users | dim | clusters | gamma | components | largest | seconds | cpu | MiB |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let scene = Scene {
        users: number("users", 1e5)? as usize,
        dim: number("dim", 15.0)? as usize,
        clusters: number("clusters", 100.0)? as usize,
        noise: number("noise", 0.02)?,
        gamma: number("gamma", 0.115)?,
        seed: number("seed", 1.0)? as u64,
    };
    scene.measure("given", args.get("write"))
}
