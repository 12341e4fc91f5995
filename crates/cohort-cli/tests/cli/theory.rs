//! `cohort theory`: the paper's constants, schedules and bounds.

use crate::command::{cohort, json};

#[test]
fn the_papers_simulations_explore_for_55_rounds() {
    let called = cohort(&["theory"]);
    assert_eq!((called.code, called.err.as_str()), (0, ""));
    let line = |word: &str| {
        let line = called.out.lines().find(|line| line.contains(word));
        line.unwrap_or_else(|| panic!("{} does not say {word}", called.out)).to_owned()
    };
    assert!(line("T_explore").contains(" 55 "));
    assert!(line("γ").contains(" 0.3 "));
    assert!(line("T must be").contains(" 84630 "));
    assert!(line("1–10").contains("yes"));
    for name in ["Lemma 1", "Theorem 1", "Lemma 2", "Theorem 2", "Theorem 3", "Corollary 1"] {
        line(name);
    }
    let widest = called.out.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(100), "{widest:?} columns");
}

#[test]
fn everything_is_json_too() {
    let theory =
        json(&["theory", "--shares", "0.6,0.4", "--separations", "1", "--epsilons", "0.2"]);
    assert_eq!(theory["cmlb"]["explore_rounds"], 55);
    assert_eq!(theory["inputs"]["separations"], serde_json::json!([1.0, 1.0]));
    assert_eq!(theory["clusters"][1]["bounds"][0]["name"], "Lemma 1");
    assert_eq!(theory["clusters"][1]["share"], 0.4);
    assert_eq!(theory["sclb_phases"][8]["rounds_in_all"], 1000);
    assert_eq!(theory["pmlb"]["common_rounds"], 31);
    assert_eq!(theory["personalization"][0]["epsilon"], 0.2);
    assert_eq!(theory["alb_norm"][0]["name"], "Lemma 3");
}

#[test]
fn bad_numbers_are_refused_by_name() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["--delta", "1.5"], &["delta = 1.5", "(0, 1)"]),
        (&["--alpha", "-0.1"], &["alpha = -0.1", "(0, 0.5]"]),
        (&["--users", "2.5"], &["users = 2.5", "a whole number, 1 or more"]),
        (&["--rho-min", "nan"], &["rho_min = NaN", "(0, 1]"]),
        (&["--shares", "0.5,0.1"], &["shares", "0.5, 0.1", "add up to 1"]),
        (&["--shares", "1", "--imbalance", "2"], &["shares", "imbalance", "one or the other"]),
        (&["--separations", "1,1,1"], &["separations", "3 numbers", "10 clusters"]),
        (&["--separations", "1,x"], &["--separations", "x"]),
        (&["--epsilons", "-1"], &["epsilons", "-1", "[0, 2]"]),
        (&["--rouds", "3"], &["--rouds", "--rounds"]),
    ];
    for (args, words) in cases {
        let called = cohort(&[&["theory"], *args].concat());
        assert_eq!((called.code, called.out.as_str()), (2, ""), "{args:?}: {}", called.err);
        assert_eq!(called.err.lines().count(), 1, "{}", called.err);
        for word in *words {
            assert!(called.err.contains(word), "`{}` does not say `{word}`", called.err);
        }
    }
}
