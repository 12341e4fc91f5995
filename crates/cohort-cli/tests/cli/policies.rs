//! `cohort policies`: every policy, every parameter.

use cohort::registry::POLICIES;
use cohort_server::settings::online_policies;

use crate::command::{cohort, json};

#[test]
fn every_policy_is_listed_with_its_parameters() {
    let called = cohort(&["policies"]);
    assert_eq!((called.code, called.err.as_str()), (0, ""));
    for info in POLICIES {
        assert!(called.out.contains(&format!("{}: {}", info.name, info.summary)));
    }
    assert!(called.out.contains("exploration"));
    let marks = called.out.matches("works one user at a time: also for apps").count();
    assert_eq!(marks, online_policies().len());
    let widest = called.out.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(100), "{widest:?} columns");
}

#[test]
fn the_list_is_json_too() {
    let list = json(&["policies"]);
    assert_eq!(list.as_array().map(Vec::len), Some(POLICIES.len()));
    for policy in list.as_array().unwrap() {
        let name = policy["name"].as_str().unwrap();
        assert_eq!(policy["for_apps"], online_policies().contains(&name), "{name}");
    }
    let one = json(&["policies", "linucb-ind"]);
    let params = one[0]["parameters"].as_array().unwrap();
    let delta = params.iter().find(|param| param["name"] == "delta").unwrap();
    assert_eq!((&delta["default"], &delta["range"]), (&0.4.into(), &"a number in (0, 1)".into()));
}

/// One way only: a new policy is its file and its line in the registry, and may be described later.
#[test]
fn the_page_of_policies_names_no_policy_that_is_not_there() {
    let page = include_str!("../../../../docs/policies.md");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let cells: Vec<&str> = rows.filter_map(|row| row.split('|').nth(1)).collect();
    assert!(cells.len() > 10, "the table of docs/policies.md was not found");
    for name in cells.iter().flat_map(|cell| cell.split(',')) {
        let name = name.trim().trim_matches('`');
        assert!(POLICIES.iter().any(|info| info.name == name), "docs/policies.md: {name}");
    }
}
