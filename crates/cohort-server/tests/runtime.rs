//! The engine with its threads: refits, snapshots and pruning go on beside requests, and what is
//! found again afterwards is the same by every way.
#![allow(missing_docs)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cohort_server::clock::{Clock, SystemClock};
use cohort_server::engine::recovery::recover;
use cohort_server::engine::request::{Change, ForUser, Inspection, Offer, RewardOutcome};
use cohort_server::engine::runtime::{Durability, Handle, Options, Runtime};
use cohort_server::engine::{Answer, Engine, Limits, Refusal, Request};
use cohort_server::event::{Event, What};
use cohort_server::journal::faulty::{Fault, FaultyJournal};
use cohort_server::journal::memory::{MemoryDisk, MemoryJournal};
use cohort_server::journal::{Group, Journal, JournalError, Pruner, Visit};
use cohort_server::learning::Aggregation;
use cohort_server::settings::AppSettings;
use cohort_server::snapshot::Snapshots;
use cohort_server::snapshot::disk::{Disk, DiskFile, MemoryFolder};
use cohort_server::state::State;
use common::{LIMITS, create, decide, reward, state_bytes};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;

const REWARDS: usize = 600;

/// Runs a service on a journal, asks it what `ask` asks, and stops it.
fn serve<R>(
    journal: impl Journal + 'static,
    folder: &MemoryFolder,
    durability: Durability,
    ask: impl AsyncFnOnce(&Handle) -> R,
) -> R {
    serve_state(State::default(), journal, folder, durability, ask)
}

/// The same on what is on disk.
fn serve_from<R>(
    journal: MemoryJournal,
    folder: &MemoryFolder,
    ask: impl AsyncFnOnce(&Handle) -> R,
) -> R {
    let recovered = recover(&journal, &Snapshots::new(folder.clone())).unwrap();
    serve_state(recovered.state, journal, folder, Durability::Always, ask)
}

fn serve_state<R>(
    state: State,
    journal: impl Journal + 'static,
    folder: &MemoryFolder,
    durability: Durability,
    ask: impl AsyncFnOnce(&Handle) -> R,
) -> R {
    let engine = Engine::new(state, LIMITS, ChaCha12Rng::seed_from_u64(5));
    let options = Options {
        durability,
        queue: 64,
        snapshot_events: 0,
        snapshot_interval: Duration::ZERO,
        prunes: false,
    };
    let (snapshots, clock) = (Snapshots::new(folder.clone()), Box::new(SystemClock));
    let runtime = Runtime::start(engine, Box::new(journal), snapshots, clock, options).unwrap();
    let asker = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let found = asker.block_on(ask(&runtime.handle()));
    runtime.stop();
    found
}

#[test]
fn a_journal_that_fails_ends_all_promises_and_leaves_no_snapshot_of_what_it_has_not() {
    for fault in [Fault::Before, Fault::After] {
        // Each answer takes a write and a sync: the third request's write, and its sync, fail.
        for healthy in [4, 5] {
            let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
            let journal = MemoryJournal::open(&disk).unwrap();
            let journal = FaultyJournal::new(journal, healthy, fault);
            serve(journal, &folder, Durability::Always, async |handle: &Handle| {
                handle.ask(create("shop", AppSettings::new(3))).await.map(drop).unwrap();
                handle.ask(decide("shop", "a", Some("d0"), 3, 0)).await.map(drop).unwrap();
                for id in ["d1", "d2"] {
                    let refused = handle.ask(decide("shop", "a", Some(id), 3, 1)).await;
                    assert!(matches!(refused, Err(Refusal::JournalFailed { .. })), "{id}");
                }
            });
            let journal = MemoryJournal::open(&disk).unwrap();
            let recovered = recover(&journal, &Snapshots::new(folder)).unwrap();
            assert_eq!(recovered.snapshot_event, 0, "{fault:?} after {healthy}");
            assert!(recovered.state.app("shop").unwrap().decisions().get("d0").is_some());
        }
    }
}

