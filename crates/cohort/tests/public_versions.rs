//! Our algorithms beside public implementations: the same arms where those are right, and where they are
//! wrong, how.

#[path = "plain/clusterings.rs"]
mod clusterings;
#[path = "plain/rivals.rs"]
mod rivals;

use clusterings::{DynUcb, Users};
use cohort::params::Value;
use cohort::{Contexts, Problem};
use rivals::{Matrix, Plain, Reward, distance, dot, inverse, quadratic, sums, times};

const N: usize = 12;
const D: usize = 4;
const K: usize = 5;
const T: usize = 600;
const ITEMS: usize = 40;

/// A table that any language can make: remainders of products, in [−½, ½).
fn number(a: usize, b: usize, c: usize) -> f64 {
    ((a * 7919 + b * 104_729 + c * 1_299_709) % 10_007) as f64 / 10_007.0 - 0.5
}

/// Who is served in a turn, and what is on offer.
fn turn(t: usize) -> (usize, Matrix) {
    let item = |k: usize| (t * 3 + k * 11 + (t / 13) * k) % ITEMS;
    let context = |k: usize| (0..D).map(|c| number(item(k), c, 1)).collect();
    ((t * 5 + t / 7) % N, (0..K).map(context).collect())
}

fn reward(t: usize, user: usize, x: &[f64]) -> f64 {
    let theta: Vec<f64> = (0..D).map(|c| 2.0 * number(user % 3, c, 2)).collect();
    dot(x, &theta) + 0.4 * number(t, user, 3)
}

/// Arms that a public implementation played on this table.
fn golden(name: &str) -> Vec<usize> {
    let text = include_str!("golden/nucb.json");
    let line = text.lines().find(|line| line.contains(name)).expect("a line of the file");
    let (_, arms) = line.split_once('[').expect("a list");
    let digits = arms.split(|c: char| !c.is_ascii_digit()).filter(|arm| !arm.is_empty());
    digits.map(|arm| arm.parse().unwrap()).collect()
}

fn best(scores: &[f64]) -> usize {
    (0..scores.len()).rev().max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap()
}

/// The arms of a plain algorithm that plays by itself.
fn play(plain: &mut dyn Plain) -> Vec<usize> {
    (0..T)
        .map(|t| {
            let (user, offer) = turn(t);
            let arm = best(&plain.scores(user, &offer));
            let x = offer[arm].clone();
            let y = reward(t, user, &x);
            plain.learn(Reward { user, x, y });
            arm
        })
        .collect()
}

/// CAB of noah-daniels/nucb is right: every arm is ours.
#[test]
fn cab_plays_the_arms_of_the_public_one() {
    for (alpha, gamma) in [("0.3", "0.2"), ("0.1", "2")] {
        let params = [("alpha", alpha), ("gamma", gamma)];
        let params = params.map(|(name, value)| (name.to_owned(), Value::from(value)));
        let mut policy = cohort::registry::build("cab", &Problem::new(N, D), params).unwrap();
        let expected = golden(&format!("cab alpha={alpha} gamma={gamma}"));
        assert_eq!(expected.len(), T);
        for (t, expected) in expected.into_iter().enumerate() {
            let (user, offer) = turn(t);
            let values = offer.concat();
            let contexts = Contexts::new(&values, D).unwrap();
            let online = policy.online().unwrap();
            let arm = online.decide(user, &contexts);
            assert_eq!(arm, expected, "gamma {gamma}, turn {t}");
            online.learn_one(user, contexts.arm(arm), reward(t, user, contexts.arm(arm)));
        }
    }
}

/// DynUCB of noah-daniels/nucb compares a user who has just been learned from with its own cluster as it
/// was before, and moves it to the lowest cluster where centres tie (at the start, when all are 0).
struct StaleDynUcb(DynUcb);

impl Plain for StaleDynUcb {
    fn scores(&mut self, user: usize, arms: &[Vec<f64>]) -> Vec<f64> {
        self.0.scores(user, arms)
    }

    fn learn(&mut self, reward: Reward) {
        let user = reward.user;
        let centres: Matrix = (0..self.0.clusters)
            .map(|cluster| {
                let homes = &self.0.homes;
                let members =
                    self.0.users.of.iter().zip(homes).filter(|(_, home)| **home == cluster);
                let (m, b) = sums(members.flat_map(|(rewards, _)| rewards), D, 1.0);
                times(&inverse(&m), &b)
            })
            .collect();
        self.0.users.of[user].push(reward);
        self.0.users.turns += 1;
        let (m, b) = sums(self.0.users.of[user].iter(), D, 1.0);
        let own = times(&inverse(&m), &b);
        let apart: Vec<f64> = centres.iter().map(|centre| -distance(&own, centre)).collect();
        self.0.homes[user] = best(&apart);
    }
}

#[test]
fn dynucb_of_others_compares_with_a_cluster_that_lacks_the_newest_reward() {
    let homes: Vec<usize> = (0..N).map(|user| (user * user + user) % 3).collect();
    let ours = || DynUcb { users: Users::new(N, D), alpha: 0.4, clusters: 3, homes: homes.clone() };
    let expected = golden("dynucb alpha=0.4 clusters=3");
    assert_eq!(play(&mut StaleDynUcb(ours())), expected);
    assert_ne!(play(&mut ours()), expected);
}

/// LinUCB for each user, with the bonus of the public versions of CLUB, SCLUB, LOCB, RCLUMB and FCLUB, all
/// of which go back to one: β·xᵀM⁻¹x without its square root, or as the papers have it.
struct Bonus {
    history: Vec<Reward>,
    root: bool,
}

impl Plain for Bonus {
    fn scores(&mut self, user: usize, arms: &[Vec<f64>]) -> Vec<f64> {
        let own = self.history.iter().filter(|reward| reward.user == user);
        let (m, b) = sums(own, D, 1.0);
        let inverse = inverse(&m);
        let w = times(&inverse, &b);
        let bonus = |x: &[f64]| {
            let square = quadratic(&inverse, x);
            if self.root { square.sqrt() } else { square }
        };
        let width = (self.history.len() as f64 + 2.0).ln().sqrt();
        arms.iter().map(|x| dot(&w, x) + width * bonus(x)).collect()
    }

    fn learn(&mut self, reward: Reward) {
        self.history.push(reward);
    }
}

/// Without the root a bonus falls with the number of rewards n as 1/n and not as 1/√n: it is soon nothing,
/// and what is played is greedy. Arms are others in a large part of all turns.
#[test]
fn a_bonus_without_its_square_root_is_not_the_papers() {
    let played = |root: bool| play(&mut Bonus { history: Vec::new(), root });
    let (papers, public) = (played(true), played(false));
    let others = papers.iter().zip(&public).filter(|(a, b)| a != b).count();
    assert!(others > T / 10, "{others} of {T}");

    // The bonus of one context after n rewards for it, four times as many.
    let at = |n: usize, root: bool| {
        let x = vec![0.5; D];
        let history = vec![Reward { user: 0, x: x.clone(), y: 0.0 }; n];
        let width = (n as f64 + 2.0).ln().sqrt();
        Bonus { history, root }.scores(0, &[x])[0] / width
    };
    assert!((at(400, true) / at(1600, true) - 2.0).abs() < 0.01);
    assert!((at(400, false) / at(1600, false) - 4.0).abs() < 0.02);
}
