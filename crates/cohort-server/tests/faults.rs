//! Every write and every sync is made to fail in turn, power is lost, bytes are flipped: what is
//! recovered is an acknowledged prefix, never less, never something else.
#![allow(missing_docs)]

mod common;

use cohort_server::engine::{Answer, Request};
use cohort_server::journal::Journal;
use cohort_server::journal::faulty::{Fault, FaultyJournal};
use cohort_server::journal::memory::{MemoryDisk, MemoryJournal};
use cohort_server::journal::segments::SegmentJournal;
use cohort_server::settings::AppSettings;
use cohort_server::snapshot::Snapshots;
use cohort_server::snapshot::disk::MemoryFolder;
use common::{Simulation, create, decide, reward, state_bytes};

const STEPS: u64 = 24;

/// A life of the service: decisions, rewards, items, keys, time, in groups of one to three.
fn requests(step: u64) -> Vec<Request> {
    let app = || "shop".to_owned();
    let id = |n: u64| format!("d{n}");
    match step {
        0 => {
            let settings = AppSettings { default_reward: Some(0.25), ..AppSettings::new(3) };
            vec![create("shop", AppSettings { window_ms: 700, ..settings })]
        }
        5 => vec![Request::PutItems { app: app(), items: vec![("i".to_owned(), vec![0.5; 3])] }],
        11 => vec![Request::ChangeApp {
            app: app(),
            change: Box::new(|settings, _, _| settings.epsilon = 0.5),
        }],
        17 => vec![Request::TimePasses],
        step if step % 3 == 0 => vec![
            reward("shop", &id(step - 1), 1.0),
            decide("shop", "ann", Some(&id(step)), 3, step),
            decide("shop", "bob", Some(&id(100 + step)), 3, step),
        ],
        step => vec![decide("shop", "ann", Some(&id(step)), 3, step)],
    }
}

/// The state after every event, as bytes, of a life without faults.
fn states_of_a_good_life(seed: u64) -> Vec<Vec<u8>> {
    let disk = MemoryDisk::default();
    let folder = MemoryFolder::default();
    let mut life = Simulation::start(MemoryJournal::open(&disk).unwrap(), &folder, seed).unwrap();
    for step in 0..STEPS {
        let (answers, committed) = life.ask_all(step * 100, requests(step));
        committed.unwrap();
        assert!(answers.iter().all(Result::is_ok), "step {step}");
    }
    // The same journal, cut after every event.
    let mut states = vec![state_bytes(&mut Default::default())];
    let mut state = cohort_server::state::State::default();
    life.journal
        .read(1, &mut |_, bytes| {
            state.apply(cohort_server::event::Event::decode(bytes).unwrap()).unwrap();
            states.push(state_bytes(&mut state));
            Ok(())
        })
        .unwrap();
    assert_eq!(states.last(), Some(&life.bytes()), "the fold of the journal is the state");
    states
}

/// Lives on a journal until it fails. Returns what was acknowledged by then, and what was tried.
fn live_until_it_fails<J: Journal>(journal: J, folder: &MemoryFolder) -> (J, u64, u64) {
    let mut life = Simulation::start(journal, folder, 1).unwrap();
    let (mut acknowledged, mut attempted) = (0, 0);
    for step in 0..STEPS {
        let (_, committed) = life.ask_all(step * 100, requests(step));
        attempted = life.engine.state().last_event();
        if committed.is_err() {
            break;
        }
        acknowledged = attempted;
        // Two snapshots, and then what they do not have is all that is kept of the journal.
        if step % 8 == 7 {
            life.snapshot().unwrap();
            let oldest = Snapshots::new(folder.clone()).oldest_kept().unwrap();
            if oldest.is_some_and(|oldest| life.journal.prune(oldest + 1).is_err()) {
                break;
            }
        }
    }
    (life.journal, acknowledged, attempted)
}

#[test]
fn a_fault_anywhere_leaves_an_acknowledged_prefix() {
    let states = states_of_a_good_life(1);
    let (mut recoveries, mut found_unsynced) = (0, 0);
    for fault in [Fault::Before, Fault::After] {
        for healthy in 0.. {
            let mut failed = true;
            // The process dies and, in the worst case, power is lost with it; of groups that were
            // written but not synced any number may be found again.
            for kept in 0..2 {
                let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
                let inner = MemoryJournal::open(&disk).unwrap();
                let journal = FaultyJournal::new(inner, healthy, fault);
                let (journal, acknowledged, attempted) = live_until_it_fails(journal, &folder);
                failed = journal.has_failed();
                drop(journal);
                disk.lose_power(kept);
                let journal = MemoryJournal::open(&disk).unwrap();
                let mut again = Simulation::start(journal, &folder, 2).unwrap();
                let found = again.engine.state().last_event();
                assert!((acknowledged..=attempted).contains(&found), "{fault:?} {healthy}");
                assert!(again.bytes() == states[found as usize], "{fault:?} {healthy}");
                recoveries += 1;
                found_unsynced += usize::from(found > acknowledged);
            }
            if !failed {
                break;
            }
        }
    }
    assert!(recoveries > 150 && found_unsynced > 50, "{recoveries} {found_unsynced}");
}

