//! DCCB and OSOM, written as plainly as possible: every reward is kept, and everything is computed anew
//! from all of them for every decision.

#![allow(dead_code, reason = "each test uses some of them")]

use std::collections::{BTreeMap, BTreeSet};

use cohort::policies::draws::stream;
use rand::RngExt;

use super::rivals::{
    Matrix, Plain, Reward, add_outer, cholesky, distance, dot, f, inverse, quadratic,
    scaled_identity, sums, times,
};

/// How much of which reward.
type Weights = BTreeMap<usize, f64>;

/// `dccb`: who knows how much of which reward.
pub struct Dccb {
    pub d: usize,
    pub seed: u64,
    pub alpha: f64,
    pub alpha2: f64,
    pub buffer: f64,
    pub history: Vec<Reward>,
    pub active: Vec<Weights>,
    pub buffers: Vec<Vec<Weights>>,
    pub parted: Vec<BTreeSet<usize>>,
}

impl Dccb {
    pub fn new(n: usize, d: usize, seed: u64, (alpha, alpha2, buffer): (f64, f64, f64)) -> Self {
        let (active, buffers) = (vec![Weights::new(); n], vec![Vec::new(); n]);
        let (history, parted) = (Vec::new(), vec![BTreeSet::new(); n]);
        Self { d, seed, alpha, alpha2, buffer, history, active, buffers, parted }
    }

    fn own(&self, user: usize) -> Weights {
        let own = (0..self.history.len()).filter(|at| self.history[*at].user == user);
        own.map(|at| (at, 1.0)).collect()
    }

    /// I + Σ weight·xxᵀ and Σ weight·yx.
    fn weighted(&self, weights: &Weights) -> (Matrix, Vec<f64>) {
        let (mut m, mut b) = (scaled_identity(self.d, 1.0), vec![0.0; self.d]);
        for (at, weight) in weights {
            let Reward { x, y, .. } = &self.history[*at];
            add_outer(&mut m, x, *weight);
            b.iter_mut().zip(x).for_each(|(b, x)| *b += weight * x * y);
        }
        (m, b)
    }

    fn estimate(&self, user: usize) -> Vec<f64> {
        let (m, b) = self.weighted(&self.own(user));
        times(&inverse(&m), &b)
    }
}

fn mean(a: &Weights, b: &Weights) -> Weights {
    let mut mean = Weights::new();
    for (at, weight) in a.iter().chain(b) {
        *mean.entry(*at).or_default() += 0.5 * weight;
    }
    mean
}

impl Plain for Dccb {
    fn scores(&mut self, user: usize, arms: &[Vec<f64>]) -> Vec<f64> {
        let (m, b) = self.weighted(&self.active[user]);
        let inverse = inverse(&m);
        let (w, t) = (times(&inverse, &b), self.own(user).len() as f64 + 1.0);
        let score = |x: &Vec<f64>| {
            dot(x, &w) + self.alpha * (quadratic(&inverse, x) * (1.0 + t).ln()).sqrt()
        };
        arms.iter().map(score).collect()
    }

    fn learn(&mut self, reward: Reward) {
        let (user, n) = (reward.user, self.active.len());
        let mut rng = stream(self.seed, user, self.own(user).len() as f64);
        self.history.push(reward);
        let met: Vec<usize> =
            (0..n).filter(|j| *j != user && !self.parted[user].contains(j)).collect();
        if !met.is_empty() {
            let other = met[rng.random_range(0..met.len())];
            let unsure = f(self.own(user).len()) + f(self.own(other).len());
            if distance(&self.estimate(user), &self.estimate(other)) > self.alpha2 * unsure {
                self.parted[user].insert(other);
                self.parted[other].insert(user);
                for peer in [user, other] {
                    self.active[peer] = self.own(peer);
                    self.buffers[peer].clear();
                }
                return;
            }
            if self.parted[user] == self.parted[other] {
                for place in 0..self.buffers[user].len().min(self.buffers[other].len()) {
                    let mean = mean(&self.buffers[user][place], &self.buffers[other][place]);
                    self.buffers[user][place] = mean.clone();
                    self.buffers[other][place] = mean;
                }
            }
        }
        self.buffers[user].push(Weights::from([(self.history.len() - 1, 1.0)]));
        let length = (n as f64).powf(1.5) * self.own(user).len() as f64;
        while self.buffers[user].len() as f64 > (self.buffer * length.log2()).ceil() {
            for (at, weight) in self.buffers[user].remove(0) {
                *self.active[user].entry(at).or_default() += weight;
            }
        }
    }
}

