//! Bad input: one line that names it, exit code 2, nothing written.

use std::fs;
use std::path::Path;

use crate::command::cohort;
use crate::npy;

/// The command refuses, on one line that says all of `words`.
fn assert_refused(args: &[&str], words: &[&str]) {
    let called = cohort(args);
    let line = called.err.trim_end();
    assert_eq!(called.code, 2, "cohort {}: {line}", args.join(" "));
    assert_eq!(called.out, "", "nothing on standard output");
    assert!(line.starts_with("error: ") && !line.contains('\n'), "not one line: {line}");
    for word in words {
        assert!(line.contains(word), "`{line}` does not say `{word}`");
    }
}

#[test]
fn flags_that_are_not_there_or_out_of_range() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["--usres", "5"], &["--usres", "--users"]),
        (&["--users"], &["--users"]),
        (&["--users", "0"], &["users = 0", "1 or more"]),
        (&["--users", "2.5"], &["users = 2.5", "a whole number"]),
        (&["--users", "many"], &["users = \"many\"", "a whole number"]),
        (&["--noise", "-1"], &["noise = -1", "[0, ∞)"]),
        (&["--noise", "nan"], &["noise = NaN", "[0, ∞)"]),
        (&["--noise", "inf"], &["noise = inf", "[0, ∞)"]),
        (&["--users", "1e14"], &["users: found 100000000000000", "at most"]),
        (&["--clusters", "1e15"], &["clusters: found 1000000000000000", "at most"]),
        (&["--arms", "1e20"], &["arms = 100000000000000000000", "a whole number"]),
        (&["--rounds", "0"], &["rounds = 0"]),
        (&["--reps", "0"], &["reps = 0"]),
        (&["--threads", "0"], &["threads = 0"]),
        (&["--seed", "-3"], &["seed = -3"]),
        (&["--context-law", "ball"], &["context_law = \"ball\"", "box or unit-ball"]),
        (&["--env", "gausian"], &["`gausian`", "did you mean `gaussian`?"]),
        (&["--env", "gaussian", "--clusters", "3"], &["`gaussian`", "`clusters`", "spread"]),
        (&["--separation", "1.99", "--clusters", "50"], &["separation = 1.99", "clusters = 50"]),
        (&["--separation", "1", "--spacing", "1"], &["separation and spacing", "one of them"]),
        (&["--policy", "cmbl"], &["`cmbl`", "did you mean `cmlb`?"]),
        (&["--policy", ""], &["there is no policy"]),
        (&["--policy", "random,random"], &["`random` twice"]),
        (&["--set", "linucb-ind.delt=0.1"], &["linucb-ind", "did you mean `delta`?"]),
        (&["--set", "linucb-ind.delta=1.5"], &["linucb-ind.delta = 1.5", "(0, 1)"]),
        (&["--set", "linucb-ind.delta=high"], &["linucb-ind.delta = \"high\"", "(0, 1)"]),
        (&["--set", "linucb-ind.delta"], &["linucb-ind.delta", "POLICY.PARAM=VALUE"]),
        (&["--policy", "random", "--set", "cmlb.alpha=0.1"], &["cmlb", "that play: random"]),
        (&["--env", "table"], &["`table`", "contexts"]),
        (&["none.toml"], &["none.toml", "cannot be read"]),
    ];
    for (args, words) in cases {
        assert_refused(&[&["simulate"], *args].concat(), words);
    }
    assert_refused(&["simulat"], &["simulat", "simulate"]);
    assert_refused(&["policies", "cmbl"], &["did you mean `cmlb`?"]);
}

#[test]
fn experiments_with_mistakes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let cases: &[(&str, &[&str])] = &[
        ("round = 5", &["`round`", "did you mean `rounds`?"]),
        ("[env]\nuser = 5", &["`user`", "did you mean `users`?"]),
        ("[[policy]]\nname = 'linucb-ind'\nexploraton = 1", &["did you mean `exploration`?"]),
        (
            "[[policy]]\nname = 'linucb-ind'\nlambda = 0",
            &["linucb-ind.lambda = 0", "[0.000001, 1000000000000]"],
        ),
        ("rounds = ", &["line 1"]),
    ];
    for (text, words) in cases {
        fs::write(&path, text).unwrap();
        let words = [&["mine.toml: "], *words].concat();
        assert_refused(&["simulate", path.to_str().unwrap()], &words);
    }
}

