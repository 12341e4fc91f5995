//! Which item, and with what probability?
//!
//! ```text
//! with probability ε: any item, all alike; else: one of the best, all of the best alike
//! P(item) = ε/K + (1 − ε)·[item is one of the best]/|best|
//! ```
//!
//! A deterministic policy has one best item, so without ε the probability is 1; the policy
//! `random` finds all items equally good, so it is 1/K. A policy that draws its items (Thompson
//! sampling) tells the chance of each, and `P(item) = ε/K + (1 − ε)·chance`.

use cohort::Score;
use rand::{Rng, RngExt};

/// A choice among K items.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The item.
    pub item: usize,
    /// With what probability it was chosen.
    pub probability: f64,
}

/// Chooses among scored items.
pub fn choose(scores: &[Score], epsilon: f64, rng: &mut impl Rng) -> Choice {
    let best = scores.iter().map(Score::total).fold(f64::NEG_INFINITY, f64::max);
    let is_best = |item: usize| scores[item].total() >= best;
    let items = scores.len();
    let bests = (0..items).filter(|item| is_best(*item)).count().max(1);

    let explores = epsilon > 0.0 && rng.random::<f64>() < epsilon;
    let item = if explores {
        rng.random_range(0..items)
    } else {
        let which = if bests > 1 { rng.random_range(0..bests) } else { 0 };
        (0..items).filter(|item| is_best(*item)).nth(which).unwrap_or(0)
    };
    Choice { item, probability: probability(epsilon, items, bests, is_best(item)) }
}

/// Chooses with a control group: with probability `control` any item, all alike, else as the policy
/// does: by its chances where it draws, else as [`choose`] does. The probability is that of both ways
/// together, so that whoever weighs by it need not know the group. Says whether the choice is of the
/// control group.
pub fn choose_in_trial(
    scores: &[Score],
    chances: Option<&[f64]>,
    epsilon: f64,
    control: f64,
    rng: &mut impl Rng,
) -> (Choice, bool) {
    let of_control = control > 0.0 && rng.random::<f64>() < control;
    let way = if of_control { 1.0 } else { epsilon };
    let mut choice = match chances {
        Some(chances) => draw(chances, way, rng),
        None => choose(scores, way, rng),
    };
    if control > 0.0 {
        let items = scores.len();
        let by_policy = match chances {
            Some(chances) => epsilon / items as f64 + (1.0 - epsilon) * chances[choice.item],
            None => {
                let best = scores.iter().map(Score::total).fold(f64::NEG_INFINITY, f64::max);
                let is_best = |one: &Score| one.total() >= best;
                let bests = scores.iter().filter(|one| is_best(one)).count().max(1);
                probability(epsilon, items, bests, is_best(&scores[choice.item]))
            }
        };
        choice.probability = control / items as f64 + (1.0 - control) * by_policy;
    }
    (choice, of_control)
}

/// With what probability [`choose_in_trial`] chooses each item.
pub fn probabilities(
    scores: &[Score],
    chances: Option<&[f64]>,
    epsilon: f64,
    control: f64,
) -> Vec<f64> {
    let best = scores.iter().map(Score::total).fold(f64::NEG_INFINITY, f64::max);
    let bests = scores.iter().filter(|one| one.total() >= best).count().max(1);
    let items = scores.len();
    let of = |item: usize| {
        let by_policy = match chances {
            Some(chances) => epsilon / items as f64 + (1.0 - epsilon) * chances[item],
            None => probability(epsilon, items, bests, scores[item].total() >= best),
        };
        control / items as f64 + (1.0 - control) * by_policy
    };
    (0..items).map(of).collect()
}

/// Draws one of the items, each with its chance.
pub fn draw(chances: &[f64], epsilon: f64, rng: &mut impl Rng) -> Choice {
    let items = chances.len();
    let explores = epsilon > 0.0 && rng.random::<f64>() < epsilon;
    let item = if explores {
        rng.random_range(0..items)
    } else {
        let mut rest = rng.random::<f64>();
        let found = chances.iter().position(|chance| {
            rest -= chance;
            rest < 0.0
        });
        // Where rounding leaves a rest, the last that has a chance at all.
        found.or_else(|| chances.iter().rposition(|chance| *chance > 0.0)).unwrap_or(0)
    };
    let probability = epsilon / items as f64 + (1.0 - epsilon) * chances[item];
    Choice { item, probability }
}

fn probability(epsilon: f64, items: usize, bests: usize, is_best: bool) -> f64 {
    let greedy = if is_best { (1.0 - epsilon) / bests as f64 } else { 0.0 };
    epsilon / items as f64 + greedy
}

