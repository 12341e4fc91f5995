//! `cohort arena`: what it prints, what it writes, what it refuses.

use std::fs;

use crate::command::cohort;

#[test]
fn a_part_of_the_arena_is_played_and_written() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("arena");
    let called = cohort(&[
        "arena",
        "--quick",
        "--only",
        "alike",
        "--policy",
        "random,linucb-ind",
        "--out",
        out.to_str().unwrap(),
    ]);
    assert_eq!(called.code, 0, "{}", called.err);
    assert!(called.out.contains("mean rank at published parameters"), "{}", called.out);
    let first = called.out.find("linucb-ind").unwrap();
    assert!(first < called.out.find("random").unwrap(), "{}", called.out);
    for name in ["index.html", "README.md", "results.json"] {
        assert!(fs::metadata(out.join(name)).unwrap().len() > 500, "{name}");
    }
}

#[test]
fn names_that_are_not_there_are_refused() {
    let called = cohort(&["arena", "--only", "mixtrue"]);
    assert_eq!(called.code, 2);
    assert!(called.err.contains("did you mean `mixture`"), "{}", called.err);
}
