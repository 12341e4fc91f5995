//! `cohort simulate`: what it prints, what it writes, and that it is reproducible.

use std::fs;

use serde_json::{Value, json};

use crate::command::{cohort, json, regrets};

/// All policies of the registry.
fn all_policies() -> String {
    let names: Vec<&str> = cohort::registry::POLICIES.iter().map(|info| info.name).collect();
    names.join(",")
}

const SMALL: &[&str] = &[
    "simulate",
    "--users",
    "12",
    "--clusters",
    "3",
    "--dim",
    "4",
    "--arms",
    "5",
    "--rounds",
    "60",
    "--reps",
    "2",
];

fn small<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [SMALL, more].concat()
}

#[test]
fn the_json_is_that_of_the_contract() {
    let policies = all_policies();
    let summary = json(&small(&["--seed", "9", "--policy", &policies]));
    let keys = |value: &Value| -> Vec<String> {
        value.as_object().expect("an object").keys().cloned().collect()
    };
    assert_eq!(keys(&summary), ["env", "policies", "reps", "rounds", "seed", "users"]);
    let head = [&summary["rounds"], &summary["users"], &summary["reps"], &summary["seed"]];
    assert_eq!(head, [&json!(60), &json!(12), &json!(2), &json!(9)]);
    assert_eq!(summary["env"]["name"], "clustered");
    assert_eq!(summary["env"]["clusters"], 3);

    let names: Vec<&str> = policies.split(',').collect();
    assert_eq!(summary["policies"].as_array().map(Vec::len), Some(names.len()));
    for (at, name) in names.into_iter().enumerate() {
        let policy = &summary["policies"][at];
        let expected = [
            "adjusted_rand",
            "clusters",
            "name",
            "regret_ci95",
            "regret_mean",
            "regret_per_rep",
            "seconds",
            "user_rounds_per_second",
        ];
        assert_eq!(keys(policy), expected);
        assert_eq!(policy["name"], name);
        let regrets = regrets(&summary, at);
        let mean = policy["regret_mean"].as_f64().unwrap();
        assert!((mean - (regrets[0] + regrets[1]) / 2.0).abs() < 1e-9, "{name}");
        // Student's t of one degree of freedom: 12.706·|a − b|/2.
        let half = 12.706_204_736 * (regrets[0] - regrets[1]).abs() / 2.0;
        assert!((policy["regret_ci95"].as_f64().unwrap() - half).abs() <= 1e-6 * half, "{name}");
        let rate = policy["user_rounds_per_second"].as_f64().unwrap();
        assert!((rate * policy["seconds"].as_f64().unwrap() - 12.0 * 60.0 * 2.0).abs() < 1e-6);
        for list in ["clusters", "adjusted_rand"] {
            assert_eq!(policy[list].as_array().map(Vec::len), Some(2));
        }
    }
}

#[test]
fn a_policy_without_clusters_says_null_and_one_repetition_has_no_interval() {
    let args = ["--rounds", "30", "--reps", "1", "--clusters", "3"];
    let summary = json(&[&["simulate", "--policy", "linucb-ind,oracle"][..], &args].concat());
    assert_eq!(summary["policies"][0]["clusters"], json!([null]));
    assert_eq!(summary["policies"][0]["adjusted_rand"], json!([null]));
    assert_eq!(summary["policies"][0]["regret_ci95"], Value::Null);
    assert_eq!(summary["policies"][1]["clusters"], json!([3]));
    assert_eq!(summary["policies"][1]["adjusted_rand"], json!([1.0]));
}

#[test]
fn the_same_seed_gives_the_same_bits_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let policies = all_policies();
    let run = |threads: &str| {
        let out = folder.path().join(threads);
        let args = ["--policy", &policies, "--threads", threads, "--out", out.to_str().unwrap()];
        let summary = json(&small(&args));
        let file = |name: &str| fs::read(out.join(name)).unwrap();
        let regrets: Vec<Vec<f64>> =
            (0..policies.split(',').count()).map(|at| regrets(&summary, at)).collect();
        (regrets, file("regret.csv"), file("regret.parquet"), file("clusters.csv"))
    };
    assert!(run("1") == run("2"));
}

#[test]
fn comparisons_are_paired() {
    let policies = "random,a=linucb-ind,linucb-ind,b=random";
    let summary = json(&small(&["--policy", policies]));
    assert_eq!(regrets(&summary, 1), regrets(&summary, 2));
    assert_eq!(regrets(&summary, 0), regrets(&summary, 3));
    assert_eq!(summary["policies"][1]["name"], "a");
    // Other policies in the same run change nothing.
    let alone = json(&small(&["--policy", "linucb-ind"]));
    assert_eq!(regrets(&summary, 2), regrets(&alone, 0));
}

