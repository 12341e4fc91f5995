//! Clusterings of others, written as plainly as possible, beside `rivals.rs`.

#![allow(dead_code, reason = "each test uses some of them")]

use super::rivals::{Matrix, Plain, Reward, distance, dot, f, inverse, quadratic, sums, times};

/// What was seen of every user, and what follows from it.
pub struct Users {
    pub d: usize,
    pub of: Vec<Vec<Reward>>,
    pub turns: usize,
}

impl Users {
    pub fn new(n: usize, d: usize) -> Self {
        Self { d, of: vec![Vec::new(); n], turns: 0 }
    }

    fn learn(&mut self, user: usize, reward: Reward) {
        self.of[user].push(reward);
    }

    /// w and M⁻¹ of some users together.
    fn pooled(&self, users: &[usize]) -> (Vec<f64>, Matrix) {
        let (m, b) = sums(users.iter().flat_map(|user| &self.of[*user]), self.d, 1.0);
        let inverse = inverse(&m);
        (times(&inverse, &b), inverse)
    }

    fn estimate(&self, user: usize) -> Vec<f64> {
        self.pooled(&[user]).0
    }

    /// √ln(1 + t) of the turn to come.
    fn width(&self) -> f64 {
        (self.turns as f64 + 2.0).ln().sqrt()
    }

    fn scores(&self, users: &[usize], arms: &[Vec<f64>], alpha: f64) -> Vec<f64> {
        let (w, inverse) = self.pooled(users);
        let score =
            |x: &Vec<f64>| dot(&w, x) + alpha * self.width() * quadratic(&inverse, x).sqrt();
        arms.iter().map(score).collect()
    }

    fn all(&self) -> Vec<usize> {
        (0..self.of.len()).collect()
    }
}

/// `cab`. What was learned is not only what was served.
pub struct Cab {
    pub users: Users,
    pub alpha: f64,
    pub gamma: f64,
}

impl Cab {
    fn look(&self, user: usize, x: &[f64]) -> (f64, f64) {
        let (w, inverse) = self.users.pooled(&[user]);
        (dot(&w, x), self.alpha * self.users.width() * quadratic(&inverse, x).sqrt())
    }

    fn neighbours(&self, user: usize, x: &[f64]) -> Vec<usize> {
        let own = self.look(user, x);
        let near = |j: &usize| {
            let other = self.look(*j, x);
            let served = !self.users.of[*j].is_empty();
            *j == user || served && (own.0 - other.0).abs() <= own.1 + other.1
        };
        self.users.all().into_iter().filter(near).collect()
    }
}

impl Plain for Cab {
    fn scores(&mut self, user: usize, arms: &[Vec<f64>]) -> Vec<f64> {
        let score = |x: &Vec<f64>| {
            let near = self.neighbours(user, x);
            let sum: f64 = near.iter().map(|j| self.look(*j, x)).map(|(mean, cb)| mean + cb).sum();
            sum / near.len() as f64
        };
        arms.iter().map(score).collect()
    }

    fn learn(&mut self, reward: Reward) {
        let Reward { user, x, .. } = &reward;
        let sure = |j: usize| self.look(j, x).1 < self.gamma / 4.0;
        let learning: Vec<usize> = match sure(*user) {
            true => self.neighbours(*user, x).into_iter().filter(|j| sure(*j)).collect(),
            false => vec![*user],
        };
        for j in learning {
            self.users.learn(j, reward.clone());
        }
        self.users.turns += 1;
    }
}

/// `dynucb`.
pub struct DynUcb {
    pub users: Users,
    pub alpha: f64,
    pub clusters: usize,
    pub homes: Vec<usize>,
}

impl DynUcb {
    fn members(&self, cluster: usize) -> Vec<usize> {
        (0..self.homes.len()).filter(|user| self.homes[*user] == cluster).collect()
    }
}

impl Plain for DynUcb {
    fn scores(&mut self, user: usize, arms: &[Vec<f64>]) -> Vec<f64> {
        self.users.scores(&self.members(self.homes[user]), arms, self.alpha)
    }

