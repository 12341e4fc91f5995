//! Decisions among items of the catalogue that nobody listed: the same as scoring each, filtered, kept, replayed.
#![allow(missing_docs)]

mod common;
mod running;

use std::sync::Arc;

use cohort::{Contexts, Score};
use cohort_features::{EncoderSettings, Features, Given, Side};
use cohort_server::engine::items::ListedItem;
use cohort_server::engine::request::{ForUser, Made, Offer, Pick};
use cohort_server::engine::{Answer, Request};
use cohort_server::event::{CatalogueDecision, Decided, Event, Ranking, What};
use cohort_server::journal::memory::{MemoryDisk, MemoryJournal};
use cohort_server::settings::AppSettings;
use cohort_server::snapshot::disk::MemoryFolder;
use cohort_server::state::Filter;
use cohort_server::trial::TrialDecision;
use common::{Simulation, create, reward};
use running::Running;
use serde_json::{Value, json};

const DIM: usize = 5;
const ITEMS: usize = 90;

fn row(item: usize) -> Vec<f64> {
    (0..DIM).map(|k| ((item * 37 + k * 101 + 7) % 211) as f64 / 211.0 - 0.5).collect()
}

fn attributes(item: usize) -> Features {
    let genre = ["drama", "war", "comedy"][item % 3];
    let text = format!(
        r#"{{"genre": "{genre}", "year": {}, "new": {}}}"#,
        1950 + item,
        item.is_multiple_of(2)
    );
    Features::parse(Side::Item, &text).unwrap()
}

fn listed(item: usize) -> ListedItem {
    let features = Given::Vector(row(item));
    ListedItem { id: format!("item-{item:03}"), features, attributes: Some(attributes(item)) }
}

fn pick(user: &str, id: &str, pick: Pick) -> Request {
    let offer = Offer { pick: Some(Arc::new(pick)), ..Offer::default() };
    let users = vec![ForUser { user: user.to_owned(), decision: Some(id.to_owned()), shown: true }];
    Request::Decide { app: "shop".to_owned(), offer, users, explain: true }
}

fn made(answer: Answer) -> Made {
    let Answer::Decided(mut made) = answer else { panic!("no decision") };
    made.pop().unwrap().unwrap()
}

fn service(
    settings: AppSettings,
    disk: &MemoryDisk,
    folder: &MemoryFolder,
) -> Simulation<MemoryJournal> {
    let mut service = Simulation::start(MemoryJournal::open(disk).unwrap(), folder, 1).unwrap();
    service.ask(0, create("shop", settings)).unwrap();
    let items = (0..ITEMS).map(listed).collect();
    service.ask(0, Request::RegisterItems { app: "shop".to_owned(), items }).unwrap();
    service
}

/// The best of all items of the catalogue that are `wanted`, by scoring each.
fn plain(
    service: &mut Simulation<MemoryJournal>,
    user: &str,
    k: usize,
    wanted: impl Fn(&str) -> bool,
) -> Vec<(String, f64)> {
    let app = service.engine.state_mut().app_mut("shop").unwrap();
    let items: Vec<(String, Vec<f64>)> =
        app.items().iter().map(|(id, row)| (id.to_string(), row.to_vec())).collect();
    let items: Vec<_> = items.into_iter().filter(|(id, _)| wanted(id)).collect();
    let rows: Vec<f64> = items.iter().flat_map(|(_, row)| row).copied().collect();
    let mut scores = vec![Score::default(); items.len()];
    app.score(user, &Contexts::new(&rows, DIM).unwrap(), &mut scores);
    let mut all: Vec<(String, f64)> =
        items.into_iter().map(|(id, _)| id).zip(scores.iter().map(Score::total)).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all.truncate(k);
    all
}

