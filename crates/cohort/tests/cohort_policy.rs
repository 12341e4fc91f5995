//! What the `cohort` policy promises, on instances small enough to be played in a test. Ratios are
//! of mean regret, on fixed seeds and with the same contexts and noise for all.

#[allow(dead_code)]
#[path = "worlds/mod.rs"]
mod worlds;

use cohort::linear::dot;
use cohort::params::Value;
use cohort::policies::cohort::Cohort;
use cohort::{Contexts, OnlinePolicy, Policy, Problem, Refits, registry};
use worlds::{Noise, Offers, World, clustered, identical, sphere};

/// `name` or `name:key=value,key=value`.
fn build(what: &str, world: &World) -> Box<dyn Policy> {
    let (name, settings) = what.split_once(':').unwrap_or((what, ""));
    let params = (settings.split(',').filter_map(|setting| setting.split_once('=')))
        .map(|(key, value)| (key.to_owned(), Value::from(value)));
    registry::build(name, &world.problem(), params).unwrap()
}

fn cohort(world: &World) -> Cohort {
    let settings = registry::info("cohort").unwrap().check([]).unwrap();
    Cohort::new(&world.problem(), &settings).unwrap()
}

/// Mean regret per user over a few seeds.
fn regret(what: &str, make: impl Fn(u64) -> World, rounds: usize) -> f64 {
    regret_over(3, what, make, rounds)
}

fn regret_over(seeds: u64, what: &str, make: impl Fn(u64) -> World, rounds: usize) -> f64 {
    (0..seeds).map(|seed| make(seed).play(&mut *build(what, &make(seed)), rounds)).sum::<f64>()
        / seeds as f64
}

/// The best of `linucb-ind` over the widths that are tried in hindsight.
fn tuned_individual(make: impl Fn(u64) -> World + Copy, rounds: usize) -> f64 {
    ["1", "0.3", "0.1", "0.03"]
        .map(|width| regret(&format!("linucb-ind:exploration={width}"), make, rounds))
        .into_iter()
        .fold(f64::INFINITY, f64::min)
}

#[test]
fn with_separable_clusters_it_beats_being_told_the_clusters() {
    let make = |seed| clustered(seed, 60, 4, 0.1);
    let cohort = regret("cohort", make, 250);
    assert!(cohort <= 0.6 * regret("oracle", make, 250));
    assert!(cohort <= 0.35 * regret("linucb-ind", make, 250));
}

/// Many users whose rewards are all zero look like a cohort without noise.
#[test]
fn cohorts_that_foretell_nothing_are_not_used() {
    let make = |seed| World { noise: Noise::Rare, ..sphere(seed, 100, 0.5) };
    let (with, without) = (regret("cohort", make, 80), regret("cohort:mixture=none", make, 80));
    assert!(with <= 1.01 * without, "{with} against {without}");
    let mut world = make(1);
    let mut policy = cohort(&world);
    world.play(&mut policy, 80);
    assert!(policy.population().unwrap().noise.sqrt() > 0.2);
    // Where there are cohorts, the same rewards find them.
    let make = |seed| World { noise: Noise::Rare, ..clustered(seed, 150, 3, 0.5) };
    assert!(regret("cohort", make, 150) <= 0.9 * regret("cohort:mixture=none", make, 150));
}

#[test]
fn it_finds_the_clusters_and_the_noise() {
    let mut world = clustered(5, 60, 4, 0.1);
    let mut policy = cohort(&world);
    world.play(&mut policy, 150);
    let found = policy.clusters().unwrap();
    assert!(cohort::cluster::partition::adjusted_rand(&found, &world.clusters) >= 0.99);
    let population = policy.population().unwrap();
    assert_eq!(population.cohorts().len(), 4);
    assert!((population.noise.sqrt() / 0.1 - 1.0).abs() < 0.05, "{}", population.noise.sqrt());
    let weights: f64 = population.components.iter().map(|component| component.weight).sum();
    assert!((weights - 1.0).abs() < 1e-9);
}

