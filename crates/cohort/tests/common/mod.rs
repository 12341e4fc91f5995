//! A world to play in, and what CLUB and SCLUB must have in common with their plain versions in it.

use cohort::{Arm, Contexts, Order, Policy};
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

/// An algorithm written as plainly as possible.
pub trait Plain {
    /// What the arms are compared by.
    fn scores(&self, user: usize, contexts: &Contexts) -> Vec<f64>;
    /// One reward.
    fn learn_one(&mut self, user: usize, x: &[f64], y: f64);
    /// The cluster of every user.
    fn clusters(&self) -> Vec<usize>;
}

/// The library's arm must be the best of the plain scores, within 1e-9.
fn check_arm(arm: Arm, user: usize, contexts: &Contexts, plain: &impl Plain) {
    let scores = plain.scores(user, contexts);
    let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    assert!(scores[arm] > best - 1e-9, "arm {arm} for user {user}: {scores:?}");
}

/// Both serve the same user; the library's arm is what both learn from. The clusters must be the
/// same after every turn.
pub fn same_turn(world: &mut World, user: usize, policy: &mut dyn Policy, plain: &mut impl Plain) {
    let values = world.contexts();
    let contexts = Contexts::new(&values, world.dim).unwrap();
    let arm = policy.online().unwrap().decide(user, &contexts);
    check_arm(arm, user, &contexts, plain);
    let reward = world.reward(user, contexts.arm(arm));
    policy.online().unwrap().learn_one(user, contexts.arm(arm), reward);
    plain.learn_one(user, contexts.arm(arm), reward);
    assert_eq!(policy.clusters().unwrap(), plain.clusters());
}

/// In a round all users choose together, and rewards are learned in the order of the users.
pub fn same_rounds(users: usize, dim: usize, policy: &mut dyn Policy, plain: &mut impl Plain) {
    let mut world = World::new(users, 2, dim, 0.1, 5);
    assert_eq!(policy.order(), Order::OneByOne);
    for _ in 0..150 {
        let values = world.contexts();
        let contexts = Contexts::new(&values, dim).unwrap();
        let mut arms = vec![0; users];
        policy.choose(&contexts, &mut arms);
        for user in 0..users {
            check_arm(arms[user], user, &contexts, plain);
        }
        let rewards: Vec<f64> =
            (0..users).map(|user| world.reward(user, contexts.arm(arms[user]))).collect();
        policy.learn(&contexts, &arms, &rewards);
        for user in 0..users {
            plain.learn_one(user, contexts.arm(arms[user]), rewards[user]);
        }
        assert_eq!(policy.clusters().unwrap(), plain.clusters());
    }
}

/// Serves 20 users of so many kinds 500 times each: the clusters found must be the kinds.
pub fn kinds_are_found(kinds: usize, policy: &mut dyn Policy) {
    let users = 20;
    let mut world = World::new(users, kinds, 5, 0.1, 11);
    for turn in 0..users * 500 {
        let values = world.contexts();
        let contexts = Contexts::new(&values, world.dim).unwrap();
        let online = policy.online().unwrap();
        let arm = online.decide(turn % users, &contexts);
        let reward = world.reward(turn % users, contexts.arm(arm));
        online.learn_one(turn % users, contexts.arm(arm), reward);
    }
    let expected: Vec<usize> = (0..users).map(|user| user % kinds).collect();
    assert_eq!(policy.clusters().unwrap(), expected);
}