/// The same on the journal that the service has. Its process dies: what it wrote is found again.
#[test]
fn a_fault_anywhere_leaves_an_acknowledged_prefix_on_a_real_disk() {
    let states = states_of_a_good_life(1);
    let mut recoveries = 0;
    for fault in [Fault::Before, Fault::After] {
        for healthy in (0..).step_by(7) {
            let (place, folder) = (tempfile::tempdir().unwrap(), MemoryFolder::default());
            let inner = SegmentJournal::open(place.path()).unwrap();
            let journal = FaultyJournal::new(inner, healthy, fault);
            let (journal, acknowledged, attempted) = live_until_it_fails(journal, &folder);
            let failed = journal.has_failed();
            drop(journal);
            let journal = SegmentJournal::open(place.path()).unwrap();
            let mut again = Simulation::start(journal, &folder, 2).unwrap();
            let found = again.engine.state().last_event();
            assert!((acknowledged..=attempted).contains(&found), "{fault:?} {healthy}");
            assert!(again.bytes() == states[found as usize], "{fault:?} {healthy}");
            recoveries += 1;
            if !failed {
                break;
            }
        }
    }
    assert!(recoveries > 15, "{recoveries}");
}

#[test]
fn a_snapshot_that_fails_anywhere_changes_nothing() {
    for healthy in 0..20 {
        let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
        let mut life = Simulation::start(MemoryJournal::open(&disk).unwrap(), &folder, 3).unwrap();
        let mut snapshots = 0;
        for step in 0..STEPS {
            life.ask_all(step * 100, requests(step)).1.unwrap();
            folder.fail_after((step % 7 == 6).then_some(healthy % 7));
            if step % 3 == 2 {
                snapshots += usize::from(life.snapshot().is_ok());
            }
            folder.fail_after(None);
        }
        assert!(snapshots > 0);
        let before = life.bytes();
        drop(life);
        let mut again = Simulation::start(MemoryJournal::open(&disk).unwrap(), &folder, 4).unwrap();
        assert_eq!(again.bytes(), before, "fault after {healthy}");
    }
}

/// Any bit of any snapshot: the damaged one is passed over, and the state is the same.
#[test]
fn a_flipped_bit_in_a_snapshot_is_found_out_and_passed_over() {
    let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
    let mut life = Simulation::start(MemoryJournal::open(&disk).unwrap(), &folder, 5).unwrap();
    for step in 0..STEPS {
        life.ask_all(step * 100, requests(step)).1.unwrap();
        if step % 10 == 9 {
            life.snapshot().unwrap();
        }
    }
    let before = life.bytes();
    let newest = cohort_server::snapshot::Snapshots::new(folder.clone());
    let (newest_event, _) =
        newest.newest(cohort_server::state::State::load, |_| {}).unwrap().unwrap();
    let name = format!("{newest_event:020}.snapshot");
    let mut size = 0;
    folder.damage(|file, bytes| size += if file == name { bytes.len() } else { 0 });
    for bit in (0..8 * size).step_by(37) {
        let flip = |file: &str, bytes: &mut Vec<u8>| {
            if file == name {
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        };
        folder.damage(flip);
        let recovered = cohort_server::engine::recovery::recover(
            &MemoryJournal::open(&disk).unwrap(),
            &cohort_server::snapshot::Snapshots::new(folder.clone()),
        )
        .unwrap();
        let mut state = recovered.state;
        assert_eq!(state_bytes(&mut state), before, "bit {bit}");
        assert_eq!(recovered.passed_over.len(), 1, "bit {bit}");
        assert!(recovered.passed_over[0].to_string().contains(&name));
        assert!(recovered.snapshot_event < newest_event);
        folder.damage(flip);
    }
}

#[test]
fn a_snapshot_cut_short_anywhere_is_passed_over() {
    let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
    let mut life = Simulation::start(MemoryJournal::open(&disk).unwrap(), &folder, 5).unwrap();
    for step in 0..STEPS {
        life.ask_all(step * 100, requests(step)).1.unwrap();
    }
    life.snapshot().unwrap();
    let before = life.bytes();
    for left in 0..9 {
        folder.damage(|_, bytes| {
            let keep = bytes.len() * left / 10;
            bytes.truncate(keep.max(left));
        });
        let mut again = Simulation::start(MemoryJournal::open(&disk).unwrap(), &folder, 4).unwrap();
        assert_eq!(again.bytes(), before);
        again.snapshot().unwrap();
    }
}

#[test]
fn a_journal_shorter_than_the_snapshot_is_refused() {
    let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
    let mut life = Simulation::start(MemoryJournal::open(&disk).unwrap(), &folder, 5).unwrap();
    life.ask_all(0, requests(0)).1.unwrap();
    life.snapshot().unwrap();
    let empty = MemoryJournal::open(&MemoryDisk::default()).unwrap();
    let why = Simulation::start(empty, &folder, 1).err().unwrap();
    assert!(why.contains("ends at event 0"), "{why}");
}

#[test]
fn an_event_that_does_not_fit_is_named() {
    let disk = MemoryDisk::default();
    let mut life =
        Simulation::start(MemoryJournal::open(&disk).unwrap(), &MemoryFolder::default(), 5)
            .unwrap();
    let answer = life.ask(0, create("shop", AppSettings::new(3))).unwrap();
    assert!(matches!(answer, Answer::App(_)));
    let mut group = cohort_server::journal::Group::default();
    let what = cohort_server::event::What::Activated("never made".to_owned());
    let event = cohort_server::event::Event { app: "shop".to_owned(), at_ms: 5, what };
    group.push(|out| event.encode(out));
    life.journal.append(&group).unwrap();
    let again = MemoryJournal::open(&disk).unwrap();
    let why = Simulation::start(again, &MemoryFolder::default(), 1).err().unwrap();
    assert!(why.contains("damaged at event 2") && why.contains("never made"), "{why}");
}
