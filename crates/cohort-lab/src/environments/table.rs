//! `table`: contexts, users and noise from files. Nothing random is left, so that two
//! implementations can be compared arm by arm.
//!
//! X is (T, K, d), TH (N, d), E (T, N): user i's reward for arm j in round t is
//! `X[t,j]·TH[i] + E[t,i]`.

use std::collections::HashMap;
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cohort::params::{Kind, NOT_NEGATIVE, Param, Settings, Value};

use super::parts::linear::{LinearWorld, Rounds, Users};
use crate::Error;
use crate::environment::{Environment, EnvironmentInfo, Size, World};
use crate::npy::{self, Array};
use crate::seed::Seed;

/// What is known of it before it is made.
pub(super) const INFO: EnvironmentInfo = EnvironmentInfo {
    name: "table",
    summary: "contexts, users and noise from .npy files, nothing random",
    params: &[TABLE_OPTIONS],
    build,
};

const COUNT: Kind = Kind::Count(1);
const OF_TABLE: &str = "that of the tables";

const TABLE_OPTIONS: &[Param] = &[
    Param::text("contexts", "a file", "it must be given", "X.npy, (T, K, d) float64"),
    Param::text("thetas", "a file", "it must be given", "TH.npy, (N, d) float64: users' vectors"),
    Param::text("noise_table", "a file", "it must be given", "E.npy, (T, N) float64"),
    Param::text(
        "clusters_table",
        "a file",
        "users with equal vectors are a cluster",
        "C.npy, (N,) int64: the true clusters, for `oracle`",
    ),
    Param::derived(
        "noise",
        NOT_NEGATIVE,
        "the root mean square of the noise table",
        "σ, the noise scale that policies are told",
    ),
    Param::derived("users", COUNT, OF_TABLE, "N, checked against the tables"),
    Param::derived("dim", COUNT, OF_TABLE, "d, checked against the tables"),
    Param::derived("arms", COUNT, OF_TABLE, "K, checked against the tables"),
];

struct Table {
    size: Size,
    thetas: Vec<f64>,
    clusters: Vec<usize>,
    sigma: f64,
    rounds: Arc<Tables>,
}

struct Tables {
    contexts: Array<f64>,
    noise: Array<f64>,
}

fn build(settings: &Settings) -> Result<Box<dyn Environment>, Error> {
    let (contexts, contexts_path) = read_table(settings, "contexts", &["rounds", "arms", "dim"])?;
    let (thetas, thetas_path) = read_table(settings, "thetas", &["users", "dim"])?;
    let (noise, noise_path) = read_table(settings, "noise_table", &["rounds", "users"])?;
    let [rounds, arms, dim] = contexts.shape[..] else { unreachable!("three axes were read") };
    let users = thetas.shape[0];
    same_length(&thetas_path, "dim", thetas.shape[1], &contexts_path, dim)?;
    same_length(&noise_path, "rounds", noise.shape[0], &contexts_path, rounds)?;
    same_length(&noise_path, "users", noise.shape[1], &thetas_path, users)?;
    for (name, length) in [("users", users), ("dim", dim), ("arms", arms)] {
        if settings.given(name).is_some_and(|given| *given != Value::Real(length as f64)) {
            let given = settings.derived(name, || f64::NAN).to_string();
            return Err(Error::unexpected(name, given, format!("{length}, {OF_TABLE}")));
        }
    }

    let clusters = match path(settings, "clusters_table") {
        Some(path) => read_clusters(&path, users, &thetas_path)?,
        None => equal_rows(&thetas.values, dim),
    };
    let sigma = settings.derived("noise", || {
        let squares: f64 = noise.values.iter().map(|noise| noise * noise).sum();
        (squares / noise.values.len() as f64).sqrt()
    });
    Ok(Box::new(Table {
        size: Size { users, dim, arms, rounds: Some(rounds) },
        thetas: thetas.values,
        clusters,
        sigma,
        rounds: Arc::new(Tables { contexts, noise }),
    }))
}

fn path(settings: &Settings, name: &str) -> Option<PathBuf> {
    match settings.given(name) {
        Some(Value::Text(path)) => Some(PathBuf::from(path)),
        _ => None,
    }
}

fn read_table(
    settings: &Settings,
    name: &'static str,
    axes: &[&str],
) -> Result<(Array<f64>, PathBuf), Error> {
    let Some(path) = path(settings, name) else {
        let what = format!("environment `table`: {name}");
        return Err(Error::unexpected(what, "nothing", "the name of a .npy file"));
    };
    Ok((npy::read(&path, axes)?, path))
}

fn same_length(
    path: &Path,
    axis: &str,
    found: usize,
    other_path: &Path,
    expected: usize,
) -> Result<(), Error> {
    if found == expected {
        return Ok(());
    }
    let expected = format!("{expected} as in {}", other_path.display());
    Err(Error::unexpected(axis, found.to_string(), expected).at(path))
}

fn read_clusters(path: &Path, users: usize, thetas_path: &Path) -> Result<Vec<usize>, Error> {
    let table = npy::read::<i64>(path, &["users"])?;
    same_length(path, "users", table.shape[0], thetas_path, users)?;
    Ok(number_by_first(table.values))
}

/// Users with equal vectors are a cluster.
fn equal_rows(thetas: &[f64], dim: usize) -> Vec<usize> {
    // + 0.0 makes −0 and 0 the same number to the last bit.
    let bits = |row: &[f64]| row.iter().map(|v| (v + 0.0).to_bits()).collect::<Vec<_>>();
    number_by_first(thetas.chunks_exact(dim).map(bits))
}

/// Numbers things 0, 1, … as they appear.
fn number_by_first<T: Eq + Hash>(things: impl IntoIterator<Item = T>) -> Vec<usize> {
    let mut numbers = HashMap::new();
    let number = |thing| {
        let next = numbers.len();
        *numbers.entry(thing).or_insert(next)
    };
    things.into_iter().map(number).collect()
}

impl Environment for Table {
    fn size(&self) -> Size {
        self.size
    }

    fn world(&self, _seed: Seed) -> Result<Box<dyn World>, Error> {
        let users = Users { thetas: self.thetas.clone(), clusters: self.clusters.clone() };
        let rounds = Arc::clone(&self.rounds);
        Ok(Box::new(LinearWorld::new(users, self.size.dim, self.sigma, rounds)))
    }
}

impl Rounds for Arc<Tables> {
    fn draw(&self, round: usize, contexts: &mut Vec<f64>, noise: &mut [f64]) {
        let row = |array: &Array<f64>| {
            let length = array.values.len() / array.shape[0];
            round * length..(round + 1) * length
        };
        contexts.clear();
        contexts.extend_from_slice(&self.contexts.values[row(&self.contexts)]);
        noise.copy_from_slice(&self.noise.values[row(&self.noise)]);
    }
}