/// Good tables of 3 rounds, 2 arms, R², 2 users, one of them replaced by `bytes`.
fn assert_table_refused(name: &str, bytes: &[u8], words: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let write = |name, shape, count| npy::write(folder.path(), name, shape, &vec![0.5; count]);
    let x = write("X.npy", "(3, 2, 2)", 12);
    let th = write("TH.npy", "(2, 2)", 4);
    let e = write("E.npy", "(3, 2)", 6);
    let c = folder.path().join("C.npy");
    fs::write(&c, npy::bytes("<i8", "(2,)", &[[0; 8], [0; 8]])).unwrap();
    fs::write(folder.path().join(name), bytes).unwrap();

    let [out, arms] = ["out", "A.npy"].map(|name| folder.path().join(name));
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let args = [
        ["--contexts", &text(&x)],
        ["--thetas", &text(&th)],
        ["--noise-table", &text(&e)],
        ["--clusters-table", &text(&c)],
        ["--out", &text(&out)],
        ["--arms-out", &text(&arms)],
        ["--policy", "linucb-ind"],
        ["--reps", "1"],
    ];
    let args = [&["simulate", "--env", "table"], args.concat().as_slice()].concat();
    assert_refused(&args, &[&[name], words].concat());
    assert!(!out.exists() && !arms.exists(), "something was written");
}

#[test]
fn tables_that_cannot_be_used() {
    let floats = |shape: &str, numbers: &[f64]| {
        let numbers: Vec<[u8; 8]> = numbers.iter().map(|number| number.to_le_bytes()).collect();
        npy::bytes("<f8", shape, &numbers)
    };
    let good = floats("(2, 2)", &[0.5; 4]);
    let whole_numbers = npy::bytes("<i8", "(2, 2)", &[[0; 8]; 4]);
    let cases: &[(&str, &[u8], &[&str])] = &[
        ("X.npy", &floats("(3, 2, 2)", &[f64::NAN; 12]), &["NaN", "[0, 0, 0]", "finite"]),
        ("E.npy", &floats("(3, 2)", &[0., 0., 0., f64::INFINITY, 0., 0.]), &["[1, 1]", "finite"]),
        ("X.npy", &floats("(3, 4)", &[0.5; 12]), &["(3, 4)", "(rounds, arms, dim)"]),
        ("X.npy", &floats("(0, 2, 2)", &[]), &["(0, 2, 2)", "0"]),
        ("TH.npy", &floats("(2, 3)", &[0.5; 6]), &["dim", "found 3", "expected 2", "X.npy"]),
        ("E.npy", &floats("(3, 5)", &[0.5; 15]), &["users", "found 5", "expected 2", "TH.npy"]),
        ("E.npy", &floats("(2, 2)", &[0.5; 4]), &["rounds", "found 2", "expected 3", "X.npy"]),
        ("TH.npy", b"", &["0 bytes", ".npy"]),
        ("TH.npy", b"user,x,y\n0,0.5,0.5\n", &["expected a .npy file"]),
        ("TH.npy", &good[..good.len() - 3], &["29 bytes", "not whole"]),
        ("TH.npy", &good[..60], &["cut off"]),
        ("TH.npy", &whole_numbers, &["<i8", "float64"]),
        ("C.npy", &floats("(2,)", &[0.0; 2]), &["<f8", "int64"]),
        ("C.npy", &npy::bytes("<i8", "(3,)", &[[0; 8]; 3]), &["users", "found 3", "expected 2"]),
    ];
    for (name, bytes, words) in cases {
        assert_table_refused(name, bytes, words);
    }
}

#[test]
fn files_that_are_not_there_and_places_that_cannot_be() {
    let tables = ["--contexts", "none.npy", "--thetas", "none.npy", "--noise-table", "none.npy"];
    let args = [&["simulate", "--env", "table"][..], &tables].concat();
    assert_refused(&args, &["none.npy", "cannot be read"]);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let below = file.join("below");
    assert_refused(&["simulate", "--out", file.to_str().unwrap()], &["file", "a folder"]);
    assert_refused(&["simulate", "--out", below.to_str().unwrap()], &["below", "written"]);
    let args = ["simulate", "--policy", "random", "--reps", "1", "--arms-out"];
    assert_refused(&[&args[..], &[below.to_str().unwrap()]].concat(), &["below", "written"]);
}
