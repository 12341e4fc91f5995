//! A synthetic world: users in clusters, contexts in the paper's cube, everything seeded.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// K of every measurement.
pub const ARMS: usize = 25;

/// σ of every measurement.
pub const NOISE: f64 = 0.1;

/// Users in clusters.
pub struct World {
    /// N.
    pub users: usize,
    /// d.
    pub dim: usize,
    /// The cluster of every user.
    pub clusters: Vec<usize>,
    /// The unit vector of every cluster, row by row.
    centres: Vec<f64>,
    rng: ChaCha8Rng,
}

/// One round: contexts, and every user's rewards.
pub struct Round {
    /// K vectors, row by row.
    pub contexts: Vec<f64>,
    /// The expected reward of every arm in every cluster.
    expected: Vec<f64>,
    /// The noise of every user.
    noise: Vec<f64>,
}

impl World {
    /// Users assigned to the clusters round-robin.
    pub fn new(users: usize, dim: usize, clusters: usize, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let centres = unit_vectors(clusters, dim, &mut rng);
        Self { users, dim, clusters: (0..users).map(|i| i % clusters).collect(), centres, rng }
    }

    /// θ* of every user, row by row.
    pub fn thetas(&self) -> Vec<f64> {
        let dim = self.dim;
        (self.clusters.iter()).flat_map(|c| &self.centres[c * dim..][..dim]).copied().collect()
    }

    /// The next round.
    pub fn round(&mut self) -> Round {
        let contexts = self.contexts();
        let rng = &mut self.rng;
        let noise: Vec<f64> = (0..self.users)
            .map(|_| NOISE * Distribution::<f64>::sample(&StandardNormal, rng))
            .collect();
        let expected = (self.centres.chunks_exact(self.dim))
            .flat_map(|theta| {
                contexts.chunks_exact(theta.len()).map(|x| cohort::linear::dot(x, theta))
            })
            .collect();
        Round { contexts, expected, noise }
    }

    /// K contexts, uniform in [−1/√d, 1/√d]^d.
    pub fn contexts(&mut self) -> Vec<f64> {
        let bound = 1.0 / (self.dim as f64).sqrt();
        (0..ARMS * self.dim).map(|_| self.rng.random_range(-bound..bound)).collect()
    }

    /// Rewards that do not depend on the arm, for implementations that are compared in speed only.
    pub fn any_rewards(&mut self) -> Vec<f64> {
        (0..self.users).map(|_| self.rng.random_range(-1.0..1.0)).collect()
    }
}

impl Round {
    /// A user's reward for an arm.
    pub fn reward(&self, user: usize, cluster: usize, arm: usize) -> f64 {
        self.expected[cluster * ARMS + arm] + self.noise[user]
    }
}

/// Vectors of length 1 in random directions, row by row.
pub fn unit_vectors(count: usize, dim: usize, rng: &mut ChaCha8Rng) -> Vec<f64> {
    let mut vectors: Vec<f64> = (0..count * dim).map(|_| StandardNormal.sample(rng)).collect();
    for vector in vectors.chunks_exact_mut(dim) {
        let length = cohort::linear::dot(vector, vector).sqrt();
        vector.iter_mut().for_each(|v| *v /= length);
    }
    vectors
}
