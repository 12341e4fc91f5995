//! `cohort app`: every command, on a running service with keys.

use serde_json::{Value, json};

use crate::command::{Called, cohort};
use crate::serving::Serving;

const ADMIN: &str = "correct horse battery staple";

/// `cohort app …` as the admin.
fn app(service: &Serving, args: &[&str]) -> Called {
    cohort(&[&["app"], args, &["--url", &service.url, "--key", ADMIN]].concat())
}

/// Its output, which is JSON.
fn said(service: &Serving, args: &[&str]) -> Value {
    let called = app(service, args);
    assert_eq!((called.code, called.err.as_str()), (0, ""), "{args:?}");
    serde_json::from_str(&called.out).expect("nothing but JSON")
}

/// It succeeds and prints nothing.
fn silent(service: &Serving, args: &[&str]) {
    let called = app(service, args);
    assert_eq!((called.code, called.err.as_str(), called.out.as_str()), (0, "", ""), "{args:?}");
}

/// One line that names what is wrong.
fn refused(service: &Serving, args: &[&str]) -> String {
    let called = app(service, args);
    assert_eq!((called.code, called.out.as_str()), (2, ""), "{args:?}");
    assert_eq!(called.err.lines().count(), 1, "{}", called.err);
    called.err
}

/// Whether a key opens the app `shop`.
fn opens(service: &Serving, key: &Value) -> bool {
    let key = key.as_str().unwrap();
    cohort(&["app", "show", "shop", "--url", &service.url, "--key", key]).code == 0
}

#[test]
fn an_app_is_created_listed_changed_and_deleted() {
    let service = Serving::start(&["--admin-key", ADMIN, "--data-dir", "data"], 1);
    assert_eq!(said(&service, &["list"]), json!({"apps": []}));
    let settings = ["--epsilon", "0.1", "--default-reward", "-1", "--set", "exploration=0.5"];
    let create = ["create", "shop", "--dim", "2", "--policy", "cohort"];
    let created = said(&service, &[&create[..], &settings].concat());
    assert_eq!(created["app"]["params"], json!({"exploration": 0.5}));
    assert_eq!(said(&service, &["list"])["apps"], json!([created["app"]]));
    assert_eq!(said(&service, &["show", "shop"]), created["app"]);

    let changed =
        said(&service, &["change", "shop", "--window-ms", "5000", "--feature-names", "sweet,hot"]);
    assert_eq!((&changed["window_ms"], &changed["epsilon"]), (&json!(5000), &json!(0.1)));
    assert_eq!(changed["feature_names"], json!(["sweet", "hot"]));
    assert_eq!(changed["default_reward"], -1.0);
    let changed = said(&service, &["change", "shop", "--no-default-reward"]);
    assert_eq!(changed["default_reward"], Value::Null);
    assert_eq!(said(&service, &["show", "shop"]), changed);

    let second = said(&service, &["add-key", "shop"]);
    assert!(opens(&service, &created["key"]["key"]) && opens(&service, &second["key"]));
    let reader =
        said(&service, &["add-key", "shop", "--scopes", "read,items", "--expires-ms", "1"]);
    assert_eq!(reader["scopes"], serde_json::json!(["read", "items"]));
    assert!(!opens(&service, &reader["key"]), "it has ended");
    assert_eq!(said(&service, &["keys", "shop"])["keys"].as_array().unwrap().len(), 3);
    silent(&service, &["remove-key", "shop", reader["id"].as_str().unwrap()]);
    // Whoever is in the log alone can be forgotten, and no list of names that went is kept: no name is refused.
    silent(&service, &["forget-user", "shop", "nobody"]);
    silent(&service, &["remove-key", "shop", second["id"].as_str().unwrap()]);
    assert!(opens(&service, &created["key"]["key"]) && !opens(&service, &second["key"]));
    assert!(refused(&service, &["remove-key", "shop", "none/such"]).contains("none/such"));

    silent(&service, &["delete", "shop"]);
    assert_eq!(said(&service, &["list"]), json!({"apps": []}));
    assert!(refused(&service, &["show", "shop"]).contains("deleted"));
    assert!(!opens(&service, &created["key"]["key"]));
}

#[test]
fn numbers_and_names_that_cannot_be_sent_are_refused() {
    let service = Serving::start(&["--admin-key", ADMIN, "--data-dir", "data"], 1);
    let create = ["create", "shop", "--dim", "2"];
    for number in ["nan", "inf", "-inf", "many"] {
        for flag in ["--epsilon", "--default-reward", "--control"] {
            let flag = format!("{flag}={number}");
            let line = refused(&service, &[&create[..], &[&flag]].concat());
            assert!(line.contains("expected a finite number"), "{line}");
        }
        let param = format!("exploration={number}");
        let line = refused(&service, &[&create[..], &["--set", &param]].concat());
        assert!(line.contains("exploration") && line.contains("a number in"), "{line}");
    }
    assert_eq!(said(&service, &["list"]), json!({"apps": []}), "nothing was created");

    said(&service, &[&create[..], &["--default-reward", "0.5"]].concat());
    refused(&service, &["change", "shop", "--default-reward", "nan"]);
    assert_eq!(said(&service, &["show", "shop"])["default_reward"], 0.5);
    // A name is one segment of a path, whatever is in it.
    for name in ["shop/items", "shop?", "shop#", "..", "shop/../shop", "a b"] {
        let line = refused(&service, &["show", name]);
        assert!(line.contains(&format!("`{name}`")), "{name}: {line}");
    }
}

#[test]
fn what_is_missing_is_named() {
    let called = cohort(&["app", "create", "shop"]);
    assert_eq!(called.code, 2);
    assert!(called.err.contains("not provided: --dim"), "{}", called.err);
}
