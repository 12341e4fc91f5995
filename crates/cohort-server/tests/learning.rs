//! How an app learns: several rewards become one, the policy watches, users stay in the control group,
//! models go from app to app; and all of it is the same after a restart, bit by bit.
#![allow(missing_docs)]

mod common;

use cohort_features::{EncoderSettings, Features, Side};
use cohort_server::engine::request::{ForUser, RewardOutcome};
use cohort_server::engine::{Answer, Request};
use cohort_server::journal::memory::{MemoryDisk, MemoryJournal};
use cohort_server::learning::{Aggregation, Learning, Mode};
use cohort_server::settings::AppSettings;
use cohort_server::snapshot::disk::MemoryFolder;
use cohort_server::state::{App, Model, Status};
use cohort_server::trial::Trial;
use common::{Simulation, create, decide, reward};

type Service = Simulation<MemoryJournal>;

fn start(disk: &MemoryDisk, folder: &MemoryFolder) -> Service {
    Simulation::start(MemoryJournal::open(disk).unwrap(), folder, 1).unwrap()
}

fn create_with(learning: Learning, trial: Trial) -> Request {
    let settings =
        AppSettings { window_ms: 1000, default_reward: Some(-0.5), ..AppSettings::new(3) };
    let (trial, learning) = (Box::new(trial), Box::new(learning));
    Request::CreateApp { app: "shop".to_owned(), settings, trial, learning, key: None }
}

fn app(service: &Service) -> &App {
    service.engine.state().app("shop").unwrap()
}

/// Nothing is lost by a restart, whether it replays everything or starts from a snapshot.
fn assert_kept(service: &mut Service, disk: &MemoryDisk, folder: &MemoryFolder) {
    let bytes = service.bytes();
    assert!(start(disk, &MemoryFolder::default()).bytes() == bytes, "replayed");
    service.snapshot().unwrap();
    assert!(start(disk, folder).bytes() == bytes, "from a snapshot");
}

fn outcome(answer: Answer) -> RewardOutcome {
    let Answer::Rewarded(mut outcomes) = answer else { panic!("another answer") };
    outcomes.pop().unwrap().unwrap()
}

#[test]
fn several_rewards_are_learned_as_one_when_the_window_ends() {
    for aggregation in Aggregation::ALL {
        let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
        let mut service = start(&disk, &folder);
        let learning = Learning { aggregation, ..Learning::default() };
        service.ask(0, create_with(learning, Trial::default())).map(drop).unwrap();
        service.ask(1, decide("shop", "ann", Some("d"), 3, 1)).map(drop).unwrap();
        service.ask(1, decide("shop", "ann", Some("silent"), 3, 2)).map(drop).unwrap();
        let rewards = [0.25, 1.0, -0.5];
        for (at, given) in rewards.into_iter().enumerate() {
            let said = outcome(service.ask(2 + at as u64, reward("shop", "d", given)).unwrap());
            let first = matches!(aggregation, Aggregation::Earliest);
            let expected = match (first, at) {
                (true, 0) => RewardOutcome::Learned,
                (true, _) => RewardOutcome::Repeated { first: 0.25 },
                (false, _) => RewardOutcome::Gathered,
            };
            assert_eq!(said, expected, "{aggregation:?}");
        }
        assert_kept(&mut service, &disk, &folder);
        service.ask(1500, Request::TimePasses).map(drop).unwrap();
        let counts = app(&service).counts();
        assert_eq!((counts.rewards, counts.defaults), (1, 1), "{aggregation:?}");
        assert_eq!(Some(counts.reward_sum), aggregation.of(&rewards), "{aggregation:?}");
        // What was closed by its first reward is forgotten a window after that.
        let status = app(&service).decisions().get("d").map(|decision| decision.status);
        let remembered = Status::Rewarded(counts.reward_sum);
        assert_eq!(status, (aggregation != Aggregation::Earliest).then_some(remembered));
        assert_kept(&mut service, &disk, &folder);
    }
}

