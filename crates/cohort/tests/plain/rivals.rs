//! The algorithms of others, written as plainly as possible: every reward is kept, and everything is
//! computed anew from all of them for every decision, by elimination in full matrices.

#![allow(dead_code, reason = "each test uses some of them")]

use cohort::policies::draws::{normals, stream};
use rand::RngExt;

/// A matrix, row by row.
pub type Matrix = Vec<Vec<f64>>;

/// One reward: who, for what, how much.
#[derive(Clone)]
pub struct Reward {
    pub user: usize,
    pub x: Vec<f64>,
    pub y: f64,
}

/// A plain algorithm.
pub trait Plain {
    /// The score of every arm for a user who is served next; the largest is played.
    fn scores(&mut self, user: usize, arms: &[Vec<f64>]) -> Vec<f64>;

    /// What came of it.
    fn learn(&mut self, reward: Reward);
}

pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub fn scaled_identity(d: usize, scale: f64) -> Matrix {
    (0..d).map(|i| (0..d).map(|j| if i == j { scale } else { 0.0 }).collect()).collect()
}

pub fn add_outer(a: &mut Matrix, x: &[f64], scale: f64) {
    for (row, xi) in a.iter_mut().zip(x) {
        row.iter_mut().zip(x).for_each(|(a, xj)| *a += scale * xi * xj);
    }
}

pub fn times(a: &Matrix, x: &[f64]) -> Vec<f64> {
    a.iter().map(|row| dot(row, x)).collect()
}

/// By Gauss and Jordan, with pivots.
pub fn inverse(a: &Matrix) -> Matrix {
    let d = a.len();
    let mut work: Matrix = (0..d)
        .map(|i| a[i].iter().copied().chain((0..d).map(|j| f64::from(u8::from(i == j)))).collect())
        .collect();
    for k in 0..d {
        let pivot = (k..d).max_by(|i, j| work[*i][k].abs().total_cmp(&work[*j][k].abs())).unwrap();
        work.swap(k, pivot);
        let scale = work[k][k];
        work[k].iter_mut().for_each(|v| *v /= scale);
        for i in (0..d).filter(|i| *i != k) {
            let factor = work[i][k];
            let row = work[k].clone();
            work[i].iter_mut().zip(row).for_each(|(v, w)| *v -= factor * w);
        }
    }
    work.into_iter().map(|row| row[d..].to_vec()).collect()
}

/// L with A = LLᵀ.
pub fn cholesky(a: &Matrix) -> Matrix {
    let d = a.len();
    let mut l = scaled_identity(d, 0.0);
    for i in 0..d {
        for j in 0..=i {
            let rest = a[i][j] - (0..j).map(|k| l[i][k] * l[j][k]).sum::<f64>();
            l[i][j] = if i == j { rest.sqrt() } else { rest / l[j][j] };
        }
    }
    l
}

/// L⁻ᵀz
pub fn backward(l: &Matrix, z: &[f64]) -> Vec<f64> {
    let d = z.len();
    let mut out = vec![0.0; d];
    for i in (0..d).rev() {
        out[i] = (z[i] - (i + 1..d).map(|j| l[j][i] * out[j]).sum::<f64>()) / l[i][i];
    }
    out
}

/// M = λI + Σxxᵀ and Σxy of some of the rewards.
pub fn sums<'a>(
    rewards: impl Iterator<Item = &'a Reward>,
    d: usize,
    lambda: f64,
) -> (Matrix, Vec<f64>) {
    let (mut m, mut b) = (scaled_identity(d, lambda), vec![0.0; d]);
    for Reward { x, y, .. } in rewards {
        add_outer(&mut m, x, 1.0);
        b.iter_mut().zip(x).for_each(|(b, x)| *b += x * y);
    }
    (m, b)
}

/// F(T)
pub fn f(served: usize) -> f64 {
    let served = served as f64;
    ((1.0 + (1.0 + served).ln()) / (1.0 + served)).sqrt()
}

pub fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

pub fn quadratic(a: &Matrix, x: &[f64]) -> f64 {
    dot(x, &times(a, x))
}

/// `lints`.
pub struct LinTs {
    pub d: usize,
    pub seed: u64,
    pub v: f64,
    pub lambda: f64,
    pub common: bool,
    pub history: Vec<Reward>,
}

impl LinTs {
    fn of(&self, user: usize) -> Vec<Reward> {
        let of = |reward: &&Reward| self.common || reward.user == user;
        self.history.iter().filter(of).cloned().collect()
    }
}

