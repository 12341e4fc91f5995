//! SCLUB against its plain version, turn by turn, and what it is for.

#[path = "plain/sclub.rs"]
mod plain;

mod common;

use cohort::{Contexts, Order, Policy, Problem, params::Value};
use common::World;
use plain::PlainSclub;
use rand::RngExt;

const DIM: usize = 5;

fn sclub(users: usize, params: &[(&str, f64)]) -> Box<dyn Policy> {
    let params = params.iter().map(|(name, value)| (name.to_string(), Value::from(*value)));
    cohort::registry::build("sclub", &Problem::new(users, DIM), params).unwrap()
}

/// Both serve the same user; the library's arm must be the best of the plain scores (within
/// 1e-9), and is what both learn from. The clusters must be the same after every turn.
fn same_turn(world: &mut World, user: usize, sclub: &mut dyn Policy, plain: &mut PlainSclub) {
    let values = world.contexts();
    let contexts = Contexts::new(&values, world.dim).unwrap();
    let arm = sclub.online().unwrap().decide(user, &contexts);
    let scores = plain.scores(user, &contexts);
    let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    assert!(scores[arm] > best - 1e-9, "arm {arm} for user {user}: {scores:?}");
    let reward = world.reward(user, contexts.arm(arm));
    sclub.online().unwrap().learn_one(user, contexts.arm(arm), reward);
    plain.learn_one(user, contexts.arm(arm), reward);
    assert_eq!(sclub.clusters().unwrap(), plain.clusters());
}

/// Plays one instance on both; returns how many splits and merges there were.
fn same_as_plain(
    users: usize,
    noise: f64,
    (alpha_theta, alpha_p): (f64, f64),
    served_evenly: bool,
    seed: u64,
) -> (usize, usize) {
    let mut world = World::new(users, 3, DIM, noise, seed);
    let params = [("alpha", 0.7), ("alpha_theta", alpha_theta), ("alpha_p", alpha_p)];
    let mut sclub = sclub(users, &params);
    let mut plain = PlainSclub::new(users, DIM, 0.7, alpha_theta, alpha_p);
    for turn in 0..100 * users {
        let user = if served_evenly {
            turn % users
        } else {
            let luck: f64 = world.rng.random();
            (luck * luck * users as f64) as usize
        };
        same_turn(&mut world, user, sclub.as_mut(), &mut plain);
    }
    (plain.splits, plain.merges)
}

#[test]
fn arms_and_clusters_are_those_of_the_plain_version() {
    let (mut splits, mut merges) = (0, 0);
    for (users, seeds) in [(1, 1), (2, 3), (7, 3), (25, 2)] {
        for seed in 0..seeds {
            for alpha_theta in [0.1, 0.5, 1.0, 2.0] {
                for noise in [0.05, 0.5] {
                    let scales = (alpha_theta, std::f64::consts::SQRT_2);
                    let counts = same_as_plain(users, noise, scales, true, seed);
                    splits += counts.0;
                    merges += counts.1;
                }
            }
        }
    }
    // The instances are worth comparing: sets came apart and together many times.
    assert!(splits > 500 && merges > 500, "{splits} splits, {merges} merges");
}

/// Users who come much more or less often than others are set apart, and clusters that are alike
/// but for their frequencies merge when these have evened out, without having changed.
#[test]
fn arms_and_clusters_are_those_of_the_plain_version_for_uneven_frequencies() {
    let (mut splits, mut merges) = (0, 0);
    for (users, seeds) in [(2, 3), (7, 3), (25, 2)] {
        for seed in 0..seeds {
            for alpha_p in [0.02, 0.05, 0.1, 0.3, 1.0] {
                for alpha_theta in [0.6, 2.0] {
                    let counts = same_as_plain(users, 0.2, (alpha_theta, alpha_p), false, seed);
                    splits += counts.0;
                    merges += counts.1;
                }
            }
        }
    }
    assert!(splits > 500 && merges > 500, "{splits} splits, {merges} merges");
}

#[test]
fn late_users_join_the_largest_cluster() {
    for seed in 0..3 {
        let mut world = World::new(25, 3, DIM, 0.1, seed);
        let mut sclub = sclub(5, &[("alpha_theta", 0.8)]);
        let mut plain = PlainSclub::new(5, DIM, 1.0, 0.8, std::f64::consts::SQRT_2);
        for known in 5..25 {
            plain.add(DIM);
            same_turn(&mut world, known, sclub.as_mut(), &mut plain);
            for turn in 0..20 * known {
                same_turn(&mut world, turn % (known + 1), sclub.as_mut(), &mut plain);
            }
        }
        assert!(plain.splits > 10 && plain.merges > 10);
    }
}

#[test]
fn a_round_is_chosen_together_and_learned_in_the_order_of_the_users() {
    let mut world = World::new(9, 2, DIM, 0.1, 5);
    let mut together = sclub(9, &[]);
    let mut plain = PlainSclub::new(9, DIM, 1.0, 1.0, std::f64::consts::SQRT_2);
    assert_eq!(together.order(), Order::OneByOne);
    for _ in 0..150 {
        let values = world.contexts();
        let contexts = Contexts::new(&values, DIM).unwrap();
        let mut arms = [0; 9];
        together.choose(&contexts, &mut arms);
        for user in 0..9 {
            let scores = plain.scores(user, &contexts);
            let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            assert!(scores[arms[user]] > best - 1e-9);
        }
        let rewards: Vec<f64> =
            (0..9).map(|user| world.reward(user, contexts.arm(arms[user]))).collect();
        together.learn(&contexts, &arms, &rewards);
        for user in 0..9 {
            plain.learn_one(user, contexts.arm(arms[user]), rewards[user]);
        }
        assert_eq!(together.clusters().unwrap(), plain.clusters());
    }
}

#[test]
fn users_of_two_kinds_part_and_users_of_one_kind_come_together() {
    for (centres, expected) in [(2, 2), (1, 1)] {
        let mut world = World::new(20, centres, DIM, 0.1, 11);
        let mut sclub = sclub(20, &[]);
        for turn in 0..20 * 500 {
            let values = world.contexts();
            let contexts = Contexts::new(&values, DIM).unwrap();
            let online = sclub.online().unwrap();
            let arm = online.decide(turn % 20, &contexts);
            let reward = world.reward(turn % 20, contexts.arm(arm));
            online.learn_one(turn % 20, contexts.arm(arm), reward);
        }
        let kinds: Vec<usize> = (0..20).map(|user| user % expected).collect();
        assert_eq!(sclub.clusters().unwrap(), kinds);
    }
}

#[test]
fn parameters_out_of_range_are_refused_by_name() {
    for (name, value, range) in [
        ("alpha", "0", "(0, ∞)"),
        ("alpha_theta", "0", "(0, ∞)"),
        ("alpha_p", "-1", "(0, ∞)"),
        ("exploration", "-0.1", "[0, ∞)"),
    ] {
        let given = [(name.to_owned(), Value::from(value))];
        let Err(error) = cohort::registry::build("sclub", &Problem::new(3, 2), given) else {
            panic!("sclub.{name} = {value} was accepted");
        };
        let message = error.to_string();
        assert!(message.contains(&format!("sclub.{name}")) && message.contains(range), "{message}");
    }
}
