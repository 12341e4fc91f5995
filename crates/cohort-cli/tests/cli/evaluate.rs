//! `cohort evaluate` on small logs whose answers are known by hand.

use crate::command::{cohort, json};

fn log(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.csv");
    std::fs::write(&path, text).unwrap();
    (folder, path.display().to_string())
}

#[test]
fn estimates_that_can_be_added_up_by_hand() {
    // Tea is chosen with 3/4, milk with 1/4; always-milk has weights 4 and 0.
    let (_folder, path) = log("item,reward,propensity\n\
         tea,1,0.75\ntea,0,0.75\ntea,1,0.75\nmilk,1,0.25\nmilk,0,0.25\ntea,,0.75\n");
    let found = json(&["evaluate", &path, "--policy", "item=milk,random"]);
    assert_eq!((&found["rows"], &found["unrewarded"]), (&5.into(), &1.into()));
    let value = |policy: usize, estimator: usize| {
        found["policies"][policy]["estimates"][estimator]["value"].as_f64().unwrap()
    };
    assert_eq!(value(0, 0), 0.5, "replay: the mean of the two rows with milk");
    assert!((value(0, 1) - 4.0 / 5.0).abs() < 1e-12, "IPS: 4·1 over five rows");
    assert!((value(0, 2) - 0.5).abs() < 1e-12, "SNIPS: 4·1 over 4 + 4");
    // random: weights 2/3 and 2.
    assert!((value(1, 2) - (2.0 * 2.0 / 3.0 + 2.0) / (3.0 * 2.0 / 3.0 + 4.0)).abs() < 1e-12);
    assert_eq!(found["policies"][0]["weights"]["effective_rows"], 2.0);
    let warnings = found["policies"][0]["warnings"].to_string();
    assert!(warnings.contains("effective sample size is 2.0 of 5 rows"), "{warnings}");
    assert!(warnings.contains("not chosen uniformly at random"), "{warnings}");
}

#[test]
fn a_log_without_propensities_is_refused_where_they_are_needed_and_the_reason_given() {
    let (_folder, path) = log("item,reward\ntea,1\nmilk,0\n");
    let refused = cohort(&["evaluate", &path, "--policy", "random"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("ips weighs every row by it"), "{}", refused.err);
    assert_eq!(refused.err.lines().count(), 1);
    let replayed = cohort(&["evaluate", &path, "--policy", "item=tea", "--estimator", "replay"]);
    assert_eq!(replayed.code, 0, "{}", replayed.err);
    assert!(replayed.out.contains("only if items were chosen uniformly"), "{}", replayed.out);
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let (_folder, path) = log("item,reward,propensity\ntea,1,1\n");
    let refused = |args: &[&str]| {
        let called = cohort(&[&["evaluate", &path], args].concat());
        assert_eq!(called.code, 2, "{}", called.out);
        called.err
    };
    assert!(refused(&["--policy", "linucb"]).contains("did you mean `linucb-ind`?"));
    assert!(refused(&["--policy", "item=beer"]).contains("an item of the log, such as tea"));
    assert!(refused(&["--policy", "cohort"]).contains("no features"));
    assert!(refused(&["--estimator", "dm"]).contains("replay, ips, snips, dr"));
    assert!(refused(&["--set", "random.x=1"]).contains("POLICY.PARAM=VALUE"));
    assert_eq!(cohort(&["evaluate", "not-there.csv"]).code, 2);
}