    fn learn(&mut self, reward: Reward) {
        let user = reward.user;
        self.users.learn(user, reward);
        self.users.turns += 1;
        let own = self.users.estimate(user);
        let apart: Vec<f64> = (0..self.clusters)
            .map(|cluster| distance(&own, &self.users.pooled(&self.members(cluster)).0))
            .collect();
        let mut best = self.homes[user];
        for cluster in 0..self.clusters {
            if apart[cluster] < apart[best] - 1e-12 {
                best = cluster;
            }
        }
        self.homes[user] = best;
    }
}

/// `locb`.
pub struct Locb {
    pub users: Users,
    pub alpha: f64,
    pub gamma: f64,
    /// The seed, who is in its cluster, and whether it is finished.
    pub seeds: Vec<(usize, Vec<bool>, bool)>,
}

impl Plain for Locb {
    fn scores(&mut self, user: usize, arms: &[Vec<f64>]) -> Vec<f64> {
        let mut best: Option<Vec<f64>> = None;
        let largest = |scores: &[f64]| scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        for (_, members, _) in self.seeds.iter().filter(|(_, members, _)| members[user]) {
            let inside: Vec<usize> = (0..members.len()).filter(|j| members[*j]).collect();
            let scores = self.users.scores(&inside, arms, self.alpha);
            if best.as_ref().is_none_or(|best| largest(&scores) > largest(best) + 1e-12) {
                best = Some(scores);
            }
        }
        best.unwrap_or_else(|| self.users.scores(&[user], arms, self.alpha))
    }

    fn learn(&mut self, reward: Reward) {
        let user = reward.user;
        self.users.learn(user, reward);
        self.users.turns += 1;
        let bound = |j: usize| f(self.users.of[j].len());
        for (seed, members, finished) in self.seeds.iter_mut().filter(|(_, _, done)| !done) {
            let apart = distance(&self.users.estimate(user), &self.users.estimate(*seed));
            members[user] = user == *seed || apart <= bound(user) + bound(*seed);
            *finished = bound(*seed) <= self.gamma / 4.0;
        }
    }
}

/// The constants of `rclumb` and `rsclumb`.
pub struct Robust {
    pub alpha1: f64,
    pub alpha2: f64,
    pub epsilon: f64,
    pub delta: f64,
}

impl Robust {
    /// Scores by what some users were served, ε* Σ_s |xᵀM⁻¹x_s| at its bound.
    fn scores(&self, users: &Users, of: &[usize], arms: &[Vec<f64>]) -> Vec<f64> {
        let (w, inverse) = users.pooled(of);
        let (t, d) = (users.turns as f64 + 1.0, users.d as f64);
        let beta = 1.0 + (2.0 * (1.0 / self.delta).ln() + d * (1.0 + t / d).ln()).sqrt();
        let seen: Vec<&Reward> = of.iter().flat_map(|user| &users.of[*user]).collect();
        let score = |x: &Vec<f64>| {
            let gain = times(&inverse, x);
            let products = seen.iter().map(|reward| dot(&gain, &reward.x));
            let exact: f64 = products.clone().map(f64::abs).sum();
            let squares: f64 = products.map(|product| product * product).sum();
            let bound = (seen.len() as f64 * squares).sqrt();
            assert!(bound >= exact - 1e-9, "{bound} bounds {exact}");
            dot(&w, x) + beta * quadratic(&inverse, x).sqrt() + self.epsilon * bound
        };
        arms.iter().map(score).collect()
    }

    fn allowed(&self, a: usize, b: usize) -> f64 {
        self.alpha1 * (f(a) + f(b)) + self.alpha2 * self.epsilon
    }
}

/// `rclumb`.
pub struct Rclumb {
    pub users: Users,
    pub robust: Robust,
    pub edges: Vec<Vec<bool>>,
}

impl Plain for Rclumb {
    fn scores(&mut self, user: usize, arms: &[Vec<f64>]) -> Vec<f64> {
        let near: Vec<usize> =
            (self.users.all().into_iter()).filter(|j| *j == user || self.edges[user][*j]).collect();
        self.robust.scores(&self.users, &near, arms)
    }