#[test]
fn the_answer_is_that_of_scoring_each() {
    for policy in ["cohort", "linucb-ind", "club"] {
        let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
        let settings = AppSettings { policy: policy.to_owned(), ..AppSettings::new(DIM) };
        let mut service = service(settings, &disk, &folder);
        let mut agreed = 0;
        for step in 0..200u64 {
            let (user, id) = (format!("u{}", step % 7), format!("d{step}"));
            let filter = match step % 4 {
                0 => None,
                1 => Some(Filter::word("genre", "war")),
                2 => Some(Filter::within("year", (1970.0, false), (2000.0, true))),
                _ => Some(Filter::All(vec![
                    Filter::flag("new", true),
                    Filter::Not(Box::new(Filter::word("genre", "drama"))),
                ])),
            };
            let fits = |id: &str| {
                let item: usize = id[5..].parse().unwrap();
                let year = 1950 + item;
                id != "item-005"
                    && match step % 4 {
                        0 => true,
                        1 => item % 3 == 1,
                        2 => (1970..2000).contains(&year),
                        _ => item.is_multiple_of(2) && !item.is_multiple_of(3),
                    }
            };
            let expected = plain(&mut service, &user, 6, fits);
            let asked = Pick { filter, exclude: vec!["item-005".to_owned()].into(), best: 6 };
            let made = made(service.ask(step, pick(&user, &id, asked)).unwrap());
            let ranking: Vec<&str> = made.ranking.iter().collect();
            assert_eq!(ranking.len(), 6);
            assert!(ranking.iter().all(|id| fits(id)), "{ranking:?}");
            let tied = expected[0].1 == expected[1].1;
            if !tied {
                let best: Vec<&str> = expected.iter().map(|(id, _)| id.as_str()).collect();
                assert_eq!(ranking, best, "{policy}, step {step}");
                assert_eq!(made.probability, 1.0);
                agreed += 1;
            }
            // Items come, change and go meanwhile.
            let app = || "shop".to_owned();
            match step % 10 {
                3 => {
                    let item = format!("item-{:03}", (step as usize * 7) % ITEMS);
                    let _ = service.ask(step, Request::RemoveItem { app: app(), item });
                }
                6 => {
                    let items = vec![listed((step as usize * 11) % ITEMS)];
                    service.ask(step, Request::RegisterItems { app: app(), items }).unwrap();
                }
                _ => {}
            }
            service.ask(step, reward("shop", &id, f64::from(step % 3 == 0))).unwrap();
            if step == 100 {
                service.snapshot().unwrap();
            }
        }
        assert!(agreed > 120, "{policy}: {agreed} of 200 had one best");
        let bytes = service.bytes();
        let open = || MemoryJournal::open(&disk).unwrap();
        let mut from_snapshot = Simulation::start(open(), &folder, 2).unwrap();
        assert!(from_snapshot.bytes() == bytes, "from a snapshot and the rest of the journal");
        let mut replayed = Simulation::start(open(), &MemoryFolder::default(), 3).unwrap();
        assert!(replayed.bytes() == bytes, "from the journal alone");
        // And it is the same after that: nothing of the index is in the state.
        let expected = plain(&mut replayed, "u3", 4, |_| true);
        let asked = Pick { best: 4, ..Pick::default() };
        let after = made(replayed.ask(300, pick("u3", "after", asked)).unwrap());
        assert_eq!(after.ranking.first(), expected[0].0);
        let journal = events(&disk);
        let decided = journal.iter().filter_map(|event| match &event.what {
            What::DecidedFromCatalogue(decided) => Some(decided),
            _ => None,
        });
        let decided: Vec<_> = decided.collect();
        assert!(decided.iter().all(|one| one.version >= ITEMS as u64 && one.among > 5));
        assert!(decided.last().unwrap().version > decided[0].version);
    }
}

fn events(disk: &MemoryDisk) -> Vec<Event> {
    use cohort_server::journal::Journal;
    let (journal, mut found) = (MemoryJournal::open(disk).unwrap(), Vec::new());
    journal
        .read(1, &mut |_, bytes| {
            found.push(Event::decode(bytes).unwrap());
            Ok(())
        })
        .unwrap();
    found
}

