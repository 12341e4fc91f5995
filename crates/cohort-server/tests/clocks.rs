//! Windows last as long as they should, however the calendar jumps: the engine driven by clocks that
//! jump both ways, against a plain count of steady time.
#![allow(missing_docs)]

mod common;

use std::collections::BTreeMap;

use cohort_server::clock::manual::ManualClock;
use cohort_server::clock::{Clock, Timekeeper};
use cohort_server::engine::recovery::recover;
use cohort_server::engine::request::RewardOutcome;
use cohort_server::engine::{Answer, Refusal, Request};
use cohort_server::journal::memory::{MemoryDisk, MemoryJournal};
use cohort_server::settings::AppSettings;
use cohort_server::snapshot::Snapshots;
use cohort_server::snapshot::disk::MemoryFolder;
use common::{Simulation, create, decide, reward, state_bytes};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;

const WINDOW_MS: u64 = 600_000;
const DAY_MS: i64 = 86_400_000;

/// A service with clocks, and its time as it would be without jumps.
struct Clocked {
    service: Simulation<MemoryJournal>,
    clock: ManualClock,
    time: Timekeeper,
}

impl Clocked {
    fn start(disk: &MemoryDisk, folder: &MemoryFolder, clock: &ManualClock, seed: u64) -> Self {
        let journal = MemoryJournal::open(disk).unwrap();
        let service = Simulation::start(journal, folder, seed).unwrap();
        let apps = || service.engine.state().apps().values();
        let last_ms = apps().map(|app| app.now_ms()).max();
        let waits = apps().any(|app| app.decisions().waiting() > 0);
        let time = Timekeeper::new(clock, last_ms.unwrap_or_default(), waits);
        Self { service, clock: clock.clone(), time }
    }

    /// As the engine's thread does.
    fn ask(&mut self, request: Request) -> Result<Answer, Refusal> {
        let moment = self.time.now(&self.clock);
        if let Some(by_ms) = moment.stepped_ms {
            self.service.ask(moment.now_ms, Request::ClockSteps { by_ms }).map(drop).unwrap();
        }
        self.service.ask(moment.now_ms, request)
    }

    fn reward(&mut self, id: &str) -> Result<RewardOutcome, Refusal> {
        match self.ask(reward("shop", id, 1.0))? {
            Answer::Rewarded(mut outcomes) => outcomes.remove(0),
            _ => panic!("another answer"),
        }
    }
}

#[test]
fn windows_are_those_of_the_steady_clock_however_the_calendar_jumps() {
    for seed in 0..12 {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let clock = ManualClock::at(20_000 * DAY_MS as u64);
        let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
        let mut service = Clocked::start(&disk, &folder, &clock, seed);
        let settings = AppSettings { window_ms: WINDOW_MS, ..AppSettings::new(3) };
        service.ask(create("shop", settings)).map(drop).unwrap();
        // When each decision was made, by the steady clock.
        let mut made = BTreeMap::new();
        let (mut in_time, mut late, mut jumps) = (0, 0, 0);
        for step in 0..1500u64 {
            clock.pass(rng.random_range(1..8000));
            if rng.random_bool(0.02) {
                jumps += 1;
                clock.jump(rng.random_range(-2 * DAY_MS..2 * DAY_MS));
            }
            let id = format!("d{step}");
            service.ask(decide("shop", "ann", Some(&id), 3, step)).map(drop).unwrap();
            made.insert(step, clock.steady_ms());
            service.ask(Request::TimePasses).map(drop).unwrap();
            // Some decision that nobody rewarded yet, whatever its age.
            let old = rng.random_range(0..=step);
            let Some(made_ms) = made.remove(&old) else { continue };
            let age_ms = clock.steady_ms() - made_ms;
            let outcome = service.reward(&format!("d{old}"));
            // The calendar may be followed by one part in a hundred.
            if age_ms < WINDOW_MS * 98 / 100 {
                assert!(
                    matches!(outcome, Ok(RewardOutcome::Learned)),
                    "seed {seed}, {age_ms} ms after it was made d{old} is closed"
                );
                in_time += 1;
            } else if age_ms > WINDOW_MS * 102 / 100 {
                let closed =
                    matches!(outcome, Err(Refusal::Late { .. } | Refusal::DecisionUnknown { .. }));
                assert!(closed, "seed {seed}, {age_ms} ms after it was made d{old} is still open");
                late += 1;
            }
        }
        assert!(in_time > 100 && late > 100 && jumps > 10, "{in_time} {late} {jumps}");
        // Decisions that wait are those of the last window.
        let waiting = service.service.engine.state().app("shop").unwrap().decisions().waiting();
        assert!(waiting < 250, "{waiting} decisions wait: time stands still");
        // The journal alone tells the same.
        let journal = MemoryJournal::open(&disk).unwrap();
        let mut again = recover(&journal, &Snapshots::new(folder)).unwrap();
        assert!(state_bytes(&mut again.state) == service.service.bytes(), "seed {seed}");
    }
}

