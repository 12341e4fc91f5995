//! One population for users who are with several policies: what is fitted is what one policy fits that has all of them.
#![allow(missing_docs)]

use std::sync::{Arc, Mutex};

use cohort::{Contexts, Policy, Problem, Score, registry};

const DIM: usize = 3;

fn policy() -> Box<dyn Policy> {
    registry::build("cohort", &Problem::new(0, DIM), []).unwrap()
}

/// Some that have users, and one that asks them.
struct Several {
    parts: Arc<Mutex<Vec<Box<dyn Policy>>>>,
    asker: Box<dyn Policy>,
    next_look: Arc<Mutex<f64>>,
}

impl Several {
    fn new(parts: usize) -> Self {
        let parts = Arc::new(Mutex::new((0..parts).map(|_| policy()).collect()));
        Self { parts, asker: policy(), next_look: Arc::default() }
    }

    /// Fits if that is due; the bytes that all took over.
    fn fit(&mut self) -> Option<Vec<u8>> {
        let parts = self.parts.clone();
        let ask = move |question: &[u8]| {
            let mut parts = parts.lock().unwrap();
            let answer = |part: &mut Box<dyn Policy>| {
                Some(part.refits()?.shared()?.answer(question).ok()?())
            };
            parts.iter_mut().map(answer).collect()
        };
        let shared = self.asker.refits().unwrap().shared().unwrap();
        let found = shared.ask_others(Box::new(ask), self.next_look.clone())();
        if found.is_empty() {
            return None;
        }
        self.asker.refits().unwrap().install(&found).unwrap();
        let mut parts = self.parts.lock().unwrap();
        parts.iter_mut().for_each(|part| part.refits().unwrap().install(&found).unwrap());
        Some(found)
    }
}

/// The `turn`-th reward of a user of one of two kinds, who are far from zero.
fn reward(user: usize, turn: usize) -> ([f64; DIM], f64) {
    let of = |by: f64| ((user * 31 + turn * 17) as f64 * by).sin();
    let x = [of(0.7), of(1.3), of(2.1)];
    let kind = if user.is_multiple_of(2) { 1.0 } else { -1.0 };
    let own = 0.1 * (user as f64).sin();
    (x, 1000.0 + kind * x[0] + (own - 0.5 * kind) * x[1] + 0.2 * x[2] + 0.1 * of(12.9))
}

/// What both think of a user's arms, its number among all and among its own.
fn scores(policy: &mut Box<dyn Policy>, user: usize) -> [Score; 2] {
    let values = [0.5, 0.2, 0.1, -0.3, 0.6, 0.2];
    let mut scores = [Score::default(); 2];
    policy.online().unwrap().score(user, &Contexts::new(&values, DIM).unwrap(), &mut scores);
    scores
}

/// Scores agree; so does the number of cohorts where all users are in the sample of both.
fn compare(users: usize, turns: usize, parts: usize, tolerance: f64, same_sample: bool) {
    let mut one = policy();
    let mut several = Several::new(parts);
    for turn in 0..turns {
        for user in 0..users {
            let (x, y) = reward(user, turn);
            one.online().unwrap().learn_one(user, &x, y);
            let mut all = several.parts.lock().unwrap();
            all[user % parts].online().unwrap().learn_one(user / parts, &x, y);
        }
        // As a service does it: on a copy, beside decisions.
        if let Some(job) = one.refits().unwrap().job() {
            one.refits().unwrap().install(&job()).unwrap();
        }
        several.fit();
    }
    assert!(several.fit().is_none(), "nothing is due any more");
    let mut worst: f64 = 0.0;
    for user in 0..users {
        let here = scores(&mut one, user);
        let there = scores(&mut several.parts.lock().unwrap()[user % parts], user / parts);
        for (here, there) in here.iter().zip(&there) {
            worst = worst.max((here.expected - there.expected).abs());
            worst = worst.max((here.bonus - there.bonus).abs());
        }
    }
    assert!(worst < tolerance, "{worst} with {users} users");
    let cohorts =
        |policy: &dyn Policy| policy.insight().unwrap().population().unwrap().cohorts().len();
    if same_sample {
        assert_eq!(cohorts(one.as_ref()), cohorts(several.parts.lock().unwrap()[0].as_ref()));
    }
}

/// Statistics of all users are told: sums in another order, counted from elsewhere, are all that differs.
#[test]
fn few_users_of_several_are_fitted_as_those_of_one() {
    compare(60, 30, 1, 1e-9, true);
    compare(60, 30, 4, 1e-4, true);
}

/// More users than a sample has: what the others say is added up.
#[test]
fn many_users_of_several_are_fitted_as_those_of_one() {
    // Samples are of other users, so that users at a boundary may be in another cohort.
    compare(10_000, 6, 3, 0.1, false);
}

#[test]
fn one_that_knows_nobody_takes_over_what_was_found_and_counts_rewards_from_there() {
    let mut several = Several::new(2);
    for turn in 0..10 {
        for user in 0..40 {
            let (x, y) = reward(user, turn);
            several.parts.lock().unwrap()[0].online().unwrap().learn_one(user, &x, y);
        }
    }
    let found = several.fit().unwrap();
    let mut parts = several.parts.lock().unwrap();
    let newcomer = scores(&mut parts[1], 7);
    assert!((newcomer[0].expected - 1000.0).abs() < 2.0, "{newcomer:?}");
    let (x, y) = reward(7, 0);
    parts[1].online().unwrap().learn_one(7, &x, y);
    assert!((scores(&mut parts[1], 7)[0].expected - 1000.0).abs() < 2.0);
    // It is kept like everything else.
    let mut bytes = Vec::new();
    parts[1].saved().unwrap().save(&mut bytes).unwrap();
    let mut again = policy();
    again.saved().unwrap().load(&mut bytes.as_slice()).unwrap();
    assert_eq!(scores(&mut again, 7), scores(&mut parts[1], 7));
    // Damaged bytes change nothing.
    let before = scores(&mut again, 7);
    for length in [3, 4, 20, found.len() / 2, found.len() - 1] {
        assert!(again.refits().unwrap().install(&found[..length]).is_err());
    }
    assert!(again.refits().unwrap().shared().unwrap().answer(&found).is_err());
    assert_eq!(scores(&mut again, 7), before);
}

#[test]
fn users_who_change_are_noticed_by_whoever_asks() {
    let auto = || {
        let set = [("half_life".to_owned(), "auto".into())];
        registry::build("cohort", &Problem::new(0, DIM), set).unwrap()
    };
    let mut several = Several::new(3);
    several.asker = auto();
    several.parts.lock().unwrap().iter_mut().for_each(|part| *part = auto());
    let mut rewards = Vec::new();
    for turn in 0..60 {
        for user in 0..60 {
            let (x, y) = reward(user, turn);
            let y = if turn < 40 { y } else { 2000.0 - y };
            several.parts.lock().unwrap()[user % 3].online().unwrap().learn_one(user / 3, &x, y);
        }
        several.fit();
        let mut parts = several.parts.lock().unwrap();
        let all = parts.iter_mut().map(|part| part.refits().unwrap().shared().unwrap().rewards());
        rewards.push(all.sum::<f64>());
    }
    assert_eq!(rewards[39], 2400.0, "nothing is forgotten while users are what they were");
    assert!(rewards[59] < 1800.0, "{rewards:?}");
}
