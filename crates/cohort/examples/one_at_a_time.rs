//! Users one at a time: each has candidates of its own, and rewards come later, in any order.
//!
//! `cargo run -p cohort --example one_at_a_time`

use std::collections::VecDeque;

use cohort::policies::cohort as cohort_policy;
use cohort::{Contexts, Error, Problem, Score};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

const USERS: usize = 30;
const DIM: usize = 3;
const NOISE: f64 = 0.1;

/// Prints the regret in the first and in the last third of all requests.
pub fn main() -> Result<(), Error> {
    // No horizon and no number of users need be known; a user number not seen before is a new user.
    let mut policy = cohort_policy::builder().build(&Problem::new(0, DIM))?;
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let mut waiting = VecDeque::new();
    let mut lost = [0.0; 3];
    let requests = 3000;
    for request in 0..requests {
        let user = request * 7 % USERS;
        let candidates = 2 + request % 4;
        let values: Vec<f64> = (0..candidates * DIM).map(|_| rng.random_range(-0.5..0.5)).collect();
        let contexts = Contexts::new(&values, DIM)?;

        // `decide` is enough to play. `score` tells why: the expected reward and the bonus of each.
        let online = policy.online().expect("`cohort` has an online form");
        let mut scores = vec![Score::default(); candidates];
        online.score(user, &contexts, &mut scores);
        let arm = online.decide(user, &contexts);

        // A user's reward is the coordinate it likes, with noise; it comes ten requests later.
        let context = contexts.arm(arm).to_vec();
        let best = contexts.iter().map(|x| x[user % DIM]).fold(f64::NEG_INFINITY, f64::max);
        lost[request * 3 / requests] += best - context[user % DIM];
        waiting.push_back((user, context));
        if waiting.len() > 10 {
            let (user, context) = waiting.pop_front().expect("ten wait");
            let reward = context[user % DIM] + NOISE * rng.sample::<f64, _>(StandardNormal);
            online.learn_one(user, &context, reward);
        }
    }
    let [first, _, last] = lost.map(|sum| sum / (requests / 3) as f64);
    println!("mean regret: {first:.4} in the first third, {last:.4} in the last");
    assert!(last < first);
    Ok(())
}
