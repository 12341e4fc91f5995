//! What the paper proves and reports, as statements about runs with fixed seeds and stated ratios.

use std::sync::atomic::AtomicBool;

use cohort_lab::experiment::Draft;
use cohort_lab::runner::{self, Repetition};

/// Runs an experiment given as TOML.
fn repetitions(toml: &str) -> Vec<Repetition> {
    let experiment = Draft::parse(toml).unwrap().resolve().unwrap();
    runner::run(&experiment.plan, &(), &AtomicBool::new(false)).unwrap().repetitions
}

/// Mean regret of every contender.
fn mean_regrets(repetitions: &[Repetition]) -> Vec<f64> {
    let contenders = repetitions[0].runs.len();
    let mean = |at: usize| {
        let total: f64 = repetitions.iter().map(|rep| rep.runs[at].total_regret()).sum();
        total / repetitions.len() as f64
    };
    (0..contenders).map(mean).collect()
}

#[test]
fn the_width_of_the_bonus_matters_more_than_collaboration() {
    // A small width makes independent learning beat theory's by far.
    let repetitions = repetitions(
        r#"
        rounds = 1000
        reps = 2
        env = { name = "clustered", users = 100, clusters = 10, noise = 0.1 }
        policy = [
            { name = "linucb-ind", exploration = 0.1 },
            { name = "linucb-ind", label = "theory" },
            { name = "oracle" },
            { name = "random" },
        ]
        "#,
    );
    let [narrow, theory, oracle, random] = mean_regrets(&repetitions)[..] else { panic!() };
    assert!(narrow < 9.0, "linucb-ind ×0.1: {narrow}");
    assert!((15.0..25.0).contains(&theory), "linucb-ind: {theory}");
    assert!(oracle < 0.8 * theory, "oracle {oracle} against linucb-ind {theory}");
    assert!((270.0..310.0).contains(&random), "random: {random}");
}

#[test]
fn the_oracle_is_no_worse_than_linucb_ind_on_separable_instances() {
    for (users, clusters, noise) in [(40, 2, 0.1), (60, 6, 0.3), (60, 3, 1.0)] {
        let repetitions = repetitions(&format!(
            r#"
            rounds = 500
            reps = 2
            env = {{ name = "clustered", users = {users}, clusters = {clusters}, noise = {noise}, separation = 1.0 }}
            policy = [{{ name = "oracle" }}, {{ name = "linucb-ind" }}]
            "#
        ));
        for repetition in &repetitions {
            let [oracle, alone] = [0, 1].map(|at| repetition.runs[at].total_regret());
            assert!(oracle <= alone, "{users} users, noise {noise}: {oracle} against {alone}");
        }
    }
}

#[test]
fn cmlb_finds_the_ten_clusters_at_low_noise_after_55_rounds() {
    let repetitions = repetitions(
        r#"
        rounds = 1000
        reps = 4
        env = { name = "clustered", users = 100, clusters = 10, noise = 0.05 }
        policy = [{ name = "cmlb" }]
        "#,
    );
    for repetition in &repetitions {
        let checkpoints = &repetition.runs[0].checkpoints;
        let first = checkpoints.iter().find(|checkpoint| checkpoint.clusters.is_some()).unwrap();
        // Checkpoints are ten rounds apart: none at 50, clusters at 60.
        assert_eq!(first.rounds, 60);
        assert_eq!(first.clusters, Some(10));
        assert_eq!(first.adjusted_rand, Some(1.0));
    }
}