/// An engine that stopped at a bug must not look like one that is well; a clock that panics is such a bug.
#[test]
fn an_engine_that_panics_is_told_and_ends() {
    struct Broken(Arc<AtomicBool>);
    impl Clock for Broken {
        fn now_ms(&self) -> u64 {
            assert!(!self.0.load(Ordering::Relaxed), "a bug, made for this test");
            SystemClock.now_ms()
        }
        fn steady_ms(&self) -> u64 {
            SystemClock.steady_ms()
        }
    }
    let breaks = Arc::new(AtomicBool::new(false));
    let engine = Engine::new(State::default(), LIMITS, ChaCha12Rng::seed_from_u64(5));
    let options = Options {
        durability: Durability::Always,
        queue: 64,
        snapshot_events: 0,
        snapshot_interval: Duration::ZERO,
        prunes: false,
    };
    let journal = Box::new(MemoryJournal::open(&MemoryDisk::default()).unwrap());
    let snapshots = Snapshots::new(MemoryFolder::default());
    let clock = Box::new(Broken(breaks.clone()));
    let runtime = Runtime::start(engine, journal, snapshots, clock, options).unwrap();
    let (asker, handle) =
        (tokio::runtime::Builder::new_current_thread().build().unwrap(), runtime.handle());
    let ask = |app: &str| asker.block_on(handle.ask(create(app, AppSettings::new(3)))).map(drop);
    ask("good").unwrap();
    assert!(handle.failure().is_none());
    breaks.store(true, Ordering::Relaxed);
    assert!(ask("bad").is_err(), "whoever waits is told");
    let why = asker.block_on(handle.ended());
    assert!(why.contains("stopped at a bug"), "{why}");
    assert!(handle.health().failures().iter().any(|told| told.contains("stopped at a bug")));
    assert!(ask("later").is_err());
    runtime.stop();
}

#[test]
fn what_is_answered_at_intervals_is_safe_after_one_even_if_nobody_asks_again() {
    let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
    let journal = MemoryJournal::open(&disk).unwrap();
    let (interval, lost) = (Duration::from_millis(10), disk.clone());
    serve(journal, &folder, Durability::Interval(interval), async |handle: &Handle| {
        handle.ask(create("shop", AppSettings::new(3))).await.map(drop).unwrap();
        // Shorter than the time after which windows are looked at, which would sync as well.
        std::thread::sleep(interval * 15);
        lost.lose_power(0);
    });
    assert_eq!(MemoryJournal::open(&disk).unwrap().last(), 1);
}

/// A service that lives until it has refitted several times and has a snapshot of that.
fn live(disk: &MemoryDisk, folder: &MemoryFolder, prunes: bool) {
    let engine = Engine::new(State::default(), LIMITS, ChaCha12Rng::seed_from_u64(5));
    let journal = Box::new(MemoryJournal::open(disk).unwrap());
    let options = Options {
        durability: Durability::Always,
        queue: 64,
        snapshot_events: 100,
        snapshot_interval: Duration::ZERO,
        prunes,
    };
    let snapshots = Snapshots::new(folder.clone());
    let runtime =
        Runtime::start(engine, journal, snapshots, Box::new(SystemClock), options).unwrap();
    let (asker, handle) =
        (tokio::runtime::Builder::new_current_thread().build().unwrap(), runtime.handle());
    asker.block_on(async {
        handle.ask(create("shop", AppSettings::new(3))).await.map(drop).unwrap();
        for step in 0..REWARDS {
            let (user, id) = (format!("user-{}", step % 7), format!("d{step}"));
            let asked = decide("shop", &user, Some(&id), 3, step as u64);
            handle.ask(asked).await.map(drop).unwrap();
            handle.ask(reward("shop", &id, (step % 7) as f64 / 7.0)).await.map(drop).unwrap();
            // What takes long gets its turn; refits get one only when nobody else wants it.
            if step % 20 == 0 {
                std::thread::sleep(Duration::from_millis(20));
            }
            if !prunes && step % 150 == 149 {
                wait_for_refits(disk, 1 + step / 150);
            }
        }
    });
    runtime.stop();
    let refused = asker.block_on(handle.ask(reward("shop", "d0", 1.0)));
    assert!(matches!(refused, Err(Refusal::ShuttingDown)));
}

