//! What the `cohort` policy promises to users who come one at a time. Ratios are of mean regret, on fixed seeds.

#[allow(dead_code)]
#[path = "worlds/mod.rs"]
mod worlds;

use cohort::policies::cohort::Cohort;
use cohort::{Contexts, OnlinePolicy, Score, registry};
use worlds::{Noise, Offers, World, clustered};

fn cohort(world: &World) -> Cohort {
    let settings = registry::info("cohort").unwrap().check([]).unwrap();
    Cohort::new(&world.problem(), &settings).unwrap()
}

/// Who comes between two refits for the first time is told the same as the others; if all chose the same arm, they would
/// teach the same. In rounds everybody chooses another arm at first.
#[test]
fn users_one_at_a_time_are_learned_as_fast_as_in_rounds() {
    // All of one kind come before those of the next: 1.4 × if newcomers all chose the same.
    let sorted = |seed| {
        let mut world = clustered(seed, 240, 6, 0.1);
        world.clusters = (0..240).map(|user| user / 40).collect();
        world.thetas = (0..240).flat_map(|user| world.theta(user / 40).to_vec()).collect();
        world
    };
    let mixed = |seed| clustered(seed, 100, 4, 0.1);
    let alone = |make: &dyn Fn(u64) -> World| {
        let play = |seed| make(seed).play_alone(&mut cohort(&make(seed)), 25, Offers::Shared);
        (0..8).map(play).sum::<f64>() / 8.0
    };
    let in_rounds = |make: &dyn Fn(u64) -> World| {
        let play = |seed| make(seed).play(&mut cohort(&make(seed)), 25);
        (0..8).map(play).sum::<f64>() / 8.0
    };
    let ratio = alone(&sorted) / in_rounds(&sorted);
    assert!(ratio <= 1.25, "kinds one after the other: {ratio}");
    let ratio = alone(&mixed) / in_rounds(&mixed);
    assert!(ratio <= 1.1, "kinds in turn: {ratio}");
}

#[test]
fn newcomers_are_spread_while_the_population_is_not_known() {
    let mut world = clustered(2, 400, 4, 0.1);
    let mut policy = cohort(&world);
    let values = world.contexts();
    let contexts = Contexts::new(&values, world.dim).unwrap();
    for user in 0..12 {
        let arm = policy.decide(user, &contexts);
        let reward = world.reward(user, contexts.arm(arm));
        policy.learn_one(user, contexts.arm(arm), reward);
    }
    let mut scores = vec![Score::default(); contexts.arms()];
    let mut first_arms = |policy: &mut Cohort| {
        let mut arms: Vec<usize> = (1000..1100)
            .map(|user| {
                let arm = policy.decide(user, &contexts);
                assert_eq!(
                    arm,
                    policy.decide(user, &contexts),
                    "it is the same when it asks again"
                );
                policy.score(user, &contexts, &mut scores);
                let totals: Vec<f64> = scores.iter().map(Score::total).collect();
                assert!(totals.iter().all(|total| *total <= totals[arm]), "what is played is best");
                assert!(scores.iter().all(|score| score.bonus >= 0.0));
                arm
            })
            .collect();
        arms.sort_unstable();
        arms.dedup();
        arms.len()
    };
    assert!(first_arms(&mut policy) >= 4);
    world.play_alone(&mut policy, 20, Offers::Own);
    assert!(first_arms(&mut policy) <= 2, "once cohorts are known, but for ties");
}

/// Users' vectors have a part that no feature goes along. Where there is no noise, rounding says more of it than any
/// reward: centres of cohorts ran away along it, and whole kinds of users were lost.
#[test]
fn without_noise_features_in_a_plane_lose_nothing() {
    for seed in 0..8 {
        let make = |world: World| World { noise: Noise::None, plane: true, ..world };
        let mut world = make(clustered(seed, 30, 3, 0.0));
        let mut policy = cohort(&world);
        world.play_alone(&mut policy, 40, Offers::Own);
        let regret = world.play_alone(&mut policy, 40, Offers::Own) / 40.0;
        assert!(regret < 1e-4, "seed {seed}: {regret} a decision");
        let centres = policy.population().unwrap();
        let longest = (0..centres.components.len())
            .flat_map(|component| centres.centre(component))
            .fold(0.0, |longest: f64, entry| longest.max(entry.abs()));
        assert!(longest < 3.0, "seed {seed}: {longest}");
    }
}

/// Regret a user over some rounds, where vectors are padded with zeros to R^`dim`.
fn regret_padded(seed: u64, dim: usize) -> f64 {
    let mut world = clustered(seed, 60, 3, 0.3);
    let settings = registry::info("cohort").unwrap().check([]).unwrap();
    let mut policy = Cohort::new(&cohort::Problem::new(0, dim), &settings).unwrap();
    let mut regret = 0.0;
    for _ in 0..40 {
        for user in 0..60 {
            let values = world.contexts();
            let padded: Vec<f64> = (values.chunks_exact(world.dim))
                .flat_map(|arm| (0..dim).map(|at| arm.get(at).copied().unwrap_or(0.0)))
                .collect();
            let contexts = Contexts::new(&padded, dim).unwrap();
            let arm = policy.decide(user, &contexts);
            let expected = |arm: &[f64]| -> f64 {
                arm.iter().zip(world.theta(user)).map(|(x, theta)| x * theta).sum()
            };
            let best = values.chunks_exact(world.dim).map(expected).fold(f64::MIN, f64::max);
            let chosen = &values[arm * world.dim..(arm + 1) * world.dim];
            regret += best - expected(chosen);
            let chosen = chosen.to_vec();
            let reward = world.reward(user, &chosen);
            policy.learn_one(user, contexts.arm(arm), reward);
        }
    }
    regret / 60.0
}

/// Hashed features leave coordinates that nothing uses. What is asked of data per dimension counts those that are used,
/// or learning would take the longer the more room an app has for features.
#[test]
fn features_that_are_always_zero_cost_nothing() {
    let mean = |dim| (0..6).map(|seed| regret_padded(seed, dim)).sum::<f64>() / 6.0;
    let (plain, padded) = (mean(8), mean(64));
    assert!(padded <= 1.1 * plain, "{padded} padded with zeros, {plain} without");
}
