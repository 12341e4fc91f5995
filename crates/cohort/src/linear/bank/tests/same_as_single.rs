//! A bank chooses the same arms as one [`Oful`] per learner, scored arm by arm, and learns the
//! same.

use super::*;
use crate::linear::Oful;

/// How far scores may be apart to count as a tie.
const TIE: f64 = 1e-9;

/// Plays a bank beside single learners: where the arms differ, the scores must be tied.
fn plays_alike(set: InstructionSet, dim: usize, arms: usize, learners: usize, shape: Shape) {
    let confidence = confidence(shape);
    let mut stream = Stream::new(dim, arms, (dim * 1000 + arms * 10 + learners) as u64);
    let mut bank = Bank::new(learners, dim, confidence.lambda).using(set);
    let mut single = vec![Oful::new(dim, confidence.lambda); learners];
    let mut chosen = vec![0; learners];
    for round in 0..12 {
        let values = stream.contexts();
        let contexts = Contexts::new(&values, dim).unwrap();
        let offsets = (round % 3 == 0).then(|| stream.values(arms));
        // Radii differ from learner to learner, too.
        let wider = |learner: usize| 1.0 + (learner % 5) as f64 / 4.0;
        let radius = |learner, progress| wider(learner) * confidence.radius(progress);
        bank.choose(&contexts, shape, radius, offsets.as_deref(), &mut chosen);

        for (learner, oful) in single.iter().enumerate() {
            let radius = wider(learner) * confidence.radius(oful.progress());
            let score = |arm: usize| {
                let offset = offsets.as_ref().map_or(0.0, |offsets| offsets[arm]);
                oful.optimistic(contexts.arm(arm), radius, shape) + offset
            };
            let best = (0..arms).map(score).fold(f64::NEG_INFINITY, f64::max);
            assert!(
                score(chosen[learner]) > best - TIE,
                "{}, d = {dim}, K = {arms}, N = {learners}, {shape:?}: learner {learner} in round {round}",
                set.name()
            );
        }
        let rewards = stream.values(learners);
        bank.learn(&contexts, &chosen, &rewards);
        for ((oful, arm), reward) in single.iter_mut().zip(&chosen).zip(&rewards) {
            oful.learn(contexts.arm(*arm), *reward);
        }
    }
    let estimates = bank.estimates();
    for (learner, oful) in single.iter().enumerate() {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        let estimate = &estimates[learner * dim..(learner + 1) * dim];
        assert!(estimate.iter().zip(oful.estimate()).all(|(a, b)| near(*a, *b)));
        let inverse = bank.inverse(learner);
        assert!(inverse.packed().iter().zip(oful.inverse().packed()).all(|(a, b)| near(*a, *b)));
        let (a, b) = (bank.progress(learner), oful.progress());
        assert!(near(a.log_det, b.log_det) && a.updates == b.updates);
    }
}

const BALL: Shape = Shape::Ball { rho_min: 0.5, tau_min: 6.0 };

#[test]
fn in_any_dimension_with_any_number_of_arms_and_learners() {
    // Around the sizes of rows, tiles, lanes and pairs of blocks.
    for set in sets() {
        for dim in [1, 2, 3, 4, 5, 8, 15, 18] {
            for arms in [1, 2, 3, 7, 13, 14, 25, 33] {
                for learners in [1, 7, 8, 9, 23] {
                    plays_alike(set, dim, arms, learners, Shape::Ellipsoid);
                }
                plays_alike(set, dim, arms, 17, BALL);
            }
        }
    }
}

#[test]
fn over_several_runs_of_blocks() {
    for set in sets() {
        plays_alike(set, 15, 25, 700, Shape::Ellipsoid);
        plays_alike(set, 15, 25, 70, Shape::Squared);
        plays_alike(set, 4, 3, 9, Shape::Squared);
        plays_alike(set, 25, 10, 243, BALL);
        plays_alike(set, 60, 5, 50, Shape::Ellipsoid);
    }
}

#[test]
fn a_learner_that_is_asked_alone_gives_the_arm_and_learns_the_bits_of_a_round() {
    for set in sets() {
        for (dim, arms, learners) in [(15, 25, 21), (3, 1, 9), (6, 40, 8), (4, 8, 3), (9, 17, 5)] {
            for shape in [Shape::Ellipsoid, Shape::Squared, BALL] {
                let confidence = confidence(shape);
                let mut stream = Stream::new(dim, arms, 5);
                let mut rounds = Bank::new(learners, dim, confidence.lambda).using(set);
                let mut turns = Bank::new(0, dim, confidence.lambda).using(set);
                let mut chosen = vec![0; learners];
                for _ in 0..20 {
                    let values = stream.contexts();
                    let contexts = Contexts::new(&values, dim).unwrap();
                    let radius = |_, progress| confidence.radius(progress);
                    rounds.choose(&contexts, shape, radius, None, &mut chosen);
                    let rewards = stream.values(learners);
                    rounds.learn(&contexts, &chosen, &rewards);
                    // In another order: learners are independent.
                    for learner in (0..learners).rev() {
                        turns.grow(learner + 1);
                        let radius = confidence.radius(turns.progress(learner));
                        let arm = turns.choose_one(learner, &contexts, shape, radius);
                        assert_eq!(arm, chosen[learner], "{} {dim} {arms} {shape:?}", set.name());
                        turns.learn_one(learner, contexts.arm(arm), rewards[learner]);
                    }
                }
                assert_eq!(bits(&rounds), bits(&turns), "{}", set.name());
            }
        }
    }
}

#[test]
fn the_lowest_of_equal_arms_is_taken() {
    let values = [0.1, 0.5, 0.5, 0.2, 0.5, 0.1, 0.1, 0.1, 0.5, 0.5, 0.1, 0.1, 0.1, 0.5, 0.5];
    let contexts = Contexts::new(&values, 1).unwrap();
    for set in sets() {
        let mut bank = Bank::new(9, 1, 1.0).using(set);
        let mut arms = [9; 9];
        bank.choose(&contexts, Shape::Ellipsoid, |_, _| 1.0, None, &mut arms);
        assert_eq!(arms, [1; 9]);
        assert_eq!(bank.choose_one(3, &contexts, Shape::Ellipsoid, 1.0), 1);
    }
}
