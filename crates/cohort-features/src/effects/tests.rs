use super::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A policy that knows nothing.
fn knows_nothing(_: &Contexts, _: &mut [Score]) {}

/// Effects of items that always have the same vector.
fn adjust(effects: &ItemEffects, user: usize, item: u64, scores: &mut [Score]) {
    let shown = std::iter::once(Shown { item, vector: &[1.0] });
    effects.adjust(user, shown, scores, &mut knows_nothing);
}

/// An answer to such an item, and whether the policy is taught it.
fn learn(
    effects: &mut ItemEffects,
    user: usize,
    cohort: Option<usize>,
    item: u64,
    reward: f64,
) -> bool {
    let shown = Shown { item, vector: &[1.0] };
    effects.learn(user, cohort, shown, 0.0, reward, &mut knows_nothing)
}

fn expected(effects: &ItemEffects, user: usize, item: u64) -> f64 {
    let mut scores = [Score::default()];
    adjust(effects, user, item, &mut scores);
    scores[0].expected
}

/// Answers of users to items: an effect of the item, one of the pair, and noise.
fn world(item: f64, pair: f64, noise: f64, rewards: usize) -> (ItemEffects, Vec<f64>) {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut effects = ItemEffects::default();
    let mut normal =
        |scale: f64| scale * (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0 * scale;
    let of_items: Vec<f64> = (0..50).map(|_| normal(item)).collect();
    let of_pairs: Vec<f64> = (0..50 * 40).map(|_| normal(pair)).collect();
    let mut order = ChaCha8Rng::seed_from_u64(4);
    for _ in 0..rewards {
        let (user, item) = (order.random_range(0..40), order.random_range(0..50));
        let reward = of_items[item] + of_pairs[user * 50 + item] + normal(noise);
        learn(&mut effects, user, None, item as u64, reward);
    }
    (effects, of_items)
}

#[test]
fn items_that_do_not_differ_have_no_effect() {
    let (effects, _) = world(0.0, 0.0, 1.0, 5000);
    for item in 0..50 {
        assert!(expected(&effects, 99, item).abs() < 0.06, "{}", expected(&effects, 99, item));
    }
    assert_eq!(expected(&effects, 99, 1000), 0.0, "a new item starts from its features");
    assert_eq!(expected(&ItemEffects::default(), 0, 0), 0.0);
}

#[test]
fn effects_of_items_are_found_and_shrunk() {
    let (effects, truth) = world(0.5, 0.0, 1.0, 10_000);
    for (item, truth) in truth.iter().enumerate() {
        assert!((expected(&effects, 99, item as u64) - truth).abs() < 0.35);
    }
    let (few, truth) = world(0.5, 0.0, 1.0, 300);
    let square = |values: Vec<f64>| values.iter().map(|x| x * x).sum::<f64>();
    let error = square((0..50).map(|i| expected(&few, 99, i as u64) - truth[i]).collect());
    let mean_of = |i: usize| few.items.get(&(i as u64)).map_or(0.0, |one| one.sum / one.count);
    let of_means = square((0..50).map(|i| mean_of(i) - truth[i]).collect());
    assert!(error < of_means && error < square(truth), "{error} {of_means}");
}

/// Items that disappoint at first are not shown again: effects are not taken to be larger than they are.
#[test]
fn effects_are_not_overrated_where_the_bad_are_dropped() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let mut normal = |scale: f64| scale * (0..12).map(|_| rng.random::<f64>() - 0.5).sum::<f64>();
    let truth: Vec<f64> = (0..2000).map(|_| normal(0.3)).collect();
    let mut effects = ItemEffects::default();
    for step in 0..6000u64 {
        // Of ten items the one that seems best.
        let item = (0..10u64)
            .map(|at| (step * 7919 + at * 104_729) % 2000)
            .max_by(|a, b| effects.of(*a).0.total_cmp(&effects.of(*b).0))
            .unwrap();
        let reward = truth[item as usize] + normal(1.0);
        learn(&mut effects, step as usize, None, item, reward);
    }
    // Noise 1 and effects of variance 0.09.
    let (by_moments, found) = (effects.ratio_of_moments(), effects.variances().item_ratio);
    assert!((8.0..=32.0).contains(&found), "{found}, by moments {by_moments}");
}

