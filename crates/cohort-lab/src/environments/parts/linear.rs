//! Linear rewards: ⟨β, θ_i⟩ + ξ.

use cohort::{Arm, Contexts, Law, Truth};

use crate::environment::{Feedback, World};

/// The users of a world.
#[derive(Default)]
pub struct Users {
    /// θ_i, row by row.
    pub thetas: Vec<f64>,
    /// The cluster of every user.
    pub clusters: Vec<usize>,
    /// The distribution they were drawn from, where there is one.
    pub law: Option<UserLaw>,
    /// The level of every user, added to all its rewards; empty where it is 0.
    pub levels: Vec<f64>,
    /// The noise scale of every user; empty where it is that of the world.
    pub sigmas: Vec<f64>,
}

/// The distribution that users were drawn from; owns what [`cohort::Law`] borrows.
#[derive(Default)]
pub struct UserLaw {
    /// μ_c, row by row.
    pub centres: Vec<f64>,
    /// The share of users of each centre.
    pub weights: Vec<f64>,
    /// Directions in which users of a cluster scatter, as long as their standard deviations.
    pub scatter: Vec<f64>,
    /// The mean of users' levels.
    pub level: f64,
    /// The standard deviation of users' levels.
    pub level_spread: f64,
}

/// A source of the contexts and the noise of rounds.
pub trait Rounds: Send + Sync {
    /// The contexts of a round, row by row, and the noise of every user.
    fn draw(&self, round: usize, contexts: &mut Vec<f64>, noise: &mut [f64]);

    /// The reward, from its expectation and the noise of its user.
    fn answer(&self, expected: f64, noise: f64) -> f64 {
        expected + noise
    }

    /// The growth of the expected reward per unit of ⟨x, θ⟩.
    fn slope(&self) -> f64 {
        1.0
    }

    /// The expected reward where ⟨x, θ⟩ = 0.
    fn level(&self) -> f64 {
        0.0
    }

    /// Whether users are absent from some rounds.
    fn absences(&self) -> bool {
        false
    }

    /// Marks the users who are absent from a round.
    fn absent(&self, _round: usize, _absent: &mut [bool]) {}
}

/// A world of linear rewards, the same contexts for all users.
pub struct LinearWorld<R> {
    users: Users,
    dim: usize,
    sigma: f64,
    rounds: R,
    contexts: Vec<f64>,
    lanes: Vec<Lanes>,
    noise: Vec<f64>,
    absent: Vec<bool>,
    /// Where all users of a cluster are the same: the expected rewards of clusters in this round.
    by_cluster: Option<ByCluster>,
}

/// Expected rewards by cluster: users of a cluster with the same θ expect the same, computed once
/// per round for all of them.
struct ByCluster {
    /// One user of every cluster.
    example: Vec<usize>,
    /// The expected reward of every arm for every cluster, row by row, and of the best arm.
    expected: Vec<f64>,
    best: Vec<f64>,
}

impl ByCluster {
    /// `None` where the users of a cluster differ, and where clusters are too small for it to pay.
    fn of(users: &Users, dim: usize) -> Option<Self> {
        let theta = |user: usize| &users.thetas[user * dim..(user + 1) * dim];
        let clusters = users.clusters.iter().max().map_or(0, |last| last + 1);
        if clusters > users.clusters.len() / 2 {
            return None;
        }
        let mut example = vec![usize::MAX; clusters];
        for (user, &cluster) in users.clusters.iter().enumerate() {
            if example[cluster] == usize::MAX {
                example[cluster] = user;
            } else if theta(user) != theta(example[cluster]) {
                return None;
            }
        }
        // An empty cluster is never read, but has its row.
        example.iter_mut().filter(|user| **user == usize::MAX).for_each(|user| *user = 0);
        Some(Self { example, expected: Vec::new(), best: Vec::new() })
    }
}

/// The same coordinate of eight arms: a user's expected rewards of all arms are needed in every
/// round (regret is against the best), so they are computed eight at a time.
type Lanes = [f64; LANES];
const LANES: usize = 8;

impl<R: Rounds> LinearWorld<R> {
    /// A world of these users.
    pub fn new(mut users: Users, dim: usize, sigma: f64, rounds: R) -> Self {
        // The distribution is given in units of the reward.
        if let Some(law) = &mut users.law {
            let values = law.centres.iter_mut().chain(&mut law.scatter);
            values.for_each(|value| *value *= rounds.slope());
        }
        let (contexts, lanes) = (Vec::new(), Vec::new());
        let noise = vec![0.0; users.clusters.len()];
        let absent = vec![false; noise.len()];
        let by_cluster = ByCluster::of(&users, dim);
        Self { users, dim, sigma, rounds, contexts, lanes, noise, absent, by_cluster }
    }

    /// θ_i, row by row.
    pub fn thetas(&self) -> &[f64] {
        &self.users.thetas
    }

    /// Replaces vectors and clusters of the same users, from the next round on.
    pub fn set_users(&mut self, thetas: &[f64], clusters: &[usize]) {
        self.users.thetas.copy_from_slice(thetas);
        self.users.clusters.copy_from_slice(clusters);
        self.by_cluster = ByCluster::of(&self.users, self.dim);
    }

    /// Transposes the contexts into groups of eight arms; the last arm is repeated as padding.
    fn fill_lanes(&mut self) {
        let arms = self.contexts.len() / self.dim;
        self.lanes.clear();
        for first in (0..arms).step_by(LANES) {
            self.lanes.extend((0..self.dim).map(|k| {
                std::array::from_fn(|lane| {
                    self.contexts[(first + lane).min(arms - 1) * self.dim + k]
                })
            }));
        }
    }

