use super::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn expected(effects: &ItemEffects, user: usize, item: u64) -> f64 {
    let mut scores = [Score::default()];
    effects.adjust(user, &[item], &mut scores);
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
        effects.learn(user, None, item as u64, 0.0, reward);
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
        effects.learn(step as usize, None, item, 0.0, reward);
    }
    // Noise 1 and effects of variance 0.09.
    let (by_moments, found) = (effects.ratio_of_moments(), effects.variances().item_ratio);
    assert!((8.0..=16.0).contains(&found), "{found}, by moments {by_moments}");
}

#[test]
fn what_a_user_answered_before_counts_as_far_as_answers_are_the_same() {
    // Always the same answer: it is foretold, and there is nothing left to try.
    let (sure, _) = world(0.3, 1.0, 0.0, 10_000);
    let (key, pair) = sure.pairs.iter().next().unwrap();
    let mut scores = [Score { expected: 0.2, bonus: 1.0 }];
    sure.adjust(key.0 as usize, &[key.1], &mut scores);
    assert!((scores[0].expected - pair.mean).abs() < 0.02 && scores[0].bonus < 0.2);
    // Answers that are chance: one of them says next to nothing.
    let (unsure, _) = world(0.0, 0.0, 1.0, 10_000);
    let mut scores = [Score { expected: 0.0, bonus: 1.0 }];
    unsure.adjust(key.0 as usize, &[key.1], &mut scores);
    assert!(scores[0].bonus > 0.8, "{scores:?}");
}

/// The policy is taught as often as answers say something new of features.
#[test]
fn answers_that_are_always_the_same_are_taught_once() {
    let taught = |pair: f64, noise: f64| {
        let (mut effects, _) = world(0.3, pair, noise, 10_000);
        let key = *effects.pairs.keys().find(|key| effects.pairs[*key].count < 4.0).unwrap();
        effects.pairs.remove(&key);
        let answer = |effects: &mut ItemEffects| {
            effects.learn(key.0 as usize, None, key.1, 0.0, 1.0).is_some()
        };
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
        effects.learn(user, Some(cohort), item as u64, 0.0, sign + noise);
        alike.learn(user, Some(cohort), item as u64, 0.0, noise);
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
    assert_eq!(loaded, effects);
    assert!(ItemEffects::load(&mut &bytes[..bytes.len() - 1]).is_err());
    effects.forget(7);
    assert!(
        effects.pairs.keys().all(|key| key.0 != 7) && effects.order.len() == effects.pairs.len()
    );
}

/// What a user says of features is not taken for the item's: the effect is that of before.
#[test]
fn the_policy_is_taught_what_others_do_not_account_for() {
    let (mut effects, _) = world(0.5, 0.0, 1.0, 2000);
    let before = expected(&effects, 99, 7);
    assert_eq!(effects.learn(99, None, 7, 0.0, 3.0), Some(3.0 - before));
    assert!(expected(&effects, 98, 7) > before, "others are told of it");
}
