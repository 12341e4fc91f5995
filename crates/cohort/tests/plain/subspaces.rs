//! Users in a subspace and forced exploration, written as plainly as possible, beside `rivals.rs`.

#![allow(dead_code, reason = "each test uses some of them")]

use cohort::policies::alb_dim::phase_lengths;
use cohort::policies::draws::stream;
use cohort::policies::phase_uniclub::phase;
use cohort::policies::uniclub::random_arm;
use rand::RngExt;

use super::clusterings::{Rclumb, Robust};
use super::rivals::{
    Matrix, Plain, Reward, add_outer, cholesky, dot, inverse, scaled_identity, sums, times,
};

/// 1 for the arm that is drawn, 0 for all others.
fn only(arm: usize, arms: usize) -> Vec<f64> {
    (0..arms).map(|other| f64::from(u8::from(other == arm))).collect()
}

/// Any plain policy after so many turns of arms at random.
pub struct AfterRandom<P> {
    pub plain: P,
    pub seed: u64,
    pub explore: usize,
    pub turns: usize,
}

impl<P: Plain> Plain for AfterRandom<P> {
    fn scores(&mut self, user: usize, arms: &[Vec<f64>]) -> Vec<f64> {
        if self.turns < self.explore {
            only(random_arm(self.seed, user, self.turns as f64, arms.len()), arms.len())
        } else {
            self.plain.scores(user, arms)
        }
    }

    fn learn(&mut self, reward: Reward) {
        self.turns += 1;
        self.plain.learn(reward);
    }
}

/// `phase-uniclub`.
pub struct PhaseUniClub {
    pub rclumb: Rclumb,
    pub unit: f64,
    pub seed: u64,
    pub turns: usize,
    /// How many turns were committed.
    pub committed: usize,
}

impl Plain for PhaseUniClub {
    fn scores(&mut self, user: usize, arms: &[Vec<f64>]) -> Vec<f64> {
        let (s, explores) = phase(self.unit, self.turns as f64);
        if explores {
            return only(random_arm(self.seed, user, self.turns as f64, arms.len()), arms.len());
        }
        self.committed += 1;
        let Robust { alpha1, delta, .. } = self.rclumb.robust;
        self.rclumb.robust = Robust { alpha1, alpha2: 0.0, epsilon: 0.5f64.powi(s), delta };
        self.rclumb.scores(user, arms)
    }

    fn learn(&mut self, reward: Reward) {
        self.turns += 1;
        self.rclumb.learn(reward);
    }
}

/// Eigenvalues and vectors, largest first, by powers: the largest, then what is left of the matrix.
pub fn eigen(a: &Matrix) -> Vec<(f64, Vec<f64>)> {
    let mut rest = a.clone();
    let mut found: Vec<(f64, Vec<f64>)> = Vec::new();
    for start in 0..a.len() {
        let mut v: Vec<f64> =
            (0..a.len()).map(|k| 1.0 + ((k * 7 + start * 3) % 5) as f64).collect();
        for _ in 0..20_000 {
            let mut next = times(&rest, &v);
            for (_, known) in &found {
                let along = dot(&next, known);
                next.iter_mut().zip(known).for_each(|(n, k)| *n -= along * k);
            }
            let length = dot(&next, &next).sqrt();
            if length < 1e-300 {
                break;
            }
            let unit: Vec<f64> = next.iter().map(|n| n / length).collect();
            let moved: f64 = unit.iter().zip(&v).map(|(u, v)| (u - v).abs()).sum();
            v = unit;
            if moved < 1e-15 {
                break;
            }
        }
        let value = dot(&v, &times(a, &v));
        add_outer(&mut rest, &v, -value);
        found.push((value, v));
    }
    found
}

/// `trace-norm`.
pub struct TraceNorm {
    pub n: usize,
    pub d: usize,
    pub c: f64,
    pub sigma: f64,
    pub steps: usize,
    pub history: Vec<Reward>,
    pub w: Matrix,
}

impl TraceNorm {
    /// U·max(S − by, 0)·Vᵀ.
    fn shrink(&self, w: &Matrix, by: f64) -> Matrix {
        let mut square = scaled_identity(self.d, 0.0);
        w.iter().for_each(|row| add_outer(&mut square, row, 1.0));
        let mut factor = scaled_identity(self.d, 0.0);
        for (value, vector) in eigen(&square) {
            let singular = value.max(0.0).sqrt();
            if singular > by {
                add_outer(&mut factor, &vector, (singular - by) / singular);
            }
        }
        w.iter().map(|row| times(&factor, row)).collect()
    }

