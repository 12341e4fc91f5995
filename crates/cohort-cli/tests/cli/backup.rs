//! `cohort backup` and `cohort restore`, while the service runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::command::{Called, called, command};
use crate::serving::Serving;

fn cohort(words: &[&str], paths: &[&std::path::Path]) -> Called {
    let mut command = command(words);
    command.args(paths);
    called(command.output().unwrap())
}

fn reward(service: &Serving, n: u64) {
    let items = json!([{"id": "a", "features": [0.5, 1.0]}, {"id": "b", "features": [1.0, 0.1]}]);
    let id = format!("d{n}");
    let body = json!({"user": format!("u{}", n % 7), "items": items, "decision_id": id});
    service.post("/v1/apps/shop/decide", &body);
    service.post("/v1/apps/shop/reward", &json!({"decision_id": id, "reward": 1.0}));
}

fn rewards(service: &Serving) -> u64 {
    let asked = ureq::get(format!("{}/v1/apps/shop", service.url)).call();
    let app: Value = asked.unwrap().body_mut().read_json().unwrap();
    app["rewards"].as_u64().unwrap()
}

/// Backups are taken while rewards arrive, snapshots are written and the journal is pruned; each
/// restores everything that was acknowledged before it began.
#[test]
fn a_copy_taken_while_the_service_works_has_all_that_was_acknowledged() {
    let flags = ["--data-dir", "data", "--snapshot-events", "50", "--journal-keep", "snapshots"];
    let service = Arc::new(Serving::start(&flags, 1));
    service.post("/v1/apps", &json!({"name": "shop", "dim": 2}));
    let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let working = {
        let (service, stop, acknowledged) = (service.clone(), stop.clone(), acknowledged.clone());
        std::thread::spawn(move || {
            for n in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                reward(&service, n);
                acknowledged.store(n + 1, Ordering::SeqCst);
            }
        })
    };
    let (data, place) = (service.folder.path().join("data"), tempfile::tempdir().unwrap());
    while acknowledged.load(Ordering::SeqCst) < 100 {
        std::thread::yield_now();
    }
    for nth in 0..3 {
        let before = acknowledged.load(Ordering::SeqCst);
        let copy = place.path().join(format!("copy-{nth}"));
        let said = cohort(&["backup", "--data-dir"], &[&data, &copy]);
        assert_eq!(said.code, 0, "{}", said.err);
        assert!(said.out.contains("1 apps") && said.out.contains("is whole"), "{}", said.out);

        let other = Serving::start(&["--data-dir", "other"], 1);
        let target = other.folder.path().join("restored");
        let said = cohort(&["restore", "--data-dir"], &[&target, &copy]);
        assert_eq!(said.code, 0, "{}", said.err);
        let restored = Serving::start(&["--data-dir", target.to_str().unwrap()], 1);
        assert!(rewards(&restored) >= before, "{} of {before}", rewards(&restored));
        reward(&restored, 1_000_000 + nth);
    }
    stop.store(true, Ordering::Relaxed);
    working.join().unwrap();
    assert_eq!(
        rewards(&service),
        acknowledged.load(Ordering::SeqCst),
        "the service saw nothing of it"
    );
}

#[test]
fn what_is_no_copy_and_what_is_in_the_way_is_told() {
    let (place, empty) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let target = place.path().join("copy");
    let nothing = cohort(&["backup", "--data-dir"], &[empty.path(), &target]);
    assert_eq!(nothing.code, 2);
    assert!(nothing.err.contains("is not a data folder"), "{}", nothing.err);

    let service = Serving::start(&["--data-dir", "data"], 1);
    service.post("/v1/apps", &json!({"name": "shop", "dim": 2}));
    (0..20).for_each(|n| reward(&service, n));
    let data = service.folder.path().join("data");
    assert_eq!(cohort(&["backup", "--data-dir"], &[&data, &target]).code, 0);
    for word in ["backup", "restore"] {
        let taken = cohort(&[word, "--data-dir"], &[&data, &target]);
        assert_eq!(taken.code, 2, "{word}");
        assert!(taken.err.contains("is not empty"), "{}", taken.err);
    }

    // A copy that was damaged since is refused, and nothing of the attempt remains.
    let files = std::fs::read_dir(target.join("journal/segments")).unwrap();
    // Beside the segments there is the room that the next one gets, which holds nothing.
    let segment = files.map(|file| file.unwrap().path()).find(|path| !path.ends_with("spare"));
    let segment = segment.unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[300] ^= 1;
    std::fs::write(segment, bytes).unwrap();
    let restored = place.path().join("restored");
    let damaged = cohort(&["restore", "--data-dir"], &[&restored, &target]);
    assert_eq!(damaged.code, 1);
    assert!(damaged.err.contains("cannot be opened"), "{}", damaged.err);
    let left = std::fs::read_dir(place.path()).unwrap().count();
    assert_eq!(left, 1, "only the copy is there");
}