    /// The expected rewards of every arm for a user, eight at a time.
    fn expectations(&self, user: usize) -> impl Iterator<Item = Lanes> {
        let theta = &self.users.thetas[user * self.dim..(user + 1) * self.dim];
        self.lanes.chunks_exact(self.dim).map(move |arms| {
            let mut values = [0.0; LANES];
            for (theta, lane) in theta.iter().zip(arms) {
                for (value, x) in values.iter_mut().zip(lane) {
                    *value += theta * x;
                }
            }
            values
        })
    }

    fn expect_by_kind(&mut self) {
        let Some(mut by_cluster) = self.by_cluster.take() else { return };
        by_cluster.expected.clear();
        by_cluster.best.clear();
        for example in &by_cluster.example {
            let mut best = f64::NEG_INFINITY;
            for values in self.expectations(*example) {
                best = values.iter().copied().fold(best, f64::max);
                by_cluster.expected.extend(values);
            }
            by_cluster.best.push(best);
        }
        self.by_cluster = Some(by_cluster);
    }

    /// The expected reward of an arm for a user, and of the best arm.
    fn expected(&self, user: usize, arm: Arm) -> (f64, f64) {
        if let Some(by_cluster) = &self.by_cluster {
            let (kind, row) =
                (self.users.clusters[user], by_cluster.expected.len() / by_cluster.best.len());
            return (by_cluster.expected[kind * row + arm], by_cluster.best[kind]);
        }
        let (mut best, mut played) = (f64::NEG_INFINITY, 0.0);
        for (block, values) in self.expectations(user).enumerate() {
            best = values.iter().copied().fold(best, f64::max);
            if arm / LANES == block {
                played = values[arm % LANES];
            }
        }
        (played, best)
    }
}

impl<R: Rounds> World for LinearWorld<R> {
    fn sigma(&self) -> f64 {
        self.sigma
    }

    fn truth(&self) -> Option<Truth<'_>> {
        let Users { thetas, clusters, law, sigmas, .. } = &self.users;
        let law = law.as_ref().map(|law| Law {
            centres: &law.centres,
            weights: &law.weights,
            scatter: &law.scatter,
            level: self.rounds.level() + law.level,
            level_spread: law.level_spread,
            sigmas: (!sigmas.is_empty()).then_some(sigmas),
        });
        Some(Truth { law, ..Truth::new(thetas, clusters) })
    }

    fn start_round(&mut self, round: usize) {
        self.rounds.draw(round, &mut self.contexts, &mut self.noise);
        if self.rounds.absences() {
            self.rounds.absent(round, &mut self.absent);
        }
        self.fill_lanes();
        self.expect_by_kind();
    }

    fn absences(&self) -> bool {
        self.rounds.absences()
    }

    fn is_absent(&self, user: usize) -> bool {
        self.absent[user]
    }

    fn contexts(&self) -> Contexts<'_> {
        Contexts::new(&self.contexts, self.dim).expect("laws and tables give finite contexts")
    }

    fn play(&self, user: usize, arm: Arm) -> Feedback {
        let (played, best) = self.expected(user, arm);
        let level = self.users.levels.get(user).copied().unwrap_or(0.0);
        Feedback {
            reward: self.rounds.answer(played, self.noise[user]) + level,
            regret: self.rounds.slope() * (best - played),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohort::linear::dot;

    /// Eleven arms of R², so that the second block of lanes is not full.
    struct Fan;

    impl Rounds for Fan {
        fn draw(&self, round: usize, contexts: &mut Vec<f64>, noise: &mut [f64]) {
            *contexts = (0..11).flat_map(|arm| [f64::from(arm), -1.0]).collect();
            noise.fill(round as f64 + 0.25);
        }
    }

    /// Four users of two clusters are answered by cluster, each as if alone.
    #[test]
    fn users_that_are_the_same_are_answered_the_same() {
        let world = |thetas: &[f64], clusters: &[usize]| {
            let (thetas, clusters) = (thetas.to_vec(), clusters.to_vec());
            let users = Users { thetas, clusters, ..Users::default() };
            LinearWorld::new(users, 2, 0.25, Fan)
        };
        let thetas = [1.0, 0.5, -1.0, 2.0, -1.0, 2.0, 1.0, 0.5];
        let mut alike = world(&thetas, &[0, 1, 1, 0]);
        let mut alone = world(&thetas[..4], &[0, 1]);
        let differing = world(&thetas, &[0, 0, 1, 1]);
        assert!(
            alike.by_cluster.is_some()
                && alone.by_cluster.is_none()
                && differing.by_cluster.is_none()
        );
        for round in [3, 0] {
            alike.start_round(round);
            alone.start_round(round);
            for arm in 0..11 {
                for (user, like) in [(0, 0), (1, 1), (2, 1), (3, 0)] {
                    assert_eq!(alike.play(user, arm), alone.play(like, arm));
                }
            }
        }
    }

    #[test]
    fn rewards_are_noisy_and_regret_is_not() {
        let thetas = vec![1.0, 0.5, -1.0, 2.0];
        let users = Users { thetas, clusters: vec![0, 1], ..Users::default() };
        let mut world = LinearWorld::new(users, 2, 0.25, Fan);
        for round in [3, 0] {
            world.start_round(round);
            for arm in 0..11 {
                let x = world.contexts().arm(arm).to_vec();
                for (user, theta, best) in [(0, [1.0, 0.5], 10), (1, [-1.0, 2.0], 0)] {
                    let outcome = world.play(user, arm);
                    assert_eq!(outcome.reward, dot(&x, &theta) + round as f64 + 0.25);
                    assert_eq!(outcome.regret, (arm as f64 - best as f64).abs());
                }
            }
        }
    }
}