/// One round of `osom` for one user.
pub struct Round {
    pub offer: Matrix,
    pub arm: usize,
    pub y: f64,
}

/// `osom` for one user: all of its rounds, and when it changed over.
pub struct Osom {
    pub d: usize,
    pub sigma: f64,
    pub delta: f64,
    pub threshold: f64,
    pub rounds: Vec<Round>,
    pub complex: bool,
}

impl Osom {
    /// Indices of both models after some of the rounds; none while a place was never played.
    fn indices(&self, rounds: &[Round], offer: &Matrix) -> Option<[Vec<f64>; 3]> {
        let (k, lambda) = (offer.len(), 1.0);
        let of = |place: usize| rounds.iter().filter(move |round| round.arm == place);
        let mean_of = |place: usize, number: &dyn Fn(&Round) -> f64| {
            of(place).map(number).sum::<f64>() / of(place).count() as f64
        };
        if (0..k).any(|place| of(place).next().is_none()) {
            return None;
        }
        let means = |place: usize| -> (Vec<f64>, f64) {
            let x = (0..self.d).map(|c| mean_of(place, &|round| round.offer[place][c])).collect();
            (x, mean_of(place, &|round| round.y))
        };
        // Least squares within places, from deviations from the means of all rewards of a place.
        let mut within = Vec::new();
        for place in 0..rounds.iter().map(|round| round.arm + 1).max().unwrap() {
            let (mean, reward) = if of(place).next().is_some() { means(place) } else { continue };
            within.extend(of(place).map(|round| {
                let x = round.offer[place].iter().zip(&mean).map(|(x, mean)| x - mean).collect();
                Reward { user: 0, x, y: round.y - reward }
            }));
        }
        let (v, b) = sums(within.iter(), self.d, lambda);
        let inverse = inverse(&v);
        let theta = times(&inverse, &b);
        let noise = (2.0 * (1.0 / self.delta).ln() + log_det(&v)).sqrt();
        let radius = self.sigma * noise + f64::sqrt(lambda);
        let (mut simple, mut complex, mut widths) = (Vec::new(), Vec::new(), Vec::new());
        for (place, x) in offer.iter().enumerate() {
            let (mean, reward) = means(place);
            let played = of(place).count() as f64;
            let log = (k as f64 * (1.0 + played).sqrt() / self.delta).ln();
            let width = self.sigma * ((1.0 + played) / played.powi(2) * (1.0 + 2.0 * log)).sqrt();
            let centred: Vec<f64> = x.iter().zip(&mean).map(|(x, mean)| x - mean).collect();
            let bonus = radius * quadratic(&inverse, &centred).sqrt();
            simple.push(reward + width);
            complex.push(reward + width + dot(&centred, &theta) + bonus);
            widths.push((width, bonus));
        }
        let best =
            |scores: &[f64]| (0..k).rev().max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap();
        let (i, j) = (best(&simple), best(&complex));
        let test = vec![complex[j], 2.0 * (widths[i].0 + widths[j].1)];
        Some([simple, complex, test])
    }

    pub fn scores(&self, offer: &Matrix) -> Vec<f64> {
        match self.indices(&self.rounds, offer) {
            Some([simple, complex, _]) => {
                if self.complex {
                    complex
                } else {
                    simple
                }
            }
            None => {
                let played = |place: usize| self.rounds.iter().any(|round| round.arm == place);
                let first = (0..offer.len()).find(|place| !played(*place)).unwrap();
                (0..offer.len()).map(|place| f64::from(u8::from(place == first))).collect()
            }
        }
    }

    pub fn learn(&mut self, round: Round) {
        self.rounds.push(round);
        let (mut lost, mut widths, mut count) = (0.0, 0.0, 0.0);
        for t in 0..self.rounds.len() {
            let found = self.indices(&self.rounds[..t], &self.rounds[t].offer);
            if let Some([_, _, test]) = found.filter(|_| !self.complex) {
                lost += test[0] - self.rounds[t].y;
                widths += test[1];
                count += 1.0;
            }
        }
        let noise = self.sigma * (2.0 * count * (1.0 / self.delta).ln()).sqrt();
        self.complex |= lost > self.threshold * (widths + noise);
    }
}

/// ln det V.
fn log_det(v: &Matrix) -> f64 {
    let l = cholesky(v);
    2.0 * (0..v.len()).map(|i| l[i][i].ln()).sum::<f64>()
}
