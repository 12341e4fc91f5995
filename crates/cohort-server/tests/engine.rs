//! What the engine does with requests that fail in part, come again, or ask for too much.
#![allow(missing_docs)]

mod common;

use cohort_server::auth::KeyHash;
use cohort_server::config::Config;
use cohort_server::engine::request::{ForUser, Offer};
use cohort_server::engine::{Answer, Engine, Refit, Refusal, Request};
use cohort_server::event::Key;
use cohort_server::journal::Group;
use cohort_server::journal::memory::{MemoryDisk, MemoryJournal};
use cohort_server::settings::AppSettings;
use cohort_server::snapshot::disk::MemoryFolder;
use cohort_server::state::State;
use cohort_server::trial::Trial;
use common::{LIMITS, Simulation, create, decide, reward};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;

fn service() -> Simulation<MemoryJournal> {
    let journal = MemoryJournal::open(&MemoryDisk::default()).unwrap();
    Simulation::start(journal, &MemoryFolder::default(), 1).unwrap()
}

#[test]
fn a_change_is_done_in_full_or_not_at_all() {
    let mut service = service();
    service.ask(0, create("shop", AppSettings::new(3))).map(drop).unwrap();
    let change = |epsilon: f64, control: f64| Request::ChangeApp {
        app: "shop".to_owned(),
        change: Box::new(move |settings: &mut AppSettings, trial: &mut Trial, _: &mut _| {
            (settings.epsilon, trial.control) = (epsilon, control);
        }),
    };
    for (epsilon, control) in [(2.0, 0.5), (0.5, 2.0)] {
        let before = service.bytes();
        assert!(service.ask(1, change(epsilon, control)).is_err());
        assert!(service.bytes() == before, "epsilon {epsilon}, control {control}");
    }
    service.ask(1, change(0.25, 0.5)).map(drop).unwrap();
    let app = service.engine.state().app("shop").unwrap();
    assert_eq!((app.settings().epsilon, app.trial().control), (0.25, 0.5));
    // A change to what is already so is none.
    let (before, events) = (service.bytes(), service.engine.state().last_event());
    service.ask(1, change(0.25, 0.5)).map(drop).unwrap();
    assert!(service.bytes() == before && service.engine.state().last_event() == events);
}

#[test]
fn an_app_whose_control_group_cannot_be_is_not_made() {
    let mut service = service();
    let create = |control: f64| Request::CreateApp {
        app: "shop".to_owned(),
        settings: AppSettings::new(3),
        trial: Box::new(Trial { control, ..Trial::default() }),
        learning: Default::default(),
        key: None,
    };
    assert!(service.ask(0, create(1.5)).is_err());
    assert!(service.engine.state().apps().is_empty());
    service.ask(0, create(0.5)).map(drop).unwrap();
    assert_eq!(service.engine.state().app("shop").unwrap().trial().control, 0.5);
}

/// The answer may have been lost on its way: asking again must give it, whatever happened since.
#[test]
fn a_retry_gets_its_decision_after_its_items_have_left_the_catalogue() {
    let mut service = service();
    let shop = || "shop".to_owned();
    service.ask(0, create("shop", AppSettings::new(2))).map(drop).unwrap();
    let items = vec![("tea".to_owned(), vec![0.5, 0.5]), ("milk".to_owned(), vec![0.1, 0.9])];
    service.ask(0, Request::PutItems { app: shop(), items }).map(drop).unwrap();
    let ask = |users: &[&str]| Request::Decide {
        app: shop(),
        offer: Offer::new(vec!["tea".to_owned(), "milk".to_owned()], vec![None, None]),
        users: (users.iter())
            .map(|user| ForUser {
                user: (*user).to_owned(),
                decision: Some(format!("of-{user}")),
                shown: true,
            })
            .collect(),
        explain: false,
    };
    let ranking = |answer: Answer| match answer {
        Answer::Decided(mut made) => made.remove(0).unwrap().ranking,
        _ => unreachable!("a decide is answered with decisions"),
    };
    let first = ranking(service.ask(1, ask(&["ann"])).unwrap());
    service.ask(2, Request::RemoveItem { app: shop(), item: "tea".to_owned() }).map(drop).unwrap();
    assert_eq!(ranking(service.ask(3, ask(&["ann"])).unwrap()), first);
    // Somebody who was not decided for needs the item.
    for users in [&["bob"][..], &["ann", "bob"]] {
        let refused = service.ask(3, ask(users));
        assert!(matches!(refused, Err(Refusal::ItemUnknown { .. })), "{users:?}");
    }
}

