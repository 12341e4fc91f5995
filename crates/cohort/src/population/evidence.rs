//! What users say about a component: sums that add up over users, and over partitions of them.

use super::model::Component;
use super::spectrum::Spectrum;
use crate::linear::symmetric::packed_len;
use crate::linear::{Symmetric, dot};

/// Sums over users, each in the share to which it belongs to the component.
#[derive(Clone, Debug)]
pub struct Sums {
    /// How many users, in parts.
    pub users: f64,
    /// Σ of users' messages: information on the centre, pull, log.
    pub message: Vec<f64>,
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
            message: vec![0.0; super::message::message_len(dim)],
            spread: [0.0; 3],
            noise: [0.0; 2],
        }
    }

    /// Σ H_i.
    pub fn information(&self, dim: usize) -> Symmetric {
        Symmetric::from_packed(dim, self.message[..packed_len(dim)].to_vec())
    }

    /// Σ H_i θ̂_i.
    pub fn pull(&self, dim: usize) -> &[f64] {
        &self.message[packed_len(dim)..packed_len(dim) + dim]
    }

    /// One user's message.
    pub fn add_message(&mut self, share: f64, message: &[f64]) {
        self.users += share;
        for (sum, value) in self.message.iter_mut().zip(message) {
            *sum += share * value;
        }
    }

    /// What one user says about spread and noise.
    pub fn add_slopes(&mut self, share: f64, user: &Spectrum, component: &Component, noise: f64) {
        self.noise[0] += 0.5 * share * (user.residual / noise - user.freedom) / noise;
        self.noise[1] += 0.5 * share * user.freedom / (noise * noise);
        for j in user.seen() {
            let (value, q) = (user.values[j], user.vector(j));
            let rest = user.along[j] - value * dot(q, &component.centre);
            let variance = noise + component.spread * value;
            let deviation = rest * rest / value + value * component.doubt.quadratic(q);
            let slope = 0.5 * share * (deviation / variance - 1.0) / variance;
            let curve = 0.5 * share / (variance * variance);
            self.spread[0] += value * slope;
            self.spread[1] += value * value * curve;
            self.spread[2] += value * curve;
            self.noise[0] += slope;
            self.noise[1] += curve;
        }
    }

    /// All that another partition of the users says, too.
    pub fn add(&mut self, other: &Self) {
        self.users += other.users;
        for (a, b) in self.message.iter_mut().zip(&other.message) {
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