#[test]
fn rewards_that_were_gathered_count_when_the_way_is_changed() {
    let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
    let mut service = start(&disk, &folder);
    let learning = Learning { aggregation: Aggregation::Sum, ..Learning::default() };
    service.ask(0, create_with(learning, Trial::default())).map(drop).unwrap();
    service.ask(1, decide("shop", "ann", Some("d"), 3, 1)).map(drop).unwrap();
    service.ask(2, reward("shop", "d", 0.75)).map(drop).unwrap();
    let change = Box::new(|_: &mut AppSettings, _: &mut Trial, learning: &mut Learning| {
        learning.aggregation = Aggregation::Earliest;
    });
    service.ask(3, Request::ChangeApp { app: "shop".to_owned(), change }).map(drop).unwrap();
    service.ask(4, reward("shop", "d", 0.1)).map(drop).unwrap();
    assert_eq!(app(&service).counts().reward_sum, 0.75);
    assert_kept(&mut service, &disk, &folder);
}

#[test]
fn one_decision_takes_so_many_rewards_and_no_more() {
    let mut service = start(&MemoryDisk::default(), &MemoryFolder::default());
    let learning = Learning { aggregation: Aggregation::Sum, ..Learning::default() };
    service.ask(0, create_with(learning, Trial::default())).map(drop).unwrap();
    service.ask(1, decide("shop", "ann", Some("d"), 3, 1)).map(drop).unwrap();
    let rewards = vec![("d".to_owned(), 1e6); 1001];
    let request = Request::Reward { app: "shop".to_owned(), rewards };
    let Answer::Rewarded(outcomes) = service.ask(2, request).unwrap() else { panic!("other") };
    assert!(outcomes[..1000].iter().all(Result::is_ok));
    assert!(outcomes[1000].as_ref().is_err_and(|why| why.to_string().contains("1000")));
    service.ask(5000, Request::TimePasses).map(drop).unwrap();
    assert_eq!(app(&service).counts().reward_sum, 1e6, "a sum is no larger than a reward may be");
}

#[test]
fn a_decision_waits_from_when_it_was_made_where_that_is_set() {
    for wait_from_decision in [false, true] {
        let mut service = start(&MemoryDisk::default(), &MemoryFolder::default());
        let learning = Learning { wait_from_decision, ..Learning::default() };
        service.ask(0, create_with(learning, Trial::default())).map(drop).unwrap();
        let Request::Decide { app: name, offer, explain, .. } = decide("shop", "ann", None, 3, 1)
        else {
            panic!("another request")
        };
        let decision = Some("d".to_owned());
        let users = vec![ForUser { user: "ann".to_owned(), decision, shown: false }];
        let asked = Request::Decide { app: name, offer, users, explain };
        service.ask(1, asked).map(drop).unwrap();
        let activate = Request::Activate { app: "shop".to_owned(), decision: "d".to_owned() };
        service.ask(900, activate).map(drop).unwrap();
        service.ask(1100, Request::TimePasses).map(drop).unwrap();
        let expired = app(&service).decisions().get("d").unwrap().status != Status::Open;
        assert_eq!(expired, wait_from_decision);
    }
}

/// A turn of an apprentice: candidates with features that depend on the turn, the first of which is shown; it is the one
/// that a rule puts first.
fn turn_of(turn: u64, rule: impl Fn(&[Vec<f64>], &[String]) -> usize) -> Request {
    let Request::Decide { app, mut offer, users, explain } =
        decide("shop", "ann", Some(&format!("d{turn}")), 3, turn)
    else {
        panic!("another request")
    };
    let rows: Vec<Vec<f64>> = offer.features.iter().flatten().cloned().collect();
    let first = rule(&rows, &offer.ids);
    offer.ids.swap(0, first);
    offer.features.swap(0, first);
    Request::Decide { app, offer, users, explain }
}