#[test]
fn lemma_1_separable_clusters_are_recovered_exactly() {
    // α-separable: Δ ≥ 5/(NT)^α. With N = 12, T = 40,000 and α = 0.1 that is 1.36.
    let (users, rounds, dim, alpha, delta) = (12, 40_000, 3, 0.1, 1e-4);
    let scale = f64::powf((users * rounds) as f64, alpha);
    assert!(1.4 >= 5.0 / scale);
    // T_explore with ρ_min = 1/(3d), the contexts', and C = 3: beyond τ_min(δ), and long enough
    // that the ball's radius (R√(2 ln(1/δ) + d ln(1 + T/d)) + 1)/√(1 + ρ_min T_explore/2) is less
    // than 1/(NT)^α. That is the lemma's condition.
    let rho_min = 1.0 / (3.0 * f64::from(dim));
    let explore = cohort::policies::cmlb::explore_rounds(
        3.0,
        dim as usize,
        users,
        rounds,
        alpha,
        delta,
        rho_min,
    );
    assert!(explore as f64 >= cohort::linear::tau_min(rho_min, dim as usize, rounds, delta));
    assert!(explore < rounds);
    let noise = 0.5;
    let radius = noise
        * (2.0 * (1.0 / delta).ln()
            + f64::from(dim) * (1.0 + explore as f64 / f64::from(dim)).ln())
        .sqrt()
        + 1.0;
    assert!(radius / (1.0 + rho_min * explore as f64 / 2.0).sqrt() <= 1.0 / scale);

    let repetitions = repetitions(&format!(
        r#"
        rounds = {rounds}
        reps = 10
        env = {{ name = "clustered", users = {users}, clusters = 3, dim = {dim}, arms = 5, noise = {noise}, separation = 1.4 }}
        policy = [{{ name = "cmlb", alpha = {alpha}, c = 3.0, delta = {delta}, explore_rho_min = {rho_min} }}]
        "#
    ));
    // The lemma promises 1 − 2·(N choose 2)·δ = 0.987 of all runs.
    let exact = |repetition: &Repetition| {
        let last = repetition.runs[0].last_checkpoint().unwrap();
        last.clusters == Some(3) && last.adjusted_rand == Some(1.0)
    };
    assert_eq!(repetitions.iter().filter(|repetition| exact(repetition)).count(), 10);
}

#[test]
fn sclb_puts_everybody_in_one_cluster_when_all_centres_are_close() {
    // 1/(NT)^α = 1/(40·500)^0.2 = 0.138: centres 0.1 apart are closer than that.
    let close = 1.0 / f64::powf(40.0 * 500.0, 0.2);
    assert!(0.1 < close);
    let repetitions = repetitions(
        r#"
        rounds = 500
        reps = 4
        env = { name = "clustered", users = 40, clusters = 5, noise = 0.01, spacing = 0.1 }
        policy = [{ name = "sclb" }, { name = "linucb-ind" }]
        "#,
    );
    for repetition in &repetitions {
        assert_eq!(repetition.runs[0].last_checkpoint().unwrap().clusters, Some(1));
    }
}

#[test]
fn the_letter_restarts_and_pays_for_it_the_warm_variants_do_not() {
    let repetitions = repetitions(
        r#"
        rounds = 1000
        reps = 2
        env = { name = "clustered", users = 100, clusters = 10, noise = 0.1 }
        policy = [
            { name = "linucb-ind" },
            { name = "cmlb" },
            { name = "cmlb-warm" },
            { name = "sclb" },
            { name = "sclb-warm" },
        ]
        "#,
    );
    let [alone, cmlb, cmlb_warm, sclb, sclb_warm] = mean_regrets(&repetitions)[..] else {
        panic!()
    };
    assert!(sclb > 2.0 * alone, "sclb {sclb} against linucb-ind {alone}");
    assert!(cmlb_warm < 0.7 * cmlb, "cmlb-warm {cmlb_warm} against cmlb {cmlb}");
    assert!(sclb_warm < 0.3 * sclb, "sclb-warm {sclb_warm} against sclb {sclb}");
}

#[test]
fn the_letter_of_pmlb_plays_for_the_difference_the_compensated_form_for_the_user() {
    let repetitions = repetitions(
        r#"
        rounds = 1000
        reps = 2
        env = { name = "gaussian", users = 50, spread = 0.001, unit_ball = true, noise = 0.1 }
        policy = [
            { name = "pmlb" },
            { name = "pmlb-compensated" },
            { name = "pmlb-warm" },
            { name = "linucb-ind" },
        ]
        "#,
    );
    let [letter, compensated, warm, alone] = mean_regrets(&repetitions)[..] else { panic!() };
    assert!(letter > 3.0 * alone, "pmlb {letter} against linucb-ind {alone}");
    assert!(compensated < 0.6 * letter, "pmlb-compensated {compensated} against pmlb {letter}");
    assert!(warm < alone, "pmlb-warm {warm} against linucb-ind {alone}");
}

/// The limit of collaboration: T = 1000, d = 15, K = 25, ten clusters.
#[test]
fn who_is_told_the_centres_loses_no_more_than_it_takes_to_tell_users_apart() {
    for (noise, expected) in [(0.1, 0.71), (0.3, 3.25), (1.0, 30.3)] {
        let repetitions = repetitions(&format!(
            r#"
            rounds = 1000
            reps = 4
            env = {{ name = "clustered", users = 200, clusters = 10, noise = {noise} }}
            policy = [{{ name = "oracle-centres" }}]
            "#
        ));
        let regret = mean_regrets(&repetitions)[0];
        assert!((regret / expected - 1.0).abs() < 0.2, "noise {noise}: {regret} for {expected}");
    }
}
