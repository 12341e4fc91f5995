//! `--env table`: the arms that are played, against a plain implementation.

use std::path::{Path, PathBuf};

use crate::command::{cohort, json, regrets};
use crate::npy;

const ROUNDS: usize = 80;
const ARMS: usize = 7;
const DIM: usize = 3;
const USERS: usize = 5;
const NOISE: f64 = 0.2;

/// Pseudo-random numbers in [−1, 1], the same everywhere.
fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let next = |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count).map(next).collect()
}

struct Tables {
    contexts: Vec<f64>,
    thetas: Vec<f64>,
    noise: Vec<f64>,
    folder: tempfile::TempDir,
}

impl Tables {
    fn new() -> Self {
        let noise = numbers(ROUNDS * USERS, 3).iter().map(|value| NOISE * value).collect();
        let tables = Self {
            contexts: numbers(ROUNDS * ARMS * DIM, 1),
            thetas: numbers(USERS * DIM, 2),
            noise,
            folder: tempfile::tempdir().unwrap(),
        };
        let path = tables.folder.path();
        npy::write(path, "X.npy", &format!("({ROUNDS}, {ARMS}, {DIM})"), &tables.contexts);
        npy::write(path, "TH.npy", &format!("({USERS}, {DIM})"), &tables.thetas);
        npy::write(path, "E.npy", &format!("({ROUNDS}, {USERS})"), &tables.noise);
        tables
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn context(&self, round: usize, arm: usize) -> &[f64] {
        &self.contexts[(round * ARMS + arm) * DIM..][..DIM]
    }

    fn value(&self, round: usize, arm: usize, user: usize) -> f64 {
        dot(self.context(round, arm), &self.thetas[user * DIM..][..DIM])
    }

    fn call(&self, more: &[&str]) -> serde_json::Value {
        let [x, th, e] = ["X.npy", "TH.npy", "E.npy"].map(|name| self.path(name));
        let [x, th, e] = [&x, &th, &e].map(|path| path.to_str().unwrap());
        let files = ["--contexts", x, "--thetas", th, "--noise-table", e];
        json(&[&["simulate", "--env", "table", "--reps", "1"][..], &files, more].concat())
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Solves `a·x = b` by elimination; returns ln det a, too.
fn solve(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> (Vec<f64>, f64) {
    let n = b.len();
    let mut log_det = 0.0;
    for k in 0..n {
        log_det += a[k][k].ln();
        for i in k + 1..n {
            let factor = a[i][k] / a[k][k];
            for j in k..n {
                a[i][j] -= factor * a[k][j];
            }
            b[i] -= factor * b[k];
        }
    }
    for k in (0..n).rev() {
        b[k] = (b[k] - (k + 1..n).map(|j| a[k][j] * b[j]).sum::<f64>()) / a[k][k];
    }
    (b, log_det)
}

/// The scores of all arms for one user before a round, by the definition of OFUL alone.
fn scores(tables: &Tables, user: usize, round: usize, played: &[i64], width: f64) -> Vec<f64> {
    let sigma =
        (tables.noise.iter().map(|e| e * e).sum::<f64>() / tables.noise.len() as f64).sqrt();
    let mut v = vec![vec![0.0; DIM]; DIM];
    (0..DIM).for_each(|k| v[k][k] = 1.0);
    let mut b = vec![0.0; DIM];
    for before in 0..round {
        let arm = played[before * USERS + user] as usize;
        let x = tables.context(before, arm);
        let y = tables.value(before, arm, user) + tables.noise[before * USERS + user];
        for i in 0..DIM {
            b[i] += x[i] * y;
            (0..DIM).for_each(|j| v[i][j] += x[i] * x[j]);
        }
    }
    let (estimate, log_det) = solve(v.clone(), b);
    let radius = width * (sigma * (2.0 * (1.0f64 / 0.4).ln() + log_det).sqrt() + 1.0);
    let score = |arm| {
        let x = tables.context(round, arm);
        let (solved, _) = solve(v.clone(), x.to_vec());
        dot(x, &estimate) + radius * dot(x, &solved).sqrt()
    };
    (0..ARMS).map(score).collect()
}

/// Every arm played is the first of the best, or within 1e-9 of it.
fn assert_plays_best(tables: &Tables, arms_file: &Path, width: f64) {
    let played = npy::read_whole_numbers(arms_file, &format!("({ROUNDS}, {USERS})"));
    for (round, user) in (0..ROUNDS).flat_map(|round| (0..USERS).map(move |user| (round, user))) {
        let scores = scores(tables, user, round, &played, width);
        let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let arm = played[round * USERS + user] as usize;
        assert!(scores[arm] > best - 1e-9, "round {round}, user {user}: arm {arm} of {scores:?}");
    }
}

#[test]
fn linucb_plays_the_arms_of_the_plain_algorithm() {
    let tables = Tables::new();
    let arms = tables.path("A.npy");
    for width in ["1", "0.1"] {
        let set = format!("linucb-ind.exploration={width}");
        let out = arms.to_str().unwrap();
        let summary = tables.call(&["--policy", "linucb-ind", "--set", &set, "--arms-out", out]);
        assert_plays_best(&tables, &arms, width.parse().unwrap());

        // The reported regret is that of the arms, by the tables.
        let played = npy::read_whole_numbers(&arms, &format!("({ROUNDS}, {USERS})"));
        let lost = |round: usize, user: usize| {
            let values = (0..ARMS).map(|arm| tables.value(round, arm, user));
            let arm = played[round * USERS + user] as usize;
            values.fold(f64::NEG_INFINITY, f64::max) - tables.value(round, arm, user)
        };
        let total: f64 = (0..ROUNDS * USERS).map(|at| lost(at / USERS, at % USERS)).sum();
        assert!((regrets(&summary, 0)[0] - total / USERS as f64).abs() < 1e-9);
    }
}

#[test]
fn the_summary_knows_the_sizes_and_a_run_may_be_shorter_than_the_tables() {
    let tables = Tables::new();
    let summary = tables.call(&["--policy", "random", "--rounds", "10"]);
    assert_eq!((&summary["rounds"], &summary["users"]), (&10.into(), &USERS.into()));
    assert_eq!((&summary["env"]["arms"], &summary["env"]["dim"]), (&ARMS.into(), &DIM.into()));
}

#[test]
fn true_clusters_can_be_told() {
    let tables = Tables::new();
    let labels: Vec<[u8; 8]> = [4i64, 4, 4, 9, 9].map(i64::to_le_bytes).to_vec();
    let path = tables.path("C.npy");
    std::fs::write(&path, npy::bytes("<i8", "(5,)", &labels)).unwrap();
    let summary = tables.call(&["--policy", "oracle", "--clusters-table", path.to_str().unwrap()]);
    assert_eq!(summary["policies"][0]["clusters"], serde_json::json!([2]));
    let untold = tables.call(&["--policy", "oracle"]);
    assert_eq!(untold["policies"][0]["clusters"], serde_json::json!([5]));
}

#[test]
fn arms_of_several_runs_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("A.npy");
    let called = cohort(&["simulate", "--reps", "2", "--arms-out", path.to_str().unwrap()]);
    assert_eq!(called.code, 2);
    assert!(called.err.starts_with("error: --arms-out: found "), "{}", called.err);
    assert!(!path.exists());
}
