//! Files that versions of this program wrote are opened by every later one, with the same state.
//!
//! Each folder of `compat` was written by one version: a journal, a snapshot of its middle, and the
//! state at the end as bytes. `v1` knew two policies that could be kept; since `v2` all that an app
//! can use can be, and refits are events; `v3` has a control group, `v4` keys with scopes; since `v5` the
//! journal is segments. To keep the files of a new layout, name a new folder in
//! `VERSIONS` and run `cargo test --test compat -- --ignored`.
#![allow(missing_docs)]

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cohort_server::engine::recovery::recover;
use cohort_server::engine::request::{ForUser, Offer};
use cohort_server::engine::{Engine, Limits, Refit, Request};
use cohort_server::event::{Event, Key, What};
use cohort_server::journal::segments::SegmentJournal;
use cohort_server::journal::{Group, Journal};
use cohort_server::settings::AppSettings;
use cohort_server::snapshot::Snapshots;
use cohort_server::snapshot::disk::Folder;
use cohort_server::state::{App, Outcomes, State};
use cohort_server::trial::Trial;
use common::{LIMITS, create, decide, reward, state_bytes};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;

/// Each is the policy of an app of its name.
const POLICIES: [&str; 4] = ["cohort", "linucb-ind", "club", "sclub"];

/// All that was ever kept, the present one last.
const VERSIONS: [&str; 5] = ["v1", "v2", "v3", "v4", "v5"];

fn kept(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compat").join(version)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &target),
            false => drop(std::fs::copy(&path, &target).unwrap()),
        }
    }
}

#[test]
fn what_every_version_wrote_is_read() {
    VERSIONS.into_iter().for_each(what_a_version_wrote_is_read);
}

/// What is kept of the present version has every kind of event, so that none is forgotten.
#[test]
fn every_kind_of_event_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    copy(&kept(VERSIONS[VERSIONS.len() - 1]), folder.path());
    let journal = SegmentJournal::open(&folder.path().join("journal")).unwrap();
    let mut kinds = BTreeSet::new();
    let visited = journal.read(1, &mut |_, bytes| {
        kinds.insert(match Event::decode(bytes).unwrap().what {
            What::Created(_) => "created",
            What::Changed(_) => "changed",
            What::Deleted => "deleted",
            What::KeyAdded(_) => "key added",
            What::KeyRemoved(_) => "key removed",
            What::ItemPut(..) => "item put",
            What::ItemRemoved(_) => "item removed",
            What::Decided(_) => "decided",
            What::Activated(_) => "activated",
            What::Rewarded { .. } => "rewarded",
            What::TimePassed => "time passed",
            What::WindowsEnded { .. } => "windows ended",
            What::ClockStepped(_) => "clock stepped",
            What::UserForgotten(_) => "user forgotten",
            // Since `v5`: `src/event.rs` keeps its bytes.
            What::UserRetired(_)
            | What::Rested
            | What::Imitated { .. }
            | What::DecidedElsewhere(_) => "since then",
            // Written by earlier versions only: `v1` has it.
            What::CaughtUp => "caught up",
            What::Refitted(_) => "refitted",
            What::DecidedInTrial(decided) if decided.control => "decided, of the control group",
            What::DecidedInTrial(_) => "decided in a trial",
            What::TrialSet(_) => "trial set",
            What::LearningSet(_) => "learning set",
            What::Watched { .. } => "watched",
            What::ModelReplaced(None) => "model reset",
            What::ModelReplaced(Some(_)) => "model replaced",
            // Of JSON apps, which no kept version has: `tests/json.rs` keeps their bytes.
            What::FeaturesSet(_) | What::FeaturesSeen(_) | What::ItemDescribed(..) => "json",
            // Likewise, in `tests/catalogue.rs`.
            What::DecidedFromCatalogue(_) | What::ItemAttributes(..) => "catalogue",
        });
        Ok(())
    });
    visited.unwrap();
    assert_eq!(kinds.len(), 18, "{kinds:?}");
}