/// Items are shown as often as is said, with exploration, a control group, ties, and a policy that draws.
#[test]
fn probabilities_are_those_of_what_is_shown() {
    for (policy, epsilon, control) in [
        ("linucb-ind", 0.3, 0.0),
        ("linucb-ind", 0.2, 0.4),
        ("random", 0.0, 0.0),
        ("lints", 0.1, 0.0),
    ] {
        let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
        let settings = AppSettings { policy: policy.to_owned(), epsilon, ..AppSettings::new(DIM) };
        let mut service = service(settings, &disk, &folder);
        if control > 0.0 {
            let change =
                Box::new(move |_: &mut _, trial: &mut cohort_server::trial::Trial, _: &mut _| {
                    trial.control = control;
                });
            service.ask(0, Request::ChangeApp { app: "shop".to_owned(), change }).unwrap();
        }
        let filter = Filter::within("year", (1950.0, false), (1957.0, false));
        let mut shown = std::collections::BTreeMap::<String, (f64, f64)>::new();
        const DRAWS: usize = 4000;
        for draw in 0..DRAWS {
            let asked = Pick { filter: Some(filter.clone()), exclude: Vec::new().into(), best: 3 };
            let made = made(service.ask(1, pick("ann", &format!("d{draw}"), asked)).unwrap());
            let entry = shown.entry(made.ranking.first().to_owned()).or_default();
            entry.0 += 1.0 / DRAWS as f64;
            entry.1 += made.probability / DRAWS as f64;
        }
        // The mean of what is told when an item is shown, over how often it is: that probability itself, where
        // it does not change; and all items can be shown.
        for (item, (share, told)) in &shown {
            let probability = told / share;
            let error = (probability * (1.0 - probability) / DRAWS as f64).sqrt();
            let room = if policy == "lints" { 0.05 } else { 4.5 * error };
            assert!((share - probability).abs() <= room, "{policy} {item}: {share} {probability}");
        }
        assert_eq!(shown.len(), 8, "{policy}");
    }
}

