//! How the cost of MAXIMAL-CLUSTER's components grows with the number of users.
//!
//! `cargo run --release -p cohort --example cluster_scale` prints a table: data sets made from a
//! seed, from the useful case (clusters well apart) to the hard ones, each at N = 10⁴ and 10⁵;
//! `-- up_to=1000000` goes on to 10⁶.
//!
//! One data set alone, and its points and labels as .npy files for other programs:
//! `… -- users=100000 clusters=100 gamma=0.115 [dim=15] [noise=0.02] [seed=1] [points=P.npy]
//! [labels=L.npy]`.
//!
//! `seconds` is the best of up to five runs, `cpu` the least processor time of one, which a busy
//! machine disturbs less; `MiB` is the peak memory of the process, the points included.

use cohort::cluster::{components, partition};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use std::{collections::HashMap, error::Error, fs, io::Write, str::FromStr, time::Instant};

/// Users around cluster centres on the unit sphere.
#[derive(Clone, Copy)]
struct Scene {
    users: usize,
    dim: usize,
    clusters: usize,
    /// Standard deviation of every coordinate around the centre.
    noise: f64,
    gamma: f64,
    seed: u64,
}

const SCENE: Scene =
    Scene { users: 100_000, dim: 15, clusters: 100, noise: 0.02, gamma: 0.115, seed: 1 };

/// From the useful case to the hard ones.
const SCENES: [(&str, Scene); 12] = [
    ("10 clusters", Scene { clusters: 10, ..SCENE }),
    ("100 clusters", SCENE),
    ("1,000 clusters", Scene { clusters: 1000, ..SCENE }),
    ("100 clusters, some users in none", Scene { gamma: 0.08, ..SCENE }),
    ("one blob, all joined", Scene { clusters: 1, ..SCENE }),
    ("one blob, a few outliers", Scene { clusters: 1, gamma: 0.07, ..SCENE }),
    ("one blob, some outliers", Scene { clusters: 1, gamma: 0.055, ..SCENE }),
    ("one blob, half joined", Scene { clusters: 1, gamma: 0.04, ..SCENE }),
    ("one blob, hardly an edge", Scene { clusters: 1, gamma: 0.02, ..SCENE }),
    ("one blob, no edge", Scene { clusters: 1, gamma: 1e-4, ..SCENE }),
    ("100 places, gamma 0", Scene { noise: 0.0, gamma: 0.0, ..SCENE }),
    ("a blob in the plane", Scene { dim: 2, clusters: 1, gamma: 1e-4, ..SCENE }),
];

fn main() -> Result<(), Box<dyn Error>> {
    let args: HashMap<String, String> = std::env::args()
        .skip(1)
        .map(|arg| arg.split_once('=').map(|(key, value)| (key.into(), value.into())).ok_or(arg))
        .collect::<Result<_, _>>()
        .map_err(|arg| format!("`{arg}`: expected name=value"))?;
    println!("| scene | users | dim | gamma | components | largest | seconds | cpu | MiB |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    if args.contains_key("users") {
        let scene = Scene {
            users: value(&args, "users", SCENE.users)?,
            dim: value(&args, "dim", SCENE.dim)?,
            clusters: value(&args, "clusters", SCENE.clusters)?,
            noise: value(&args, "noise", SCENE.noise)?,
            gamma: value(&args, "gamma", SCENE.gamma)?,
            seed: value(&args, "seed", SCENE.seed)?,
        };
        return scene.measure("given", args.get("points"), args.get("labels"));
    }
    for (name, scene) in SCENES {
        let up_to = value(&args, "up_to", 100_000)?;
        for users in [10_000, 100_000, 1_000_000].into_iter().filter(|users| *users <= up_to) {
            Scene { users, ..scene }.measure(name, None, None)?;
        }
    }
    Ok(())
}

fn value<T: FromStr>(args: &HashMap<String, String>, name: &str, default: T) -> Result<T, String> {
    let Some(text) = args.get(name) else { return Ok(default) };
    text.parse().map_err(|_| format!("{name}={text}: expected a number"))
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

    /// Prints a row of the table; writes points and labels where asked to.
    fn measure(
        &self,
        name: &str,
        points_path: Option<&String>,
        labels_path: Option<&String>,
    ) -> Result<(), Box<dyn Error>> {
        let points = self.points();
        fs::write("/proc/self/clear_refs", "5")?; // forgets the peak so far
        let mut labels = vec![];
        let (mut seconds, mut cpu) = (f64::INFINITY, f64::INFINITY);
        let begin = Instant::now();
        for _ in 0..5 {
            let (start, cpu_before) = (Instant::now(), cpu_seconds()?);
            labels = components(&points, self.dim, self.gamma);
            seconds = seconds.min(start.elapsed().as_secs_f64());
            cpu = cpu.min(cpu_seconds()? - cpu_before);
            if begin.elapsed().as_secs_f64() > 5.0 {
                break;
            }
        }
        let Scene { users, dim, gamma, .. } = self;
        let sizes = partition::sizes(&labels);
        let (components, largest) = (sizes.len(), sizes.iter().max().unwrap_or(&0));
        let mib = peak_mib()?;
        println!(
            "| {name} | {users} | {dim} | {gamma} | {components} | {largest} | {seconds:.3} | {cpu:.2} | {mib} |"
        );
        if let Some(path) = points_path {
            let shape = format!("({users}, {dim})");
            write_npy(path, "<f8", &shape, points.iter().map(|v| v.to_le_bytes()))?;
        }
        if let Some(path) = labels_path {
            let labels = labels.iter().map(|label| (*label as i64).to_le_bytes());
            write_npy(path, "<i8", &format!("({users},)"), labels)?;
        }
        Ok(())
    }
}

/// The processor time this process has used.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let after_name: Vec<&str> =
        stat[stat.rfind(')').ok_or("no name in stat")?..].split_whitespace().collect();
    // Ticks of 10 ms in user and in system mode.
    Ok((after_name[12].parse::<f64>()? + after_name[13].parse::<f64>()?) / 100.0)
}

/// The peak memory of this process.
fn peak_mib() -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM")).ok_or("no VmHWM")?;
    Ok(line.split_whitespace().nth(1).ok_or("no number in VmHWM")?.parse::<u64>()? / 1024)
}

/// Version 1.0 of NumPy's format: a magic string, the length of the header, the header, the numbers.
fn write_npy(
    path: &str,
    kind: &str,
    shape: &str,
    values: impl Iterator<Item = [u8; 8]>,
) -> Result<(), Box<dyn Error>> {
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    header.push_str(&" ".repeat(64 - (10 + header.len() + 1) % 64));
    header.push('\n');
    let mut file = std::io::BufWriter::new(fs::File::create(path)?);
    file.write_all(b"\x93NUMPY\x01\x00")?;
    file.write_all(&u16::try_from(header.len())?.to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    for value in values {
        file.write_all(&value)?;
    }
    Ok(file.flush()?)
}