    fn fit(&mut self) {
        let (n, d, rewards) = (self.n as f64, self.d as f64, self.history.len() as f64);
        let square = self.history.iter().map(|r| dot(&r.x, &r.x)).sum::<f64>() / (rewards * d);
        let grams: Vec<(Matrix, Vec<f64>)> = (0..self.n)
            .map(|user| sums(self.history.iter().filter(|r| r.user == user), self.d, 0.0))
            .collect();
        let row = |row: &Vec<f64>| row.iter().map(|v| v.abs()).sum::<f64>();
        let steepest =
            grams.iter().flat_map(|(gram, _)| gram.iter().map(row)).fold(0.0, f64::max) / rewards;
        let penalty = self.c * self.sigma * square.sqrt() * ((n + d) / (n * rewards)).sqrt();
        let (mut ahead, mut last, mut momentum) = (self.w.clone(), self.w.clone(), 1.0f64);
        for _ in 0..self.steps {
            let mut next = ahead.clone();
            for (w, (gram, moment)) in next.iter_mut().zip(&grams) {
                let product = times(gram, w);
                for k in 0..self.d {
                    w[k] -= (product[k] - moment[k]) / rewards / steepest;
                }
            }
            next = self.shrink(&next, penalty / steepest);
            let further = (1.0 + (1.0 + 4.0 * momentum * momentum).sqrt()) / 2.0;
            for i in 0..self.n {
                for k in 0..self.d {
                    let step = (momentum - 1.0) / further * (next[i][k] - last[i][k]);
                    ahead[i][k] = next[i][k] + step;
                }
            }
            (last, momentum) = (next, further);
        }
        self.w = last;
    }
}

impl Plain for TraceNorm {
    fn scores(&mut self, user: usize, arms: &[Vec<f64>]) -> Vec<f64> {
        arms.iter().map(|x| dot(x, &self.w[user])).collect()
    }

    fn learn(&mut self, reward: Reward) {
        self.history.push(reward);
        if self.history.len().is_multiple_of(self.n) {
            self.fit();
        }
    }
}

/// What `mlin-greedy` and `e2tc` fit: rows of users in a subspace.
pub struct Subspace {
    pub n: usize,
    pub d: usize,
    pub k: usize,
    pub ridge: f64,
    pub history: Vec<Reward>,
}

impl Subspace {
    fn of(&self, user: usize) -> (Matrix, Vec<f64>) {
        sums(self.history.iter().filter(|r| r.user == user), self.d, 0.0)
    }

    /// The leading directions of ridge estimates.
    fn start(&self) -> Matrix {
        let mut square = scaled_identity(self.d, 0.0);
        for user in 0..self.n {
            let (m, b) = sums(self.history.iter().filter(|r| r.user == user), self.d, 1.0);
            add_outer(&mut square, &times(&inverse(&m), &b), 1.0);
        }
        eigen(&square).into_iter().take(self.k).map(|(_, vector)| vector).collect()
    }

    /// Every user's coordinates.
    fn places(&self, basis: &Matrix) -> Matrix {
        let place = |user: usize| {
            let (gram, moment) = self.of(user);
            let mut m = scaled_identity(self.k, self.ridge);
            for a in 0..self.k {
                for b in 0..self.k {
                    m[a][b] += dot(&basis[a], &times(&gram, &basis[b]));
                }
            }
            let right: Vec<f64> = basis.iter().map(|direction| dot(direction, &moment)).collect();
            times(&inverse(&m), &right)
        };
        (0..self.n).map(place).collect()
    }

    fn best_basis(&self, places: &Matrix) -> Matrix {
        let size = self.d * self.k;
        let (mut m, mut right) = (scaled_identity(size, self.ridge), vec![0.0; size]);
        for Reward { user, x, y } in &self.history {
            let features: Vec<f64> =
                places[*user].iter().flat_map(|w| x.iter().map(move |x| w * x)).collect();
            add_outer(&mut m, &features, 1.0);
            right.iter_mut().zip(&features).for_each(|(r, f)| *r += f * y);
        }
        times(&inverse(&m), &right).chunks(self.d).map(<[f64]>::to_vec).collect()
    }

    fn rows(&self, basis: &Matrix) -> Matrix {
        let row = |w: &Vec<f64>| {
            (0..self.d).map(|k| w.iter().zip(basis).map(|(w, b)| w * b[k]).sum()).collect()
        };
        self.places(basis).iter().map(row).collect()
    }
}