    fn learn(&mut self, reward: Reward) {
        let user = reward.user;
        self.users.learn(user, reward);
        self.users.turns += 1;
        for j in self.users.all() {
            let apart = distance(&self.users.estimate(user), &self.users.estimate(j));
            let (own, other) = (self.users.of[user].len(), self.users.of[j].len());
            if apart > self.robust.allowed(own, other) {
                (self.edges[user][j], self.edges[j][user]) = (false, false);
            }
        }
    }
}

/// `rsclumb`: sets with a number each, the pivot of the phase and who was checked in it.
pub struct Rsclumb {
    pub users: Users,
    pub robust: Robust,
    pub sets: Vec<PlainSet>,
    pub checked: Vec<bool>,
    pub numbers: usize,
    pub phase: u32,
    pub left: usize,
}

pub struct PlainSet {
    pub number: usize,
    pub members: Vec<usize>,
    pub pivot: (Vec<f64>, usize),
}

impl Rsclumb {
    pub fn new(n: usize, d: usize, robust: Robust) -> Self {
        let all = PlainSet { number: 0, members: (0..n).collect(), pivot: (vec![0.0; d], 0) };
        let users = Users::new(n, d);
        let (sets, checked) = (vec![all], vec![false; n]);
        Self { users, robust, sets, checked, numbers: 1, phase: 0, left: 0 }
    }

    fn set_of(&self, user: usize) -> usize {
        self.sets.iter().position(|set| set.members.contains(&user)).unwrap()
    }

    fn served(&self, members: &[usize]) -> usize {
        members.iter().map(|user| self.users.of[*user].len()).sum()
    }

    fn split(&mut self, user: usize) {
        let at = self.set_of(user);
        let (pivot, pivot_served) = &self.sets[at].pivot;
        let own = self.users.estimate(user);
        let served = self.users.of[user].len();
        let apart = distance(&own, pivot);
        if self.sets[at].members.len() > 1 && apart > self.robust.allowed(served, *pivot_served) {
            self.sets[at].members.retain(|member| *member != user);
            let (number, pivot) = (self.numbers, (own, served));
            self.sets.push(PlainSet { number, members: vec![user], pivot });
            self.numbers += 1;
            self.checked[user] = false;
        }
    }

    fn merge(&mut self) {
        loop {
            self.sets.sort_by_key(|set| set.number);
            let done = |set: &PlainSet| set.members.iter().all(|user| self.checked[*user]);
            let mut found = None;
            'pairs: for low in 0..self.sets.len() {
                for high in low + 1..self.sets.len() {
                    let (a, b) = (&self.sets[low], &self.sets[high]);
                    let apart = distance(
                        &self.users.pooled(&a.members).0,
                        &self.users.pooled(&b.members).0,
                    );
                    let (of_a, of_b) = (self.served(&a.members), self.served(&b.members));
                    let allowed = self.robust.allowed(of_a, of_b) / 2.0;
                    if done(a) && done(b) && apart < allowed {
                        found = Some((low, high));
                        break 'pairs;
                    }
                }
            }
            let Some((low, high)) = found else { return };
            let gone = self.sets.remove(high);
            self.sets[low].members.extend(gone.members);
        }
    }
}

impl Plain for Rsclumb {
    fn scores(&mut self, user: usize, arms: &[Vec<f64>]) -> Vec<f64> {
        self.robust.scores(&self.users, &self.sets[self.set_of(user)].members, arms)
    }

    fn learn(&mut self, reward: Reward) {
        let user = reward.user;
        if self.left == 0 {
            self.phase += 1;
            self.left = 1 << self.phase;
            self.checked.fill(false);
            for at in 0..self.sets.len() {
                let members = self.sets[at].members.clone();
                self.sets[at].pivot = (self.users.pooled(&members).0, self.served(&members));
            }
        }
        self.left -= 1;
        self.users.learn(user, reward);
        self.users.turns += 1;
        self.split(user);
        self.checked[user] = true;
        self.merge();
    }
}
