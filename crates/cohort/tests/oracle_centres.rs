//! `oracle-centres` expects what the plain version expects, in rounds and one user at a time.

#[path = "plain/oracle_centres.rs"]
mod oracle_centres;
#[allow(dead_code)]
#[path = "plain/paper.rs"]
mod paper;

use cohort::{Contexts, Law, Policy, Problem, Score, Truth, registry};
use oracle_centres::Plain;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const N: usize = 7;
const D: usize = 3;
const K: usize = 5;
const ROUNDS: usize = 25;

struct Case<'a> {
    law: Law<'a>,
    sigma: f64,
    told_sigma: Option<f64>,
}

fn build(case: &Case) -> Box<dyn Policy> {
    let truth = Truth { law: Some(case.law), ..Truth::new(&[], &[]) };
    let problem = Problem { sigma: case.sigma, truth: Some(truth), ..Problem::new(N, D) };
    let sigma = case.told_sigma.map(|sigma| ("sigma".to_owned(), sigma.into()));
    registry::build("oracle-centres", &problem, sigma).unwrap()
}

fn plain(case: &Case, user: usize) -> Plain {
    let Law { centres, weights, scatter, level, level_spread, sigmas } = case.law;
    let entry = |i: usize, j: usize| scatter.chunks(D).map(|s| s[i] * s[j]).sum();
    let own = sigmas.and_then(|sigmas| sigmas.get(user).copied());
    Plain {
        centres: centres.chunks(D).map(<[f64]>::to_vec).collect(),
        weights: weights.to_vec(),
        covariance: (0..D).map(|i| (0..D).map(|j| entry(i, j)).collect()).collect(),
        level,
        level_spread,
        sigma: case.told_sigma.or(own).unwrap_or(case.sigma),
        history: Vec::new(),
    }
}

/// Rewards are any numbers: that the posterior is right does not depend on where they come from.
fn agree(case: &Case) {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let (mut rounds, mut turns) = (build(case), build(case));
    // One user more than was told: it has the law of all.
    let mut plain: Vec<Plain> = (0..=N).map(|user| plain(case, user)).collect();
    for _ in 0..ROUNDS {
        let values: Vec<f64> = (0..K * D).map(|_| rng.random_range(-1.0..1.0)).collect();
        let contexts = Contexts::new(&values, D).unwrap();
        let mut arms = vec![0; N];
        rounds.choose(&contexts, &mut arms);
        let rewards: Vec<f64> = (0..=N).map(|_| rng.random_range(-1.0..1.0)).collect();
        let online = turns.online().unwrap();
        for (user, plain) in plain.iter_mut().enumerate() {
            let expected: Vec<f64> = contexts.iter().map(|x| plain.expected(x)).collect();
            let mut scored = [Score::default(); K];
            online.score(user, &contexts, &mut scored);
            for (scored, expected) in scored.iter().zip(&expected) {
                let error = (scored.expected - expected).abs();
                assert!(error < 1e-7, "user {user}: {} for {expected}", scored.expected);
            }
            let arm = online.decide(user, &contexts);
            let best = expected.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            assert!(expected[arm] > best - 1e-7 && arms.get(user).is_none_or(|own| *own == arm));
            online.learn_one(user, contexts.arm(arm), rewards[user]);
            plain.history.push((contexts.arm(arm).to_vec(), rewards[user]));
        }
        rounds.learn(&contexts, &arms, &rewards[..N]);
    }
}

const CENTRES: [f64; 6] = [0.6, 0.0, -0.8, 0.5, 0.5, -0.4];

fn law() -> Law<'static> {
    Law {
        centres: &CENTRES,
        weights: &[0.25, 0.75],
        scatter: &[],
        level: 0.0,
        level_spread: 0.0,
        sigmas: None,
    }
}

#[test]
fn users_of_a_cluster_are_the_same() {
    agree(&Case { law: law(), sigma: 0.8, told_sigma: None });
    agree(&Case { law: law(), sigma: 0.1, told_sigma: Some(1.5) });
}

#[test]
fn users_scatter_in_some_directions_or_in_all() {
    let some = [0.3, 0.3, 0.0, 0.0, 0.1, -0.4];
    let all = [0.5, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.5];
    for scatter in [&some[..], &all] {
        agree(&Case { law: Law { scatter, ..law() }, sigma: 0.5, told_sigma: None });
    }
}

#[test]
fn levels_and_unequal_noise() {
    let sigmas = [0.3, 1.0, 0.3, 1.0, 0.3, 1.0, 0.3];
    let law = Law { level: 2.0, level_spread: 0.7, sigmas: Some(&sigmas), ..law() };
    agree(&Case { law, sigma: 0.5, told_sigma: None });
    let law = Law { scatter: &[0.0, 0.2, 0.0], ..law };
    agree(&Case { law, sigma: 0.5, told_sigma: None });
}

/// Without a law, clusters are their means and shares; users of a cluster that differ scatter.
#[test]
fn without_a_law_it_is_that_of_the_users() {
    let thetas = [0.2, 0.0, 0.0, 0.6, 0.0, 0.0, -1.0, 0.5, 0.5];
    let truth = Truth::new(&thetas, &[4, 4, 1]);
    let problem = Problem { sigma: 0.5, truth: Some(truth), ..Problem::new(3, D) };
    let mut without = registry::build("oracle-centres", &problem, []).unwrap();
    // Two deviations of 0.2 in nine numbers.
    let s = (2.0 * 0.04 / 9.0f64).sqrt();
    let law = Law {
        centres: &[0.4, 0.0, 0.0, -1.0, 0.5, 0.5],
        weights: &[2.0 / 3.0, 1.0 / 3.0],
        scatter: &[s, 0.0, 0.0, 0.0, s, 0.0, 0.0, 0.0, s],
        ..law()
    };
    let mut with = build(&Case { law, sigma: 0.5, told_sigma: None });
    let values = [0.3, 0.1, -0.2, 0.5, -0.5, 0.4];
    let contexts = Contexts::new(&values, D).unwrap();
    for reward in [0.3, -0.2, 0.1] {
        let scored = [&mut without, &mut with].map(|policy| {
            let mut scored = [Score::default(); 2];
            let online = policy.online().unwrap();
            online.score(1, &contexts, &mut scored);
            online.learn_one(1, contexts.arm(0), reward);
            scored.map(|scored| scored.expected)
        });
        assert!(scored[0].iter().zip(scored[1]).all(|(a, b)| (a - b).abs() < 1e-12));
    }
}

/// With no noise, one reward tells centres apart.
#[test]
fn no_noise_is_borne() {
    let mut policy = build(&Case { law: law(), sigma: 0.0, told_sigma: None });
    let values = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0];
    let contexts = Contexts::new(&values, D).unwrap();
    let online = policy.online().unwrap();
    online.learn_one(0, contexts.arm(0), 0.6);
    let mut scored = [Score::default(); 2];
    online.score(0, &contexts, &mut scored);
    assert_eq!(scored.map(|scored| scored.expected), [0.6, -0.8]);
    online.learn_one(0, contexts.arm(0), 1e300);
    assert_eq!(online.decide(0, &contexts), 0);
}
