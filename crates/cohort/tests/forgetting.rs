//! A user that is forgotten is one that never came; the others, and what users have in common, stay.
#![allow(missing_docs)]

use cohort::{Contexts, Policy, Problem, Score, registry};

const DIM: usize = 3;

fn policy() -> Box<dyn Policy> {
    registry::build("cohort", &Problem::new(0, DIM), []).unwrap()
}

/// The n-th context and its reward for a user.
fn answer(user: usize, n: usize) -> ([f64; DIM], f64) {
    let x = |k: usize| ((user * 7 + n * 13 + k * 5) % 11) as f64 / 11.0 - 0.4;
    let context = [x(0), x(1), x(2)];
    (context, if user.is_multiple_of(2) { context[0] } else { context[1] } + 0.01 * x(3))
}

fn learn(policy: &mut dyn Policy, users: impl Iterator<Item = usize> + Clone, rewards: usize) {
    for n in 0..rewards {
        for user in users.clone() {
            let (context, reward) = answer(user, n);
            policy.online().unwrap().learn_one(user, &context, reward);
        }
    }
}

fn scored(policy: &mut dyn Policy, user: usize) -> [Score; 3] {
    let rows = [0.5, 0.1, -0.2, -0.4, 0.9, 0.3, 0.2, -0.6, 0.7];
    let mut scores = [Score::default(); 3];
    let online = policy.online().unwrap();
    online.score(user, &Contexts::new(&rows, DIM).unwrap(), &mut scores);
    scores
}

/// What is expected of each arm. How newcomers explore depends on their numbers, so that they do not all try the same.
fn expected(policy: &mut dyn Policy, user: usize) -> [f64; 3] {
    scored(policy, user).map(|score| score.expected)
}

#[test]
fn what_is_thought_of_a_forgotten_user_is_what_is_thought_of_a_new_one() {
    // Users with few rewards are kept as rows, those with many as sums: both are forgotten.
    for rewards in [2, 40] {
        let (mut forgets, mut plain) = (policy(), policy());
        for policy in [&mut forgets, &mut plain] {
            learn(&mut **policy, 0..20, rewards);
            policy.catch_up();
        }
        let before = scored(&mut *forgets, 7);
        assert!(forgets.online().unwrap().forget(7));
        assert!(forgets.online().unwrap().forget(1000), "whoever never came is forgotten already");
        assert_ne!(scored(&mut *forgets, 7), before);
        assert_eq!(expected(&mut *forgets, 7), expected(&mut *plain, 21));
        for user in (0..22).filter(|user| *user != 7) {
            assert_eq!(scored(&mut *forgets, user), scored(&mut *plain, user), "user {user}");
        }
        // What was kept is what is there, and comes back as it is.
        let mut bytes = Vec::new();
        forgets.saved().unwrap().save(&mut bytes).unwrap();
        let mut again = policy();
        again.saved().unwrap().load(&mut bytes.as_slice()).unwrap();
        for user in 0..22 {
            assert_eq!(scored(&mut *again, user), scored(&mut *forgets, user), "user {user}");
        }
        // The user may come back, and learns as somebody new does.
        let (context, reward) = answer(3, 1);
        forgets.online().unwrap().learn_one(7, &context, reward);
        plain.online().unwrap().learn_one(21, &context, reward);
        assert_eq!(scored(&mut *forgets, 7), scored(&mut *plain, 21));
        // The next fit is made without whom was forgotten.
        learn(&mut *forgets, 0..6, 30);
        forgets.catch_up();
        assert!(scored(&mut *forgets, 7).iter().all(|one| one.total().is_finite()));
    }
}

#[test]
fn policies_that_cannot_forget_say_so_and_stay_as_they_are() {
    for name in ["linucb-ind", "club", "sclub"] {
        let mut policy = registry::build(name, &Problem::new(0, DIM), []).unwrap();
        learn(&mut *policy, 0..4, 5);
        let before = scored(&mut *policy, 2);
        assert!(!policy.online().unwrap().forget(2), "{name}");
        assert_eq!(scored(&mut *policy, 2), before, "{name}");
    }
}

/// Users who are let go one after the other, so that a few are there at a time, leave what they taught.
#[test]
fn what_retired_users_taught_is_known_of_newcomers() {
    let (mut retires, mut forgets) = (policy(), policy());
    for user in 0..600 {
        for (policy, keeps) in [(&mut retires, true), (&mut forgets, false)] {
            learn(&mut **policy, user..user + 1, 12);
            if user >= 6 {
                let online = policy.online().unwrap();
                let gone = if keeps { online.retire(user - 6) } else { online.forget(user - 6) };
                assert!(gone);
            }
        }
    }
    let population = |policy: &mut dyn Policy| {
        policy.catch_up();
        let population = policy.insight().and_then(|insight| insight.population());
        (population.unwrap().cohorts().len(), scored(policy, 5000))
    };
    let (cohorts, newcomer) = population(&mut *retires);
    // Half of the users like the first feature, half the second: both kinds are known.
    assert_eq!(cohorts, 2, "{newcomer:?}");
    // A user who is gone is nobody, and what is kept comes back.
    assert_eq!(expected(&mut *retires, 3), newcomer.map(|score| score.expected));
    let mut bytes = Vec::new();
    retires.saved().unwrap().save(&mut bytes).unwrap();
    let mut again = policy();
    again.saved().unwrap().load(&mut bytes.as_slice()).unwrap();
    assert_eq!(scored(&mut *again, 5000), newcomer);
    // Of those who are merely forgotten nothing is left but the last fit.
    assert_ne!(population(&mut *forgets).1, newcomer);
    // Statistics of those who went are bounded.
    for user in 600..4000 {
        learn(&mut *retires, user..user + 1, 3);
        assert!(retires.online().unwrap().retire(user));
    }
    let mut more = Vec::new();
    retires.saved().unwrap().save(&mut more).unwrap();
    assert!(more.len() < 2 * bytes.len() + 400_000, "{} after {}", more.len(), bytes.len());
}