#[test]
fn json_items_are_found_with_their_effects_and_in_a_context() {
    let (disk, folder) = (MemoryDisk::default(), MemoryFolder::default());
    let open = || MemoryJournal::open(&disk).unwrap();
    let mut service = Simulation::start(open(), &folder, 1).unwrap();
    let settings =
        AppSettings { features: Some(EncoderSettings::default()), ..AppSettings::new(12) };
    service.ask(0, create("shop", settings)).unwrap();
    let ids: Vec<String> = (0..60).map(|item| format!("item-{item:03}")).collect();
    let items = (0..60).map(|item| ListedItem {
        id: ids[item].clone(),
        features: Given::Json(attributes(item)),
        attributes: None,
    });
    let app = || "shop".to_owned();
    service.ask(0, Request::RegisterItems { app: app(), items: items.collect() }).unwrap();
    let context = |step: u64| {
        let text = format!(r#"{{"device": "{}"}}"#, ["phone", "desktop"][step as usize % 2]);
        step.is_multiple_of(3).then(|| Arc::new(Features::parse(Side::Context, &text).unwrap()))
    };
    let mut first = None;
    for step in 0..240u64 {
        let (user, id) = (format!("u{}", step % 5), format!("d{step}"));
        // The same candidates, listed: scores of both ways are compared.
        let ask = |offer: Offer, id: &str, shown: bool| {
            let users = vec![ForUser { user: user.clone(), decision: Some(id.to_owned()), shown }];
            Request::Decide { app: app(), offer, users, explain: true }
        };
        let asked = Pick { best: 5, filter: Some(Filter::named("genre")), ..Pick::default() };
        let offer =
            Offer { pick: Some(Arc::new(asked)), context: context(step), ..Offer::default() };
        let picked = ask(offer, &id, true);
        let mut offer = Offer::new(ids.clone(), vec![None; 60]);
        offer.context = context(step);
        // Together, so that no refit comes between them.
        let both = [picked, ask(offer, &format!("all-{step}"), false)];
        let (answers, committed) = service.ask_all(step, both);
        committed.unwrap();
        let mut answers = answers.into_iter().map(|answer| made(answer.unwrap()));
        let (found, each) = (answers.next().unwrap(), answers.next().unwrap());
        let totals = |made: &Made| -> Vec<f64> {
            made.scores.as_ref().unwrap().iter().take(5).map(Score::total).collect()
        };
        let (mut one, mut other) = (totals(&found), totals(&each));
        one.sort_by(f64::total_cmp);
        other.sort_by(f64::total_cmp);
        // The second looks at all numbers once more, which changes last digits of their moments.
        assert!(
            one.iter().zip(&other).all(|(a, b)| (a - b).abs() < 1e-9),
            "{step}: {one:?} {other:?}"
        );
        let is_liked = found.ranking.first() == "item-007" || step % 4 == 1;
        service.ask(step, reward("shop", &id, f64::from(is_liked))).unwrap();
        first.get_or_insert_with(|| found.ranking.first().to_owned());
    }
    let app = service.engine.state().app("shop").unwrap();
    assert!(app.effect_of(&first.unwrap()).1 > 0.0);
    let bytes = service.bytes();
    let mut replayed = Simulation::start(open(), &MemoryFolder::default(), 3).unwrap();
    assert!(replayed.bytes() == bytes);
}

/// The layout of what catalogues add to the journal never changes.
#[test]
fn events_of_catalogues_are_those_of_the_first_release() {
    let made = Decided {
        id: "d".to_owned(),
        user: "u".to_owned(),
        ranking: Ranking::new(["a", "b"]),
        context: vec![0.5].into(),
        probability: 0.25,
        shown: true,
    };
    let decision = TrialDecision { made, control: true, candidates: vec![0.5, 1.0].into() };
    let events = [
        What::DecidedFromCatalogue(CatalogueDecision { decision, version: 3, among: 9 }),
        What::ItemAttributes("a".to_owned(), Features::parse(Side::Item, r#"{"g": "x"}"#).unwrap()),
    ];
    let mut text = String::new();
    for what in events {
        let event = Event { app: "shop".to_owned(), at_ms: 7, what };
        let mut bytes = Vec::new();
        event.encode(&mut bytes);
        assert_eq!(Event::decode(&bytes).unwrap(), event);
        text += &bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        text += "\n";
    }
    assert_eq!(text, include_str!("compat/catalogue-events.txt"));
}

fn shop(service: &Running) {
    service.send("PUT", "/v1/apps/shop", &json!({"dim": 3}));
    service.post("/v1/apps", json!({"name": "shop", "dim": 3}));
    let items: Vec<Value> = (0..50)
        .map(|item| {
            let colour = ["red", "blue"][item % 2];
            let row = [item as f64 / 50.0, 0.5, 0.1];
            let attributes = json!({"price": item, "colour": colour, "sold": null,
                "tags": ["all", format!("t{}", item % 5)]});
            json!({"id": format!("i{item}"), "features": row, "attributes": attributes})
        })
        .collect();
    let (status, said) = service.send("PUT", "/v1/apps/shop/items", &json!({"items": items}));
    assert_eq!(status, 204, "{said}");
}

#[test]
fn it_is_asked_over_http() {
    let service = Running::start();
    shop(&service);
    let ask = |body: Value| service.send("POST", "/v1/apps/shop/decide", &body);
    let ranking = |body: Value| -> Vec<String> {
        let (status, said) = ask(body);
        assert_eq!(status, 200, "{said}");
        said["ranking"]
            .as_array()
            .unwrap()
            .iter()
            .map(|id| id.as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(ranking(json!({"user": "ann"})).len(), 10);
    assert_eq!(ranking(json!({"user": "ann", "k": 50})).len(), 50);
    let number = |id: &String| id[1..].parse::<usize>().unwrap();
    for (filter, fits) in [
        (json!({"colour": "red"}), (|i| i % 2 == 0) as fn(usize) -> bool),
        (json!({"colour": ["red", "blue"], "price": {"below": 7}}), |i| i < 7),
        (json!({"price": {"at_least": 3, "at_most": 5}}), |i| (3..=5).contains(&i)),
        (json!({"price": {"above": 3}, "tags": "t1"}), |i| i > 3 && i % 5 == 1),
        (json!({"price": 12}), |i| i == 12),
        (json!({"tags": {"not": "t1"}, "sold": null}), |i| i % 5 != 1),
        (json!({"any_of": [{"price": 3}, {"price": 4}]}), |i| i == 3 || i == 4),
        (json!({"none_of": [{"price": {"above": 3}}]}), |i| i <= 3),
        (json!({"all_of": [{"tags": "all"}, {"tags": "t2"}]}), |i| i % 5 == 2),
        (json!({"weight": {"exists": false}, "price": {"exists": true}}), |_| true),
    ] {
        let found = ranking(json!({"user": "ann", "filter": filter, "k": 50}));
        let expected = (0..50).filter(|i| fits(*i)).count();
        assert!(found.len() == expected && found.iter().all(|id| fits(number(id))), "{filter}");
    }
    let few = ranking(
        json!({"user": "ann", "filter": {"price": {"below": 3}}, "exclude": ["i1"], "k": 5}),
    );
    assert_eq!(few.len(), 2);
    // What is refused, each with a sentence that says what to do.
    for (body, code) in [
        (json!({"user": "ann", "filter": {"colour": "green"}}), "nothing_matches"),
        (json!({"user": "ann", "filter": {"price": {"under": 3}}}), "bad_filter"),
        (json!({"user": "ann", "filter": {"price": {"below": "3"}}}), "bad_filter"),
        (json!({"user": "ann", "filter": {"price": {"below": 3, "at_most": 3}}}), "bad_filter"),
        (json!({"user": "ann", "filter": ["red"]}), "bad_filter"),
        (json!({"user": "ann", "filter": {"any_of": {"price": 3}}}), "bad_filter"),
        (json!({"user": "ann", "k": 0}), "bad_count"),
        (json!({"user": "ann", "k": 1_000_000}), "bad_count"),
        (json!({"user": "ann", "k": 3, "items": [{"id": "i1"}]}), "items_and_filter"),
        (json!({"user": "ann", "exclude": ["i1"], "items": [{"id": "i1"}]}), "nothing_matches"),
        (json!({"user": "ann", "context": {"device": "phone"}}), "not_json_app"),
    ] {
        let (status, said) = ask(body.clone());
        assert!(status == 422 && said["error"]["code"] == code, "{body}: {status} {said}");
    }
    let twice = r#"{"user": "ann", "filter": {"price": 1, "price": 2}}"#;
    let mut deep = "{\"not\": ".repeat(40);
    deep = format!("{{\"user\": \"ann\", \"filter\": {}1{}}}", deep, "}".repeat(40));
    for text in [twice.to_owned(), deep] {
        let (status, said) = service.send_text("POST", "/v1/apps/shop/decide", &text);
        assert!(status == 400 && said["error"]["code"] == "bad_body", "{status} {said}");
    }
    // An empty catalogue has nothing to show.
    service.post("/v1/apps", json!({"name": "empty", "dim": 3}));
    let (status, said) = service.send("POST", "/v1/apps/empty/decide", &json!({"user": "ann"}));
    assert!(status == 422 && said["error"]["code"] == "nothing_matches", "{said}");
    // A retry gets the same decision, though the catalogue is another one.
    let first = service.post("/v1/apps/shop/decide", json!({"user": "ann", "decision_id": "r"}));
    service.send(
        "DELETE",
        &format!("/v1/apps/shop/items/{}", first["item"].as_str().unwrap()),
        &Value::Null,
    );
    let again = service.post("/v1/apps/shop/decide", json!({"user": "ann", "decision_id": "r"}));
    assert_eq!(first, again);
    service.post("/v1/apps/shop/reward", json!({"decision_id": "r", "reward": 1.0}));
    let batch = service.post(
        "/v1/apps/shop/decide-batch",
        json!({"users": [{"user": "ann"}, {"user": "bob"}], "filter": {"colour": "red"}, "k": 2}),
    );
    assert_eq!(batch["decisions"][1]["ranking"].as_array().unwrap().len(), 2);
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.csv");
    service.download("/v1/apps/shop/log.csv", &log);
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.lines().next().unwrap().ends_with("catalogue_version,among"), "{text}");
    assert!(text.contains(",100,50"), "{text}");
}

#[test]
fn a_slate_shows_nothing_twice_and_learns_place_by_place() {
    let service = Running::start();
    shop(&service);
    let slots = json!([{"id": "top"}, {"id": "side", "filter": {"colour": "red"}}, {"id": "end", "exclude": ["i3"]}]);
    let ask = |body: Value| service.send("POST", "/v1/apps/shop/slate", &body);
    for user in 0..20 {
        let id = format!("s{user}");
        let body = json!({"user": format!("u{user}"), "slate_id": id, "slots": slots, "k": 3,
            "filter": {"price": {"below": 4}}});
        let (status, said) = ask(body.clone());
        assert_eq!(status, 200, "{said}");
        let items: Vec<&str> = said["slots"]
            .as_array()
            .unwrap()
            .iter()
            .map(|slot| slot["item"].as_str().unwrap())
            .collect();
        assert!(items[0] != items[1] && items[1] != items[2] && items[0] != items[2], "{said}");
        assert!(["i0", "i2"].contains(&items[1]) && items[2] != "i3", "{said}");
        assert_eq!(said["slots"][1]["decision_id"], format!("{id}/side"));
        assert_eq!(ask(body).1["slots"][2]["item"], items[2], "a retry");
        let rewards = json!({"slate_id": id, "rewards": [
            {"slot": "top", "reward": 1.0}, {"slot": "end", "reward": 0.0}, {"slot": "none", "reward": 0.0}]});
        let said = service.post("/v1/apps/shop/slate-rewards", rewards);
        assert_eq!(said["outcomes"][0]["outcome"], "learned");
        assert_eq!(said["outcomes"][2]["error"]["code"], "decision_unknown");
    }
    assert_eq!(service.get("/v1/apps/shop")["rewards"], 40);
    // Listed candidates, of which one place can only show one: it is left for it.
    let items = json!([{"id": "i1"}, {"id": "i2"}, {"id": "i3"}]);
    let slots = json!([{"id": "a"}, {"id": "b"}, {"id": "c", "exclude": ["i1", "i3"]}]);
    for user in 0..10 {
        let body = json!({"user": format!("v{user}"), "slots": slots, "items": items});
        let (status, said) = ask(body);
        assert!(status == 200 && said["slots"][2]["item"] == "i2", "{said}");
    }
    for (body, code) in [
        (
            json!({"user": "u", "items": items, "slots": [{"id": "a"}, {"id": "b"}, {"id": "c"}, {"id": "d"}]}),
            "slate_impossible",
        ),
        (json!({"user": "u", "items": items, "slots": []}), "bad_count"),
        (json!({"user": "u", "items": items, "slots": [{"id": "a"}, {"id": "a"}]}), "slot_twice"),
        (json!({"user": "u", "items": [{"id": "nobody"}], "slots": [{"id": "a"}]}), "item_unknown"),
        (
            json!({"user": "u", "slots": [{"id": "a", "filter": {"colour": "green"}}]}),
            "slate_impossible",
        ),
        (json!({"user": "u", "slots": [{"id": "a", "features": {"size": 3}}]}), "not_json_app"),
    ] {
        let before = service.get("/v1/apps/shop")["decisions"].clone();
        let (status, said) = ask(body.clone());
        assert!(status == 422 && said["error"]["code"] == code, "{body}: {status} {said}");
        assert_eq!(service.get("/v1/apps/shop")["decisions"], before, "nothing of it is done");
    }
}
