//! `table`: contexts, users and noise from files. Nothing is random, so that two implementations
//! can be compared arm by arm.
//!
//! X is (T, K, d), TH (N, d), E (T, N): user i's reward for arm j in round t is
//! `X[t,j]·TH[i] + E[t,i]`.

use std::collections::HashMap;
use std::hash::Hash;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cohort::params::{Kind, NOT_NEGATIVE, Param, Settings};

use super::parts::linear::{LinearWorld, Rounds, Users};
use crate::Error;
use crate::environment::{Environment, EnvironmentInfo, Size, World};
use crate::npy::{self, Array, Number};
use crate::seed::Seed;

/// Static metadata of the environment: name, summary, parameters.
pub(super) const INFO: EnvironmentInfo = EnvironmentInfo {
    name: "table",
    summary: "contexts, users and noise from .npy files, nothing random",
    params: &[TABLE_OPTIONS],
    build,
};

const COUNT: Kind = Kind::Count(1);
const OF_TABLE: &str = "that of the tables";

const TABLE_OPTIONS: &[Param] = &[
    Param::text("contexts", "a file", "none, it is needed", "X.npy: contexts, (T, K, d) float64"),
    Param::text("thetas", "a file", "none, it is needed", "TH.npy: users' vectors, (N, d) float64"),
    Param::text("noise_table", "a file", "none, it is needed", "E.npy: noise, (T, N) float64"),
    Param::text(
        "clusters_table",
        "a file",
        "users with equal vectors are a cluster",
        "C.npy: true clusters, (N,) int64",
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
    let contexts = read_table(settings, "contexts", &["rounds", "arms", "dim"])?;
    let thetas = read_table(settings, "thetas", &["users", "dim"])?;
    let noise = read_table(settings, "noise_table", &["rounds", "users"])?;
    let clusters = settings.text("clusters_table").map(|path| {
        let path = PathBuf::from(path);
        Ok::<_, Error>((npy::read(&path, &["users"])?, path))
    });
    assemble(settings, contexts, thetas, noise, clusters.transpose()?)
}

/// The environment `table` from arrays in memory; of `settings` only `noise` and the sizes are
/// used.
pub fn table(
    settings: &Settings,
    contexts: Array<f64>,
    thetas: Array<f64>,
    noise: Array<f64>,
    clusters: Option<Array<i64>>,
) -> Result<Box<dyn Environment>, Error> {
    assemble(
        settings,
        named(contexts, "contexts", &["rounds", "arms", "dim"])?,
        named(thetas, "thetas", &["users", "dim"])?,
        named(noise, "noise_table", &["rounds", "users"])?,
        clusters.map(|clusters| named(clusters, "clusters_table", &["users"])).transpose()?,
    )
}

fn named<T: Number>(array: Array<T>, name: &str, axes: &[&str]) -> Result<Named<T>, Error> {
    let path = PathBuf::from(name);
    match array.check(axes) {
        Ok(()) => Ok((array, path)),
        Err(error) => Err(error.at(&path)),
    }
}

/// A table and its file.
type Named<T> = (Array<T>, PathBuf);

fn assemble(
    settings: &Settings,
    (contexts, contexts_path): Named<f64>,
    (thetas, thetas_path): Named<f64>,
    (noise, noise_path): Named<f64>,
    clusters: Option<Named<i64>>,
) -> Result<Box<dyn Environment>, Error> {
    let [rounds, arms, dim] = contexts.shape[..] else { unreachable!("three axes were read") };
    let users = thetas.shape[0];
    same_length(&thetas_path, "dim", thetas.shape[1], &contexts_path, dim)?;
    same_length(&noise_path, "rounds", noise.shape[0], &contexts_path, rounds)?;
    same_length(&noise_path, "users", noise.shape[1], &thetas_path, users)?;
    for (name, length) in [("users", users), ("dim", dim), ("arms", arms)] {
        if let Some(given) = settings.optional(name).filter(|given| *given != length as f64) {
            let expected = format!("{length}, {OF_TABLE}");
            return Err(Error::unexpected(name, given.to_string(), expected));
        }
    }

    let clusters = match clusters {
        Some((table, path)) => {
            same_length(&path, "users", table.shape[0], &thetas_path, users)?;
            number_by_first(table.values)
        }
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

fn read_table(
    settings: &Settings,
    name: &'static str,
    axes: &[&str],
) -> Result<(Array<f64>, PathBuf), Error> {
    let Some(path) = settings.text(name).map(PathBuf::from) else {
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

/// Users with equal vectors form a cluster.
fn equal_rows(thetas: &[f64], dim: usize) -> Vec<usize> {
    // + 0.0 turns −0 into 0.
    let bits = |row: &[f64]| row.iter().map(|v| (v + 0.0).to_bits()).collect::<Vec<_>>();
    number_by_first(thetas.chunks_exact(dim).map(bits))
}

/// Numbers values 0, 1, … by first appearance.
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
        let (thetas, clusters) = (self.thetas.clone(), self.clusters.clone());
        let users = Users { thetas, clusters, ..Users::default() };
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

#[cfg(test)]
mod tests {
    use super::*;
    use cohort::params::Value;
    use std::fs::File;

    /// Two rounds, two arms, R², three users of whom two are the same.
    struct Files {
        folder: tempfile::TempDir,
    }

    impl Files {
        fn new() -> Self {
            let files = Self { folder: tempfile::tempdir().unwrap() };
            files.write("x.npy", &[2, 2, 2], &[1.0, 0.0, 0.0, 1.0, 0.5, 0.5, -1.0, 2.0]);
            files.write("th.npy", &[3, 2], &[1.0, 2.0, 3.0, 4.0, 1.0, 2.0]);
            files.write("e.npy", &[2, 3], &[0.1, -0.1, 0.1, 0.3, 0.3, -0.3]);
            files
        }

        fn write<T: npy::Number>(&self, name: &str, shape: &[usize], values: &[T]) {
            let mut file = File::create(self.folder.path().join(name)).unwrap();
            npy::write(&mut file, shape, values).unwrap();
        }

        fn build(&self, more: &[(&str, Value)]) -> Result<Box<dyn Environment>, Error> {
            let file =
                |name: &str| Value::Text(self.folder.path().join(name).display().to_string());
            let mut options = vec![
                ("contexts", file("x.npy")),
                ("thetas", file("th.npy")),
                ("noise_table", file("e.npy")),
            ];
            options.extend(more.iter().cloned().map(|(name, value)| match value {
                Value::Text(path) => (name, file(path.as_str())),
                number => (name, number),
            }));
            let options = options.into_iter().map(|(name, value)| (name.to_owned(), value));
            build(&INFO.check(options).unwrap())
        }

        fn refusal(&self, more: &[(&str, Value)]) -> String {
            match self.build(more) {
                Ok(_) => panic!("nothing was refused"),
                Err(error) => error.to_string(),
            }
        }
    }

    const SEED: Seed = Seed { seed: 0, repetition: 0 };

    #[test]
    fn rewards_are_those_of_the_contract() {
        let environment = Files::new().build(&[]).unwrap();
        assert_eq!(environment.size(), Size { users: 3, dim: 2, arms: 2, rounds: Some(2) });
        let mut world = environment.world(SEED).unwrap();
        world.start_round(1);
        // X[1,1]·TH[1] + E[1,1] = −3 + 8 + 0.3, and X[1,0]·TH[1] = 3.5 is 1.5 less.
        assert_eq!(world.play(1, 1).reward, 5.0 + 0.3);
        assert_eq!(world.play(1, 1).regret, 0.0);
        assert_eq!(world.play(1, 0).regret, 1.5);
    }

    #[test]
    fn what_is_not_told_follows_from_the_tables() {
        let files = Files::new();
        let world = files.build(&[]).unwrap().world(SEED).unwrap();
        assert!((world.sigma() - 0.05f64.sqrt()).abs() < 1e-12, "root mean square of the noise");
        assert_eq!(world.truth().unwrap().clusters, [0, 1, 0], "equal rows");

        files.write("c.npy", &[3], &[7i64, 7, -2]);
        let told = [("clusters_table", Value::from("c.npy")), ("noise", Value::Real(0.5))];
        let world = files.build(&told).unwrap().world(SEED).unwrap();
        assert_eq!((world.sigma(), world.truth().unwrap().clusters), (0.5, &[0, 0, 1][..]));
    }

    #[test]
    fn tables_that_do_not_fit_each_other_are_refused_by_name() {
        let files = Files::new();
        assert!(
            files.refusal(&[("users", Value::Real(4.0))]).contains("users: found 4, expected 3")
        );
        files.write("th.npy", &[2, 3], &[0.0; 6]);
        let refusal = files.refusal(&[]);
        assert!(refusal.contains("th.npy: dim: found 3, expected 2 as in"), "{refusal}");
        files.write("th.npy", &[2, 2], &[0.0; 4]);
        let refusal = files.refusal(&[]);
        assert!(refusal.contains("e.npy: users: found 3, expected 2 as in"), "{refusal}");
        files.write("e.npy", &[1, 2], &[0.0; 2]);
        assert!(files.refusal(&[]).contains("e.npy: rounds: found 1, expected 2 as in"));
        files.write("e.npy", &[2, 2], &[0.0; 4]);
        files.write("c.npy", &[3], &[0i64; 3]);
        let refusal = files.refusal(&[("clusters_table", Value::from("c.npy"))]);
        assert!(refusal.contains("c.npy: users: found 3, expected 2"), "{refusal}");
    }
}