/// The clock of a machine that starts a day ahead, and is set right while the service is down.
#[test]
fn a_service_that_comes_back_to_a_clock_that_is_behind_goes_on() {
    let clock = ManualClock::at(20_000 * DAY_MS as u64);
    let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
    let mut service = Clocked::start(&disk, &folder, &clock, 1);
    let settings = AppSettings { window_ms: WINDOW_MS, ..AppSettings::new(3) };
    service.ask(create("shop", settings)).map(drop).unwrap();
    service.ask(decide("shop", "ann", Some("before"), 3, 1)).map(drop).unwrap();
    drop(service);
    clock.jump(-DAY_MS);
    let mut service = Clocked::start(&disk, &folder, &clock, 2);
    service.ask(decide("shop", "ann", Some("after"), 3, 2)).map(drop).unwrap();
    for _ in 0..100 {
        clock.pass(WINDOW_MS / 90);
        service.ask(Request::TimePasses).map(drop).unwrap();
    }
    let app = service.service.engine.state().app("shop").unwrap();
    assert_eq!(app.decisions().waiting(), 0, "windows end although the calendar was set back");
    assert_eq!(app.counts().unrewarded, 2);
    assert_eq!(app.now_ms().abs_diff(clock.now_ms()) / WINDOW_MS, 0, "and the calendar is right");
}

/// The clock of a machine that is a year ahead when the service starts, and is set right later; or stays so.
#[test]
fn a_service_that_comes_back_to_a_clock_that_is_far_ahead_closes_nothing_early() {
    for is_set_right in [true, false] {
        let clock = ManualClock::at(20_000 * DAY_MS as u64);
        let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
        let mut service = Clocked::start(&disk, &folder, &clock, 1);
        let settings = AppSettings { window_ms: WINDOW_MS, ..AppSettings::new(3) };
        service.ask(create("shop", settings)).map(drop).unwrap();
        for id in ["in time", "late"] {
            service.ask(decide("shop", "ann", Some(id), 3, 1)).map(drop).unwrap();
        }
        drop(service);
        clock.jump(365 * DAY_MS);
        let mut service = Clocked::start(&disk, &folder, &clock, 2);
        // Nine tenths of the window, in steps in which a clock that is set right is taken over.
        for step in 0..9 {
            service.ask(Request::TimePasses).map(drop).unwrap();
            clock.pass(WINDOW_MS / 10);
            if is_set_right && step == 3 {
                clock.jump(-365 * DAY_MS);
            }
        }
        assert!(matches!(service.reward("in time"), Ok(RewardOutcome::Learned)), "{is_set_right}");
        let now_ms = service.service.engine.state().app("shop").unwrap().now_ms();
        assert_eq!(now_ms.abs_diff(clock.now_ms()) / 1000, 0, "the calendar is followed");
        clock.pass(WINDOW_MS / 5);
        service.ask(Request::TimePasses).map(drop).unwrap();
        assert!(service.reward("late").is_err(), "and the window ends when it should");
        let journal = MemoryJournal::open(&disk).unwrap();
        let mut again = recover(&journal, &Snapshots::new(folder)).unwrap();
        assert!(state_bytes(&mut again.state) == service.service.bytes());
    }
}
