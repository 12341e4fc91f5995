//! The same user meets the same items in several contexts, and likes another one in each: features, effects of items and a
//! policy together, as the service has them.
#![allow(missing_docs)]

use cohort::{Contexts, Problem, Score};
use cohort_features::bytes::name_hash;
use cohort_features::{Encoder, EncoderSettings, Features, ItemEffects, Offer, Shown, Side};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const ITEMS: usize = 4;

/// A world: how long vectors are, how often answers are not what they should be, how many users come, and what the context is.
struct World {
    dim: usize,
    noise: f64,
    users: usize,
    /// The JSON of a context, and its best item.
    context: fn(&mut ChaCha8Rng) -> (String, usize),
}

/// The share of the last 300 of so many steps in which the item with the largest expected reward is the best. Nothing is
/// explored but what the policy is unsure of.
fn greedy_share(world: &World, policy: &str, steps: usize, seed: u64) -> f64 {
    let (mut rng, dim) = (ChaCha8Rng::seed_from_u64(seed), world.dim);
    let items: Vec<Features> = (0..ITEMS)
        .map(|item| Features::parse(Side::Item, &format!(r#"{{"kind": "k{item}"}}"#)).unwrap())
        .collect();
    let mut policy = cohort::registry::build(policy, &Problem::new(0, dim), Vec::new()).unwrap();
    let mut encoder = Encoder::new(dim, EncoderSettings { seed, ..EncoderSettings::default() });
    let (mut effects, mut rows, mut right) = (ItemEffects::default(), Vec::new(), 0);
    for step in 0..steps {
        let (json, best) = (world.context)(&mut rng);
        let context = Features::parse(Side::Context, &json).unwrap();
        let user = rng.random_range(0..world.users);
        let offer = Offer { items: items.iter().collect(), context: Some(&context), user: None };
        encoder.encode_seen(&offer, &mut rows).unwrap();
        let contexts = Contexts::new(&rows, dim).unwrap();
        policy.catch_up();
        let mut scores = [Score::default(); ITEMS];
        policy.online().unwrap().score(user, &contexts, &mut scores);
        let predicted = scores;
        let shown = |item: usize| Shown {
            item: name_hash(&format!("action {item}")),
            vector: contexts.arm(item),
        };
        let online = policy.online().unwrap();
        let by_policy = &mut |rows: &Contexts, scores: &mut [Score]| {
            online.score(user, rows, scores);
        };
        effects.adjust(user, (0..ITEMS).map(shown), &mut scores, by_policy);
        // Of items that are equally good any, as in the service.
        let first = rng.random_range(0..ITEMS);
        let best_by = |of: fn(&Score) -> f64| {
            let of = |item: &usize| of(&scores[(first + item) % ITEMS]);
            (first + (0..ITEMS).max_by(|a, b| of(a).total_cmp(&of(b))).unwrap()) % ITEMS
        };
        right += usize::from(step + 300 >= steps && best_by(|score| score.expected) == best);
        let chosen = best_by(Score::total);
        let is_liked = (chosen == best) != (rng.random::<f64>() < world.noise);
        let reward = f64::from(u8::from(is_liked));
        let position = policy.insight().and_then(|insight| insight.position(user));
        let cohort = position.and_then(|position| position.membership);
        let cohort = cohort.map(|membership| membership.component);
        let expected = predicted[chosen].expected;
        let online = policy.online().unwrap();
        let by_policy = &mut |rows: &Contexts, scores: &mut [Score]| {
            online.score(user, rows, scores);
        };
        let shown = shown(chosen);
        if effects.learn(user, cohort, shown, expected, reward, by_policy) {
            policy.online().unwrap().learn_one(user, contexts.arm(chosen), reward);
        }
    }
    right as f64 / 300.0
}

fn three(rng: &mut ChaCha8Rng) -> (String, usize) {
    let at = rng.random_range(0..3);
    (format!(r#"{{"page": "p{at}"}}"#), at)
}

/// More contexts than answers are kept for, of two features; with room for all interactions.
fn many(rng: &mut ChaCha8Rng) -> (String, usize) {
    let (page, other) = (rng.random_range(0..4), rng.random_range(0..8));
    (format!(r#"{{"page": "p{page}", "other": "o{other}"}}"#), page)
}

/// A number that is never the same: below its middle one item is best, above it another.
fn number(rng: &mut ChaCha8Rng) -> (String, usize) {
    let hour: f64 = rng.random_range(0.0..24.0);
    (format!(r#"{{"hour": {hour}}}"#), usize::from(hour > 12.0))
}

fn check(name: &str, world: &World, steps: usize, least: f64) {
    for policy in ["cohort", "linucb-ind"] {
        let share = |seed| greedy_share(world, policy, steps, seed);
        let shares: Vec<f64> = (0..6).map(share).collect();
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        let is_met = mean >= 0.9 && shares.iter().all(|share| *share >= least);
        assert!(is_met, "{name}, {policy}: {shares:.2?}");
    }
}

#[test]
fn one_user_who_likes_another_item_in_every_context() {
    // Where a context pays nothing, its right item may not be tried again: one of three contexts in one of six worlds.
    for noise in [0.0, 0.1] {
        check("three", &World { dim: 32, noise, users: 1, context: three }, 1000, 0.6);
    }
}

#[test]
fn several_users_who_like_another_item_in_every_context() {
    check("users", &World { dim: 32, noise: 0.1, users: 5, context: three }, 2000, 0.9);
}

#[test]
fn more_contexts_than_answers_are_kept_for() {
    check("many", &World { dim: 128, noise: 0.1, users: 1, context: many }, 2000, 0.8);
}

#[test]
fn a_context_with_a_number() {
    check("number", &World { dim: 32, noise: 0.1, users: 1, context: number }, 2000, 0.9);
}