#[test]
fn decisions_take_no_more_memory_than_they_may_closed_ones_included() {
    let disk = MemoryDisk::default();
    let mut service =
        Simulation::start(MemoryJournal::open(&disk).unwrap(), &MemoryFolder::default(), 1)
            .unwrap();
    let limits = cohort_server::engine::Limits { decision_bytes: 20_000, ..LIMITS };
    service.engine = Engine::new(State::default(), limits, ChaCha12Rng::seed_from_u64(1));
    let settings = AppSettings { window_ms: 1000, ..AppSettings::new(3) };
    service.ask(0, create("shop", settings)).map(drop).unwrap();
    let mut made = 0;
    let refused = loop {
        let id = format!("d{made}");
        match service.ask(1, decide("shop", "ann", Some(&id), 3, made)).unwrap() {
            Answer::Decided(mut decided) => match decided.remove(0) {
                Ok(_) => made += 1,
                Err(refused) => break refused,
            },
            _ => unreachable!("a decide is answered with decisions"),
        }
        service.ask(1, reward("shop", &id, 1.0)).map(drop).unwrap();
        assert!(made < 100, "each takes some 300 bytes");
    };
    assert_eq!((refused.code(), refused.status()), ("too_much_remembered", 429));
    // A window later they are forgotten, and there is room again.
    let again = service.ask(1002, decide("shop", "ann", None, 3, 1)).unwrap();
    assert!(matches!(&again, Answer::Decided(made) if made[0].is_ok()));
    let decisions = service.engine.state().app("shop").unwrap().decisions();
    assert!(decisions.len() == 1 && decisions.bytes() < 1000, "{}", decisions.bytes());
}

/// A request of twenty kilobytes that once took a gigabyte of memory and hundreds of megabytes of journal.
#[test]
fn a_small_request_for_very_much_is_refused_before_anything_is_done() {
    let limits = Config::default().limits();
    let mut engine = Engine::new(State::default(), limits, ChaCha12Rng::seed_from_u64(1));
    let mut group = Group::default();
    let trial = Box::new(Trial { log_candidates: true, ..Trial::default() });
    for (app, dim) in [("wide", 200), ("narrow", 20)] {
        let (app, settings) = (app.to_owned(), AppSettings::new(dim));
        let (trial, learning) = (trial.clone(), Default::default());
        let create = Request::CreateApp { app: app.clone(), settings, trial, learning, key: None };
        engine.handle(0, create, &mut group).map(drop).unwrap();
        let items = (0..1000).map(|item| (format!("item-{item}"), vec![0.1; dim])).collect();
        engine.handle(0, Request::PutItems { app, items }, &mut group).map(drop).unwrap();
    }
    let ask = |app: &str, users: usize, items: usize, explain: bool| Request::Decide {
        app: app.to_owned(),
        offer: Offer {
            ids: (0..items).map(|item| format!("item-{item}")).collect(),
            features: vec![None; items],
            ..Offer::default()
        },
        users: (0..users)
            .map(|user| ForUser { user: format!("u{user}"), decision: None, shown: true })
            .collect(),
        explain,
    };
    let before = engine.state().last_event();
    for (app, users, items, explain, code, what) in [
        ("wide", 200, 1000, false, "too_much_work", "200 users × 1000 candidates × 200²"),
        ("narrow", 200, 1000, false, "too_much_written", "written to the journal"),
        ("narrow", 1000, 100, true, "too_much_written", "journal"),
    ] {
        let refused = engine.handle(0, ask(app, users, items, explain), &mut group);
        let refused = refused.map(drop).unwrap_err();
        assert_eq!((refused.code(), refused.status()), (code, 422));
        assert!(refused.to_string().contains(what), "{refused}");
    }
    let without = |_: &mut AppSettings, trial: &mut Trial, _: &mut _| trial.log_candidates = false;
    let change = Request::ChangeApp { app: "narrow".to_owned(), change: Box::new(without) };
    engine.handle(0, change, &mut group).map(drop).unwrap();
    let refused = engine.handle(0, ask("narrow", 300, 1000, true), &mut group);
    assert!(refused.map(drop).unwrap_err().to_string().contains("answered"));
    assert_eq!(engine.state().last_event(), before + 1, "nothing was decided");
    let answer = engine.handle(0, ask("narrow", 100, 1000, false), &mut group).unwrap();
    assert!(matches!(&answer, Answer::Decided(made) if made.iter().all(Result::is_ok)));
}