/// `mlin-greedy`.
pub struct MlinGreedy {
    pub known: Subspace,
    pub sweeps: usize,
    pub w: Matrix,
    pub due: usize,
}

impl Plain for MlinGreedy {
    fn scores(&mut self, user: usize, arms: &[Vec<f64>]) -> Vec<f64> {
        arms.iter().map(|x| dot(x, &self.w[user])).collect()
    }

    fn learn(&mut self, reward: Reward) {
        self.known.history.push(reward);
        if self.known.history.len() == self.due {
            let mut basis = self.known.start();
            for _ in 0..self.sweeps {
                basis = self.known.best_basis(&self.known.places(&basis));
            }
            self.w = self.known.rows(&basis);
            self.due *= 2;
        }
    }
}

/// `e2tc`.
pub struct E2tc {
    pub known: Subspace,
    pub seed: u64,
    pub first: usize,
    pub second: usize,
    pub basis: Matrix,
    pub w: Matrix,
}

impl Plain for E2tc {
    fn scores(&mut self, user: usize, arms: &[Vec<f64>]) -> Vec<f64> {
        if self.known.history.len() < self.second {
            let served = self.known.history.iter().filter(|r| r.user == user).count();
            let arm = stream(self.seed, user, served as f64).random_range(0..arms.len());
            return only(arm, arms.len());
        }
        arms.iter().map(|x| dot(x, &self.w[user])).collect()
    }

    fn learn(&mut self, reward: Reward) {
        self.known.history.push(reward);
        if self.known.history.len() == self.first {
            self.basis = self.known.start();
        }
        if self.known.history.len() == self.second {
            self.w = self.known.rows(&self.basis);
        }
    }
}

/// `alb-dim`, everything from a user's own history.
pub struct AlbDim {
    pub d: usize,
    pub seed: u64,
    pub t0: f64,
    pub sigma: f64,
    pub history: Vec<Reward>,
}

impl AlbDim {
    /// The phase of a user, where in it, what OFUL has seen in it, and the coordinates.
    fn at(&self, own: &[&Reward]) -> (i32, usize, Vec<Reward>, Vec<bool>) {
        let (mut phase, mut start, mut explored) = (0, 0, Vec::new());
        let mut mask = vec![true; self.d];
        loop {
            let (play, explore) = phase_lengths(self.t0, phase);
            let (play, end) = (start + play as usize, start + (play + explore) as usize);
            if own.len() < end {
                let seen = own[start..own.len().min(play)].iter().map(|r| {
                    let masked =
                        r.x.iter().zip(&mask).map(|(x, keep)| if *keep { *x } else { 0.0 });
                    Reward { x: masked.collect(), ..(*r).clone() }
                });
                return (phase, own.len() - start, seen.collect(), mask);
            }
            explored.extend(own[play..end].iter().map(|r| (*r).clone()));
            let (m, b) = sums(explored.iter(), self.d, 1.0);
            phase += 1;
            let theta = times(&inverse(&m), &b);
            mask = theta.iter().map(|t| t.abs() >= 0.5f64.powi(phase)).collect();
            start = end;
        }
    }
}

impl Plain for AlbDim {
    fn scores(&mut self, user: usize, arms: &[Vec<f64>]) -> Vec<f64> {
        let own: Vec<&Reward> = self.history.iter().filter(|r| r.user == user).collect();
        let (phase, turn, seen, mask) = self.at(&own);
        if turn as f64 >= phase_lengths(self.t0, phase).0 {
            let arm = stream(self.seed, user, own.len() as f64).random_range(0..arms.len());
            return only(arm, arms.len());
        }
        let (m, b) = sums(seen.iter(), self.d, 1.0);
        let inverse = inverse(&m);
        let w = times(&inverse, &b);
        let log_det: f64 = cholesky(&m).iter().enumerate().map(|(k, row)| 2.0 * row[k].ln()).sum();
        let delta = 0.4 / 2f64.powi(phase);
        let beta = self.sigma * (2.0 * (1.0f64 / delta).ln() + log_det).sqrt() + 1.0;
        let score = |x: &Vec<f64>| {
            let x: Vec<f64> = x.iter().zip(&mask).map(|(x, k)| if *k { *x } else { 0.0 }).collect();
            dot(&x, &w) + beta * dot(&x, &times(&inverse, &x)).sqrt()
        };
        arms.iter().map(score).collect()
    }

    fn learn(&mut self, reward: Reward) {
        self.history.push(reward);
    }
}
