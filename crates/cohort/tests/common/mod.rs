//! A world to play in.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

const ARMS: usize = 6;

/// Users around a few centres, who answer with noise.
pub struct World {
    /// d.
    pub dim: usize,
    thetas: Vec<Vec<f64>>,
    noise: f64,
    /// Draws everything.
    pub rng: ChaCha8Rng,
}

impl World {
    /// Unit vectors as centres, users dealt to them in turn.
    pub fn new(users: usize, centres: usize, dim: usize, noise: f64, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let centres: Vec<Vec<f64>> = (0..centres)
            .map(|_| {
                let centre: Vec<f64> = (0..dim).map(|_| StandardNormal.sample(&mut rng)).collect();
                let length = cohort::linear::dot(&centre, &centre).sqrt();
                centre.iter().map(|c| c / length).collect()
            })
            .collect();
        let thetas = (0..users).map(|user| centres[user % centres.len()].clone()).collect();
        Self { dim, thetas, noise, rng }
    }

    /// A few arms in the paper's cube.
    pub fn contexts(&mut self) -> Vec<f64> {
        let bound = 1.0 / (self.dim as f64).sqrt();
        (0..ARMS * self.dim).map(|_| self.rng.random_range(-bound..bound)).collect()
    }

    /// A user's answer.
    pub fn reward(&mut self, user: usize, x: &[f64]) -> f64 {
        let noise: f64 = StandardNormal.sample(&mut self.rng);
        cohort::linear::dot(&self.thetas[user], x) + self.noise * noise
    }
}
