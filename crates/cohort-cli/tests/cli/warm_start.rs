//! Logs of Vowpal Wabbit: an app learns from them, and policies are judged by them.

use serde_json::{Value, json};

use crate::command::cohort;
use crate::serving::Serving;

fn log(folder: &std::path::Path) -> std::path::PathBuf {
    let mut text = String::new();
    for number in 0..600 {
        let chosen = number % 2 + 1;
        let cost = if chosen == 1 { -1.0 } else { 0.0 };
        text += &format!(
            "{{\"_label_cost\":{cost},\"_label_probability\":0.5,\"EventId\":\"e{number}\",\"a\":[{chosen},{}],\"p\":[0.5,0.5],\
             \"c\":{{\"device\":\"phone\",\"_user\":\"u{}\",\"_multi\":[{{\"_tag\":\"tea\",\"kind\":\"tea\"}},\
             {{\"_tag\":\"milk\",\"kind\":\"milk\"}}]}}}}\n",
            3 - chosen,
            number % 9
        );
    }
    let path = folder.join("log.dsjson");
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn an_app_learns_from_a_log_and_policies_are_judged_by_it() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(folder.path());
    let log = log.to_str().unwrap();
    let service = Serving::start(&["--data-dir", "data"], 1);
    let app = |args: &[&str]| {
        let called = cohort(&[&["app"], args, &["--url", &service.url]].concat());
        assert_eq!((called.code, called.err.as_str()), (0, ""), "{args:?}");
        serde_json::from_str::<Value>(&called.out).expect("nothing but JSON")
    };
    app(&["create", "shop", "--json"]);
    let said = app(&["warm-start", "shop", log]);
    let learned = json!({"learned": 600, "learned_before": 0, "without_reward": 0, "refused": 0});
    assert_eq!(said, learned);
    assert_eq!(app(&["warm-start", "shop", log])["learned_before"], 600);
    assert_eq!(app(&["show", "shop"])["rewards"], 600);
    let judged = cohort(&["evaluate", log, "--policy", "logged,random,cohort", "--json"]);
    assert_eq!(judged.code, 0, "{}", judged.err);
    let judged: Value = serde_json::from_str(&judged.out).unwrap();
    assert_eq!(
        (&judged["rows"], &judged["items"], &judged["users"]),
        (&json!(600), &json!(2), &json!(9))
    );
    let broken = folder.path().join("broken.dsjson");
    std::fs::write(&broken, "{\"a\": [1]}\n").unwrap();
    let called =
        cohort(&["app", "warm-start", "shop", broken.to_str().unwrap(), "--url", &service.url]);
    assert!(called.code == 2 && called.err.contains("line 1"), "{}", called.err);
}