#[test]
fn with_identical_users_it_beats_the_oracle() {
    let make = |seed| identical(seed, 40, 0.3);
    assert!(regret("cohort", make, 250) <= 0.6 * regret("oracle", make, 250));
}

#[test]
fn without_structure_it_is_as_good_as_tuned_individual_learning() {
    for noise in [0.1, 0.5] {
        let make = |seed| sphere(seed, 40, noise);
        let (cohort, tuned) = (regret("cohort", make, 300), tuned_individual(make, 300));
        assert!(cohort <= 1.1 * tuned, "noise {noise}: {cohort} against {tuned}");
    }
}

#[test]
fn rewards_that_are_not_gaussian_do_no_harm() {
    for (noise, scale) in [(Noise::StudentT3, 0.3), (Noise::Coin, 0.5), (Noise::None, 0.0)] {
        for make in [clustered as fn(u64, usize, usize, f64) -> World, |s, n, _, v| sphere(s, n, v)]
        {
            let make = |seed| World { noise, ..make(seed, 40, 4, scale) };
            let (cohort, individual) =
                (regret("cohort", make, 250), regret("linucb-ind", make, 250));
            assert!(cohort <= 1.1 * individual, "{noise:?}: {cohort} against {individual}");
        }
    }
}

#[test]
fn contexts_that_never_change_are_explored() {
    let make = |seed| World { fixed_contexts: true, ..sphere(seed, 40, 0.3) };
    let (cohort, individual) = (regret("cohort", make, 400), regret("linucb-ind", make, 400));
    assert!(cohort <= 0.5 * individual, "{cohort} against {individual}");
}

/// If user i began with arm i modulo K, every tenth user would begin with one of few arms, and kinds of users that
/// follow a pattern of numbers would be confounded with arms.
#[test]
fn users_whose_numbers_follow_a_pattern_begin_with_all_arms() {
    let values: Vec<f64> = (0..25 * 3).map(|i| (i as f64).sin()).collect();
    let contexts = Contexts::new(&values, 3).unwrap();
    let settings = registry::info("cohort").unwrap().check([]).unwrap();
    let mut policy = Cohort::new(&Problem::new(2000, 3), &settings).unwrap();
    let mut arms = vec![0; 2000];
    policy.choose(&contexts, &mut arms);
    for step in [2, 5, 10, 25, 100] {
        for kind in 0..step {
            let begun: Vec<usize> = arms.iter().skip(kind).step_by(step).copied().collect();
            let most = (0..25).map(|arm| begun.iter().filter(|a| **a == arm).count()).max();
            let even = begun.len() as f64 / 25.0;
            assert!(most.unwrap() as f64 <= 3.0 * even + 4.0, "every {step}-th from {kind}");
        }
    }
}

#[test]
fn every_part_can_be_taken_away() {
    let make = |seed| clustered(seed, 40, 4, 0.1);
    // With so few users the rounds in which cohorts are found differ much from seed to seed.
    let whole = regret_over(10, "cohort", make, 150);
    for part in ["mixture=none", "directions=none", "labels=hard", "doubt=none", "sigma=0.1"] {
        assert!(regret(&format!("cohort:{part}"), make, 150).is_finite());
    }
    // Four centres span three directions: without cohorts these help, too.
    let neither = regret_over(10, "cohort:mixture=none,directions=none", make, 150);
    assert!(whole <= 0.7 * neither, "cohorts are what helps here: {whole} against {neither}");
    assert!(regret("cohort:exploration_rule=thompson", make, 150) <= 3.0 * whole);
}

#[test]
fn the_same_arms_on_any_number_of_threads() {
    let play = |threads: usize, rule: &str| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut world = clustered(2, 150, 5, 0.2);
            let mut policy = build(rule, &world);
            world.play(&mut *policy, 40);
            world.trace
        })
    };
    for rule in ["cohort", "cohort:exploration_rule=thompson"] {
        assert_eq!(play(1, rule), play(3, rule), "{rule}");
    }
}

