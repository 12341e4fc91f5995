//! How well a component explains a user, and what the user says about the component in return.

use super::model::Component;
use super::spectrum::Spectrum;
use crate::linear::{Symmetric, dot};

/// Room for one user's numbers along its eigenvectors.
#[derive(Clone, Debug)]
pub struct Reading {
    /// s_j = σ² + τ²λ_j, the variance of z_j.
    pub variance: Vec<f64>,
    /// E(z_j − E z_j)², over what is known of the centre.
    pub deviation: Vec<f64>,
}

impl Reading {
    /// Room for dimension d.
    pub fn new(dim: usize) -> Self {
        Self { variance: vec![0.0; dim], deviation: vec![0.0; dim] }
    }

    /// The expected log likelihood of a user's rewards under a component, over what is known of
    /// its centre, up to a number that depends on the user's contexts alone:
    /// `−½ Σ_j (ln s_j + E(z_j − √λ_j⟨q_j, μ⟩)²/s_j) − ½ (freedom·ln σ² + residual/σ²)`.
    pub fn of(&mut self, user: &Spectrum, component: &Component, noise: f64) -> f64 {
        let mut total = user.freedom * noise.ln() + user.residual / noise;
        for j in user.seen() {
            let (value, q) = (user.values[j], user.vector(j));
            let rest = user.along[j] - value * dot(q, &component.centre);
            let variance = noise + component.spread * value;
            let deviation = rest * rest / value + value * component.doubt.quadratic(q);
            self.variance[j] = variance;
            self.deviation[j] = deviation;
            total += variance.ln() + deviation / variance;
        }
        -0.5 * total
    }
}

/// What users say about a component: sums that add up over users, and over partitions of them.
#[derive(Clone, Debug)]
pub struct Sums {
    /// How many users, in parts.
    pub users: f64,
    /// Σ H_i, the information on the centre.
    pub information: Symmetric,
    /// Σ H_i θ̂_i.
    pub pull: Vec<f64>,
    /// The slope of the evidence in τ², its curvature, and the mixed one in τ² and σ².
    pub spread: [f64; 3],
    /// The slope of the evidence in σ² and its curvature.
    pub noise: [f64; 2],
}

impl Sums {
    /// Of nobody.
    pub fn new(dim: usize) -> Self {
        Self {
            users: 0.0,
            information: Symmetric::zero(dim),
            pull: vec![0.0; dim],
            spread: [0.0; 3],
            noise: [0.0; 2],
        }
    }

    /// One user that belongs to the component to this share; `reading` is of the two.
    pub fn add_user(&mut self, share: f64, user: &Spectrum, reading: &Reading, noise: f64) {
        self.users += share;
        self.noise[0] +=
            0.5 * share * (user.residual / (noise * noise) - user.freedom / noise);
        self.noise[1] += 0.5 * share * user.freedom / (noise * noise);
        for j in user.seen() {
            let (value, q, variance) = (user.values[j], user.vector(j), reading.variance[j]);
            let slope = 0.5 * share * (reading.deviation[j] / variance - 1.0) / variance;
            let curve = 0.5 * share / (variance * variance);
            self.spread[0] += value * slope;
            self.spread[1] += value * value * curve;
            self.spread[2] += value * curve;
            self.noise[0] += slope;
            self.noise[1] += curve;
            self.information.add_outer(share * value / variance, q);
            let pull = share * user.along[j] / variance;
            for (sum, q) in self.pull.iter_mut().zip(q) {
                *sum += pull * q;
            }
        }
    }

    /// All that another partition of the users says, too.
    pub fn add(&mut self, other: &Self) {
        self.users += other.users;
        self.information.add(1.0, &other.information);
        for (a, b) in self.pull.iter_mut().zip(&other.pull) {
            *a += b;
        }
        for (a, b) in self.spread.iter_mut().zip(&other.spread) {
            *a += b;
        }
        for (a, b) in self.noise.iter_mut().zip(&other.noise) {
            *a += b;
        }
    }
}