/// All items, the chosen one first, the others by falling score, equal ones as they were offered.
pub fn rank(scores: &[Score], chosen: usize) -> Vec<usize> {
    let mut ranking: Vec<usize> = (0..scores.len()).collect();
    let score = |item: usize| scores[item].total();
    ranking
        .sort_by(|a, b| (*a != chosen).cmp(&(*b != chosen)).then(score(*b).total_cmp(&score(*a))));
    ranking
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha12Rng;

    fn scored(values: &[f64]) -> Vec<Score> {
        values.iter().map(|value| Score { expected: *value, bonus: 0.0 }).collect()
    }

    /// How often each item is chosen against how often it says it is, in 200,000 draws: within
    /// four standard errors for every item (a fixed seed; by chance one in thousands would fail).
    #[test]
    fn items_are_chosen_as_often_as_is_stated() {
        const DRAWS: usize = 200_000;
        for (values, epsilon) in [
            (&[0.1, 0.9, 0.3][..], 0.0),
            (&[0.1, 0.9, 0.3], 0.1),
            (&[0.5, 0.9, 0.9, 0.2, 0.9], 0.3),
            (&[0.0; 7], 0.0),
            (&[0.0, 1.0], 1.0),
        ] {
            let scores = scored(values);
            let mut rng = ChaCha12Rng::seed_from_u64(6);
            let mut chosen = vec![0usize; values.len()];
            let mut stated = vec![None; values.len()];
            for _ in 0..DRAWS {
                let choice = choose(&scores, epsilon, &mut rng);
                chosen[choice.item] += 1;
                assert!(stated[choice.item].is_none_or(|before| before == choice.probability));
                stated[choice.item] = Some(choice.probability);
            }
            for item in 0..values.len() {
                let frequency = chosen[item] as f64 / DRAWS as f64;
                let stated = stated[item].unwrap_or(0.0);
                let error = (stated * (1.0 - stated) / DRAWS as f64).sqrt();
                assert!((frequency - stated).abs() <= 4.0 * error, "{values:?} ε={epsilon} {item}");
            }
        }
    }

    /// The same with a control group: what is stated is how often an item is chosen over all, and
    /// the control group is as large as it should be.
    #[test]
    fn a_control_group_has_its_share_and_the_stated_probabilities_hold() {
        const DRAWS: usize = 200_000;
        let scores = scored(&[0.5, 0.9, 0.9, 0.2]);
        let mut rng = ChaCha12Rng::seed_from_u64(7);
        // A policy that takes the best, and one that draws.
        for chances in [None, Some(&[0.4, 0.3, 0.2, 0.1][..])] {
            let (mut chosen, mut stated, mut controls) = ([0usize; 4], [0.0; 4], 0);
            for _ in 0..DRAWS {
                let (choice, control) = choose_in_trial(&scores, chances, 0.1, 0.2, &mut rng);
                chosen[choice.item] += 1;
                stated[choice.item] = choice.probability;
                controls += usize::from(control);
            }
            assert!((controls as f64 / DRAWS as f64 - 0.2).abs() < 4.0 * 0.0009);
            assert!((stated.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            for (one, of_all) in stated.iter().zip(probabilities(&scores, chances, 0.1, 0.2)) {
                assert!((one - of_all).abs() < 1e-12);
            }
            for (count, stated) in chosen.iter().zip(stated) {
                let error = (stated * (1.0 - stated) / DRAWS as f64).sqrt();
                assert!((*count as f64 / DRAWS as f64 - stated).abs() < 4.0 * error);
            }
        }
    }

    proptest! {
        #[test]
        fn probabilities_add_up_to_one(
            values in prop::collection::vec(0u8..4, 1..30),
            epsilon in 0.0..=1.0f64,
        ) {
            let best = *values.iter().max().unwrap();
            let bests = values.iter().filter(|score| **score == best).count();
            let sum: f64 = values.iter()
                .map(|score| probability(epsilon, values.len(), bests, *score == best))
                .sum();
            prop_assert!((sum - 1.0).abs() < 1e-12);
        }

        #[test]
        fn a_ranking_is_the_chosen_one_and_then_the_rest_by_score(
            values in prop::collection::vec(-1.0..1.0f64, 1..30),
            chosen in any::<prop::sample::Index>(),
        ) {
            let (scores, chosen) = (scored(&values), chosen.index(values.len()));
            let ranking = rank(&scores, chosen);
            prop_assert_eq!(ranking[0], chosen);
            prop_assert!(ranking[1..].windows(2).all(|pair| values[pair[0]] >= values[pair[1]]));
            let mut items = ranking.clone();
            items.sort_unstable();
            prop_assert_eq!(items, (0..values.len()).collect::<Vec<_>>());
        }
    }
}
