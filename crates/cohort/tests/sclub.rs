//! SCLUB against its plain version, turn by turn, and what it is for.

#[path = "plain/sclub.rs"]
mod plain;

mod common;

use cohort::{Contexts, Policy, Problem, params::Value};
use common::{Plain, World, kinds_are_found, same_rounds, same_turn};
use plain::PlainSclub;
use rand::RngExt;

const DIM: usize = 5;

fn sclub(users: usize, params: &[(&str, f64)]) -> Box<dyn Policy> {
    let params = params.iter().map(|(name, value)| (name.to_string(), Value::from(*value)));
    cohort::registry::build("sclub", &Problem::new(users, DIM), params).unwrap()
}

impl Plain for PlainSclub {
    fn scores(&self, user: usize, contexts: &Contexts) -> Vec<f64> {
        self.scores(user, contexts)
    }

    fn learn_one(&mut self, user: usize, x: &[f64], y: f64) {
        self.learn_one(user, x, y);
    }

    fn clusters(&self) -> Vec<usize> {
        self.clusters()
    }
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
    let mut plain = PlainSclub::new(9, DIM, 1.0, 1.0, std::f64::consts::SQRT_2);
    same_rounds(9, DIM, sclub(9, &[]).as_mut(), &mut plain);
}

#[test]
fn users_of_two_kinds_part_and_users_of_one_kind_come_together() {
    for kinds in [2, 1] {
        kinds_are_found(kinds, sclub(20, &[]).as_mut());
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
