//! SCLUB as its paper writes it, nothing carried along that can be computed anew: the sums of a
//! cluster are added up over its members and inverted whenever they are needed, every member is
//! looked at before a split, and every pair of checked clusters after every turn. The oracle of
//! the tests and the slow end of the benchmarks.

use cohort::linear::{Symmetric, dot};
use cohort::{Arm, Contexts};

/// One user: S, b, w = (I + S)⁻¹b and T.
#[derive(Clone)]
struct User {
    gram: Symmetric,
    moment: Vec<f64>,
    estimate: Vec<f64>,
    served: f64,
    checked: bool,
}

/// A set of users and its pivot: w̃ and T̃.
struct Cluster {
    members: Vec<usize>,
    pivot_estimate: Vec<f64>,
    pivot_served: f64,
}

/// Plain SCLUB.
pub struct PlainSclub {
    /// α.
    pub alpha: f64,
    /// α_θ.
    pub alpha_theta: f64,
    /// α_p.
    pub alpha_p: f64,
    users: Vec<User>,
    /// By number.
    clusters: Vec<Cluster>,
    turns: f64,
    phase: i32,
    turns_left: f64,
    /// How often users were split off and clusters merged.
    pub splits: usize,
    /// How often clusters merged.
    pub merges: usize,
}

/// The inverse of M, w and T of a set of users.
struct Sums {
    inverse: Symmetric,
    estimate: Vec<f64>,
    served: f64,
}

impl PlainSclub {
    /// All users in one cluster.
    pub fn new(users: usize, dim: usize, alpha: f64, alpha_theta: f64, alpha_p: f64) -> Self {
        let zero = vec![0.0; dim];
        let user = User {
            gram: Symmetric::zero(dim),
            moment: zero.clone(),
            estimate: zero.clone(),
            served: 0.0,
            checked: false,
        };
        let all_users =
            Cluster { members: (0..users).collect(), pivot_estimate: zero, pivot_served: 0.0 };
        Self {
            alpha,
            alpha_theta,
            alpha_p,
            users: vec![user; users],
            clusters: vec![all_users],
            turns: 0.0,
            phase: 0,
            turns_left: 0.0,
            splits: 0,
            merges: 0,
        }
    }

    /// One more user, in the largest cluster.
    #[allow(dead_code, reason = "benchmarks have all users from the start")]
    pub fn add(&mut self, dim: usize) {
        let most = self.clusters.iter().map(|cluster| cluster.members.len()).max().unwrap();
        let home = self.clusters.iter_mut().find(|cluster| cluster.members.len() == most).unwrap();
        home.members.push(self.users.len());
        let fresh = Self::new(1, dim, self.alpha, self.alpha_theta, self.alpha_p);
        self.users.extend(fresh.users);
    }

    fn sums(&self, members: &[usize]) -> Sums {
        let dim = self.users[0].moment.len();
        let mut precision = Symmetric::identity(dim, 1.0);
        let mut moment = vec![0.0; dim];
        let mut served = 0.0;
        for user in members.iter().map(|&member| &self.users[member]) {
            precision.add(1.0, &user.gram);
            moment.iter_mut().zip(&user.moment).for_each(|(sum, b)| *sum += b);
            served += user.served;
        }
        let inverse = precision.cholesky().expect("positive definite").inverse();
        let mut estimate = vec![0.0; dim];
        inverse.times(&moment, &mut estimate);
        Sums { inverse, estimate, served }
    }

    fn cluster_of(&self, user: usize) -> usize {
        self.clusters.iter().position(|cluster| cluster.members.contains(&user)).unwrap()
    }

    /// The score of every arm for a user.
    pub fn scores(&self, user: usize, contexts: &Contexts) -> Vec<f64> {
        let Sums { inverse, estimate, .. } =
            self.sums(&self.clusters[self.cluster_of(user)].members);
        let t = self.turns + 1.0;
        (contexts.iter())
            .map(|x| {
                dot(&estimate, x) + self.alpha * (inverse.quadratic(x) * (1.0 + t).ln()).sqrt()
            })
            .collect()
    }