/// The apprentice imitates what is shown, whatever comes of it: its agreement is not that of rewards.
#[test]
fn an_apprentice_learns_to_choose_what_is_shown() {
    type Rule = fn(&[Vec<f64>], &[String]) -> usize;
    let first: Rule = |_, _| 0;
    let third: Rule = |_, ids| ids.iter().position(|id| id == "item-2").unwrap();
    let largest: Rule = |rows, _| {
        let value = |at: &usize| rows[*at][0] - 0.5 * rows[*at][2];
        (0..rows.len()).max_by(|a, b| value(a).total_cmp(&value(b))).unwrap()
    };
    let tenth: fn(u64) -> f64 = |turn| f64::from(u8::from(turn % 10 == 3));
    let none: fn(u64) -> f64 = |_| 0.0;
    let bad: fn(u64) -> f64 = |_| -0.5;
    for (rule, reward_of) in [
        (first, tenth),
        (third, tenth),
        (largest, tenth),
        (first, none),
        (first, bad),
        (largest, bad),
    ] {
        let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
        let mut service = start(&disk, &folder);
        let learning = Learning { mode: Mode::Apprentice, ..Learning::default() };
        service.ask(0, create_with(learning, Trial::default())).map(drop).unwrap();
        let mut earned = 0.0;
        let mut halves = [0; 2];
        for turn in 0..300 {
            let before = app(&service).apprenticeship().agreed;
            service.ask(turn, turn_of(turn, rule)).map(drop).unwrap();
            let agreed = app(&service).apprenticeship().agreed - before;
            halves[usize::from(turn >= 150)] += agreed;
            earned += reward_of(turn) * agreed as f64;
            service
                .ask(turn, reward("shop", &format!("d{turn}"), reward_of(turn)))
                .map(drop)
                .unwrap();
        }
        let watched = app(&service).apprenticeship();
        assert!(watched.agreed as f64 / watched.decisions as f64 > 0.8, "{watched:?} {halves:?}");
        assert!(halves[1] > 130, "{halves:?}");
        assert!((watched.agreed_reward_sum - earned).abs() < 1e-9, "{watched:?} {earned}");
        assert_kept(&mut service, &disk, &folder);
    }
}

/// Before it has learned anything it likes all alike, and guesses: that is no agreement each time.
#[test]
fn candidates_that_are_liked_alike_are_not_all_agreed_with() {
    let first_turn = |seed: u64| {
        let journal = MemoryJournal::open(&MemoryDisk::default()).unwrap();
        let mut service = Service::start(journal, &MemoryFolder::default(), seed).unwrap();
        let learning = Learning { mode: Mode::Apprentice, ..Learning::default() };
        service.ask(0, create_with(learning, Trial::default())).map(drop).unwrap();
        service.ask(1, turn_of(seed, |_, _| 0)).map(drop).unwrap();
        app(&service).apprenticeship().agreed
    };
    // One of four each.
    let agreed: u64 = (0..100).map(first_turn).sum();
    assert!((10..=45).contains(&agreed), "{agreed} of 100");
}