fn what_a_version_wrote_is_read(version: &str) {
    // The store works in its folder, so it gets a copy.
    let folder = tempfile::tempdir().unwrap();
    copy(&kept(version), folder.path());
    let expected = std::fs::read(folder.path().join("state")).unwrap();
    let mut expected = State::load(&mut expected.as_slice()).unwrap();
    let journal = SegmentJournal::open(&folder.path().join("journal")).unwrap();
    let snapshots = Snapshots::new(Folder::new(&folder.path().join("snapshots")).unwrap());

    let mut recovered = recover(&journal, &snapshots).unwrap();
    assert!(recovered.passed_over.is_empty(), "{:?}", recovered.passed_over);
    assert!(recovered.snapshot_event > 0 && recovered.snapshot_event < journal.last());
    assert_alike(&mut recovered.state, &mut expected);

    let none = Snapshots::new(Folder::new(&folder.path().join("none")).unwrap());
    let mut replayed = recover(&journal, &none).unwrap();
    assert_alike(&mut replayed.state, &mut expected);
}

/// The same in everything that is counted or named; what was learned may differ by rounding, as
/// another version may add up in another order.
fn assert_alike(found: &mut State, expected: &mut State) {
    assert_eq!(found.last_event(), expected.last_event());
    assert_eq!(found.was_deleted("gone"), expected.was_deleted("gone"));
    let names: Vec<String> = expected.apps().keys().cloned().collect();
    assert_eq!(names, found.apps().keys().cloned().collect::<Vec<_>>());
    for name in names {
        let (found, expected) = (found.app_mut(&name).unwrap(), expected.app_mut(&name).unwrap());
        assert_eq!(found.settings(), expected.settings());
        assert_eq!(found.keys(), expected.keys());
        assert_eq!(found.items(), expected.items());
        assert_eq!(found.counts(), expected.counts());
        assert_eq!(found.trial(), expected.trial());
        // Versions before `v3` did not keep them; a journal of theirs gives them all the same.
        if expected.outcomes() != &Outcomes::default() {
            assert_eq!(found.outcomes(), expected.outcomes());
        }
        assert!(found.decisions().iter().eq(expected.decisions().iter()));
        let due = |app: &App| -> Vec<u64> {
            app.decisions().iter().map(|one| app.decisions().due(one)).collect()
        };
        assert_eq!(due(found), due(expected));
        let users: Vec<String> = expected.users().iter().map(str::to_owned).collect();
        assert!(found.users().iter().eq(users.iter().map(String::as_str)));
        let contexts = [0.5, 0.1, -0.2, 0.0, 1.0, 0.3];
        let contexts = cohort::Contexts::new(&contexts, 3).unwrap();
        for user in users {
            let mut scored = [[cohort::Score::default(); 2]; 2];
            found.score(&user, &contexts, &mut scored[0]);
            expected.score(&user, &contexts, &mut scored[1]);
            for arm in 0..2 {
                let (one, other) = (scored[0][arm], scored[1][arm]);
                if found.settings().policy == "cohort" {
                    // Its model is another one since: what an old one learned is converted.
                    assert!(one.total().is_finite() && other.total().is_finite(), "{user}");
                    continue;
                }
                let (found, expected) = (one, other);
                assert!((found.expected - expected.expected).abs() < 1e-9, "{user}");
                assert!((found.bonus - expected.bonus).abs() < 1e-9, "{user}");
            }
        }
    }
}