    /// The best arm for a user, ties to the lowest.
    #[allow(dead_code, reason = "the tests compare scores, benchmarks play arms")]
    pub fn decide(&self, user: usize, contexts: &Contexts) -> Arm {
        cohort::linear::argmax(self.scores(user, contexts))
    }

    /// A reward of the user who was served.
    pub fn learn_one(&mut self, user: usize, x: &[f64], y: f64) {
        if self.turns_left == 0.0 {
            self.phase += 1;
            self.turns_left = 2f64.powi(self.phase);
            self.start_phase();
        }
        self.turns_left -= 1.0;
        self.turns += 1.0;
        self.update(user, x, y);
        self.split(user);
        self.users[user].checked = true;
        while self.merge_lowest() {}
    }

    fn start_phase(&mut self) {
        self.users.iter_mut().for_each(|user| user.checked = false);
        for at in 0..self.clusters.len() {
            let Sums { estimate, served, .. } = self.sums(&self.clusters[at].members);
            self.clusters[at].pivot_estimate = estimate;
            self.clusters[at].pivot_served = served;
        }
    }

    fn update(&mut self, user: usize, x: &[f64], y: f64) {
        let learner = &mut self.users[user];
        learner.gram.add_outer(1.0, x);
        learner.moment.iter_mut().zip(x).for_each(|(b, x)| *b += x * y);
        learner.served += 1.0;
        self.users[user].estimate = self.sums(&[user]).estimate;
    }

    fn split(&mut self, user: usize) {
        let at = self.cluster_of(user);
        let (cluster, own) = (&self.clusters[at], &self.users[user]);
        let apart = distance(&own.estimate, &cluster.pivot_estimate);
        let different = apart > self.alpha_theta * (f(own.served) + f(cluster.pivot_served));
        let frequency = |user: usize| self.users[user].served / self.turns;
        let uneven = (cluster.members.iter()).any(|&member| {
            (frequency(user) - frequency(member)).abs() > 2.0 * self.alpha_p * f(self.turns)
        });
        if cluster.members.len() > 1 && (different || uneven) {
            self.splits += 1;
            let alone = Cluster {
                members: vec![user],
                pivot_estimate: own.estimate.clone(),
                pivot_served: own.served,
            };
            self.clusters[at].members.retain(|&member| member != user);
            self.clusters.push(alone);
        }
    }

    /// Merges the lowest pair there is to merge; false if there is none.
    fn merge_lowest(&mut self) -> bool {
        let candidates: Vec<(usize, Sums)> = (0..self.clusters.len())
            .filter(|&at| {
                self.clusters[at].members.iter().all(|&member| self.users[member].checked)
            })
            .map(|at| (at, self.sums(&self.clusters[at].members)))
            .collect();
        for (place, (low, a)) in candidates.iter().enumerate() {
            for (high, b) in &candidates[place + 1..] {
                let alike = distance(&a.estimate, &b.estimate)
                    < self.alpha_theta / 2.0 * (f(a.served) + f(b.served));
                let frequency = |at: usize, sums: &Sums| {
                    sums.served / (self.clusters[at].members.len() as f64 * self.turns)
                };
                let even =
                    (frequency(*low, a) - frequency(*high, b)).abs() < self.alpha_p * f(self.turns);
                if alike && even {
                    self.merges += 1;
                    let gone = self.clusters.remove(*high);
                    self.clusters[*low].members.extend(gone.members);
                    return true;
                }
            }
        }
        false
    }

    /// The cluster of every user, numbered by smallest member.
    pub fn clusters(&self) -> Vec<usize> {
        let mut labels: Vec<usize> =
            (0..self.users.len()).map(|user| self.cluster_of(user)).collect();
        cohort::cluster::partition::number_by_smallest_member(&mut labels);
        labels
    }
}

/// F(T)
fn f(served: f64) -> f64 {
    ((1.0 + (1.0 + served).ln()) / (1.0 + served)).sqrt()
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}
