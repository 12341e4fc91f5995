//! What is in `docs/reproduction/` is what the program gives: a slice of it is run again and has the
//! same digits.

use std::path::{Path, PathBuf};

use cohort_lab::reproduce::claims;
use cohort_lab::reproduce::docs::{PAGE, SLICE};
use cohort_lab::reproduce::gather::again;
use cohort_lab::reproduce::study::{FILES, Study, reads_data};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reproduction")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap()
}

/// No more decisions than this are made for one line of the slice.
const DECISIONS: usize = 600_000;

#[test]
fn a_slice_of_it_run_again_has_the_same_digits() {
    let json: serde_json::Value = serde_json::from_str(&read("claims.json")).unwrap();
    let mut checked = 0;
    for line in read(SLICE).lines().skip(1) {
        let [study, policy, regret] = line.splitn(3, ',').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let text = FILES.iter().find(|(name, _)| *name == study).unwrap().1;
        if reads_data(study) {
            continue;
        }
        let quick = json["modes"][study] == "quick";
        let study = Study::parse(study, text, quick).unwrap();
        let draft = study.draft_of(&study.settings()[0]);
        let number = |found: Option<&cohort::params::Value>, default: usize| match found {
            Some(cohort::params::Value::Real(number)) => *number as usize,
            _ => default,
        };
        let rounds = number(draft.run.get("rounds"), 1000);
        if number(draft.options.get("users"), 100) * rounds > DECISIONS {
            continue;
        }
        let name = study.name.clone();
        let again = again(study, policy, Path::new(""), None).unwrap().unwrap();
        assert_eq!(again.total().to_string(), regret, "{name}, {policy}");
        checked += 1;
    }
    assert!(checked >= 40, "{checked} lines were checked");
}

#[test]
fn every_claim_is_on_the_page_and_says_how_it_was_run() {
    let page = read(PAGE);
    let json: serde_json::Value = serde_json::from_str(&read("claims.json")).unwrap();
    let judged = json["claims"].as_array().unwrap();
    for claim in claims::all() {
        assert!(page.contains(&format!("\n### {}\n", claim.id)), "{} is not there", claim.id);
        let found = judged.iter().find(|judged| judged["id"] == claim.id);
        let found = found.unwrap_or_else(|| panic!("{} is not in claims.json", claim.id));
        for key in ["applies", "verdict", "verdict_tuned", "readings", "command"] {
            assert!(found.get(key).is_some(), "{}: no {key}", claim.id);
        }
    }
    assert!(json["mode"].is_string() && json["reps"].is_object());
    for (study, mode) in json["modes"].as_object().unwrap() {
        assert!(mode == "full" || mode == "quick", "{study}: {mode}");
        let reps = &json["reps"][study];
        let row = |row: &str| row.starts_with(&format!("| {study} | {} |", mode.as_str().unwrap()));
        let row =
            page.lines().find(|line| row(line)).unwrap_or_else(|| panic!("no row of {study}"));
        assert!(
            row.contains(&format!("| {reps} ")),
            "{study}: {reps} repetitions are not in {row}"
        );
    }
    let head: String = std::fs::read_to_string(folder().join("../../README.md")).unwrap();
    let score = page.split("**").nth(1).unwrap().trim_end_matches('.');
    let first_screen: String = head.lines().take(30).collect::<Vec<_>>().join(" ");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&first_screen).contains(&words(score)), "the README does not say “{score}”");
}