impl Plain for LinTs {
    fn scores(&mut self, user: usize, arms: &[Vec<f64>]) -> Vec<f64> {
        let own = self.of(user);
        let (m, b) = sums(own.iter(), self.d, self.lambda);
        let w = times(&inverse(&m), &b);
        let z = normals(self.d, &mut stream(self.seed, user, own.len() as f64));
        let drawn = backward(&cholesky(&m), &z);
        arms.iter().map(|x| dot(x, &w) + self.v * dot(x, &drawn)).collect()
    }

    fn learn(&mut self, reward: Reward) {
        self.history.push(reward);
    }
}

/// `squarecb`: the score of the arm that is drawn is 1, of all others 0.
pub struct SquareCb {
    pub d: usize,
    pub seed: u64,
    pub gamma0: f64,
    pub rho: f64,
    pub history: Vec<Reward>,
}

impl Plain for SquareCb {
    fn scores(&mut self, user: usize, arms: &[Vec<f64>]) -> Vec<f64> {
        let own: Vec<&Reward> = self.history.iter().filter(|r| r.user == user).collect();
        let (m, b) = sums(own.iter().copied(), self.d, 1.0);
        let w = times(&inverse(&m), &b);
        let y: Vec<f64> = arms.iter().map(|x| dot(x, &w)).collect();
        let best = (0..y.len()).rev().max_by(|i, j| y[*i].total_cmp(&y[*j])).unwrap();
        let gamma = self.gamma0 * ((own.len() + 1) as f64).powf(self.rho);
        let mut p: Vec<f64> =
            y.iter().map(|yk| 1.0 / (y.len() as f64 + gamma * (y[best] - yk))).collect();
        p[best] = 1.0 - (0..p.len()).filter(|k| *k != best).map(|k| p[k]).sum::<f64>();
        let luck: f64 = stream(self.seed, user, own.len() as f64).random();
        let mut below = 0.0;
        p.iter()
            .map(|p| {
                below += p;
                f64::from(u8::from(below - p <= luck && luck < below))
            })
            .collect()
    }

    fn learn(&mut self, reward: Reward) {
        self.history.push(reward);
    }
}

/// `hier-ts` (`delta` none) and `hier-ucb`, in the notation of the papers: G = Σxxᵀ/σ², B = Σxy/σ².
pub struct Hier {
    pub d: usize,
    pub n: usize,
    pub seed: u64,
    pub sigma: f64,
    pub sigma_0: f64,
    pub sigma_q: f64,
    pub delta: Option<f64>,
    pub history: Vec<Reward>,
}

impl Hier {
    /// P + G_i and B_i.
    fn user(&self, user: usize) -> (Matrix, Vec<f64>) {
        let (mut m, mut b) = (scaled_identity(self.d, self.sigma_0.powi(-2)), vec![0.0; self.d]);
        for Reward { x, y, .. } in self.history.iter().filter(|r| r.user == user) {
            add_outer(&mut m, x, self.sigma.powi(-2));
            b.iter_mut().zip(x).for_each(|(b, x)| *b += x * y / self.sigma.powi(2));
        }
        (m, b)
    }
}

impl Plain for Hier {
    fn scores(&mut self, user: usize, arms: &[Vec<f64>]) -> Vec<f64> {
        let (d, p) = (self.d, self.sigma_0.powi(-2));
        let mut precision = scaled_identity(d, self.sigma_q.powi(-2));
        let mut right = vec![0.0; d];
        for other in 0..self.n {
            let (m, b) = self.user(other);
            let covariance = inverse(&m);
            for i in 0..d {
                for j in 0..d {
                    let own = if i == j { p } else { 0.0 };
                    precision[i][j] += own - p * p * covariance[i][j];
                }
            }
            let part = times(&covariance, &b);
            right.iter_mut().zip(part).for_each(|(right, part)| *right += p * part);
        }
        let hyper = inverse(&precision);
        let mean = times(&hyper, &right);
        let (m, b) = self.user(user);
        let covariance = inverse(&m);
        let given = |mu: &[f64]| {
            let right: Vec<f64> = mu.iter().zip(&b).map(|(mu, b)| p * mu + b).collect();
            times(&covariance, &right)
        };
        if let Some(delta) = self.delta {
            let width = (2.0 * (1.0 / delta).ln()).sqrt();
            let score = |x: &Vec<f64>| {
                let along: Vec<f64> = times(&covariance, x).iter().map(|g| p * g).collect();
                let variance = quadratic(&covariance, x) + quadratic(&hyper, &along);
                dot(x, &given(&mean)) + width * variance.sqrt()
            };
            return arms.iter().map(score).collect();
        }
        let served = self.history.iter().filter(|r| r.user == user).count();
        let mut rng = stream(self.seed, user, served as f64);
        let drawn = backward(&cholesky(&precision), &normals(d, &mut rng));
        let mu: Vec<f64> = mean.iter().zip(drawn).map(|(mean, drawn)| mean + drawn).collect();
        let own = backward(&cholesky(&m), &normals(d, &mut rng));
        let theta = given(&mu);
        arms.iter().map(|x| dot(x, &theta) + dot(x, &own)).collect()
    }

