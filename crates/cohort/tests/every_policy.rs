//! What holds for every policy in the registry, whatever it does.

use cohort::params::{Default, Kind, Value};
use cohort::registry::{POLICIES, build, info};
use cohort::{Contexts, Error, Problem, Truth};

/// Plays `rounds` rounds in which every number is as given by `value(t, i)`.
fn play(name: &str, users: usize, dim: usize, rounds: usize, value: impl Fn(usize, usize) -> f64) {
    let thetas = vec![0.5; users * dim];
    let clusters = vec![0; users];
    let problem = Problem {
        rounds: Some(rounds),
        sigma: 0.1,
        truth: Some(Truth::new(&thetas, &clusters)),
        ..Problem::new(users, dim)
    };
    let mut policy = build(name, &problem, []).unwrap();
    let mut arms = vec![usize::MAX; users];
    for t in 0..rounds {
        let offered = 1 + t % 4; // K may change from round to round
        let values: Vec<f64> = (0..offered * dim).map(|i| value(t, i)).collect();
        let contexts = Contexts::new(&values, dim).unwrap();
        policy.choose(&contexts, &mut arms);
        assert!(arms.iter().all(|arm| *arm < offered), "{name}: {arms:?} of {offered}");
        let rewards: Vec<f64> = arms.iter().map(|arm| contexts.arm(*arm)[0]).collect();
        policy.learn(&contexts, &arms, &rewards);
    }
    if let Some(clusters) = policy.clusters() {
        assert_eq!(clusters.len(), users, "{name}");
        let mut numbered = clusters.clone();
        cohort::cluster::partition::number_by_smallest_member(&mut numbered);
        assert_eq!(clusters, numbered, "{name}: numbered by smallest member");
    }
}

#[test]
fn works_in_any_size() {
    for policy in POLICIES {
        for (users, dim) in [(1, 1), (3, 2), (9, 5), (17, 16)] {
            play(policy.name, users, dim, 40, |t, i| ((t * 31 + i * 17) % 13) as f64 / 13.0 - 0.5);
        }
    }
}

#[test]
fn bears_contexts_that_say_nothing_or_very_much() {
    for policy in POLICIES {
        play(policy.name, 5, 3, 40, |_, _| 0.0);
        play(policy.name, 5, 3, 40, |_, _| 1.0);
        play(policy.name, 5, 3, 40, |t, i| if (t + i) % 3 == 0 { 1e6 } else { -1e-6 });
    }
}

/// Contexts that are large and nearly the same leave of an inverse little but rounding. What is
/// learned stays finite all the same, and can be kept.
#[test]
fn bears_large_contexts_that_are_nearly_the_same() {
    for policy in POLICIES {
        for (dim, scale) in [(16, 1e6), (16, 1e4), (64, 1e6)] {
            let problem = Problem { sigma: 0.1, ..Problem::new(2, dim) };
            let Ok(mut learner) = build(policy.name, &problem, []) else { continue };
            let Some(online) = learner.online() else { continue };
            for t in 0..1500 {
                let wiggle = |i: usize| ((t * 31 + i * 17) % 1009) as f64 * 1e-6;
                let values: Vec<f64> = (0..2 * dim).map(|i| scale - wiggle(i)).collect();
                let contexts = Contexts::new(&values, dim).unwrap();
                let arm = online.decide(t % 2, &contexts);
                let reward = if t % 3 == 0 { 1e6 } else { -1e6 };
                online.learn_one(t % 2, contexts.arm(arm), reward);
                online.catch_up();
            }
            let mut bytes = Vec::new();
            let Some(saved) = online.saved() else { continue };
            saved.save(&mut bytes).unwrap_or_else(|why| panic!("{} {dim}: {why}", policy.name));
            let mut again = build(policy.name, &problem, []).unwrap();
            let saved = again.online().and_then(|online| online.saved()).unwrap();
            saved.load(&mut bytes.as_slice()).unwrap();
        }
    }
}

#[test]
fn turns_end_in_the_same_statistics_as_rounds() {
    for policy in POLICIES {
        let problem = Problem { rounds: Some(60), sigma: 0.1, ..Problem::new(4, 3) };
        let truth = Truth::new(&[0.1; 12], &[0, 0, 1, 1]);
        let problem = Problem { truth: Some(truth), ..problem };
        let mut rounds = build(policy.name, &problem, []).unwrap();
        let mut turns = build(policy.name, &problem, []).unwrap();
        if turns.online().is_none() || policy.name == "random" {
            continue;
        }
        let mut arms = vec![0; 4];
        for t in 0..60 {
            let values: Vec<f64> =
                (0..15).map(|i| ((t * 7 + i * 11) % 17) as f64 / 17.0 - 0.5).collect();
            let contexts = Contexts::new(&values, 3).unwrap();
            rounds.choose(&contexts, &mut arms);
            let rewards: Vec<f64> =
                (0..4).map(|i| contexts.arm(arms[i])[i % 3] * (1.0 + i as f64)).collect();
            let one_at_a_time = turns.online().unwrap();
            for user in 0..4 {
                let arm = one_at_a_time.decide(user, &contexts);
                assert_eq!(arm, arms[user], "{}, round {t}, user {user}", policy.name);
            }
            for user in 0..4 {
                one_at_a_time.learn_one(user, contexts.arm(arms[user]), rewards[user]);
            }
            rounds.learn(&contexts, &arms, &rewards);
        }
    }
}

#[test]
fn every_parameter_refuses_what_is_out_of_its_range_by_name() {
    for policy in POLICIES {
        for param in policy.params.iter().copied().flatten() {
            let wrong = match &param.kind {
                Kind::Real(..) | Kind::RealOr(..) => {
                    vec![Value::Real(f64::NAN), Value::Real(-1e9), "many".into()]
                }
                Kind::Count(_) => vec![Value::Real(0.5), Value::Real(-1.0), "many".into()],
                Kind::Choice(_) => vec![Value::Real(1.0), "neither".into()],
                Kind::Text(_) => vec![Value::Real(1.0), Value::Text(String::new())],
            };
            for value in wrong {
                let error = policy.check([(param.name.to_owned(), value)]).unwrap_err();
                let sentence = error.to_string();
                assert!(sentence.starts_with(&format!("{}.{} = ", policy.name, param.name)));
                assert!(sentence.contains(&param.kind.to_string()), "{sentence}");
            }
            // And takes its own default.
            let default = match &param.default {
                Default::Real(number) => Value::Real(*number),
                Default::Choice(word) => Value::Text((*word).to_owned()),
                Default::Derived(_) => continue,
            };
            policy.check([(param.name.to_owned(), default)]).unwrap();
        }
    }
}

#[test]
fn unknown_names_are_refused_with_the_nearest_known_one() {
    let error = info("cmbl").unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no policy `cmbl` (did you mean `cmlb`?); `cohort policies` lists them"
    );
    let error = info("cmlb").unwrap().check([("alhpa".to_owned(), Value::Real(0.2))]).unwrap_err();
    assert!(matches!(error, Error::UnknownParam { nearest: Some("alpha"), .. }), "{error}");
}

#[test]
fn what_a_policy_must_be_told_is_said_when_it_is_missing() {
    let problem = Problem::new(3, 2);
    let sentence = build("cmlb", &problem, []).err().unwrap().to_string();
    assert!(sentence.contains("policy `cmlb` needs the number of rounds"), "{sentence}");
    let sentence = build("oracle", &problem, []).err().unwrap().to_string();
    assert!(sentence.contains("the true clusters"), "{sentence}");
}
