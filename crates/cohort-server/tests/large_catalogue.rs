//! A catalogue of so many items that they are searched in parts.
#![allow(missing_docs)]

mod common;

use std::sync::Arc;

use cohort::{Contexts, Score};
use cohort_features::{EncoderSettings, Features, Given, Side};
use cohort_server::engine::items::ListedItem;
use cohort_server::engine::request::{ForUser, Made, Offer, Pick};
use cohort_server::engine::{Answer, Engine, Limits, Request};
use cohort_server::journal::memory::{MemoryDisk, MemoryJournal};
use cohort_server::settings::AppSettings;
use cohort_server::snapshot::disk::MemoryFolder;
use cohort_server::state::State;
use common::{LIMITS, Simulation, create, reward};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;

fn made(answer: Answer) -> Made {
    let Answer::Decided(mut made) = answer else { panic!("no decision") };
    made.pop().unwrap().unwrap()
}

/// In a context, while the policy learns: the best are those of scoring each.
#[test]
fn very_many_json_items_are_found_in_a_context() {
    const COUNT: usize = 40_000;
    let mut service = Simulation::start(
        MemoryJournal::open(&MemoryDisk::default()).unwrap(),
        &MemoryFolder::default(),
        1,
    )
    .unwrap();
    let limits = Limits { items: COUNT, work: u64::MAX, ..LIMITS };
    service.engine = Engine::new(State::default(), limits, ChaCha12Rng::seed_from_u64(1));
    let settings =
        AppSettings { features: Some(EncoderSettings::default()), ..AppSettings::new(16) };
    service.ask(0, create("shop", settings)).unwrap();
    let listed: Vec<ListedItem> = (0..COUNT)
        .map(|item| {
            let text = format!(
                r#"{{"kind": "k{}", "maker": "m{}", "price": {}, "at": [{}, 0.5]}}"#,
                item % 7,
                item % 401,
                item % 97,
                item % 13
            );
            let features = Given::Json(Features::parse(Side::Item, &text).unwrap());
            ListedItem { id: format!("item-{item}"), features, attributes: None }
        })
        .collect();
    for items in listed.chunks(100) {
        let items = items.to_vec();
        service.ask(0, Request::RegisterItems { app: "shop".to_owned(), items }).unwrap();
    }
    for step in 0..40u64 {
        let text = format!(r#"{{"device": "d{}", "hour": {step}}}"#, step % 3);
        let context = Arc::new(Features::parse(Side::Context, &text).unwrap());
        let (user, id) = (format!("u{}", step % 4), format!("d{step}"));
        let asked = Pick { best: 5, ..Pick::default() };
        let offer = Offer {
            pick: Some(Arc::new(asked)),
            context: Some(context.clone()),
            ..Offer::default()
        };
        let users = vec![ForUser { user: user.clone(), decision: Some(id.clone()), shown: true }];
        let request = Request::Decide { app: "shop".to_owned(), offer, users, explain: true };
        let found = made(service.ask(step, request).unwrap());
        let app = service.engine.state_mut().app_mut("shop").unwrap();
        let (ids, features): (Vec<String>, Vec<Arc<Features>>) =
            app.described().iter().map(|(id, one)| (id.to_string(), one.clone())).unzip();
        let items = features.iter().map(|features| &**features).collect();
        let (mut rows, mut scores) = (Vec::new(), vec![Score::default(); COUNT]);
        let offer = cohort_features::Offer { items, context: Some(&context), user: None };
        app.encoder().unwrap().encode(&offer, &mut rows);
        let contexts = Contexts::new(&rows, 16).unwrap();
        app.score(&user, &contexts, &mut scores);
        app.add_effects(&user, &ids, &contexts, &mut scores);
        let mut each: Vec<f64> = scores.iter().map(Score::total).collect();
        each.sort_by(|a, b| b.total_cmp(a));
        let mut shown: Vec<f64> = found.scores.unwrap().iter().map(Score::total).collect();
        shown.sort_by(|a, b| b.total_cmp(a));
        assert!(shown.iter().zip(&each).all(|(a, b)| (a - b).abs() < 1e-9), "{step}: {shown:?}");
        let value = f64::from(u8::from(step % 3 == 0));
        service.ask(step, reward("shop", &id, value)).unwrap();
    }
}