    fn learn(&mut self, reward: Reward) {
        self.history.push(reward);
    }
}

/// `mix-ts` with one variance around all centres.
pub struct MixTs {
    pub d: usize,
    pub seed: u64,
    pub centres: Matrix,
    pub weights: Vec<f64>,
    pub spread: f64,
    pub sigma: f64,
    pub history: Vec<Reward>,
}

impl Plain for MixTs {
    fn scores(&mut self, user: usize, arms: &[Vec<f64>]) -> Vec<f64> {
        let (d, s2) = (self.d, self.sigma.powi(2));
        let own: Vec<&Reward> = self.history.iter().filter(|r| r.user == user).collect();
        let mut m = scaled_identity(d, 1.0 / self.spread);
        let mut b = vec![0.0; d];
        for Reward { x, y, .. } in &own {
            add_outer(&mut m, x, 1.0 / s2);
            b.iter_mut().zip(x).for_each(|(b, x)| *b += x * y / s2);
        }
        let covariance = inverse(&m);
        // ln w_l = ln p_l + ½μ̃ᵀΣ̃⁻¹μ̃ − ½μᵀΣ⁻¹μ, determinants being those of all components.
        let mean = |centre: &Vec<f64>| {
            let right: Vec<f64> =
                centre.iter().zip(&b).map(|(mu, b)| mu / self.spread + b).collect();
            times(&covariance, &right)
        };
        let logs: Vec<f64> = (self.centres.iter().zip(&self.weights))
            .map(|(centre, weight)| {
                let mean = mean(centre);
                weight.ln() + 0.5 * quadratic(&m, &mean) - 0.5 * dot(centre, centre) / self.spread
            })
            .collect();
        let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let shares: Vec<f64> = logs.iter().map(|log| (log - largest).exp()).collect();
        let mut rng = stream(self.seed, user, own.len() as f64);
        let mut luck = rng.random::<f64>() * shares.iter().sum::<f64>();
        let drawn = shares.iter().position(|share| {
            luck -= share;
            luck < 0.0
        });
        let mean = mean(&self.centres[drawn.unwrap()]);
        // Directions are the axes, each as long as a standard deviation: z has precision
        // spread·(I/spread + G).
        let scaled: Matrix =
            m.iter().map(|row| row.iter().map(|v| v * self.spread).collect()).collect();
        let z = backward(&cholesky(&scaled), &normals(d, &mut rng));
        let theta: Vec<f64> =
            mean.iter().zip(z).map(|(mean, z)| mean + self.spread.sqrt() * z).collect();
        arms.iter().map(|x| dot(x, &theta)).collect()
    }

    fn learn(&mut self, reward: Reward) {
        self.history.push(reward);
    }
}

/// `gob-lin`: Λ in full.
pub struct GobLin {
    pub d: usize,
    pub n: usize,
    pub alpha: f64,
    pub edges: Vec<(usize, usize)>,
    pub history: Vec<Reward>,
}

impl Plain for GobLin {
    fn scores(&mut self, user: usize, arms: &[Vec<f64>]) -> Vec<f64> {
        let size = self.n * self.d;
        let mut lambda = scaled_identity(size, 1.0);
        for &(a, b) in &self.edges {
            for k in 0..self.d {
                let (a, b) = (a * self.d + k, b * self.d + k);
                lambda[a][a] += 1.0;
                lambda[b][b] += 1.0;
                lambda[a][b] -= 1.0;
                lambda[b][a] -= 1.0;
            }
        }
        let at = |user: usize, x: &[f64]| {
            let mut phi = vec![0.0; size];
            phi[user * self.d..(user + 1) * self.d].copy_from_slice(x);
            phi
        };
        let mut b = vec![0.0; size];
        for Reward { user, x, y } in &self.history {
            let phi = at(*user, x);
            add_outer(&mut lambda, &phi, 1.0);
            b.iter_mut().zip(&phi).for_each(|(b, phi)| *b += phi * y);
        }
        let inverse = inverse(&lambda);
        let u = times(&inverse, &b);
        let t = self.history.len() as f64 + 1.0;
        let score = |x: &Vec<f64>| {
            let phi = at(user, x);
            dot(&phi, &u) + self.alpha * (quadratic(&inverse, &phi) * (1.0 + t).ln()).sqrt()
        };
        arms.iter().map(score).collect()
    }

    fn learn(&mut self, reward: Reward) {
        self.history.push(reward);
    }
}
