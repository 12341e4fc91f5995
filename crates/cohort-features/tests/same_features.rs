//! Items that features do not tell apart: which is better liked is found all the same, and nothing runs away.
#![allow(missing_docs)]

use cohort::{Contexts, Problem, Score};
use cohort_features::bytes::name_hash;
use cohort_features::{
    Encoder, EncoderSettings, Features, Given, ItemEffects, ItemFeatures, Offer, Shown,
};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const ITEMS: usize = 10;
const STEPS: usize = 3000;
const DIM: usize = 32;

fn features(text: &str) -> Features {
    let ItemFeatures(given) = serde_json::from_str(text).unwrap();
    let Given::Json(features) = given else { panic!("not an object") };
    features
}

/// One of ten items is liked in 60 of 100 cases and the others in 10; five of them are offered. Returns the mean reward of the
/// last third beyond the level, and the largest reward that was expected.
fn play(users: usize, features_of: fn(usize) -> String, level: f64, seed: u64) -> (f64, f64) {
    let items: Vec<Features> = (0..ITEMS).map(|item| features(&features_of(item))).collect();
    let hashes: Vec<u64> = (0..ITEMS).map(|item| name_hash(&format!("i{item}"))).collect();
    let mut policy = cohort::registry::build("cohort", &Problem::new(0, DIM), []).unwrap();
    let mut encoder = Encoder::new(DIM, EncoderSettings { seed: 1, ..EncoderSettings::default() });
    let mut effects = ItemEffects::default();
    let (mut rng, mut rows) = (ChaCha8Rng::seed_from_u64(seed), Vec::new());
    let (mut total, mut largest) = (0.0, 0.0f64);
    for step in 0..STEPS {
        let user = rng.random_range(0..users);
        let mut offer: Vec<usize> = (0..ITEMS).filter(|item| *item != 3).collect();
        offer.shuffle(&mut rng);
        offer.truncate(4);
        offer.push(3);
        offer.shuffle(&mut rng);
        let of_items =
            Offer { items: offer.iter().map(|item| &items[*item]).collect(), ..Offer::default() };
        encoder.encode_seen(&of_items, &mut rows).unwrap();
        let contexts = Contexts::new(&rows, DIM).unwrap();
        policy.catch_up();
        let online = policy.online().unwrap();
        let mut scores = vec![Score::default(); offer.len()];
        online.score(user, &contexts, &mut scores);
        let by_policy: Vec<f64> = scores.iter().map(|score| score.expected).collect();
        let shown = |at: usize| Shown { item: hashes[offer[at]], vector: contexts.arm(at) };
        let ask = &mut |rows: &Contexts, scores: &mut [Score]| online.score(user, rows, scores);
        effects.adjust(user, (0..offer.len()).map(shown), &mut scores, ask);
        let best = scores.iter().map(Score::total).fold(f64::NEG_INFINITY, f64::max);
        let arm = scores.iter().position(|score| score.total() >= best).unwrap();
        let chance = if offer[arm] == 3 { 0.6 } else { 0.1 };
        let reward = level + f64::from(u8::from(rng.random_bool(chance)));
        let news = effects.learn(user, None, shown(arm), by_policy[arm], reward, ask);
        if news {
            online.learn_one(user, contexts.arm(arm), reward);
        }
        largest = scores.iter().fold(largest, |largest, score| largest.max(score.expected.abs()));
        if step >= STEPS - STEPS / 3 {
            total += (reward - level) / (STEPS / 3) as f64;
        }
    }
    effects.save(&mut Vec::new()).unwrap();
    (total, largest)
}

fn none(_: usize) -> String {
    "{}".to_owned()
}

fn always_the_same(_: usize) -> String {
    r#"{"kind": "film"}"#.to_owned()
}

fn of_two_kinds(item: usize) -> String {
    format!(r#"{{"kind": "k{}"}}"#, item % 2)
}

fn its_own(item: usize) -> String {
    format!(r#"{{"kind": "k{item}"}}"#)
}

#[test]
fn the_best_item_is_found_without_features_that_tell() {
    for (what, features_of, users, level) in [
        ("none", none as fn(usize) -> String, 20, 0.0),
        ("none, one user", none, 1, 0.0),
        ("the same", always_the_same, 20, 0.0),
        ("the same, one user", always_the_same, 1, 0.0),
        ("of two kinds", of_two_kinds, 20, 0.0),
        ("of two kinds, one user", of_two_kinds, 1, 0.0),
        ("of two kinds, around 100", of_two_kinds, 20, 100.0),
        ("its own", its_own, 20, 0.0),
        ("its own, one user", its_own, 1, 0.0),
        ("its own, around 100,000", its_own, 20, 1e5),
    ] {
        let mut means = Vec::new();
        for seed in 0..4 {
            let (mean, largest) = play(users, features_of, level, seed);
            assert!(largest < 2.0 * (level + 1.0), "{what}, seed {seed}: {largest} was expected");
            means.push(mean);
        }
        // 0.6 is possible, 0.2 is chance.
        let mean = means.iter().sum::<f64>() / means.len() as f64;
        assert!(mean > 0.5, "{what}: {means:?}");
    }
}
