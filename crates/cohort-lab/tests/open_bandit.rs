//! The same estimates as the Open Bandit Pipeline, on the same logs and the same policies, to 1e-6.
//!
//! `golden/open_bandit.json` holds what obp 0.4.1 says; `bench/peers/obp_golden.py` made it.

use std::path::{Path, PathBuf};

use cohort_lab::evaluate::estimators::Estimator;
use cohort_lab::evaluate::log::Log;
use cohort_lab::evaluate::target::TargetSpec;
use cohort_lab::evaluate::{evaluate, reading};
use cohort_lab::npy;
use serde_json::Value;

const GOLDEN: &str = include_str!("golden/open_bandit.json");

fn sample() -> Option<PathBuf> {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/open-bandit-sample");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: the Open Bandit sample is not at ../shared/data/open-bandit-sample");
    None
}

/// The probabilities that the script has under this name, as a file.
fn probabilities(name: &str, log: &Log, folder: &Path) -> PathBuf {
    let (rows, items) = (log.rows.len(), log.items.len());
    let mut values = Vec::with_capacity(rows * items);
    for row in 0..rows {
        let of = |item: usize| match name {
            "uneven" => 1.0 + ((7 * item + 3 * row) % 11) as f64,
            _ => f64::from(u8::from(item == (13 * row) % items)),
        };
        let sum: f64 = (0..items).map(of).sum();
        values.extend((0..items).map(|item| of(item) / sum));
    }
    let path = folder.join(format!("{name}.npy"));
    let mut file = std::fs::File::create(&path).unwrap();
    npy::write(&mut file, &[rows, items], &values).unwrap();
    path
}

#[test]
fn estimates_are_those_of_the_open_bandit_pipeline() {
    let Some(sample) = sample() else { return };
    let folder = tempfile::tempdir().unwrap();
    let golden: Value = serde_json::from_str(GOLDEN).unwrap();
    let golden = golden["estimates"].as_array().unwrap();
    let mut compared = 0;
    for name in ["random/all", "random/men", "random/women", "bts/all", "bts/men", "bts/women"] {
        let campaign = name.split('/').next_back().unwrap();
        let log = reading::read(&sample.join(name).join(format!("{campaign}.csv.gz"))).unwrap();
        assert_eq!(log.rows.len(), 10_000);
        for expected in golden.iter().filter(|entry| entry["log"] == name) {
            let policy = expected["policy"].as_str().unwrap();
            let wanted = match policy {
                "uneven" | "turning" => {
                    TargetSpec::File(probabilities(policy, &log, folder.path()))
                }
                name => TargetSpec::parse(name).unwrap(),
            };
            let mut targets = [wanted.build(&log).unwrap()];
            let found = evaluate(&log, &mut targets, &Estimator::ALL, 1).unwrap();
            for estimate in &found[0].estimates {
                // Replay of a policy that draws is another estimate at every draw.
                let Some(expected) = expected[estimate.estimator.name()].as_f64() else { continue };
                let found = estimate.value.unwrap();
                let error = (found - expected).abs();
                assert!(error < 1e-6, "{name} {policy} {}: {found} {expected}", estimate.estimator);
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 6 * (4 * 3 + 2), "every figure of the script was compared");
}

#[test]
fn policies_that_learn_are_judged_while_they_learn() {
    let Some(sample) = sample() else { return };
    let log = reading::read(&sample.join("random/men/men.csv.gz")).unwrap();
    let mut targets = ["logged", "linucb-ind", "cohort"]
        .map(|name| TargetSpec::parse(name).unwrap().build(&log).unwrap());
    let found = evaluate(&log, &mut targets, &Estimator::ALL, 1).unwrap();
    // The policy that made the log is worth what the log earned: 46 clicks of 10,000.
    for estimate in &found[0].estimates[1..3] {
        assert!((estimate.value.unwrap() - 0.0046).abs() < 1e-12);
    }
    for evaluation in &found[1..] {
        let weights = evaluation.weights.unwrap();
        assert!((weights.mean - 1.0).abs() < 0.5, "{} {weights:?}", evaluation.policy);
        assert!(weights.effective_rows > 100.0 && weights.effective_rows < 1000.0, "{weights:?}");
        let replayed = evaluation.estimates[0];
        assert!((200..400).contains(&replayed.rows), "about one row of 34: {replayed:?}");
        assert!(evaluation.warnings.iter().any(|warning| warning.contains("too rough")));
    }
}
