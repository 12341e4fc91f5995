//! `cohort cluster`: MAXIMAL-CLUSTER from a file.

use std::path::Path;

use crate::command::{cohort, json};
use crate::npy;

/// On a line: three close together, two close together, one alone.
const POINTS: [f64; 6] = [0.0, 5.0, 0.1, 9.0, 5.1, 0.2];

fn points(folder: &Path) -> String {
    npy::write(folder, "P.npy", "(6, 1)", &POINTS).to_str().unwrap().to_owned()
}

#[test]
fn clusters_sizes_and_labels_are_those_of_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let points = points(folder.path());
    let labels = folder.path().join("L.npy");
    let args = ["cluster", "--points", &points, "--gamma", "0.1001"];
    let result = json(&[&args[..], &["--labels", labels.to_str().unwrap()]].concat());
    let keys: Vec<&String> = result.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["clusters", "points", "seconds", "sizes"]);
    assert_eq!((&result["points"], &result["clusters"]), (&6.into(), &3.into()));
    assert_eq!(result["sizes"], serde_json::json!([3, 2, 1]));
    assert_eq!(npy::read_whole_numbers(&labels, "(6,)"), [0, 1, 0, 2, 1, 0]);

    // Clusters with fewer than half of the points are merged.
    let result = json(&[&args[..], &["--min-share", "0.5"]].concat());
    assert_eq!(result["sizes"], serde_json::json!([3, 3]));
}

#[test]
fn what_cannot_be_clustered_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let points = points(folder.path());
    let nan = npy::write(folder.path(), "nan.npy", "(1, 2)", &[1.0, f64::NAN]);
    let flat = npy::write(folder.path(), "flat.npy", "(2,)", &[1.0, 2.0]);
    let [nan, flat] = [&nan, &flat].map(|path| path.to_str().unwrap());
    let cases: &[(&[&str], &str)] = &[
        (&["--points", nan, "--gamma", "1"], "nan.npy: array: found NaN or infinity at [0, 1]"),
        (&["--points", flat, "--gamma", "1"], "flat.npy: array: found (2)"),
        (&["--points", "none.npy", "--gamma", "1"], "none.npy: cannot be read"),
        (&["--points", &points, "--gamma", "-1"], "gamma: found -1"),
        (&["--points", &points, "--gamma", "nan"], "gamma: found NaN"),
        (&["--points", &points, "--gamma", "1", "--min-share", "2"], "min_share: found 2"),
        (&["--points", &points], "--gamma"),
    ];
    for (args, words) in cases {
        let labels = folder.path().join("L.npy");
        let labels = ["--labels", labels.to_str().unwrap()];
        let called = cohort(&[&["cluster"], *args, &labels].concat());
        assert_eq!(called.code, 2);
        assert!(called.err.contains(words), "{} does not say {words}", called.err);
        assert_eq!(called.err.lines().count(), 1, "{}", called.err);
        assert!(!Path::new(labels[1]).exists(), "something was written");
    }
}
