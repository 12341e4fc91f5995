//! Probes: small simulations of statements inside the algorithms and proofs, which no regret curve
//! shows.
//!
//! A probe is a small simulation of its own. It is told a setting, a seed and a number of rounds, and
//! answers with a row of numbers; studies of the kind `probe` run one in every setting and
//! repetition, through the same journal as everything else.
//!
//! | file | which statement |
//! | --- | --- |
//! | [`shifted`] | Shifted OFUL: Proposition 1, its corollaries and lemmas |
//! | `oful` | OFUL: coverage, smallest eigenvalue, distance of the estimate |
//! | `average` | PMLB's common phase: ‖θ̂* − θ̄*‖ |
//! | `norm` | ALB-Norm: b_i ≤ 2‖θ*‖, regret ∝ ‖θ*‖ |
//! | `personal` | Corollary 1 in one dimension, where T ≥ τ_min² can be reached |

mod average;
mod norm;
mod oful;
mod personal;
pub mod shifted;

use cohort::Contexts;
use cohort::linear::{Confidence, Shape, dot};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::study::Setting;
use crate::Error;
use crate::seed::{Purpose, Seed};

/// A small simulation that answers with numbers.
#[derive(Debug)]
pub struct Probe {
    /// Its name in study files.
    pub name: &'static str,
    /// What its numbers are called.
    pub columns: &'static [&'static str],
    /// One repetition: a number for every column.
    pub run: fn(&Setting, usize, Seed) -> Result<Vec<f64>, Error>,
}

/// All of them.
pub const PROBES: &[Probe] =
    &[shifted::PROBE, oful::PROBE, average::PROBE, norm::PROBE, personal::PROBE];

/// The probe of that name.
pub fn probe(name: &str) -> Result<&'static Probe, Error> {
    PROBES.iter().find(|probe| probe.name == name).ok_or_else(|| {
        let names: Vec<&str> = PROBES.iter().map(|probe| probe.name).collect();
        let expected = format!("one of {}", names.join(", "));
        Error::unexpected("probe", format!("`{name}`"), expected)
    })
}

/// A number of the setting, or a sentence that says which one is missing.
fn number(setting: &Setting, key: &str) -> Result<f64, Error> {
    setting.number(key).ok_or_else(|| Error::unexpected("facet", format!("no `{key}`"), "a number"))
}

/// The paper's contexts, round after round, and the noise on rewards.
struct Draws {
    contexts: ChaCha8Rng,
    noise: ChaCha8Rng,
    values: Vec<f64>,
    dim: usize,
}

impl Draws {
    fn new(seed: Seed, dim: usize, arms: usize) -> Self {
        Self {
            contexts: seed.stream(Purpose::Contexts, 0),
            noise: seed.stream(Purpose::Noise, 0),
            values: vec![0.0; dim * arms],
            dim,
        }
    }

    /// Unif[−1/√d, 1/√d]^d, afresh.
    fn round(&mut self) -> Result<Contexts<'_>, Error> {
        let bound = 1.0 / (self.dim as f64).sqrt();
        self.values.iter_mut().for_each(|x| *x = self.contexts.random_range(-bound..bound));
        Ok(Contexts::new(&self.values, self.dim)?)
    }

    /// Standard normal.
    fn noise(&mut self) -> f64 {
        StandardNormal.sample(&mut self.noise)
    }
}

/// A direction, uniform on the sphere.
fn direction(rng: &mut ChaCha8Rng, dim: usize) -> Vec<f64> {
    let mut x: Vec<f64> = (0..dim).map(|_| StandardNormal.sample(rng)).collect();
    let length = dot(&x, &x).sqrt();
    x.iter_mut().for_each(|x| *x /= length);
    x
}

/// The arm with the largest ⟨β, θ⟩.
fn best(contexts: &Contexts, theta: &[f64]) -> usize {
    cohort::linear::argmax(contexts.iter().map(|x| dot(x, theta)))
}

/// OFUL(δ) with λ = 1 and the theory's width.
fn confidence(delta: f64, sigma: f64, norm_bound: f64) -> Confidence {
    Confidence { delta, lambda: 1.0, norm_bound, sigma, exploration: 1.0, shape: Shape::Ellipsoid }
}

/// ‖a − b‖.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}
