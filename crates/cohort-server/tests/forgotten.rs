//! Whoever is forgotten is forgotten on disk, too.
#![allow(missing_docs)]

mod common;

use std::time::Duration;

use cohort_server::clock::SystemClock;
use cohort_server::engine::recovery::recover;
use cohort_server::engine::runtime::{Durability, Options, Runtime};
use cohort_server::engine::{Engine, Request};
use cohort_server::journal::segments::SegmentJournal;
use cohort_server::settings::AppSettings;
use cohort_server::snapshot::Snapshots;
use cohort_server::snapshot::disk::Folder;
use cohort_server::state::State;
use common::{LIMITS, create, decide, reward};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;

/// Whether a word is in any file of a folder.
fn is_on_disk(folder: &std::path::Path, word: &str) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => is_on_disk(&path, word),
            // It may go while it is looked for.
            false => std::fs::read(&path)
                .is_ok_and(|bytes| bytes.windows(word.len()).any(|some| some == word.as_bytes())),
        }
    })
}

/// Whoever is forgotten, and an app that is deleted, are gone from all files some snapshots later, although
/// nobody asks for anything any more; what the others taught is there after a restart.
#[test]
fn what_is_forgotten_goes_from_the_disk_even_if_nothing_else_happens() {
    let place = tempfile::tempdir().unwrap();
    let journal = || SegmentJournal::open(&place.path().join("journal")).unwrap();
    let snapshots = || Snapshots::new(Folder::new(&place.path().join("snapshots")).unwrap());
    let engine = Engine::new(State::default(), LIMITS, ChaCha12Rng::seed_from_u64(5));
    let options = Options {
        durability: Durability::Always,
        queue: 64,
        snapshot_events: 0,
        snapshot_interval: Duration::from_millis(300),
        prunes: true,
    };
    let clock = Box::new(SystemClock);
    let runtime = Runtime::start(engine, Box::new(journal()), snapshots(), clock, options).unwrap();
    let (asker, handle) =
        (tokio::runtime::Builder::new_current_thread().build().unwrap(), runtime.handle());
    let ask = |request| asker.block_on(handle.ask(request)).map(drop).unwrap();
    let wait_until = |what: &str, done: &dyn Fn() -> bool| {
        for _ in 0..600 {
            if done() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{what} after half a minute");
    };
    ask(create("shop", AppSettings::new(3)));
    ask(create("secret-app", AppSettings::new(3)));
    for (step, user) in (0..).zip(["ann-the-person", "bob", "ann-the-person", "eve"]) {
        let id = format!("d{step}-of-{user}");
        ask(decide("shop", user, Some(&id), 3, step));
        ask(reward("shop", &id, 1.0));
    }
    ask(decide("secret-app", "bob", Some("secret"), 3, 1));
    let (in_journal, in_snapshots) = (place.path().join("journal"), place.path().join("snapshots"));
    assert!(is_on_disk(&in_journal, "ann-the-person"));
    wait_until("no snapshot", &|| is_on_disk(&in_snapshots, "ann-the-person"));
    ask(Request::ForgetUser { app: "shop".to_owned(), user: "ann-the-person".to_owned() });
    ask(Request::DeleteApp { app: "secret-app".to_owned() });
    let (ann, app) = ("ann-the-person", "secret");
    wait_until("ann is still there", &|| !is_on_disk(place.path(), ann));
    // That there was an app of that name is known: its name alone is left, in snapshots.
    wait_until("the app is still there", &|| !is_on_disk(&in_journal, app));
    assert!(is_on_disk(place.path(), "bob") && is_on_disk(place.path(), "eve"));
    runtime.stop();
    let recovered = recover(&journal(), &snapshots()).unwrap();
    let shop = recovered.state.app("shop").unwrap();
    assert_eq!((shop.users().count(), shop.counts().rewards), (2, 4));
}
