//! The library chooses the same arms as the plain versions of the paper's algorithms, round after
//! round, on random instances. No tolerance: the arms are equal, or the test fails.

#[path = "plain/paper.rs"]
mod paper;

use cohort::{Contexts, Problem, Truth, params::Value};
use paper::{OfulParams, Plain};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

const N: usize = 13; // not a multiple of any block
const D: usize = 4;
const K: usize = 6;
const T: usize = 150;
const SIGMA: f64 = 0.2;

/// Users of three kinds, contexts in the paper's cube.
struct Instance {
    thetas: Vec<f64>,
    clusters: Vec<usize>,
    rng: ChaCha8Rng,
}

impl Instance {
    fn new(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let centres: Vec<f64> = (0..3 * D).map(|_| StandardNormal.sample(&mut rng)).collect();
        let clusters: Vec<usize> = (0..N).map(|i| i % 3).collect();
        let thetas = (0..N)
            .flat_map(|i| {
                let centre = &centres[clusters[i] * D..(clusters[i] + 1) * D];
                let length = centre.iter().map(|c| c * c).sum::<f64>().sqrt();
                centre.iter().map(move |c| c / length).collect::<Vec<_>>()
            })
            .collect();
        Self { thetas, clusters, rng }
    }

    fn contexts(&mut self) -> Vec<f64> {
        let bound = 1.0 / (D as f64).sqrt();
        (0..K * D).map(|_| self.rng.random_range(-bound..bound)).collect()
    }

    fn rewards(&mut self, contexts: &Contexts, arms: &[usize]) -> Vec<f64> {
        (0..N)
            .map(|i| {
                let theta = &self.thetas[i * D..(i + 1) * D];
                let noise: f64 = StandardNormal.sample(&mut self.rng);
                cohort::linear::dot(contexts.arm(arms[i]), theta) + SIGMA * noise
            })
            .collect()
    }
}

/// Plays both on the same contexts; the library's arms decide the rewards.
fn same_arms(name: &str, params: &[(&str, &str)], plain: &mut dyn Plain, seed: u64) {
    same_arms_for(T, name, params, plain, seed);
}

fn same_arms_for(
    rounds: usize,
    name: &str,
    params: &[(&str, &str)],
    plain: &mut dyn Plain,
    seed: u64,
) {
    let mut instance = Instance::new(seed);
    let (thetas, clusters) = (instance.thetas.clone(), instance.clusters.clone());
    let problem = Problem {
        rounds: Some(rounds),
        sigma: SIGMA,
        truth: Some(Truth::new(&thetas, &clusters)),
        ..Problem::new(N, D)
    };
    let params = params.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value)));
    let mut policy = cohort::registry::build(name, &problem, params).unwrap();
    let mut arms = vec![0; N];
    for t in 0..rounds {
        let values = instance.contexts();
        let contexts = Contexts::new(&values, D).unwrap();
        let rows: Vec<Vec<f64>> = contexts.iter().map(<[f64]>::to_vec).collect();
        policy.choose(&contexts, &mut arms);
        assert_eq!(arms, plain.choose(&rows), "{name}, seed {seed}, round {t}");
        let rewards = instance.rewards(&contexts, &arms);
        policy.learn(&contexts, &arms, &rewards);
        plain.learn(&rows, &arms, &rewards);
    }
}

fn told() -> OfulParams {
    OfulParams {
        delta: 0.4,
        lambda: 1.0,
        norm_bound: 1.0,
        sigma: SIGMA,
        exploration: 1.0,
        ball: None,
    }
}

const SEEDS: std::ops::Range<u64> = 0..3;

#[test]
fn linucb_ind() {
    for seed in SEEDS {
        let users = vec![paper::Oful::default(); N];
        same_arms("linucb-ind", &[], &mut paper::LinUcbInd { users, told: told() }, seed);
    }
}

#[test]
fn every_constant_of_oful_reaches_it() {
    let told = OfulParams {
        delta: 0.05,
        lambda: 0.3,
        norm_bound: 2.0,
        sigma: 0.7,
        exploration: 0.4,
        ball: None,
    };
    let params = [
        ("delta", "0.05"),
        ("lambda", "0.3"),
        ("norm_bound", "2"),
        ("sigma", "0.7"),
        ("exploration", "0.4"),
    ];
    let users = vec![paper::Oful::default(); N];
    same_arms("linucb-ind", &params, &mut paper::LinUcbInd { users, told }, 1);
}