#[test]
fn results_are_written_and_agree_with_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("runs/first");
    let args = ["--policy", "linucb-ind,wide=cmlb", "--set", "wide.exploration=2", "--out"];
    let summary = json(&small(&[&args[..], &[out.to_str().unwrap()]].concat()));
    let mut names: Vec<String> = fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "clusters.csv",
            "clusters.parquet",
            "experiment.toml",
            "regret.csv",
            "regret.parquet",
            "summary.json",
            "timing.csv"
        ]
    );
    let text = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text("summary.json")).unwrap(), summary);

    let table = text("regret.csv");
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some("policy,repetition,round,regret,cumulative_regret"));
    let last = lines.clone().find(|line| line.starts_with("wide,2,60,")).expect("the last round");
    assert_eq!(lines.count(), 2 * 2 * 60);
    let total: f64 = last.rsplit(',').next().unwrap().parse().unwrap();
    assert!((total - regrets(&summary, 1)[1]).abs() < 1e-9);
    assert!(text("timing.csv").lines().count() == 5 && text("clusters.csv").contains("wide,1,60,"));

    // The experiment file that was written gives the same numbers.
    let again = json(&["simulate", out.join("experiment.toml").to_str().unwrap()]);
    assert_eq!(regrets(&again, 1), regrets(&summary, 1));
}

#[test]
fn flags_override_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let text = "
        rounds = 30
        reps = 1
        [env]
        users = 6
        clusters = 2
        noise = 0.5
        [[policy]]
        name = 'linucb-ind'
        exploration = 0.5
    ";
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let from_file = json(&["simulate", file]);
    assert_eq!((&from_file["rounds"], &from_file["users"]), (&json!(30), &json!(6)));
    let overridden =
        json(&["simulate", file, "--rounds", "20", "--set", "linucb-ind.exploration=0.1"]);
    assert_eq!((&overridden["rounds"], &overridden["users"]), (&json!(20), &json!(6)));
    let flags = ["--rounds", "20", "--reps", "1", "--users", "6", "--clusters", "2"];
    let policy =
        ["--noise", "0.5", "--policy", "linucb-ind", "--set", "linucb-ind.exploration=0.1"];
    let from_flags = json(&[&["simulate"][..], &flags, &policy].concat());
    assert_eq!(regrets(&overridden, 0), regrets(&from_flags, 0));
}

#[test]
fn every_environment_and_every_law_runs() {
    let cases: &[&[&str]] = &[
        &["--env", "clustered", "--imbalance", "1.5", "--separation", "0.8"],
        &["--env", "clustered", "--spacing", "0.15"],
        &["--env", "gaussian", "--spread", "0.05", "--unit-ball"],
        &["--env", "mixture", "--clusters", "4", "--spread", "0.02"],
        &["--context-law", "unit-ball", "--noise-law", "uniform"],
    ];
    let base = ["simulate", "--rounds", "30", "--reps", "1", "--policy", "random,linucb-ind"];
    for case in cases {
        let summary = json(&[&base[..], case].concat());
        let (random, learning) = (regrets(&summary, 0)[0], regrets(&summary, 1)[0]);
        assert!(learning < random, "{case:?}: {learning} of {random}");
    }
}

/// The regrets of the default experiment (N = 100, L = 10, noise 0.1).
#[test]
fn regrets_are_those_expected_of_the_paper_s_setting() {
    let policies = "random,linucb-ind,narrow=linucb-ind,oracle";
    let args = ["--policy", policies, "--set", "narrow.exploration=0.1", "--reps", "1"];
    let summary = json(&[&["simulate"][..], &args].concat());
    let regret = |at| regrets(&summary, at)[0];
    assert!((280.0..296.0).contains(&regret(0)), "random: {}", regret(0));
    assert!((17.0..20.0).contains(&regret(1)), "linucb-ind: {}", regret(1));
    assert!((6.5..8.5).contains(&regret(2)), "exploration 0.1: {}", regret(2));
    assert!(regret(3) < 0.75 * regret(1), "oracle: {}", regret(3));
}

#[test]
fn people_get_a_table_and_pipes_no_progress_bar() {
    let called = cohort(&small(&["--policy", "random,linucb-ind,oracle"]));
    assert_eq!((called.code, called.err.as_str()), (0, ""));
    let lines: Vec<&str> = called.out.lines().collect();
    assert!(lines[0].starts_with("clustered: 12 users, 60 rounds, 5 arms in R^4, 2 repetitions"));
    for column in ["policy", "mean regret", "95 % interval", "× linucb-ind", "clusters found"] {
        assert!(lines[2].contains(column), "{column} is missing");
    }
    assert!(lines[4].starts_with("linucb-ind") && lines[4].contains("  1.00  "));
    assert!(lines[5].starts_with("oracle") && lines[5].contains("  3.0  "));
}

#[test]
fn help_teaches() {
    let called = cohort(&["simulate", "--help"]);
    assert_eq!(called.code, 0);
    for word in ["Examples:", "--env", "--separation", "--noise-table", "--set", "[default: 0.1]"] {
        assert!(called.out.contains(word), "{word} is missing");
    }
}