/// Waits, on a busy machine for a while, until so many refits were taken over.
fn wait_for_refits(disk: &MemoryDisk, least: usize) {
    for _ in 0..2000 {
        if refits(&MemoryJournal::open(disk).unwrap()) >= least {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("there were not {least} refits within 20 seconds");
}

fn refits(journal: &MemoryJournal) -> usize {
    events(journal, 1).iter().filter(|event| matches!(event.what, What::Refitted(_))).count()
}

/// A service that ends again and again before a snapshot is due would replay more at every start.
#[test]
fn what_was_replayed_is_soon_in_a_snapshot() {
    let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
    live(&disk, &folder, false);
    // It is as if no snapshot had been finished.
    let names = folder.list().unwrap();
    names.iter().for_each(|name| folder.remove(name).unwrap());
    let journal = MemoryJournal::open(&disk).unwrap();
    let recovered = recover(&journal, &Snapshots::new(folder.clone())).unwrap();
    let engine = Engine::new(recovered.state, LIMITS, ChaCha12Rng::seed_from_u64(6));
    let last = journal.last();
    let options = Options {
        durability: Durability::Always,
        queue: 64,
        snapshot_events: last,
        snapshot_interval: Duration::ZERO,
        prunes: false,
    };
    let snapshots = Snapshots::new(folder.clone());
    let clock = Box::new(SystemClock);
    let runtime = Runtime::start(engine, Box::new(journal), snapshots, clock, options).unwrap();
    let handle = runtime.handle();
    let asker = tokio::runtime::Builder::new_current_thread().build().unwrap();
    asker.block_on(handle.ask(decide("shop", "a", None, 3, 0))).map(drop).unwrap();
    for _ in 0..500 {
        std::thread::sleep(Duration::from_millis(10));
        if Snapshots::new(folder.clone()).newest_event().unwrap() >= last {
            return runtime.stop();
        }
    }
    panic!("no snapshot was written");
}

/// A policy that panics is a bug in one app; this one is made by looking at it.
#[test]
fn an_app_that_panics_is_quarantined_and_the_others_go_on() {
    let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
    let journal = MemoryJournal::open(&disk).unwrap();
    serve(journal, &folder, Durability::Always, async |handle: &Handle| {
        for app in ["shop", "blog"] {
            handle.ask(create(app, AppSettings::new(3))).await.map(drop).unwrap();
            handle.ask(decide(app, "ann", Some("d0"), 3, 0)).await.map(drop).unwrap();
        }
        assert!(handle.health().failures().is_empty() && handle.health().quarantines().is_empty());
        let inspect: Inspection = Box::new(|_, _| panic!("a bug, made for this test"));
        let refused = handle.ask(Request::Inspect { app: "shop".to_owned(), inspect }).await;
        assert!(matches!(&refused, Err(Refusal::Quarantined { .. })));
        let refused = handle.ask(reward("shop", "d0", 1.0)).await.map(drop).unwrap_err();
        assert_eq!((refused.code(), refused.status()), ("app_quarantined", 500));
        assert!(refused.to_string().contains("a bug, made for this test"), "{refused}");
        handle.ask(reward("blog", "d0", 1.0)).await.map(drop).unwrap();
        let told = handle.health().quarantines();
        assert!(told.len() == 1 && told[0].contains("`shop`"), "{told:?}");
        assert!(handle.health().failures().is_empty(), "the service as a whole is well");
    });
    // What may be half changed is in no snapshot: there the app is as the journal says, and so are the others.
    let snapshots = Snapshots::new(folder.clone());
    let kept = snapshots.newest(State::load, |damaged| panic!("{damaged}")).unwrap();
    let (event, mut kept) = kept.expect("a snapshot although an app is quarantined");
    let journal = MemoryJournal::open(&disk).unwrap();
    let none = Snapshots::new(MemoryFolder::default());
    let mut replayed = recover(&journal, &none).unwrap().state;
    assert_eq!((event, kept.digest().unwrap()), (journal.last(), replayed.digest().unwrap()));
    serve_from(journal, &folder, async |handle: &Handle| {
        handle.ask(reward("shop", "d0", 1.0)).await.map(drop).unwrap();
        let repeated = handle.ask(reward("blog", "d0", 1.0)).await.unwrap();
        let Answer::Rewarded(outcomes) = repeated else { panic!("another answer") };
        assert!(matches!(outcomes[0], Ok(RewardOutcome::Repeated { .. })));
    });
}

/// Whoever gave up waiting would ask again: what it asked for first must not be done too.
#[test]
fn what_nobody_waits_for_any_more_is_not_done() {
    let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
    let journal = MemoryJournal::open(&disk).unwrap();
    serve(journal, &folder, Durability::Always, async |handle: &Handle| {
        handle.ask(create("shop", AppSettings::new(3))).await.map(drop).unwrap();
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let (begun, has_begun) = std::sync::mpsc::channel::<()>();
        let busy = handle.clone();
        let looking = std::thread::spawn(move || {
            let inspect: Inspection = Box::new(move |_, _| {
                begun.send(()).unwrap();
                let _ = held.recv();
            });
            let asker = tokio::runtime::Builder::new_current_thread().build().unwrap();
            asker.block_on(busy.ask(Request::Inspect { app: "shop".to_owned(), inspect })).map(drop)
        });
        has_begun.recv().unwrap();
        let mut gone = Box::pin(handle.ask(decide("shop", "ann", Some("gone"), 3, 0)));
        let mut stays = Box::pin(handle.ask(decide("shop", "ann", Some("stays"), 3, 0)));
        // Both wait in the queue; then one gives up.
        std::future::poll_fn(|cx| {
            assert!(gone.as_mut().poll(cx).is_pending() && stays.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        assert_eq!(handle.waiting(), 2);
        drop(gone);
        hold.send(()).unwrap();
        stays.await.map(drop).unwrap();
        looking.join().unwrap().unwrap();
        for (id, is_there) in [("stays", true), ("gone", false)] {
            let show = Request::ShowDecision { app: "shop".to_owned(), decision: id.to_owned() };
            assert_eq!(handle.ask(show).await.is_ok(), is_there, "{id}");
        }
    });
}

/// A snapshot that cannot be written is told by health, and no more once one was.
#[test]
fn snapshots_that_fail_are_told_until_one_is_written() {
    #[derive(Clone)]
    struct Full(MemoryFolder, Arc<AtomicBool>);
    impl Disk for Full {
        fn create(&self, name: &str) -> std::io::Result<Box<dyn DiskFile>> {
            match self.1.load(Ordering::Relaxed) {
                true => Err(std::io::ErrorKind::StorageFull.into()),
                false => self.0.create(name),
            }
        }
        fn open(&self, name: &str) -> std::io::Result<Box<dyn std::io::Read>> {
            self.0.open(name)
        }
        fn list(&self) -> std::io::Result<Vec<String>> {
            self.0.list()
        }
        fn remove(&self, name: &str) -> std::io::Result<()> {
            self.0.remove(name)
        }
        fn rename(&self, from: &str, to: &str) -> std::io::Result<()> {
            self.0.rename(from, to)
        }
        fn sync_folder(&self) -> std::io::Result<()> {
            self.0.sync_folder()
        }
    }
    let full = Arc::new(AtomicBool::new(true));
    let journal = Box::new(MemoryJournal::open(&MemoryDisk::default()).unwrap());
    let engine = Engine::new(State::default(), LIMITS, ChaCha12Rng::seed_from_u64(5));
    let options = Options {
        durability: Durability::Always,
        queue: 64,
        snapshot_events: 2,
        // One that failed is tried again as soon.
        snapshot_interval: Duration::from_millis(50),
        prunes: false,
    };
    let snapshots = Snapshots::new(Full(MemoryFolder::default(), full.clone()));
    let runtime =
        Runtime::start(engine, journal, snapshots, Box::new(SystemClock), options).unwrap();
    let (asker, handle) =
        (tokio::runtime::Builder::new_current_thread().build().unwrap(), runtime.handle());
    let wait_until = |unwell: bool| {
        for step in 0..1000 {
            if handle.health().failures().is_empty() != unwell {
                return;
            }
            let app = if unwell { "a" } else { "b" };
            let _ =
                asker.block_on(handle.ask(create(&format!("{app}{step}"), AppSettings::new(3))));
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("health does not become what it should: {:?}", handle.health().failures());
    };
    wait_until(true);
    assert!(handle.health().failures()[0].contains("snapshot could not be written"));
    assert!(handle.failure().is_none(), "the service goes on");
    full.store(false, Ordering::Relaxed);
    wait_until(false);
    runtime.stop();
}

fn events(journal: &MemoryJournal, from: u64) -> Vec<Event> {
    let mut events = Vec::new();
    let visited = journal.read(from, &mut |_, bytes| {
        events.push(Event::decode(bytes).unwrap());
        Ok(())
    });
    visited.unwrap();
    events
}

#[test]
fn what_was_done_beside_requests_is_found_again_by_every_way() {
    let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
    live(&disk, &folder, false);
    let journal = MemoryJournal::open(&disk).unwrap();
    assert!(refits(&journal) >= 4, "{} refits", refits(&journal));

    let mut by_snapshot = recover(&journal, &Snapshots::new(folder)).unwrap();
    assert_eq!(by_snapshot.snapshot_event, journal.last(), "one is written at the end");
    let none = Snapshots::new(MemoryFolder::default());
    let mut by_journal = recover(&journal, &none).unwrap();
    assert_eq!(state_bytes(&mut by_snapshot.state), state_bytes(&mut by_journal.state));
    let counts = by_journal.state.app("shop").unwrap().counts();
    assert_eq!((counts.decisions, counts.rewards), (REWARDS as u64, REWARDS as u64));
}

#[test]
fn a_journal_that_keeps_what_snapshots_do_not_have_is_enough() {
    let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
    live(&disk, &folder, true);
    let journal = MemoryJournal::open(&disk).unwrap();
    let mut recovered = recover(&journal, &Snapshots::new(folder.clone())).unwrap();
    let counts = recovered.state.app("shop").unwrap().counts();
    assert_eq!((counts.decisions, counts.rewards), (REWARDS as u64, REWARDS as u64));

    // The snapshot before the newest is as good, with what is left of the journal …
    folder.damage(|name, bytes| {
        if name.starts_with(&format!("{:020}", journal.last())) {
            bytes.truncate(100);
        }
    });
    let snapshots = Snapshots::new(folder.clone());
    let mut before = recover(&journal, &snapshots).unwrap();
    assert_eq!(before.passed_over.len(), 1);
    assert_eq!(state_bytes(&mut before.state), state_bytes(&mut recovered.state));
    // … and is not removed for the damaged one: that is put aside, with what was left unfinished …
    folder.create("00000000000000000007.snapshot.unfinished").map(drop).unwrap();
    snapshots.tidy(&before.passed_over).unwrap();
    let names = folder.list().unwrap();
    assert_eq!(names.iter().filter(|name| name.ends_with(".damaged")).count(), 1, "{names:?}");
    assert!(!names.iter().any(|name| name.ends_with(".unfinished")), "{names:?}");
    snapshots.write(journal.last(), |out| recovered.state.save(out)).unwrap();
    assert_eq!(snapshots.oldest_kept().unwrap(), Some(before.snapshot_event));
    // … where both are damaged it is said of both …
    folder.damage(|_, bytes| bytes.truncate(100));
    let why = recover(&journal, &snapshots).err().map(|why| why.to_string()).unwrap_or_default();
    for event in [journal.last(), before.snapshot_event] {
        assert!(why.contains(&format!("{event:020}.snapshot is damaged")), "{why}");
    }
    // … and without any the service says what is missing, and does not start from nothing.
    let none = Snapshots::new(MemoryFolder::default());
    let why = recover(&journal, &none).err().map(|why| why.to_string()).unwrap_or_default();
    assert!(why.contains("are not there"), "{why}");
}

/// A batch that is large is done in parts; somebody else is served between them, and limits are those of the whole.
#[test]
fn others_are_served_between_the_parts_of_a_batch() {
    let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
    let journal = MemoryJournal::open(&disk).unwrap();
    serve(journal, &folder, Durability::Always, async |handle: &Handle| {
        handle.ask(create("loud", AppSettings::new(16))).await.map(drop).unwrap();
        handle.ask(create("quiet", AppSettings::new(3))).await.map(drop).unwrap();
        let batch = |users: usize| {
            let ids: Vec<String> = (0..100).map(|item| format!("i{item}")).collect();
            let offer = Offer::new(ids, vec![Some(vec![0.1; 16]); 100]);
            let user = |n: usize| {
                let (user, decision) = (format!("u{n}"), Some(format!("d{n}")));
                ForUser { user, decision, shown: true }
            };
            let users = (0..users).map(user).collect();
            Request::Decide { app: "loud".to_owned(), offer, users, explain: false }
        };
        let done = AtomicBool::new(false);
        let loud = async {
            let answer = handle.ask(batch(1500)).await.unwrap();
            done.store(true, Ordering::Relaxed);
            answer
        };
        let quiet = async {
            let mut between = 0;
            for n in 0..10 {
                let id = format!("q{n}");
                handle.ask(decide("quiet", "ann", Some(&id), 3, n)).await.map(drop).unwrap();
                between += usize::from(!done.load(Ordering::Relaxed));
            }
            between
        };
        let (answer, between) = tokio::join!(loud, quiet);
        assert!(between >= 5, "{between} of 10 were served before the batch was done");
        let Answer::Decided(made) = answer else { panic!("another answer") };
        let ids: Vec<String> = made.into_iter().map(|made| made.unwrap().id).collect();
        assert_eq!(ids, (0..1500).map(|n| format!("d{n}")).collect::<Vec<_>>());
        let refused = handle.ask(batch(45_000)).await;
        assert!(matches!(refused, Err(Refusal::TooMuchWork { users: 45_000, .. })));
    });
}

/// A calendar and a steady clock that are moved by hand.
struct Moved(&'static AtomicU64);

impl Clock for Moved {
    fn now_ms(&self) -> u64 {
        1_800_000_000_000 + self.steady_ms()
    }

    fn steady_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Thousands of windows have ended when settings are changed: they are closed some at a time, by the settings of before.
#[test]
fn settings_are_changed_after_windows_were_closed_some_at_a_time() {
    const DECISIONS: usize = 3000;
    const MOST: usize = 100;
    static NOW_MS: AtomicU64 = AtomicU64::new(0);
    let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
    let limits = Limits { window_work: MOST as u64 * (9 + 200), ..LIMITS };
    let engine = Engine::new(State::default(), limits, ChaCha12Rng::seed_from_u64(5));
    let options = Options {
        durability: Durability::Always,
        queue: 64,
        snapshot_events: 0,
        snapshot_interval: Duration::ZERO,
        prunes: false,
    };
    let journal = Box::new(MemoryJournal::open(&disk).unwrap());
    let (snapshots, clock) = (Snapshots::new(folder), Box::new(Moved(&NOW_MS)));
    let runtime = Runtime::start(engine, journal, snapshots, clock, options).unwrap();
    let (handle, asker) =
        (runtime.handle(), tokio::runtime::Builder::new_current_thread().build().unwrap());
    asker.block_on(async {
        let settings =
            AppSettings { window_ms: 1000, default_reward: Some(0.25), ..AppSettings::new(3) };
        handle.ask(create("shop", settings)).await.map(drop).unwrap();
        for n in 0..DECISIONS {
            let id = format!("d{n}");
            handle.ask(decide("shop", "ann", Some(&id), 3, n as u64)).await.map(drop).unwrap();
        }
        NOW_MS.store(1500, Ordering::Relaxed);
        let change: Change = Box::new(|settings, _, _| settings.default_reward = None);
        let changed = handle.ask(Request::ChangeApp { app: "shop".to_owned(), change }).await;
        let Ok(Answer::App(view)) = changed else { panic!("another answer") };
        assert_eq!((view.waiting, view.counts.defaults), (0, DECISIONS as u64));
    });
    runtime.stop();
    let (mut state, mut most, mut slices) = (State::default(), 0, 0);
    for event in events(&MemoryJournal::open(&disk).unwrap(), 1) {
        let waiting = |state: &State| state.app("shop").map_or(0, |app| app.decisions().waiting());
        let before = waiting(&state);
        state.apply(event).unwrap();
        let closed = before.saturating_sub(waiting(&state));
        most = most.max(closed);
        slices += usize::from(closed > 0);
    }
    assert!(most <= MOST && slices >= DECISIONS / MOST, "{most} at once, {slices} times");
}

/// A journal whose syncs take a while.
struct Slow(MemoryJournal);

impl Journal for Slow {
    fn last(&self) -> u64 {
        self.0.last()
    }
    fn append(&mut self, group: &Group) -> Result<(), JournalError> {
        self.0.append(group)
    }
    fn sync(&mut self) -> Result<(), JournalError> {
        std::thread::sleep(Duration::from_millis(25));
        self.0.sync()
    }
    fn pruner(&self) -> Pruner {
        self.0.pruner()
    }
    fn read(&self, from: u64, visit: &mut Visit) -> Result<(), JournalError> {
        self.0.read(from, visit)
    }
}

/// Whoever is told that nothing was done asks again, and an app that gathers rewards would learn twice: a request that
/// has begun is done to its end while the service stops, and where it cannot be it is told that a part was done.
#[test]
fn a_large_request_is_never_refused_as_if_nothing_of_it_was_done() {
    const DIM: usize = 16;
    let rewards: Vec<(String, f64)> = (0..3000).map(|n| (format!("d{}", n % 4), 1.0)).collect();
    for (stops, queue) in [(true, 64), (false, 2)] {
        let journal = Slow(MemoryJournal::open(&MemoryDisk::default()).unwrap());
        let engine = Engine::new(State::default(), LIMITS, ChaCha12Rng::seed_from_u64(5));
        let options = Options {
            durability: Durability::Always,
            queue,
            snapshot_events: 0,
            snapshot_interval: Duration::ZERO,
            prunes: false,
        };
        let (snapshots, clock) = (Snapshots::new(MemoryFolder::default()), Box::new(SystemClock));
        let runtime = Runtime::start(engine, Box::new(journal), snapshots, clock, options).unwrap();
        let asker = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let handle = runtime.handle();
        let ask = |request| asker.block_on(handle.ask(request)).map_err(|why| why.to_string());
        let mut create = create("shop", AppSettings::new(DIM));
        if let Request::CreateApp { learning, .. } = &mut create {
            learning.aggregation = Aggregation::Sum;
        }
        ask(create).unwrap();
        for n in 0..4 {
            ask(decide("shop", &format!("u{n}"), Some(&format!("d{n}")), DIM, n)).unwrap();
        }
        let before = handle.last_event();
        let stopping = {
            let handle = handle.clone();
            std::thread::spawn(move || {
                while stops && handle.last_event() == before {
                    std::thread::sleep(Duration::from_millis(1));
                }
                if stops {
                    handle.stop_taking();
                }
            })
        };
        let request = Request::Reward { app: "shop".to_owned(), rewards: rewards.clone() };
        let told = asker.block_on(handle.ask(request));
        stopping.join().unwrap();
        match (stops, told) {
            (true, Ok(Answer::Rewarded(all))) => {
                assert!(all.len() == rewards.len() && all.iter().all(Result::is_ok));
            }
            (false, Err(why)) => {
                assert_eq!((why.code(), why.status()), ("in_doubt", 503), "{why}");
            }
            (_, told) => panic!("{:?}", told.map(drop)),
        }
        runtime.stop();
    }
}
