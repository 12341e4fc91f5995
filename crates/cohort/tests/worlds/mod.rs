//! Small worlds for tests: users, contexts in the paper's cube, noise.

use cohort::linear::dot;
use cohort::{Contexts, Policy, Problem, Truth};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

const DIM: usize = 8;
const ARMS: usize = 12;

/// The form of the noise.
#[derive(Clone, Copy, Debug)]
pub enum Noise {
    Gaussian,
    /// Student's t with three degrees of freedom.
    StudentT3,
    /// A reward of 0 or 1, of mean ½ + ½⟨x, θ⟩.
    Coin,
    /// A reward of 0 or 1, mostly 0: of mean 1.5⟨x, θ⟩ − 0.15 where that is positive.
    Rare,
    None,
}

/// What users who come one after the other are offered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Offers {
    /// Arms of their own.
    Own,
    /// The same to everybody, in a round.
    Shared,
}

/// Users and what they are asked.
pub struct World {
    pub dim: usize,
    pub thetas: Vec<f64>,
    pub clusters: Vec<usize>,
    pub sigma: f64,
    pub noise: Noise,
    pub fixed_contexts: bool,
    /// Whether features are of two dimensions only, in a plane that is none of the axes'.
    pub plane: bool,
    /// The arms that were played.
    pub trace: Vec<usize>,
    pub first: Vec<f64>,
    pub rng: ChaCha8Rng,
}

fn on_sphere(rng: &mut ChaCha8Rng) -> Vec<f64> {
    let theta: Vec<f64> = (0..DIM).map(|_| StandardNormal.sample(rng)).collect();
    let length = dot(&theta, &theta).sqrt();
    theta.iter().map(|t| t / length).collect()
}

fn world(seed: u64, clusters: Vec<usize>, sigma: f64) -> World {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let count = clusters.iter().max().map_or(0, |most| most + 1);
    let centres: Vec<Vec<f64>> = (0..count).map(|_| on_sphere(&mut rng)).collect();
    let thetas = clusters.iter().flat_map(|c| centres[*c].clone()).collect();
    let (noise, trace, first) = (Noise::Gaussian, Vec::new(), Vec::new());
    World {
        dim: DIM,
        thetas,
        clusters,
        sigma,
        noise,
        fixed_contexts: false,
        plane: false,
        trace,
        first,
        rng,
    }
}

/// Users of `clusters` kinds.
pub fn clustered(seed: u64, users: usize, clusters: usize, sigma: f64) -> World {
    world(seed, (0..users).map(|user| user % clusters).collect(), sigma)
}

/// Users that are all the same.
pub fn identical(seed: u64, users: usize, sigma: f64) -> World {
    clustered(seed, users, 1, sigma)
}

/// Users that have nothing in common.
pub fn sphere(seed: u64, users: usize, sigma: f64) -> World {
    world(seed, (0..users).collect(), sigma)
}

impl World {
    pub fn users(&self) -> usize {
        self.clusters.len()
    }

    pub fn problem(&self) -> Problem<'_> {
        Problem {
            sigma: self.sigma,
            truth: Some(Truth::new(&self.thetas, &self.clusters)),
            ..Problem::new(self.users(), self.dim)
        }
    }

    pub fn theta(&self, user: usize) -> &[f64] {
        &self.thetas[user * self.dim..(user + 1) * self.dim]
    }

    pub fn contexts(&mut self) -> Vec<f64> {
        let bound = 1.0 / (self.dim as f64).sqrt();
        if self.fixed_contexts && !self.first.is_empty() {
            return self.first.clone();
        }
        self.first = (0..ARMS * self.dim).map(|_| self.rng.random_range(-bound..bound)).collect();
        if self.plane {
            for x in self.first.chunks_exact_mut(self.dim) {
                let (a, b) = (x[0], x[1]);
                let along = |k: usize| a * (k as f64 + 1.0).sin() + b * (2.0 * k as f64).cos();
                x.iter_mut().enumerate().for_each(|(k, x)| *x = along(k));
            }
        }
        self.first.clone()
    }

    pub fn reward(&mut self, user: usize, x: &[f64]) -> f64 {
        let mean = dot(x, self.theta(user));
        let mut normal = || -> f64 { StandardNormal.sample(&mut self.rng) };
        match self.noise {
            Noise::Gaussian => mean + self.sigma * normal(),
            Noise::StudentT3 => {
                let chi: f64 = (0..3).map(|_| normal().powi(2)).sum();
                mean + self.sigma * normal() / (chi / 3.0).sqrt()
            }
            Noise::Rare => f64::from(self.rng.random::<f64>() < 1.5 * mean - 0.15),
            Noise::Coin => f64::from(self.rng.random::<f64>() < 0.5 + 0.5 * mean),
            Noise::None => mean,
        }
    }

    /// Mean regret per user of users who come one after the other.
    pub fn play_alone(&mut self, policy: &mut dyn Policy, rounds: usize, offers: Offers) -> f64 {
        let online = policy.online().unwrap();
        let mut regret = 0.0;
        for _ in 0..rounds {
            let mut values = self.contexts();
            for user in 0..self.users() {
                if offers == Offers::Own && user > 0 {
                    values = self.contexts();
                }
                let contexts = Contexts::new(&values, self.dim).unwrap();
                let arm = online.decide(user, &contexts);
                let means: Vec<f64> = contexts.iter().map(|x| dot(x, self.theta(user))).collect();
                regret += means.iter().copied().fold(f64::NEG_INFINITY, f64::max) - means[arm];
                self.trace.push(arm);
                let reward = self.reward(user, contexts.arm(arm));
                online.learn_one(user, contexts.arm(arm), reward);
            }
        }
        regret / self.users() as f64
    }

    /// Mean regret per user.
    pub fn play(&mut self, policy: &mut dyn Policy, rounds: usize) -> f64 {
        let mut arms = vec![0; self.users()];
        let mut regret = 0.0;
        for _ in 0..rounds {
            let values = self.contexts();
            let contexts = Contexts::new(&values, self.dim).unwrap();
            policy.choose(&contexts, &mut arms);
            let mut rewards = Vec::with_capacity(arms.len());
            for (user, arm) in arms.iter().enumerate() {
                let means: Vec<f64> = contexts.iter().map(|x| dot(x, self.theta(user))).collect();
                regret += means.iter().copied().fold(f64::NEG_INFINITY, f64::max) - means[*arm];
                rewards.push(self.reward(user, contexts.arm(*arm)));
            }
            policy.learn(&contexts, &arms, &rewards);
            self.trace.extend(&arms);
        }
        regret / self.users() as f64
    }
}