#[test]
fn an_explanation_adds_up_and_explains_the_arm_that_is_played() {
    let mut world = clustered(1, 48, 3, 0.3);
    let mut policy = cohort(&world);
    assert!(policy.explain(0, &Contexts::new(&[0.1; 8], 8).unwrap()).is_none(), "nothing known");
    world.play(&mut policy, 37);
    let values = world.contexts();
    let contexts = Contexts::new(&values, world.dim).unwrap();
    for user in 0..48 {
        let arm = policy.decide(user, &contexts);
        let why = policy.explain(user, &contexts).unwrap();
        assert_eq!(why.best, arm);
        for report in &why.arms {
            let sum = report.own + report.cohort + report.population;
            assert!((sum - report.mean).abs() < 1e-9);
            assert!((report.mean + report.width - report.score).abs() < 1e-12);
            assert!(report.deviation >= 0.0 && report.score <= why.arms[why.best].score);
        }
        let second = why.runner_up.unwrap();
        assert!((why.arms[arm].score - why.arms[second].score - why.margin).abs() < 1e-12);
        let shares: f64 = why.memberships.iter().map(|membership| membership.share).sum();
        assert!((shares - 1.0).abs() < 1e-9);
        assert!(why.memberships.is_sorted_by(|a, b| a.share >= b.share));
    }
    assert!(policy.explain(48, &contexts).is_none(), "nobody of that number");
}

#[test]
fn a_new_user_starts_from_the_population() {
    let mut world = identical(3, 30, 0.1);
    let mut policy = cohort(&world);
    world.play(&mut policy, 60);
    let mut wrong = 0.0;
    for newcomer in 30..60 {
        let values = world.contexts();
        let contexts = Contexts::new(&values, world.dim).unwrap();
        let arm = policy.decide(newcomer, &contexts);
        let values: Vec<f64> = contexts.iter().map(|x| dot(x, world.theta(0))).collect();
        wrong += values.iter().copied().fold(f64::NEG_INFINITY, f64::max) - values[arm];
    }
    assert!(wrong / 30.0 < 0.01, "first decisions lose {} on average", wrong / 30.0);
}

#[test]
fn users_may_come_rarely_late_and_never_again() {
    let mut world = clustered(4, 50, 3, 0.2);
    let mut policy = cohort(&world);
    for turn in 0..3000usize {
        // Users 40 and later come after turn 1500; higher numbers come more rarely.
        let user = (turn * turn) % if turn < 1500 { 40 } else { 50 } / (1 + turn % 3);
        let values = world.contexts();
        let contexts = Contexts::new(&values, world.dim).unwrap();
        let arm = policy.decide(user, &contexts);
        let reward = world.reward(user, contexts.arm(arm));
        if turn % 5 != 0 {
            policy.learn_one(user, contexts.arm(arm), reward);
        }
    }
    assert_eq!(policy.clusters().unwrap().len(), 50);
}

#[test]
fn a_fit_beside_decisions_is_the_fit_in_between() {
    let mut world = clustered(6, 40, 3, 0.1);
    let mut policy = cohort(&world);
    world.play(&mut policy, 50);
    let snapshot = policy.ledger().clone();
    let warm = policy.population().cloned();
    let fit = |ledger| {
        cohort::population::Population::fit(ledger, warm.as_ref(), &Default::default()).unwrap()
    };
    let (beside, again) = (fit(&snapshot), fit(policy.ledger()));
    assert_eq!(format!("{beside:?}"), format!("{again:?}"));
    policy.adopt(beside);
    let before = world.play(&mut policy, 100);
    assert!(before / 100.0 < 0.02, "{before}");
}

