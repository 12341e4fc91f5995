//! Any bytes at any boundary: refused or taken, never a panic. The corpus of the fuzz targets is
//! run too, so that what a fuzzer once found stays found.
#![allow(missing_docs)]

use cohort_server::boundaries;
use proptest::prelude::*;

type Boundary = fn(&[u8]);
const BOUNDARIES: [(&str, Boundary); 6] = [
    ("http_body", boundaries::http_body),
    ("journal_frame", boundaries::journal_frame),
    ("segment", boundaries::segment),
    ("event", boundaries::event),
    ("snapshot", boundaries::snapshot),
    ("config", boundaries::config),
];

#[test]
fn the_corpus_of_every_boundary_is_taken() {
    for (name, boundary) in BOUNDARIES {
        let folder = format!("{}/../../fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR"));
        let mut files = 0;
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|why| panic!("{folder}: {why}")) {
            boundary(&std::fs::read(entry.unwrap().path()).unwrap());
            files += 1;
        }
        assert!(files > 0, "{folder} is empty");
    }
}

/// Files of the corpus with a few bytes changed reach further than bytes at random.
fn changed(name: &'static str) -> impl Strategy<Value = Vec<u8>> {
    let folder = format!("{}/../../fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR"));
    let files: Vec<Vec<u8>> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
        .collect();
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8);
    (prop::sample::select(files), changes).prop_map(|(mut bytes, changes)| {
        for (at, byte) in changes {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        bytes
    })
}

/// Everything that can be asked with a body, each body first as it should be.
#[test]
fn requests_of_the_corpus_and_almost_such_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let asked = std::cell::RefCell::new(boundaries::Asked::start(folder.path()));
    let corpus = format!("{}/../../fuzz/corpus/http_request", env!("CARGO_MANIFEST_DIR"));
    let mut taken = 0;
    let mut names: Vec<_> = std::fs::read_dir(corpus).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    for path in &names {
        taken += usize::from(asked.borrow_mut().ask(&std::fs::read(path).unwrap()) < 300);
    }
    assert_eq!((taken, names.len()), (8, 8));
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let almost = changed("http_request");
    let outcome = runner.run(&almost, |bytes| {
        asked.borrow_mut().ask(&bytes);
        Ok(())
    });
    outcome.unwrap();
}

proptest! {
    #[test]
    fn bytes_of_any_kind(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for (_, boundary) in BOUNDARIES {
            boundary(&bytes);
        }
    }

    #[test]
    fn bodies_almost_right(bytes in changed("http_body")) {
        boundaries::http_body(&bytes);
    }

    #[test]
    fn groups_almost_right(bytes in changed("journal_frame")) {
        boundaries::journal_frame(&bytes);
    }

    #[test]
    fn segments_almost_right(bytes in changed("segment")) {
        boundaries::segment(&bytes);
    }

    #[test]
    fn events_almost_right(bytes in changed("event")) {
        boundaries::event(&bytes);
    }

    #[test]
    fn snapshots_almost_right(bytes in changed("snapshot")) {
        boundaries::snapshot(&bytes);
    }

    #[test]
    fn configurations_almost_right(bytes in changed("config")) {
        boundaries::config(&bytes);
    }
}

/// Writes the first files of the corpus: one of each kind, as the service itself writes them.
#[test]
#[ignore = "writes the corpus that the other tests read"]
fn write_the_corpus() {
    use cohort_server::event::{Event, What};
    use cohort_server::journal::Group;
    use cohort_server::settings::AppSettings;
    let write = |boundary: &str, name: &str, bytes: &[u8]| {
        let folder = format!("{}/../../fuzz/corpus/{boundary}", env!("CARGO_MANIFEST_DIR"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(format!("{folder}/{name}"), bytes).unwrap();
    };
    for (name, body) in [
        (
            "app",
            r#"{"name":"shop","dim":2,"policy":"random","params":{"sigma":1,"shape":"ball"},"epsilon":0.1,"window_ms":10,"default_reward":null}"#,
        ),
        ("change", r#"{"epsilon":0.2,"default_reward":null,"params":{}}"#),
        ("items", r#"{"items":[{"id":"tea","features":[0.1,-2e3]}]}"#),
        (
            "decide",
            r#"{"user":"ann","items":[{"id":"tea","features":[1,2]},{"id":"milk"}],"decision_id":"d","shown":false,"explain":true}"#,
        ),
        (
            "batch",
            r#"{"users":[{"user":"ann"},{"user":"bob","decision_id":"e"}],"items":[{"id":"tea"}]}"#,
        ),
        ("rewards", r#"{"rewards":[{"decision_id":"d","reward":-0.5e-3}]}"#),
    ] {
        write("http_body", name, body.as_bytes());
    }
    // In the order of their names each finds what it needs.
    for (name, what, body) in [
        ("1-app", 0, r#"{"name":"blog","dim":2,"policy":"club","control":0.5,"epsilon":0.1}"#),
        ("2-change", 1, r#"{"epsilon":0.2,"default_reward":null,"params":{"exploration":2}}"#),
        ("3-items", 2, r#"{"items":[{"id":"tea","features":[0.1,-2e3]}]}"#),
        (
            "4-decide",
            3,
            r#"{"user":"ann","items":[{"id":"tea"},{"id":"milk","features":[1,2]}],"decision_id":"d","shown":false,"explain":true}"#,
        ),
        (
            "5-batch",
            4,
            r#"{"users":[{"user":"ann"},{"user":"bob","decision_id":"e"}],"items":[{"id":"tea"}]}"#,
        ),
        ("6-activate", 5, r#"{"decision_id":"d"}"#),
        ("7-reward", 6, r#"{"decision_id":"d","reward":1}"#),
        ("8-rewards", 7, r#"{"rewards":[{"decision_id":"e","reward":-0.5e-3}]}"#),
    ] {
        write("http_request", name, &[&[what], body.as_bytes()].concat());
    }
    write("config", "every-key", cohort_server::config::keys::example().as_bytes());
    let created = Event {
        app: "shop".to_owned(),
        at_ms: 5,
        what: What::Created(AppSettings { default_reward: Some(0.5), ..AppSettings::new(2) }),
    };
    let put = Event {
        app: "shop".to_owned(),
        at_ms: 6,
        what: What::ItemPut("tea".to_owned(), vec![0.5, 0.25]),
    };
    let mut state = cohort_server::state::State::default();
    let (mut group, mut events) = (Group::default(), Vec::new());
    for event in [created, put] {
        let mut bytes = Vec::new();
        event.encode(&mut bytes);
        group.push(|out| event.encode(out));
        events.push(bytes.len() as u8);
        events.extend(bytes);
        state.apply(event).unwrap();
    }
    write("event", "two", &events);
    write("journal_frame", "two", &group.frame(1));
    let folder = cohort_server::snapshot::disk::MemoryFolder::default();
    let snapshots = cohort_server::snapshot::Snapshots::new(folder.clone());
    snapshots.write(1, |out| state.save(out)).unwrap();
    folder.damage(|_, bytes| write("snapshot", "small", bytes));
    let mut bare = Vec::new();
    state.save(&mut bare).unwrap();
    write("snapshot", "state", &bare);
}
