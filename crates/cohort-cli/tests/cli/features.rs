//! `cohort features`: how a file is encoded.

use crate::command::{cohort, json};

#[test]
fn a_file_is_shown_as_what_it_would_become() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("items.jsonl");
    let lines = [
        r#"{"genre": "drama", "year": 1950}"#,
        "",
        r#"{"genre": "war", "year": 1970, "_id": 7}"#,
        r#"{"items": [{"id": "a", "features": {"genre": "war"}}], "context": {"device": "mobile"}}"#,
    ];
    std::fs::write(&file, lines.join("\n")).unwrap();
    let file = file.to_str().unwrap();
    let found = json(&["features", file]);
    assert_eq!((&found["lines"], &found["dim"]), (&3.into(), &32.into()));
    let names: Vec<&str> = found["features"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "item.genre=drama",
            "item.year",
            "item.genre=war",
            "context.device=mobile",
            "item.genre=war^context.device=mobile"
        ]
    );
    let text = cohort(&["features", file, "--dim", "3"]);
    assert!(
        text.out.contains("is shared by") && text.out.contains("a larger --dim"),
        "{}",
        text.out
    );
}

#[test]
fn vectors_are_shown_with_the_interactions_and_the_seed_that_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("requests.jsonl");
    let line = r#"{"items": [{"id": "a", "features": {"kind": "x"}}, {"id": "b", "features": {"kind": "y"}}],
        "context": {"device": {"os": "ios"}, "page": "top"}}"#;
    std::fs::write(&file, line.replace('\n', " ")).unwrap();
    let file = file.to_str().unwrap();
    let ask = |more: &[&str]| json(&[&["features", file, "--vectors"], more].concat());
    let crossed = |found: &serde_json::Value| {
        let features = found["features"].as_array().unwrap();
        features.iter().filter(|one| one["name"].as_str().unwrap().contains('^')).count()
    };
    let found = ask(&[]);
    assert_eq!(crossed(&found), 4);
    let rows = found["vectors"][0]["items"].as_array().unwrap();
    assert_eq!((rows.len(), rows[0].as_array().unwrap().len(), &rows[0][0]), (2, 32, &1.0.into()));
    assert_eq!(crossed(&ask(&["--interactions", "item:device"])), 2);
    assert_eq!(crossed(&ask(&["--interactions", "none"])), 0);
    assert_ne!(ask(&["--seed", "7"])["vectors"], found["vectors"]);
    assert!(cohort(&["features", file, "--vectors"]).out.contains("line 1, item 2: 1.0000 "));
    let refused = cohort(&["features", file, "--interactions", "item"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("two names with a colon"), "{}", refused.err);
}

#[test]
fn what_cannot_be_read_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("items.jsonl");
    for (line, said) in [
        (r#"{"a": 1, "a": 2}"#, "`a` is there twice"),
        (r#"{"age": "NaN"}"#, "null says that one is missing"),
        ("{", "EOF"),
        ("3", "an object"),
    ] {
        std::fs::write(&file, format!("{{\"a\": 1}}\n{line}\n")).unwrap();
        let done = cohort(&["features", file.to_str().unwrap()]);
        assert_eq!(done.code, 2, "{}", done.err);
        assert!(done.err.contains("line 2") && done.err.contains(said), "{}", done.err);
    }
    assert_eq!(cohort(&["features", "/no/such/file"]).code, 2);
}