/// A job does elsewhere what `catch_up` does here, and users that came meanwhile are in its result
/// as they are in the population.
#[test]
fn a_job_done_elsewhere_ends_in_the_same_population() {
    let mut world = clustered(7, 40, 3, 0.1);
    let (mut here, mut beside) = (cohort(&world), cohort(&world));
    for turn in 0..2000usize {
        let values = world.contexts();
        let contexts = Contexts::new(&values, world.dim).unwrap();
        let arm = turn % contexts.arms();
        let reward = world.reward(turn % 40, contexts.arm(arm));
        for policy in [&mut here, &mut beside] {
            policy.learn_one(turn % 40, contexts.arm(arm), reward);
        }
        assert_eq!(here.is_due(), beside.is_due());
        if let Some(job) = beside.job() {
            let found = std::thread::spawn(job).join().unwrap();
            beside.install(&found).unwrap();
            Refits::catch_up(&mut here);
        }
    }
    let seen = |policy: &Cohort| format!("{:?}", policy.population().unwrap());
    assert_eq!(seen(&here), seen(&beside));
    assert_eq!(here.clusters(), beside.clusters());
    assert_eq!(here.population().unwrap().cohorts().len(), 3);

    // What is no result of a job changes nothing.
    for junk in [&[][..], &[1, 0, 0], &[0xff; 64]] {
        assert!(beside.install(junk).is_err());
    }
    assert_eq!(seen(&here), seen(&beside));
}