#[test]
fn an_apprentice_watches_and_is_judged_by_what_it_would_have_done() {
    let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
    let mut service = start(&disk, &folder);
    let learning = Learning { mode: Mode::Apprentice, ..Learning::default() };
    service.ask(0, create_with(learning, Trial::default())).map(drop).unwrap();
    for turn in 0..40 {
        let id = format!("d{turn}");
        // The same candidates each time: the first is soon imitated.
        let made = service.ask(turn, decide("shop", "ann", Some(&id), 3, 7)).unwrap();
        let Answer::Decided(mut made) = made else { panic!("another answer") };
        let made = made.pop().unwrap().unwrap();
        assert_eq!((made.ranking.first(), made.probability), ("item-0", 1.0));
        service.ask(turn, reward("shop", &id, 1.0)).map(drop).unwrap();
    }
    let watched = app(&service).apprenticeship();
    assert_eq!((watched.decisions, watched.rewards, watched.reward_sum), (40, 40, 40.0));
    assert!(watched.agreed >= 30 && watched.agreed_rewards == watched.agreed, "{watched:?}");
    assert_kept(&mut service, &disk, &folder);

    let change = |mode: Mode| Request::ChangeApp {
        app: "shop".to_owned(),
        change: Box::new(move |_: &mut _, _: &mut _, learning: &mut Learning| learning.mode = mode),
    };
    // Where only the log is kept, nothing is learned.
    service.ask(50, change(Mode::LoggingOnly)).map(drop).unwrap();
    let model = |service: &mut Service| {
        let app = service.engine.state_mut().app_mut("shop").unwrap();
        app.learned().unwrap()
    };
    let before = model(&mut service);
    service.ask(51, decide("shop", "ann", Some("logged"), 3, 7)).map(drop).unwrap();
    let said = outcome(service.ask(52, reward("shop", "logged", -1.0)).unwrap());
    assert_eq!(said, RewardOutcome::Logged);
    assert!(model(&mut service) == before);
    assert_eq!(app(&service).counts().rewards, 41);
    service.ask(53, change(Mode::Online)).map(drop).unwrap();
    let imitator = app(&service).imitator().clone();
    service.ask(54, decide("shop", "ann", Some("online"), 3, 7)).map(drop).unwrap();
    service.ask(55, reward("shop", "online", 1.0)).map(drop).unwrap();
    assert!(model(&mut service) != before);
    assert!(imitator.seen() == 40 && *app(&service).imitator() == imitator, "nothing to imitate");
    let reset = Request::ReplaceModel { app: "shop".to_owned(), model: None };
    service.ask(56, reset).map(drop).unwrap();
    assert_eq!(app(&service).imitator().seen(), 0);
    assert_kept(&mut service, &disk, &folder);
}

#[test]
fn users_stay_in_the_control_group_or_out_of_it() {
    let mut service = start(&MemoryDisk::default(), &MemoryFolder::default());
    let learning = Learning { sticky_control: true, ..Learning::default() };
    let trial = Trial { control: 0.5, ..Trial::default() };
    service.ask(0, create_with(learning, trial)).map(drop).unwrap();
    for turn in 0..200 {
        let user = format!("user {}", turn % 20);
        service
            .ask(1, decide("shop", &user, Some(&format!("d{turn}")), 3, turn))
            .map(drop)
            .unwrap();
    }
    let mut groups = std::collections::BTreeMap::<String, Vec<bool>>::new();
    for decision in app(&service).decisions().iter() {
        let user = decision.made.user.clone();
        assert!(!decision.control || decision.made.probability == 0.25, "of four, alike");
        groups.entry(user).or_default().push(decision.control);
    }
    assert!(groups.values().all(|group| group.iter().all(|one| *one == group[0])));
    let of_control = groups.values().filter(|group| group[0]).count();
    assert!((4..=16).contains(&of_control), "{of_control} of 20");
}

