//! Who goes when there are too many users, or when one did not come for long, and what is left of whoever went?
#![allow(missing_docs)]

mod common;

use cohort_server::engine::{Engine, Limits, Request};
use cohort_server::event::{Event, What};
use cohort_server::journal::memory::{MemoryDisk, MemoryJournal};
use cohort_server::journal::{Group, Journal};
use cohort_server::settings::AppSettings;
use cohort_server::state::State;
use common::{LIMITS, create, decide, reward};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;

struct Service {
    engine: Engine,
    group: Group,
}

impl Service {
    fn new(users: usize, user_age_ms: u64) -> Self {
        let limits = Limits { users, user_age_ms, ..LIMITS };
        let engine = Engine::new(State::default(), limits, ChaCha12Rng::seed_from_u64(1));
        let mut service = Self { engine, group: Group::default() };
        service.ask(0, create("shop", AppSettings { window_ms: 50_000, ..AppSettings::new(2) }));
        service
    }

    fn ask(&mut self, now_ms: u64, request: Request) {
        self.engine.handle(now_ms, request, &mut self.group).map(drop).unwrap();
    }

    fn visit(&mut self, now_ms: u64, user: &str) {
        self.ask(now_ms, decide("shop", user, Some(&format!("{user}-{now_ms}")), 2, now_ms));
    }

    /// Who is there, and the events by which others went.
    fn seen(&self) -> (Vec<String>, Vec<What>) {
        let mut journal = MemoryJournal::open(&MemoryDisk::default()).unwrap();
        journal.append(&self.group).unwrap();
        let mut went = Vec::new();
        let read = journal.read(1, &mut |_, bytes| {
            let event = Event::decode(bytes).unwrap();
            if matches!(event.what, What::UserRetired(_) | What::UserForgotten(_)) {
                went.push(event.what);
            }
            Ok(())
        });
        read.unwrap();
        let users = self.engine.state().app("shop").unwrap().users();
        let there = ["ann", "bob", "cat", "dan"].into_iter();
        (there.filter(|user| users.find(user).is_some()).map(str::to_owned).collect(), went)
    }
}

fn retired(user: &str) -> What {
    What::UserRetired(user.to_owned())
}

#[test]
fn whoever_was_not_seen_for_longest_makes_room_and_leaves_what_it_taught() {
    let mut service = Service::new(2, 0);
    service.visit(0, "ann");
    service.visit(10, "bob");
    service.visit(20, "ann");
    assert_eq!(service.seen(), (vec!["ann".to_owned(), "bob".to_owned()], vec![]));
    service.visit(30, "cat");
    assert_eq!(service.seen(), (vec!["ann".to_owned(), "cat".to_owned()], vec![retired("bob")]));
    // Nothing of it waits any more; what others decided does.
    let decisions = |service: &Service, id: &str| {
        service.engine.state().app("shop").unwrap().decisions().get(id).is_some()
    };
    assert!(!decisions(&service, "bob-10") && decisions(&service, "ann-0"));
    assert!(decisions(&service, "ann-20") && decisions(&service, "cat-30"));
    service.visit(40, "bob");
    let went = vec![retired("bob"), retired("ann")];
    assert_eq!(service.seen(), (vec!["bob".to_owned(), "cat".to_owned()], went));
    // Rewards do not count as coming: something is decided for whoever comes.
    service.ask(50, reward("shop", "cat-30", 1.0));
    service.visit(60, "dan");
    assert_eq!(service.seen().1[2..], [retired("cat")]);
}

#[test]
fn whoever_does_not_come_for_long_goes_at_that_age_and_no_earlier() {
    let mut service = Service::new(100, 1000);
    service.visit(0, "ann");
    service.visit(100, "bob");
    service.visit(300, "ann");
    service.ask(1099, Request::TimePasses);
    assert_eq!(service.seen().1, []);
    service.ask(1100, Request::TimePasses);
    assert_eq!(service.seen(), (vec!["ann".to_owned()], vec![retired("bob")]));
    // A clock that is set makes nobody older.
    service.ask(10_000_000, Request::ClockSteps { by_ms: 9_998_900 });
    service.ask(10_000_100, Request::TimePasses);
    assert_eq!(service.seen().0, ["ann"]);
    service.ask(10_000_200, Request::TimePasses);
    assert_eq!(service.seen().1[1..], [retired("ann")]);
    // Whoever is asked to be forgotten leaves nothing.
    service.visit(10_000_300, "cat");
    let forget = Request::ForgetUser { app: "shop".to_owned(), user: "cat".to_owned() };
    service.ask(10_000_300, forget);
    assert_eq!(service.seen().1[2..], [What::UserForgotten("cat".to_owned())]);
}

/// Where memory is scarce: whoever was not seen for longest, of whichever app, some at a time; policies that cannot
/// forget keep theirs.
#[test]
fn where_memory_is_scarce_the_longest_unseen_of_all_apps_go() {
    let mut service = Service::new(100, 0);
    let paper = AppSettings { policy: "linucb-ind".to_owned(), ..AppSettings::new(2) };
    service.ask(0, create("paper", paper));
    service.ask(0, create("blog", AppSettings::new(2)));
    service.ask(1, decide("paper", "old", Some("p"), 2, 1));
    service.visit(10, "ann");
    service.ask(20, decide("blog", "eve", Some("b"), 2, 1));
    service.visit(30, "bob");
    service.visit(40, "ann");
    service.ask(50, Request::MemoryLow { most: 2 });
    assert_eq!(service.seen(), (vec!["ann".to_owned()], vec![retired("eve"), retired("bob")]));
    service.ask(60, Request::MemoryLow { most: 1000 });
    assert_eq!(service.seen().1[2..], [retired("ann")]);
    assert_eq!(service.engine.state().app("paper").unwrap().users().count(), 1);
    service.ask(70, Request::MemoryLow { most: 1000 });
    assert_eq!(service.seen().1.len(), 3, "nobody is left who could go");
}

/// Whoever went before is forgotten in the log by an event that changes nothing else: replayed, the state is the same.
#[test]
fn whoever_went_before_can_be_forgotten_and_the_journal_says_so() {
    let mut service = Service::new(2, 0);
    for (at_ms, user) in [(0, "ann"), (10, "bob"), (20, "cat")] {
        service.visit(at_ms, user);
    }
    assert_eq!(service.seen().1, [retired("ann")]);
    for user in ["ann", "nobody"] {
        let (app, user) = ("shop".to_owned(), user.to_owned());
        service.ask(20, Request::ForgetUser { app, user });
        assert!(service.engine.has_erased(), "it is still on disk");
    }
    let forgotten = ["ann", "nobody"].map(|user| What::UserForgotten(user.to_owned()));
    assert_eq!(service.seen().1[1..], forgotten);
    assert_eq!(service.seen().0, ["bob", "cat"]);

    let mut journal = MemoryJournal::open(&MemoryDisk::default()).unwrap();
    journal.append(&service.group).unwrap();
    let mut replayed = State::default();
    let read = journal.read(1, &mut |_, bytes| {
        replayed.apply(Event::decode(bytes).unwrap()).unwrap();
        Ok(())
    });
    read.unwrap();
    assert_eq!(replayed.digest().unwrap(), service.engine.state_mut().digest().unwrap());
}
