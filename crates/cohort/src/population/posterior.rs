//! What is believed of one user: a mixture of Gaussians, one for each component it may belong to,
//! that moves with every reward.

use super::fit::softmax;
use super::message::{dot4, message_len, probe, write};
use super::model::{Component, Population};
use super::spectrum::Spectrum;
use crate::linear::{Symmetric, dot};

/// θ_i under one component.
#[derive(Clone, Debug)]
pub struct Guess {
    /// Which component.
    pub component: usize,
    /// How probable it is.
    pub share: f64,
    /// E θ.
    pub mean: Vec<f64>,
    /// Cov θ.
    pub covariance: Symmetric,
}

/// What is believed of one user.
#[derive(Clone, Debug)]
pub struct Belief {
    /// The components it may belong to, most probable first.
    pub guesses: Vec<Guess>,
}

/// Components less probable than this are left out.
const NEGLIGIBLE: f64 = 1e-3;

impl Belief {
    /// From all that was seen of the user and all that is known of the population.
    pub fn new(user: &Spectrum, population: &Population) -> Self {
        let spreads = population.spreads();
        let mut messages = [vec![0.0; message_len(user.dim())], vec![0.0; message_len(user.dim())]];
        for k in 0..2 {
            write(user, spreads[k], population.noise, &mut messages[k]);
        }
        let mut shares: Vec<f64> = population
            .components
            .iter()
            .enumerate()
            .map(|(c, component)| {
                component.weight.ln() + dot4(&messages[c.min(1)], &probe(component))
            })
            .collect();
        softmax(&mut shares);
        let mut order: Vec<usize> = (0..shares.len()).collect();
        order.sort_by(|a, b| shares[*b].total_cmp(&shares[*a]));
        order.retain(|c| shares[*c] > NEGLIGIBLE);
        let kept: f64 = order.iter().map(|c| shares[*c]).sum();
        let guesses = order
            .into_iter()
            .map(|c| {
                let (mean, covariance) =
                    given(user, &population.components[c], population.noise);
                Guess { component: c, share: shares[c] / kept, mean, covariance }
            })
            .collect();
        Self { guesses }
    }

    /// Mean and standard deviation of ⟨x, θ⟩.
    pub fn predict(&self, x: &[f64]) -> (f64, f64) {
        let (mut mean, mut square) = (0.0, 0.0);
        for guess in &self.guesses {
            let m = dot(x, &guess.mean);
            mean += guess.share * m;
            square += guess.share * (m * m + guess.covariance.quadratic(x));
        }
        (mean, (square - mean * mean).max(0.0).sqrt())
    }

    /// One reward.
    pub fn learn(&mut self, x: &[f64], y: f64, noise: f64) {
        let mut gain = vec![0.0; x.len()];
        let mut logs: Vec<f64> = Vec::with_capacity(self.guesses.len());
        for guess in &mut self.guesses {
            guess.covariance.times(x, &mut gain);
            let variance = noise + dot(x, &gain).max(0.0);
            let surprise = y - dot(x, &guess.mean);
            logs.push(
                guess.share.max(1e-300).ln()
                    - 0.5 * (variance.ln() + surprise * surprise / variance),
            );
            for (mean, gain) in guess.mean.iter_mut().zip(&gain) {
                *mean += gain * surprise / variance;
            }
            guess.covariance.add_outer(-1.0 / variance, &gain);
        }
        softmax(&mut logs);
        for (guess, share) in self.guesses.iter_mut().zip(logs) {
            guess.share = share;
        }
    }
}

/// θ given its component and its own rewards: `A μ + B`, `S + A C Aᵀ` where C is what is not
/// known of the centre.
fn given(user: &Spectrum, component: &Component, noise: f64) -> (Vec<f64>, Symmetric) {
    let d = user.dim();
    let spread = component.spread;
    let mut mean = vec![0.0; d];
    // A = Σ_j a_j q_j q_jᵀ
    let shrink: Vec<f64> = user.values.iter().map(|v| noise / (noise + spread * v)).collect();
    let mut covariance = Symmetric::zero(d);
    for j in 0..d {
        let q = user.vector(j);
        covariance.add_outer(spread * shrink[j], q);
        let along = shrink[j] * dot(q, &component.centre)
            + spread * user.along[j] / (noise + spread * user.values[j]);
        for k in 0..d {
            mean[k] += along * q[k];
        }
    }
    // A C Aᵀ through the eigenbasis: (A q-rows).
    let mut a = Symmetric::zero(d);
    for j in 0..d {
        a.add_outer(shrink[j], user.vector(j));
    }
    let mut column = vec![0.0; d];
    let mut product = vec![0.0; d * d]; // C A, column by column
    for k in 0..d {
        let unit: Vec<f64> = (0..d).map(|i| a.at(i, k)).collect();
        component.doubt.times(&unit, &mut column);
        product[k * d..(k + 1) * d].copy_from_slice(&column);
    }
    for k in 0..d {
        a.times(&product[k * d..(k + 1) * d], &mut column);
        let packed = covariance.packed_mut();
        for i in k..d {
            packed[i * (i + 1) / 2 + k] += column[i];
        }
    }
    (mean, covariance)
}
