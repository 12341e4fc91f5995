//! Random streams of policies that sample: one for every (seed, user, number of rewards so far). A
//! draw depends on nothing else, so that rounds and online use draw the same, scoring changes
//! nothing, and no stream position has to be saved.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

use crate::linear::{argmax, dot};
use crate::{Arm, Contexts, Score};

/// The number of draws from which propensities without a closed form are estimated.
pub const DRAWS: usize = 64;

/// The stream of a user with the given number of rewards.
pub fn stream(seed: u64, user: usize, rewards: f64) -> ChaCha8Rng {
    // SplitMix64's finaliser, once for each number, so that close numbers give distant streams.
    let mix = |state: u64, number: u64| {
        let mut z = (state ^ number).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    ChaCha8Rng::seed_from_u64(mix(mix(mix(0, seed), user as u64), rewards as u64))
}

/// Standard normal numbers.
pub fn normals(count: usize, rng: &mut ChaCha8Rng) -> Vec<f64> {
    (0..count).map(|_| rng.sample(StandardNormal)).collect()
}

/// The frequencies of the best arms over [`DRAWS`] draws of a parameter vector.
pub(crate) fn shares(
    contexts: &Contexts,
    seed: u64,
    chances: &mut [f64],
    mut draw: impl FnMut(&mut ChaCha8Rng) -> Vec<f64>,
) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    chances.fill(0.0);
    for _ in 0..DRAWS {
        let theta = draw(&mut rng);
        chances[best_for(&theta, contexts)] += 1.0 / DRAWS as f64;
    }
}

/// The best arm for a parameter vector.
pub(crate) fn best_for(theta: &[f64], contexts: &Contexts) -> Arm {
    argmax(contexts.iter().map(|x| dot(x, theta)))
}

/// Scores by a posterior mean and a draw: the bonus is the difference of the two.
pub(crate) fn score_draw(mean: &[f64], drawn: &[f64], contexts: &Contexts, scores: &mut [Score]) {
    for (x, score) in contexts.iter().zip(scores) {
        let expected = dot(x, mean);
        *score = Score { expected, bonus: dot(x, drawn) - expected };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_user_and_every_reward_has_a_stream_of_its_own() {
        let first = |seed, user, rewards| stream(seed, user, rewards).random::<u64>();
        let mut seen = std::collections::BTreeSet::new();
        for (seed, user, rewards) in (0..4).flat_map(|seed| {
            (0..20).flat_map(move |user| (0..20).map(move |rewards| (seed, user, rewards)))
        }) {
            assert!(seen.insert(first(seed, user, f64::from(rewards))));
        }
        assert_eq!(first(1, 2, 3.0), first(1, 2, 3.0));
    }
}