#[test]
fn the_ball_form_shrinks_once_tau_min_is_reached() {
    // With ρ_min = 1 and δ = 0.4, τ_min = (16 + 8/3)·ln(2·4·150/0.4) = 149.4: one round before T.
    let tau_min = (16.0 + 8.0 / 3.0) * (2.0 * (D * T) as f64 / 0.4).ln();
    assert!(tau_min < T as f64);
    let told = OfulParams { ball: Some((1.0, T)), ..told() };
    let users = vec![paper::Oful::default(); N];
    let params = [("confidence", "ball"), ("rho_min", "1")];
    same_arms("linucb-ind", &params, &mut paper::LinUcbInd { users, told }, 2);
}

/// Every run has a τ_min of its own: that of its δ and of the rounds it lasts.
#[test]
fn the_ball_form_inside_phases_and_epochs() {
    let ball = [("confidence", "ball"), ("rho_min", "1")];
    let told = OfulParams { ball: Some((1.0, 0)), ..told() };
    let reached = |rounds: usize, delta: f64| {
        let tau = (16.0 + 8.0 / 3.0) * (2.0 * (D * rounds) as f64 / delta).ln();
        tau < rounds as f64
    };
    // SCLB's ninth phase lasts 512 rounds with δ/512, and its clusters learn in most of them.
    assert!(reached(400, 0.4 / 512.0));
    let mut plain = paper::Sclb { told, ..plain_sclb(0.2) };
    same_arms_for(900, "sclb", &ball, &mut plain, 0);
    // ALB-Norm's fourth epoch of 600 rounds lasts 200 with δ/8.
    assert!(reached(200, 0.4 / 8.0));
    let mut plain = paper::AlbNormEach((0..N).map(|_| paper::AlbNorm::new(600, told)).collect());
    same_arms_for(600, "alb-norm", &ball, &mut plain, 1);
}

#[test]
fn oracle() {
    for seed in SEEDS {
        let labels = (0..N).map(|i| i % 3).collect();
        same_arms("oracle", &[], &mut paper::PerCluster::new(labels, told()), seed);
    }
}

#[test]
fn common() {
    same_arms("common", &[], &mut paper::PerCluster::new(vec![0; N], told()), 0);
}

#[test]
fn cmlb() {
    for seed in SEEDS {
        let mut plain = paper::Cmlb::new(N, D, T, 0.2, 0.5, 0.0, told());
        same_arms("cmlb", &[("c", "0.5")], &mut plain, seed);
        assert!(plain.collaborative.is_some());
        // With p*, small clusters are put together.
        let mut plain = paper::Cmlb::new(N, D, T, 0.3, 0.3, 0.3, told());
        let params = [("alpha", "0.3"), ("c", "0.3"), ("min_share", "0.3")];
        same_arms("cmlb", &params, &mut plain, seed);
    }
}

fn plain_sclb(c: f64) -> paper::Sclb {
    let told = told();
    paper::Sclb { n: N, d: D, alpha: 0.2, c, told, phase: 0, left: 0, cmlb: None, clusterings: 0 }
}

#[test]
fn sclb() {
    for seed in SEEDS {
        let mut plain = plain_sclb(0.2);
        same_arms("sclb", &[], &mut plain, seed);
        assert!(plain.clusterings >= 3, "the phases must reach clustering");
        // "SCLB only clusters users logarithmically many number of times": at most once a phase, and
        // phases of 2, 4, …, 64 rounds leave 24 of 150 for the seventh.
        assert!(plain.clusterings <= 7);
    }
}

#[test]
fn alb_norm() {
    let mut plain = paper::AlbNormEach((0..N).map(|_| paper::AlbNorm::new(T, told())).collect());
    same_arms("alb-norm", &[], &mut plain, 0);
}

#[test]
fn pmlb_and_pmlb_compensated() {
    for seed in SEEDS {
        same_arms("pmlb", &[], &mut paper::Pmlb::new(N, T, told(), false), seed);
        same_arms("pmlb-compensated", &[], &mut paper::Pmlb::new(N, T, told(), true), seed);
    }
}

#[test]
fn cmlb_warm() {
    for seed in SEEDS {
        let mut plain = paper::Warm::cmlb(N, D, T, 0.2, 0.5, 0.0, told());
        same_arms("cmlb-warm", &[("c", "0.5")], &mut plain, seed);
        assert!(plain.labels.is_some());
    }
}

#[test]
fn sclb_warm() {
    for seed in SEEDS {
        // C = 0.5 makes phases go back to individual learning after they have clustered.
        for c in ["0.2", "0.5"] {
            let mut plain = paper::Warm::sclb(N, D, 0.2, c.parse().unwrap(), told());
            same_arms("sclb-warm", &[("c", c)], &mut plain, seed);
            assert!(plain.labels.is_some());
        }
    }
}

#[test]
fn pmlb_warm() {
    for seed in SEEDS {
        same_arms("pmlb-warm", &[], &mut paper::PmlbWarm::new(N, D, T, told()), seed);
    }
}