#[test]
fn models_go_from_app_to_app_and_away() {
    let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
    let mut service = start(&disk, &folder);
    service.ask(0, create_with(Learning::default(), Trial::default())).map(drop).unwrap();
    service.ask(0, create("other", AppSettings::new(3))).map(drop).unwrap();
    service.ask(0, create("wide", AppSettings::new(4))).map(drop).unwrap();
    for turn in 0..60 {
        let (user, id) = (format!("user {}", turn % 4), format!("d{turn}"));
        service.ask(turn, decide("shop", &user, Some(&id), 3, turn)).map(drop).unwrap();
        service.ask(turn, reward("shop", &id, (turn % 3) as f64)).map(drop).unwrap();
    }
    service.ask(60, decide("other", "zoe", Some("waits"), 3, 1)).map(drop).unwrap();
    let learned = |service: &mut Service, app: &str| {
        service.engine.state_mut().app_mut(app).unwrap().learned().unwrap()
    };
    let mut model = Vec::new();
    let shop = service.engine.state_mut().app_mut("shop").unwrap();
    shop.freeze_model("shop").unwrap().write(&mut model).unwrap();
    let replace = |app: &str, model: Option<Vec<u8>>| {
        let model = model.map(Model::read);
        Request::ReplaceModel { app: app.to_owned(), model }
    };
    service.ask(61, replace("other", Some(model.clone()))).map(drop).unwrap();
    assert!(learned(&mut service, "other") == learned(&mut service, "shop"));
    let users = service.engine.state().app("other").unwrap().users();
    assert!(users.find("user 3") == Some(3) && users.find("zoe") == Some(4));
    // What waited is rewarded all the same.
    service.ask(62, reward("other", "waits", 1.0)).map(drop).unwrap();
    assert_kept(&mut service, &disk, &folder);

    let refused = service.ask(63, replace("wide", Some(model.clone()))).map(drop).unwrap_err();
    assert!(refused.to_string().contains("with 3 features"), "{refused}");
    for bytes in [Vec::new(), model[..model.len() / 2].to_vec()] {
        assert!(service.ask(63, replace("other", Some(bytes))).is_err());
    }
    service.ask(64, replace("shop", None)).map(drop).unwrap();
    let fresh = AppSettings::new(3).build().unwrap().saved().map(|saved| {
        let mut bytes = Vec::new();
        saved.save(&mut bytes).unwrap();
        bytes
    });
    assert!(Some(learned(&mut service, "shop")) == fresh);
    assert_kept(&mut service, &disk, &folder);
}

/// Whoever takes a model over keeps its own items: none of another app's are sent along and read for nothing.
#[test]
fn a_model_has_nothing_of_the_catalogue_and_leaves_that_of_who_takes_it() {
    let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
    let mut service = start(&disk, &folder);
    let items = |name: &str| -> Vec<(String, Features)> {
        let features =
            |n: u32| Features::parse(Side::Item, &format!(r#"{{"price": {n}}}"#)).unwrap();
        (0..50).map(|n| (format!("{name}-{n}"), features(n))).collect()
    };
    for app in ["shop", "other"] {
        let settings =
            AppSettings { features: Some(EncoderSettings::default()), ..AppSettings::new(3) };
        service.ask(0, create(app, settings)).map(drop).unwrap();
        let items = items(&format!("item-of-{app}"));
        service.ask(1, Request::DescribeItems { app: app.to_owned(), items }).map(drop).unwrap();
    }
    // What is chosen from is made of what numbers were measured by before.
    let select = |service: &mut Service, app: &str| {
        let app = service.engine.state_mut().app_mut(app).unwrap();
        app.select(None, std::iter::empty()).count
    };
    assert_eq!(select(&mut service, "other"), 50);
    for (turn, user) in (0..).zip(["ann", "bob", "ann", "cat"]) {
        let waits = decide("other", user, Some(&format!("waits{turn}")), 3, turn);
        service.ask(1, waits).map(drop).unwrap();
    }
    let mut model = Vec::new();
    let shop = service.engine.state_mut().app_mut("shop").unwrap();
    shop.freeze_model("shop").unwrap().write(&mut model).unwrap();
    assert!(!model.windows(7).any(|some| some == b"item-of"));
    let model = Some(Model::read(model));
    service.ask(2, Request::ReplaceModel { app: "other".to_owned(), model }).map(drop).unwrap();
    let other = service.engine.state_mut().app_mut("other").unwrap();
    assert!(other.described().contains_key("item-of-other-7"));
    assert!(!other.prepare_index(7), "it is made afresh");
    // Whoever waits is known, each as if it came with the last of its decisions.
    let seen = other.seen().iter().map(|(user, _)| other.users().name(user));
    assert_eq!(seen.collect::<Vec<_>>(), ["bob", "ann", "cat"]);
    assert_eq!(other.users().iter().collect::<Vec<_>>(), ["ann", "bob", "cat"]);
    assert_eq!(select(&mut service, "other"), 50);
    assert_kept(&mut service, &disk, &folder);
}
