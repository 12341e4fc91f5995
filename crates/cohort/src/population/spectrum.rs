//! What a user has seen, in the eigenbasis of its own V = Σxxᵀ.
//!
//! With V = QᵀΛQ and c = Qb the rewards of a user say exactly this about its θ: along every
//! eigenvector q_j there is one number z_j = c_j/√λ_j ~ N(√λ_j·⟨q_j, θ⟩, σ²), and what is left
//! over, the residual of least squares, is σ²χ² with n − rank degrees of freedom. Under
//! θ ~ N(μ, τ²I) the z_j are independent with variance σ² + τ²λ_j, so that the likelihood of any
//! (μ, τ, σ) costs O(d²): one decomposition a refit, reused throughout.

use crate::linear::{Statistics, dot};

/// Directions whose eigenvalue is below this share of the largest have not been seen.
const UNSEEN: f64 = 1e-11;

/// The statistics of one user, diagonalised.
#[derive(Clone, Debug)]
pub struct Spectrum {
    /// λ_j, zero for directions that have not been seen; those come first.
    pub values: Vec<f64>,
    /// q_j in row j.
    pub vectors: Vec<f64>,
    /// c_j = ⟨q_j, b⟩.
    pub along: Vec<f64>,
    /// How many directions have not been seen.
    pub unseen: usize,
    /// The residual sum of squares of least squares.
    pub residual: f64,
    /// Its degrees of freedom, n − rank.
    pub freedom: f64,
}

impl Spectrum {
    /// One eigendecomposition.
    pub fn new(statistics: &Statistics) -> Self {
        let d = statistics.moment.len();
        let eigen = statistics.gram.eigen();
        let (mut values, vectors) = (eigen.values, eigen.vectors);
        let least = values[d - 1].max(0.0) * UNSEEN;
        let unseen = values.iter().take_while(|value| **value <= least).count();
        values[..unseen].fill(0.0);
        let mut along: Vec<f64> =
            vectors.chunks_exact(d).map(|q| dot(q, &statistics.moment)).collect();
        along[..unseen].fill(0.0);
        let explained: f64 = (unseen..d).map(|j| along[j] * along[j] / values[j]).sum();
        Self {
            residual: (statistics.squares - explained).max(0.0),
            freedom: (statistics.rewards - (d - unseen) as f64).max(0.0),
            values,
            vectors,
            along,
            unseen,
        }
    }

    /// d.
    pub fn dim(&self) -> usize {
        self.values.len()
    }

    /// q_j.
    pub fn vector(&self, j: usize) -> &[f64] {
        &self.vectors[j * self.dim()..(j + 1) * self.dim()]
    }

    /// The directions that have been seen.
    pub fn seen(&self) -> std::ops::Range<usize> {
        self.unseen..self.dim()
    }
}