/// Every kind of event, on every policy that an app can use.
fn requests() -> Vec<Request> {
    let shop = || "shop".to_owned();
    let settings = AppSettings {
        default_reward: Some(0.25),
        window_ms: 2000,
        params: [("exploration".to_owned(), 0.5.into())].into(),
        ..AppSettings::new(3)
    };
    let key = |id: &str| Key::of_old(id.to_owned(), cohort_server::auth::KeyHash::of(id));
    let mut requests = vec![
        create("shop", settings),
        create("dice", AppSettings { policy: "random".to_owned(), ..AppSettings::new(3) }),
        create("gone", AppSettings::new(2)),
        Request::AddKey { app: shop(), key: key("first") },
        Request::AddKey { app: shop(), key: key("second") },
        Request::RemoveKey { app: shop(), key: "first".to_owned() },
        Request::AddKey {
            app: shop(),
            key: Key {
                scopes: cohort_server::auth::Scopes::from_names(["read"]).unwrap(),
                expires_ms: Some(9_000_000_000_000),
                ..key("third")
            },
        },
        Request::PutItems {
            app: shop(),
            items: vec![("tea".to_owned(), vec![0.5; 3]), ("milk".to_owned(), vec![0.1; 3])],
        },
        Request::RemoveItem { app: shop(), item: "milk".to_owned() },
        Request::ChangeApp {
            app: shop(),
            change: Box::new(|settings, _, _| settings.epsilon = 0.25),
        },
        Request::CreateApp {
            app: "trial".to_owned(),
            settings: AppSettings::new(3),
            trial: Box::new(Trial {
                control: 0.5,
                log_candidates: true,
                feature_names: ["a", "b", "ç"].map(str::to_owned).to_vec(),
            }),
            learning: Default::default(),
            key: None,
        },
        Request::DeleteApp { app: "gone".to_owned() },
        Request::Decide {
            app: shop(),
            offer: Offer::new(vec!["tea".to_owned()], vec![None]),
            users: vec![ForUser {
                user: "zoë".to_owned(),
                decision: Some("later".to_owned()),
                shown: false,
            }],
            explain: false,
        },
        Request::Activate { app: shop(), decision: "later".to_owned() },
    ];
    for policy in POLICIES {
        let policy = policy.to_owned();
        requests.push(create(&policy.clone(), AppSettings { policy, ..AppSettings::new(3) }));
    }
    for step in 0..60 {
        let id = format!("d{step}");
        for app in POLICIES {
            requests.push(decide(app, &format!("user-{}", step % 5), Some(&id), 3, step));
            requests.push(reward(app, &id, (step % 5) as f64 / 5.0));
        }
        requests.push(decide("shop", &format!("user-{}", step % 5), Some(&id), 3, step));
        requests.push(decide("dice", "u", Some(&id), 3, step));
        requests.push(decide("trial", "u", Some(&id), 3, step));
        if step % 2 == 0 {
            requests.push(reward("trial", &id, step as f64 / 60.0));
        }
        if step % 3 != 0 {
            requests.push(reward("shop", &id, step as f64 / 60.0));
        }
    }
    requests.push(Request::ForgetUser { app: shop(), user: "user-1".to_owned() });
    requests.push(Request::ForgetUser { app: "cohort".to_owned(), user: "user-3".to_owned() });
    requests.push(decide("cohort", "user-9", Some("reused"), 3, 1));
    requests.push(reward("cohort", "reused", 0.5));
    requests.push(Request::ClockSteps { by_ms: 500_000 });
    requests.push(Request::TimePasses);
    requests
}

/// The journal writes zeros in advance, which need not be kept.
fn cut_zeros(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
    std::fs::write(file, bytes).unwrap();
}

#[test]
#[ignore = "writes the files that the other test reads"]
fn write_the_files_of_this_version() {
    let folder = kept(VERSIONS[VERSIONS.len() - 1]);
    let _ = std::fs::remove_dir_all(&folder);
    let mut journal = SegmentJournal::open(&folder.join("journal")).unwrap();
    let snapshots = Snapshots::new(Folder::new(&folder.join("snapshots")).unwrap());
    // Windows end one by one, so that there are events of that kind, too.
    let limits = Limits { window_work: 1, ..LIMITS };
    let mut engine = Engine::new(State::default(), limits, ChaCha12Rng::seed_from_u64(1));
    for (step, request) in (0..).zip(requests()) {
        let mut group = Group::default();
        let now_ms = 1_000_000 + step * 50;
        engine.handle(now_ms, request, &mut group).map(drop).unwrap();
        for Refit { app, ticket, job } in engine.take_refits() {
            let done = Request::Refitted { app, ticket, found: job() };
            engine.handle(now_ms, done, &mut group).map(drop).unwrap();
        }
        journal.append(&group).unwrap();
        journal.sync().unwrap();
        if step == 300 {
            let state = engine.state_mut();
            let event = state.last_event();
            snapshots.write(event, |out| state.save(out)).unwrap();
        }
    }
    std::fs::write(folder.join("state"), state_bytes(engine.state_mut())).unwrap();
    drop(journal);
    cut_zeros(&folder.join("journal/segments/00000000000000000001.segment"));
}