/// What a refit that went wrong would find again is not looked for again at once.
#[test]
fn a_refit_that_fails_is_put_off_until_there_is_more_to_go_by() {
    let mut engine = Engine::new(State::default(), LIMITS, ChaCha12Rng::seed_from_u64(1));
    let mut group = Group::default();
    let mut ask = |engine: &mut Engine, request| engine.handle(0, request, &mut group).map(drop);
    ask(&mut engine, create("shop", AppSettings::new(3))).unwrap();
    let mut number = 0;
    let mut learn = |engine: &mut Engine| {
        let id = format!("d{number}");
        ask(engine, decide("shop", "ann", Some(&id), 3, number)).unwrap();
        ask(engine, reward("shop", &id, 0.5)).unwrap();
        number += 1;
    };
    // While the first refit is under way there are many rewards, so that there is much to wait for.
    (0..100).for_each(|_| learn(&mut engine));
    let Refit { app, ticket, job: _ } = engine.take_refits().pop().unwrap();
    // How many rewards it takes until the next refit is begun.
    let mut next = |engine: &mut Engine| -> (u64, Refit) {
        for rewards in 0..1000 {
            if let Some(refit) = engine.take_refits().pop() {
                return (rewards, refit);
            }
            learn(engine);
        }
        panic!("no refit was begun");
    };
    let mut group = Group::default();
    engine.handle(0, Request::RefitFailed { app, ticket }, &mut group).map(drop).unwrap();
    let learned = engine.state().app("shop").unwrap().counts().rewards;
    let (waited, Refit { app, ticket, job: _ }) = next(&mut engine);
    assert!(waited > learned / 4, "{waited} rewards after {learned}");
    // One whose finding cannot be used is as good as failed, and changes nothing.
    let events = engine.state().last_event();
    let useless = Request::Refitted { app, ticket, found: vec![1, 2, 3] };
    engine.handle(0, useless, &mut group).map(drop).unwrap();
    assert_eq!(engine.state().last_event(), events);
    let learned = engine.state().app("shop").unwrap().counts().rewards;
    let (waited, Refit { app, ticket, job }) = next(&mut engine);
    assert!(waited > learned / 4, "{waited} rewards after {learned}");
    let found = Request::Refitted { app, ticket, found: job() };
    engine.handle(0, found, &mut group).map(drop).unwrap();
}

/// Many windows that end at once are closed in parts; meanwhile it is as if all were, and in the end it is the same.
#[test]
fn many_windows_are_ended_in_parts() {
    let ended = |window_work: u64| {
        let limits = cohort_server::engine::Limits { window_work, ..LIMITS };
        let mut engine = Engine::new(State::default(), limits, ChaCha12Rng::seed_from_u64(1));
        let mut group = Group::default();
        let settings =
            AppSettings { window_ms: 1000, default_reward: Some(0.5), ..AppSettings::new(3) };
        engine.handle(0, create("shop", settings), &mut group).map(drop).unwrap();
        for n in 0..500 {
            let (user, id) = (format!("u{}", n % 7), format!("d{n}"));
            let asked = decide("shop", &user, Some(&id), 3, n);
            engine.handle(n, asked, &mut group).map(drop).unwrap();
        }
        let mut parts = 0;
        loop {
            engine.handle(1800, Request::TimePasses, &mut group).map(drop).unwrap();
            parts += 1;
            let late = engine.handle(1800, reward("shop", "d499", 1.0), &mut group);
            let Ok(Answer::Rewarded(outcomes)) = late else { panic!("rewards have outcomes") };
            let refused = outcomes[0].as_ref().map(drop).unwrap_err();
            assert_eq!(refused.code(), "late", "part {parts}");
            if !engine.is_behind() {
                break;
            }
        }
        let app = engine.state_mut().app_mut("shop").unwrap();
        let contexts = [0.5, 0.1, -0.2, 0.0, 1.0, 0.3];
        let mut scores = [cohort::Score::default(); 2];
        app.score("u3", &cohort::Contexts::new(&contexts, 3).unwrap(), &mut scores);
        (parts, app.counts(), scores.map(|score| score.total().to_bits()))
    };
    let (at_once, in_parts) = (ended(1 << 40), ended(209 * 20));
    assert_eq!((at_once.0, at_once.1.defaults), (1, 500));
    assert!(in_parts.0 > 5, "{} parts", in_parts.0);
    assert_eq!((at_once.1, at_once.2), (in_parts.1, in_parts.2));
}

/// Whoever may add keys adds to what every request is compared with.
#[test]
fn an_app_has_a_bounded_number_of_keys() {
    let mut service = service();
    service.ask(0, create("shop", AppSettings::new(2))).map(drop).unwrap();
    let add = |n: usize| Request::AddKey {
        app: "shop".to_owned(),
        key: Key::of_old(n.to_string(), KeyHash::of(&format!("key {n}"))),
    };
    for n in 0..1000 {
        service.ask(1, add(n)).map(drop).unwrap();
    }
    let refused = service.ask(1, add(1000)).map(drop).unwrap_err();
    assert_eq!((refused.status(), refused.code()), (422, "too_many"));
    let remove = Request::RemoveKey { app: "shop".to_owned(), key: "17".to_owned() };
    service.ask(1, remove).map(drop).unwrap();
    service.ask(1, add(1000)).map(drop).unwrap();
}
