//! CLUB against its plain version, turn by turn, and what it is for.

#[path = "plain/club.rs"]
mod plain;

mod common;

use cohort::policies::club::draw_neighbours;
use cohort::{Contexts, Policy, Problem, params::Value};
use common::{Plain, World, kinds_are_found, same_rounds, same_turn};
use plain::PlainClub;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn club(problem: &Problem, params: &[(&str, Value)]) -> Box<dyn Policy> {
    let params = params.iter().map(|(name, value)| (name.to_string(), value.clone()));
    cohort::registry::build("club", problem, params).unwrap()
}

fn complete(users: usize) -> Vec<Vec<bool>> {
    (0..users).map(|user| (0..users).map(|other| user != other).collect()).collect()
}

fn erdos_renyi(users: usize, rng: &mut ChaCha8Rng) -> Vec<Vec<bool>> {
    let all_users: Vec<usize> = (0..users).collect();
    let mut edges = vec![vec![false; users]; users];
    for user in 0..users {
        for other in draw_neighbours(&all_users[..user], users, rng) {
            (edges[user][other], edges[other][user]) = (true, true);
        }
    }
    edges
}

impl Plain for PlainClub {
    fn scores(&self, user: usize, contexts: &Contexts) -> Vec<f64> {
        self.scores(user, contexts)
    }

    fn learn_one(&mut self, user: usize, x: &[f64], y: f64) {
        self.learn_one(user, x, y);
    }

    fn clusters(&self) -> Vec<usize> {
        self.clusters().to_vec()
    }
}

/// Plays one instance on both and returns how many clusters there are in the end.
fn same_as_plain(
    users: usize,
    centres: usize,
    noise: f64,
    alpha2: f64,
    graph: &str,
    seed: u64,
) -> usize {
    let mut world = World::new(users, centres, 5, noise, seed);
    let problem = Problem { seed, ..Problem::new(users, world.dim) };
    let params = [("alpha", 0.7.into()), ("alpha2", alpha2.into()), ("graph", graph.into())];
    let mut club = club(&problem, &params);
    let edges = match graph {
        "complete" => complete(users),
        _ => erdos_renyi(users, &mut ChaCha8Rng::seed_from_u64(seed)),
    };
    let mut plain = PlainClub::new(world.dim, 0.7, alpha2, edges);
    assert_eq!(club.clusters().unwrap(), plain.clusters());
    for turn in 0..120 * users {
        // Round-robin at first, then some users much more often than others.
        let user = if turn < 60 * users {
            turn % users
        } else {
            let luck: f64 = world.rng.random();
            (luck * luck * users as f64) as usize
        };
        same_turn(&mut world, user, club.as_mut(), &mut plain);
    }
    club.clusters().unwrap().iter().max().unwrap() + 1
}

#[test]
fn arms_and_clusters_are_those_of_the_plain_version_on_a_complete_graph() {
    let mut clusters = Vec::new();
    for (users, seeds) in [(1, 1), (2, 3), (7, 3), (30, 3), (70, 1)] {
        for seed in 0..seeds {
            for alpha2 in [0.05, 0.4, 0.8, 1.5, 3.0] {
                for noise in [0.05, 0.5] {
                    clusters.push(same_as_plain(users, 3, noise, alpha2, "complete", seed));
                }
            }
        }
    }
    // The instances are worth comparing: nobody parted, everybody parted, and much in between.
    assert!(clusters.contains(&1) && clusters.contains(&3) && clusters.contains(&30));
    assert!(clusters.iter().filter(|&&clusters| (4..30).contains(&clusters)).count() > 5);
}

#[test]
fn arms_and_clusters_are_those_of_the_plain_version_on_an_erdos_renyi_graph() {
    for (users, seeds) in [(1, 1), (2, 2), (12, 4), (60, 3)] {
        for seed in 0..seeds {
            for alpha2 in [0.05, 0.4, 0.8, 1.5] {
                same_as_plain(users, 3, 0.2, alpha2, "erdos-renyi", seed);
            }
        }
    }
}

#[test]
fn late_users_join_the_largest_component() {
    for (seed, graph) in [(0, "complete"), (1, "complete"), (2, "erdos-renyi"), (3, "erdos-renyi")]
    {
        let mut world = World::new(40, 3, 5, 0.1, seed);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let problem = Problem { seed, ..Problem::new(10, world.dim) };
        let mut club = club(&problem, &[("alpha2", 0.7.into()), ("graph", graph.into())]);
        let complete_graph = graph == "complete";
        let edges = if complete_graph { complete(10) } else { erdos_renyi(10, &mut rng) };
        let mut plain = PlainClub::new(world.dim, 1.0, 0.7, edges);
        for known in 10..40 {
            let sizes = cohort::cluster::partition::sizes(plain.clusters());
            let most = *sizes.iter().max().unwrap();
            let home = sizes.iter().position(|&size| size == most).unwrap();
            let members: Vec<usize> =
                (0..known).filter(|&user| plain.clusters()[user] == home).collect();
            let neighbours = if complete_graph {
                members
            } else {
                draw_neighbours(&members, known + 1, &mut rng)
            };
            plain.add(world.dim, &neighbours);
            same_turn(&mut world, known, club.as_mut(), &mut plain);
            for turn in 0..20 * known {
                same_turn(&mut world, turn % (known + 1), club.as_mut(), &mut plain);
            }
        }
        assert!(plain.clusters().iter().max().unwrap() > &1);
    }
}

#[test]
fn a_round_is_chosen_together_and_learned_in_the_order_of_the_users() {
    let mut together = club(&Problem::new(9, 4), &[("alpha2", 0.8.into())]);
    let mut plain = PlainClub::new(4, 1.0, 0.8, complete(9));
    same_rounds(9, 4, together.as_mut(), &mut plain);
}

#[test]
fn users_of_two_kinds_part_and_users_of_one_kind_stay_together() {
    for kinds in [2, 1] {
        kinds_are_found(kinds, club(&Problem::new(20, 5), &[("alpha2", 1.5.into())]).as_mut());
    }
}

#[test]
fn exploration_multiplies_alpha() {
    let mut world = World::new(5, 2, 4, 0.1, 3);
    let problem = Problem::new(5, 4);
    let mut one = club(&problem, &[("alpha", 0.5.into())]);
    let mut other = club(&problem, &[("alpha", 5.0.into()), ("exploration", 0.1.into())]);
    for turn in 0..200 {
        let values = world.contexts();
        let contexts = Contexts::new(&values, 4).unwrap();
        let arm = one.online().unwrap().decide(turn % 5, &contexts);
        assert_eq!(arm, other.online().unwrap().decide(turn % 5, &contexts));
        let reward = world.reward(turn % 5, contexts.arm(arm));
        for policy in [&mut one, &mut other] {
            policy.online().unwrap().learn_one(turn % 5, contexts.arm(arm), reward);
        }
    }
}

#[test]
fn parameters_out_of_range_are_refused_by_name() {
    for (name, value, range) in [
        ("alpha", "0", "(0, ∞)"),
        ("alpha2", "-1", "(0, ∞)"),
        ("exploration", "-0.1", "[0, ∞)"),
        ("graph", "star", "complete or erdos-renyi"),
    ] {
        let given = [(name.to_owned(), Value::from(value))];
        let Err(error) = cohort::registry::build("club", &Problem::new(3, 2), given) else {
            panic!("club.{name} = {value} was accepted");
        };
        let message = error.to_string();
        assert!(message.contains(&format!("club.{name}")) && message.contains(range), "{message}");
    }
}