#[test]
fn chances_are_those_of_the_draws() {
    let mut world = clustered(7, 20, 2, 0.3);
    let mut policy = build("cohort:exploration_rule=thompson", &world);
    let policy = policy.online().unwrap();
    let values = world.contexts();
    let contexts = Contexts::new(&values, world.dim).unwrap();
    let mut chances = vec![0.0; contexts.arms()];
    assert!(policy.chances(3, &contexts, 1, &mut chances));
    assert!(chances.iter().all(|chance| *chance == chances[0]), "nothing is known yet");
    for turn in 0..60 {
        let arm = turn % contexts.arms();
        let reward = world.reward(turn % 20, contexts.arm(arm));
        policy.learn_one(turn % 20, contexts.arm(arm), reward);
    }
    let draws = 8000;
    let (mut drawn, mut told) = (vec![0.0; contexts.arms()], vec![0.0; contexts.arms()]);
    for draw in 0..draws {
        drawn[policy.decide(3, &contexts)] += 1.0 / draws as f64;
        if draw < 200 {
            assert!(policy.chances(3, &contexts, draw as u64, &mut chances));
            assert!((chances.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            told.iter_mut().zip(&chances).for_each(|(told, chance)| *told += chance / 200.0);
        }
    }
    for (drawn, told) in drawn.iter().zip(&told) {
        assert!((drawn - told).abs() < 0.02, "{drawn} against {told}");
    }
}

#[test]
fn a_half_life_follows_users_that_change() {
    let regret_after_change = |what: &str| {
        let mut world = sphere(8, 30, 0.1);
        let mut policy = build(what, &world);
        world.play(&mut *policy, 300);
        world.thetas.iter_mut().for_each(|theta| *theta = -*theta);
        world.play(&mut *policy, 300)
    };
    let (forgetting, remembering) =
        (regret_after_change("cohort:half_life=40"), regret_after_change("cohort:half_life=never"));
    assert!(forgetting < 0.5 * remembering, "{forgetting} against {remembering}");
    let watching = regret_after_change("cohort:half_life=auto");
    assert!(watching < 0.5 * remembering, "{watching} against {remembering}");
}

/// Users of other kinds from one round on, in rounds and one at a time; and where nobody changes, nothing is
/// forgotten.
#[test]
fn users_who_change_at_once_are_learned_anew() {
    let play = |what: &str, jump: bool, alone: bool| {
        let mut world = clustered(3, 40, 3, 0.1);
        let mut policy = build(what, &world);
        let mut regret = 0.0;
        for half in 0..2 {
            if jump && half == 1 {
                world.thetas = clustered(4, 40, 3, 0.1).thetas;
                world.thetas.rotate_left(world.dim);
            }
            regret += if alone {
                world.play_alone(&mut *policy, 150, Offers::Own)
            } else {
                world.play(&mut *policy, 150)
            };
        }
        (regret, world.trace.clone())
    };
    for alone in [false, true] {
        let (watching, _) = play("cohort:half_life=auto", true, alone);
        let (remembering, _) = play("cohort:half_life=never", true, alone);
        assert!(watching < 0.4 * remembering, "{watching} against {remembering}");
        assert_eq!(play("cohort:half_life=auto", false, alone).1, play("cohort", false, alone).1);
    }
}

/// All was forgotten while a fit was under way: what it found is of users that are no more. What is saved on
/// the way goes on as what was not.
#[test]
fn what_was_fitted_to_users_before_they_changed_is_not_taken_on() {
    let watching = |world: &World| {
        let params = [("half_life".to_owned(), "auto".into())];
        let settings = registry::info("cohort").unwrap().check(params).unwrap();
        Cohort::new(&world.problem(), &settings).unwrap()
    };
    let mut world = clustered(3, 40, 3, 0.1);
    let mut policy = watching(&world);
    world.play_alone(&mut policy, 100, Offers::Own);
    while !policy.is_due() {
        play_one(&mut world, &mut policy, 0);
    }
    let late = policy.job().unwrap();
    Refits::catch_up(&mut policy);
    world.thetas = clustered(4, 40, 3, 0.1).thetas;
    let mut restored = watching(&world);
    for turn in 0..2000 {
        play_one(&mut world, &mut policy, turn % 40);
        if policy.population().is_none() {
            break;
        }
        if turn % 50 == 0 {
            let mut bytes = Vec::new();
            Policy::saved(&mut policy).unwrap().save(&mut bytes).unwrap();
            Policy::saved(&mut restored).unwrap().load(&mut bytes.as_slice()).unwrap();
            let mut again = Vec::new();
            Policy::saved(&mut restored).unwrap().save(&mut again).unwrap();
            assert!(bytes == again, "saved, restored and saved");
            std::mem::swap(&mut policy, &mut restored);
        }
    }
    assert!(policy.population().is_none(), "all was forgotten");
    policy.install(&late()).unwrap();
    assert!(policy.population().is_none(), "and stays so");
    Refits::catch_up(&mut policy);
    world.play_alone(&mut policy, 2, Offers::Own);
    assert!(policy.population().is_some());
}

/// One reward of an arm that is the user's turn.
fn play_one(world: &mut World, policy: &mut Cohort, user: usize) {
    let values = world.contexts();
    let contexts = Contexts::new(&values, world.dim).unwrap();
    let arm = user % contexts.arms();
    let reward = world.reward(user, contexts.arm(arm));
    policy.learn_one(user, contexts.arm(arm), reward);
}

#[test]
fn extreme_numbers_end_in_arms_too() {
    for scale in [1e-12, 1e12] {
        let mut world = clustered(9, 20, 2, 0.1);
        world.thetas.iter_mut().for_each(|theta| *theta *= scale);
        world.sigma *= scale;
        let mut policy = cohort(&world);
        let regret = world.play(&mut policy, 120) / scale;
        assert!(regret < 10.0, "scale {scale}: {regret}");
    }
    let mut policy = registry::build("cohort", &Problem::new(3, 2), []).unwrap();
    let values = [0.5, 0.5, 0.5, 0.5]; // one arm twice
    let contexts = Contexts::new(&values, 2).unwrap();
    let mut arms = [0; 3];
    for round in 0..50 {
        policy.choose(&contexts, &mut arms);
        let reward = if round < 25 { 0.0 } else { 1e300_f64.sqrt() };
        policy.learn(&contexts, &arms, &[reward; 3]);
    }
}
