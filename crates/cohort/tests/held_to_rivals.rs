//! What the algorithms of others are held to, on small worlds with fixed seeds.

#[allow(dead_code, reason = "other tests use the rest of it")]
mod worlds;

use cohort::params::Value;
use cohort::registry::{self, POLICIES};
use cohort::{Contexts, Order, Policy, Problem};
use rand_distr::{Distribution, StandardNormal};
use worlds::World;

const ROUNDS: usize = 300;

/// Regret per user, served as the policy is: everybody at once, or one after the other.
fn regret(mut world: World, name: &str, params: &[(&str, &str)]) -> f64 {
    let given = world.clusters.clone();
    let thetas = world.thetas.clone();
    let truth = cohort::Truth::new(&thetas, &given);
    let problem = Problem { truth: Some(truth), rounds: Some(ROUNDS), ..world.problem() };
    let params = params.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value)));
    let mut policy: Box<dyn Policy> = registry::build(name, &problem, params).unwrap();
    if policy.order() == Order::Together {
        return world.play(policy.as_mut(), ROUNDS);
    }
    let (users, mut lost) = (world.users(), 0.0);
    for _ in 0..ROUNDS {
        let values = world.contexts();
        let contexts = Contexts::new(&values, world.dim).unwrap();
        for user in 0..users {
            let arm = policy.online().unwrap().decide(user, &contexts);
            let worth =
                |x: &[f64]| cohort::linear::dot(x, &thetas[user * world.dim..][..world.dim]);
            let best = contexts.iter().map(worth).fold(f64::NEG_INFINITY, f64::max);
            lost += best - worth(contexts.arm(arm));
            let reward = world.reward(user, contexts.arm(arm));
            policy.online().unwrap().learn_one(user, contexts.arm(arm), reward);
        }
    }
    lost / users as f64
}

/// Users around one mean: one cluster with spread.
fn alike(seed: u64) -> World {
    let mut world = worlds::identical(seed, 40, 0.5);
    for theta in &mut world.thetas {
        let z: f64 = StandardNormal.sample(&mut world.rng);
        *theta += 0.2 * z;
    }
    world
}

/// Users in a plane of R⁸: nobody is like anybody else.
fn in_a_plane(seed: u64) -> World {
    let mut world = worlds::sphere(seed, 40, 0.3);
    let dim = world.dim;
    let axes: Vec<Vec<f64>> = (0..2).map(|k| world.theta(k).to_vec()).collect();
    for theta in world.thetas.chunks_exact_mut(dim) {
        let along: Vec<f64> = (0..2).map(|_| StandardNormal.sample(&mut world.rng)).collect();
        for (k, theta) in theta.iter_mut().enumerate() {
            *theta = 0.7 * (along[0] * axes[0][k] + along[1] * axes[1][k]);
        }
    }
    world
}

/// Users of R⁸ for whom two coordinates matter, the same two for nobody in particular.
fn sparse(seed: u64) -> World {
    let mut world = worlds::sphere(seed, 40, 0.3);
    let dim = world.dim;
    for (user, theta) in world.thetas.chunks_exact_mut(dim).enumerate() {
        for (k, theta) in theta.iter_mut().enumerate() {
            let sign = if (user + k) % 2 == 0 { 1.0 } else { -1.0 };
            *theta = if k == user % dim || k == (user / dim + 3) % dim { 0.7 * sign } else { 0.0 };
        }
    }
    world
}

fn mean(regrets: impl Fn(u64) -> f64) -> f64 {
    (1..=2).map(regrets).sum::<f64>() / 2.0
}

/// Every one of them learns something where its own paper would have it: clusters for those that
/// cluster, a plane for those of low rank, few coordinates that matter for `alb-dim` (which drops
/// coordinates by its thresholds, and so loses where all of them matter).
#[test]
fn all_beat_random() {
    let place = POLICIES.iter().position(|info| info.name == "cohort").unwrap();
    for info in &POLICIES[place + 1..] {
        // By what they can be set: whoever has a rank or a penalty on it is for subspaces.
        let has = |name: &str| info.params.iter().copied().flatten().any(|p| p.name == name);
        let low_rank = has("rank") || has("steps");
        let world = || match (low_rank, has("t0")) {
            (true, _) => in_a_plane(5),
            (false, true) => sparse(5),
            (false, false) => worlds::clustered(5, 24, 3, 0.3),
        };
        let (own, random) = (regret(world(), info.name, &[]), regret(world(), "random", &[]));
        // Some explore for long by their theory; all have learned something by then.
        assert!(own < 0.9 * random, "{}: {own} against {random}", info.name);
    }
}

/// Told how users scatter but not their mean, it is nearly as good as told both.
#[test]
fn hier_ts_comes_near_the_sampler_that_is_told_the_mean() {
    let own = mean(|seed| regret(alike(seed), "hier-ts", &[("sigma_0", "0.2")]));
    let told = mean(|seed| regret(alike(seed), "mix-ts", &[]));
    let limit = mean(|seed| regret(alike(seed), "oracle-centres", &[]));
    eprintln!("hier-ts {own}, mix-ts told the mean {told}, oracle-centres {limit}");
    assert!(own < 1.3 * told, "{own} against {told}");
}

#[test]
fn mix_ts_told_the_truth_comes_near_the_limit() {
    let world = |seed| worlds::clustered(seed, 30, 3, 0.5);
    let own = mean(|seed| regret(world(seed), "mix-ts", &[]));
    let limit = mean(|seed| regret(world(seed), "oracle-centres", &[]));
    let alone = mean(|seed| regret(world(seed), "linucb-ind", &[]));
    eprintln!("mix-ts {own}, oracle-centres {limit}, linucb-ind {alone}");
    assert!(own < 1.3 * limit && own < 0.2 * alone, "{own}: {limit}, {alone}");
}

#[test]
fn gob_lin_with_the_graph_of_true_clusters_beats_users_alone() {
    let world = |seed| worlds::clustered(seed, 30, 3, 0.5);
    let params = [("graph", "clusters"), ("alpha", "0.2")];
    let own = mean(|seed| regret(world(seed), "gob-lin", &params));
    let alone = mean(|seed| regret(world(seed), "gob-lin", &[("alpha", "0.2")]));
    let oful = mean(|seed| regret(world(seed), "linucb-ind", &[]));
    eprintln!("gob-lin {own}, without a graph {alone}, linucb-ind {oful}");
    assert!(own < 0.8 * alone && own < 0.8 * oful, "{own}: {alone}, {oful}");
}

#[test]
fn low_rank_beats_users_alone_in_a_plane() {
    let alone = mean(|seed| regret(in_a_plane(seed), "linucb-ind", &[]));
    let mlin = mean(|seed| regret(in_a_plane(seed), "mlin-greedy", &[("rank", "2")]));
    let trace = mean(|seed| regret(in_a_plane(seed), "trace-norm", &[]));
    eprintln!("mlin-greedy {mlin}, trace-norm {trace}, linucb-ind {alone}");
    assert!(mlin < 0.8 * alone && trace < 0.8 * alone, "{mlin}, {trace}: {alone}");
}