#[test]
fn what_a_user_answered_before_counts_as_far_as_answers_are_the_same() {
    // Always the same answer: it is foretold, and there is nothing left to try.
    let (sure, _) = world(0.3, 1.0, 0.0, 10_000);
    let (key, pair) = sure.pairs.iter().next().unwrap();
    let mut scores = [Score { expected: 0.2, bonus: 1.0 }];
    adjust(&sure, key.0 as usize, key.1, &mut scores);
    assert!((scores[0].expected - pair.mean).abs() < 0.02 && scores[0].bonus < 0.2);
    // Answers that are chance: one of them says next to nothing.
    let (unsure, _) = world(0.0, 0.0, 1.0, 10_000);
    let mut scores = [Score { expected: 0.0, bonus: 1.0 }];
    adjust(&unsure, key.0 as usize, key.1, &mut scores);
    assert!(scores[0].bonus > 0.8, "{scores:?}");
}

/// The policy is taught as often as answers say something new of features.
#[test]
fn answers_that_are_always_the_same_are_taught_once() {
    let taught = |pair: f64, noise: f64| {
        let (mut effects, _) = world(0.3, pair, noise, 10_000);
        let key = *effects.pairs.keys().find(|key| effects.pairs[*key].count < 4.0).unwrap();
        effects.pairs.remove(&key);
        let answer = |effects: &mut ItemEffects| learn(effects, key.0 as usize, None, key.1, 1.0);
        (0..20).filter(|_| answer(&mut effects)).count()
    };
    assert_eq!(taught(1.0, 0.0), 1, "the second answer is known");
    assert_eq!(taught(0.0, 1.0), 20, "every answer is as good as another user's");
    assert_eq!(taught(0.5, 1.0), 20, "answers differ more than effects");
}

/// Two cohorts that like opposite items, and users who change from one to the other.
#[test]
fn cohorts_have_effects_of_their_own_where_they_differ() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let (mut effects, mut alike) = (ItemEffects::default(), ItemEffects::default());
    for step in 0..6000 {
        let (user, item) = (rng.random_range(0..200), rng.random_range(0..20));
        // Users are found in the wrong cohort at first.
        let cohort = if step < 500 { user / 2 % 2 } else { user % 2 };
        let sign = if (user + item) % 2 == 0 { 0.5 } else { -0.5 };
        let noise = rng.random::<f64>() - 0.5;
        learn(&mut effects, user, Some(cohort), item as u64, sign + noise);
        learn(&mut alike, user, Some(cohort), item as u64, noise);
    }
    let variances = effects.variances();
    for (user, item) in [(4u64, 0), (5, 0), (4, 1), (5, 1)] {
        let sign = if (user + item) % 2 == 0 { 0.5 } else { -0.5 };
        let found = effects.foretold(&variances, user, item);
        assert!((found - sign).abs() < 0.12, "{user} {item}: {found}");
        let none = alike.foretold(&alike.variances(), user, item);
        assert!(none.abs() < 0.08, "{user} {item}: {none}");
    }
    assert!(effects.of(0).0.abs() < 0.1, "for everybody there is none");
    let (mut bytes, mut more) = (Vec::new(), Vec::new());
    effects.save(&mut bytes).unwrap();
    effects.save_cohorts(&mut more).unwrap();
    let mut loaded = ItemEffects::load(&mut bytes.as_slice()).unwrap();
    loaded.load_cohorts(&mut more.as_slice()).unwrap();
    let mut more = Vec::new();
    effects.save_shrinkage(&mut more).unwrap();
    loaded.load_shrinkage(&mut more.as_slice()).unwrap();
    let mut more = Vec::new();
    effects.save_vectors(&mut more).unwrap();
    loaded.load_vectors(&mut more.as_slice()).unwrap();
    let mut more = Vec::new();
    effects.save_level(&mut more).unwrap();
    loaded.load_level(&mut more.as_slice()).unwrap();
    assert_eq!(loaded, effects);
    effects.forget(4);
    let forgotten = effects.foretold(&effects.variances(), 4, 0);
    assert!(forgotten.abs() < 0.1, "{forgotten}");
}

