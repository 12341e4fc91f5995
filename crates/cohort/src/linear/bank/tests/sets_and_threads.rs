//! The same bits on every instruction set with fused multiply-add, on any number of threads, and
//! whenever a pending round is applied.

use super::*;

#[test]
fn fused_instruction_sets_give_the_same_bits() {
    for (dim, arms, learners) in [(15, 25, 500), (2, 3, 7), (7, 13, 33), (25, 50, 90)] {
        let played = |set: InstructionSet| {
            let mut bank = Bank::new(learners, dim, 0.7).using(set);
            let arms = play(&mut bank, &mut Stream::new(dim, arms, 3), 40);
            (arms, bits(&bank))
        };
        let expected = played(reference());
        for set in InstructionSet::available().into_iter().filter(|set| is_fused(*set)) {
            assert!(played(set) == expected, "{} at d = {dim}, K = {arms}", set.name());
        }
    }
}

#[test]
fn without_fused_multiply_add_the_arms_are_the_same() {
    let played = |set: InstructionSet| {
        let mut bank = Bank::new(64, 15, 0.7).using(set);
        let arms = play(&mut bank, &mut Stream::new(15, 25, 4), 300);
        (arms, bank.estimates())
    };
    let (arms, estimates) = played(InstructionSet::best());
    for set in InstructionSet::available() {
        let (theirs, near) = played(set);
        assert!(arms == theirs, "{}", set.name());
        assert!(estimates.iter().zip(&near).all(|(a, b)| (a - b).abs() < 1e-12), "{}", set.name());
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let played = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut bank = Bank::new(1003, 15, 0.7);
            let arms = play(&mut bank, &mut Stream::new(15, 25, 6), 20);
            (arms, bits(&bank))
        })
    };
    let one = played(1);
    assert!(played(2) == one);
    assert!(played(3) == one);
}

#[test]
fn what_is_not_yet_learned_is_known_all_the_same() {
    let dim = 5;
    let mut stream = Stream::new(dim, 4, 8);
    let (values, more) = (stream.contexts(), stream.contexts());
    let (first, second) =
        (Contexts::new(&values, dim).unwrap(), Contexts::new(&more, dim).unwrap());
    let (arms, rewards) = ([0, 1, 2, 3, 3, 2, 1, 0, 0, 1], stream.values(10));

    // Two banks learn the same two rounds, one of them looked at and touched in between.
    let mut bank = Bank::new(10, dim, 1.0);
    bank.learn(&first, &arms, &rewards);
    bank.learn(&second, &arms, &rewards);
    let mut watched = Bank::new(10, dim, 1.0);
    watched.learn(&first, &arms, &rewards);
    assert_eq!(watched.progress(9).updates, 1.0);
    let seen = bits(&watched);
    watched.apply_pending();
    assert_eq!(bits(&watched), seen);
    watched.learn(&second, &arms, &rewards);
    watched.grow(13);
    assert_eq!(watched.choose_one(12, &first, Shape::Ellipsoid, 0.0), 0);
    assert_eq!(watched.progress(12).updates, 0.0);
    // An offer to fewer learners than have something to learn.
    watched.choose(&first, Shape::Ellipsoid, |_, _| 1.0, None, &mut [0; 3]);
    for learner in 0..10 {
        assert_eq!(watched.inverse(learner), bank.inverse(learner));
        assert_eq!(watched.progress(learner).updates, 2.0);
    }
    assert_eq!(watched.estimates()[..10 * dim], bank.estimates());
}