#[test]
fn it_is_kept_and_forgets() {
    let (mut effects, _) = world(0.3, 0.5, 0.5, 500);
    let mut bytes = Vec::new();
    effects.save(&mut bytes).unwrap();
    let mut more = Vec::new();
    effects.save_cohorts(&mut more).unwrap();
    let mut loaded = ItemEffects::load(&mut bytes.as_slice()).unwrap();
    loaded.load_cohorts(&mut more.as_slice()).unwrap();
    // What an earlier version kept has only moments to tell how far effects are shrunk.
    assert_eq!(loaded.variances().item_ratio, effects.ratio_of_moments());
    let mut more = Vec::new();
    effects.save_shrinkage(&mut more).unwrap();
    loaded.load_shrinkage(&mut more.as_slice()).unwrap();
    let mut more = Vec::new();
    effects.save_vectors(&mut more).unwrap();
    loaded.load_vectors(&mut more.as_slice()).unwrap();
    let mut more = Vec::new();
    effects.save_level(&mut more).unwrap();
    loaded.load_level(&mut more.as_slice()).unwrap();
    assert_eq!(loaded, effects);
    assert!(ItemEffects::load(&mut &bytes[..bytes.len() - 1]).is_err());
    effects.forget(7);
    assert!(
        effects.pairs.keys().all(|key| key.0 != 7) && effects.order.len() == effects.pairs.len()
    );
}

/// Rewards that are far from what a policy expects that knows nothing yet say nothing of the items that were shown.
#[test]
fn what_a_policy_does_not_know_at_first_is_no_effect() {
    let mut effects = ItemEffects::default();
    for step in 0..400 {
        let item = step % 8;
        let expected = if step < 40 { 0.0 } else { 1000.0 };
        let shown = Shown { item, vector: &[1.0] };
        let reward = 1000.0 + f64::from(u8::from(step % 3 == 0));
        effects.learn(step as usize, None, shown, expected, reward, &mut knows_nothing);
    }
    for item in 0..8 {
        assert!(effects.of(item).0.abs() < 0.5, "{:?}", effects.of(item));
    }
}

/// What could not be read again is not written.
#[test]
fn numbers_that_are_not_finite_are_not_kept() {
    let (mut effects, _) = world(0.3, 0.5, 0.5, 50);
    effects.sum = f64::INFINITY;
    assert!(effects.save(&mut Vec::new()).is_err());
}

/// Answers to an item in one context say of another only what features do not.
#[test]
fn answers_in_other_contexts_are_seen_as_features_make_them() {
    // Features say all: the reward is the second number, and the policy knows it.
    let mut by_policy = |rows: &Contexts, scores: &mut [Score]| {
        for (row, score) in rows.iter().zip(scores) {
            *score = Score { expected: row[1], bonus: row[1].abs() };
        }
    };
    let mut rng = ChaCha8Rng::seed_from_u64(12);
    let mut effects = ItemEffects::default();
    let of_pair = |user: usize, item: usize| [0.0, 0.5, -0.5][(user * 7 + item * 5) % 3];
    for _ in 0..4000 {
        let (user, item) = (rng.random_range(0..20usize), rng.random_range(0..20usize));
        let place: f64 = [-1.0, 0.0, 3.0][rng.random_range(0..3)];
        let reward = place + of_pair(user, item) + 0.2 * (rng.random::<f64>() - 0.5);
        let shown = Shown { item: item as u64, vector: &[1.0, place] };
        let taught = effects.learn(user, None, shown, place, reward, &mut by_policy);
        let is_first = effects.pairs[&(user as u64, item as u64)].count == 1.0;
        assert!(taught || !is_first);
    }
    for place in [-1.0, 3.0] {
        let mut scores = [Score { expected: place, bonus: place.abs() }; 20];
        let vector = [1.0, place];
        let shown = (0..20).map(|item| Shown { item, vector: &vector });
        effects.adjust(2, shown, &mut scores, &mut by_policy);
        for (item, score) in scores.iter().enumerate() {
            let truth = place + of_pair(2, item);
            assert!((score.expected - truth).abs() < 0.3, "{item} at {place}: {score:?}, {truth}");
            // What lies between here and where it was seen is as unknown as before.
            let pair = &effects.pairs[&(2, item as u64)];
            let there: Vec<f64> = pair.vector.numbers().collect();
            let between = (place - there[1]).abs();
            assert!(
                score.bonus < place.abs() + 1e-9 && score.bonus > 0.9 * between.min(place.abs())
            );
        }
    }
}

/// Answers to the same vector are known after the first, those to others are taught.
#[test]
fn answers_to_other_vectors_are_taught() {
    let (mut effects, _) = world(0.3, 1.0, 0.0, 10_000);
    effects.forget(7);
    let mut taught = |vector: &[f64]| {
        let shown = Shown { item: 7, vector };
        effects.learn(7, None, shown, 0.0, 1.0, &mut knows_nothing)
    };
    assert!(taught(&[1.0, 0.0]) && !taught(&[1.0, 0.0]) && !taught(&[1.0, 0.01]));
    assert!(taught(&[1.0, 1.0]) && taught(&[1.0, 0.0]));
}
