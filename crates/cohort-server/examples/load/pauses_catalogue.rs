//! How long does the engine's thread stand still for what concerns a whole catalogue? Its index, made when it is first chosen
//! from, and again when numbers of items are measured anew; and a model that is taken over while decisions wait.

use std::sync::Arc;
use std::time::Instant;

use cohort_features::{EncoderSettings, Features, Offer, Side};
use cohort_server::engine::{Engine, Limits, Request};
use cohort_server::event::{Decided, Event, Ranking, What};
use cohort_server::journal::Group;
use cohort_server::settings::AppSettings;
use cohort_server::state::{App, Model, State};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;

use super::figures;

const DIM: usize = 32;
const ITEMS: usize = 100_000;
/// As many as the engine does at a time with vectors of this length.
const AT_ONCE: usize = 1 << 10;
const WAITING: usize = 100_000;
const USERS: usize = 500;
const LIMITS: Limits = Limits {
    apps: 1,
    dim: DIM,
    items: ITEMS,
    waiting: 2 * WAITING,
    decision_bytes: usize::MAX,
    users: 2 * USERS,
    user_age_ms: 0,
    work: u64::MAX,
    window_work: u64::MAX,
    journal_bytes: usize::MAX,
    answer_bytes: usize::MAX,
};

pub fn measure() {
    let vectors = catalogue(false);
    let (made, longest) = index(vectors, "vectors");
    let mut described = catalogue(true);
    let (made_of_json, longest_of_json) = index_of(&mut described);
    println!("index of JSON {made_of_json:7.1} ms, its longest part {longest_of_json:6.2} ms");
    // Every number of the items has doubled.
    measure_anew(&mut described, Side::Item);
    let (anew, longest_anew) = index_of(&mut described);
    println!("measured anew {anew:7.1} ms, its longest part {longest_anew:6.2} ms");
    measure_anew(&mut described, Side::Context);
    let (beside, _) = index_of(&mut described);
    println!("a number of the context measured anew {beside:7.3} ms");

    for at in 0..WAITING {
        let made = Decided {
            id: format!("decision-{at:020}"),
            user: format!("user-{:08}", at % USERS),
            ranking: Ranking::new(["item-00000000"]),
            context: vec![0.1; DIM].into(),
            probability: 1.0,
            shown: true,
        };
        apply(&mut described, What::Decided(made));
    }
    for at in 0..USERS {
        let decision = format!("decision-{at:020}");
        apply(&mut described, What::Rewarded { decision, reward: 0.5 });
    }
    let mut model = Vec::new();
    let app = described.app_mut("load").expect("an app");
    app.freeze_model("load").expect("a model").write(&mut model).expect("memory");
    let megabytes = model.len() as f64 / 1e6;
    let began = Instant::now();
    let read = Model::read(model.clone());
    println!("a model of {megabytes:.1} MB is read beside {:6.2} ms", milliseconds(began));
    let mut engine = Engine::new(described, LIMITS, ChaCha12Rng::seed_from_u64(1));
    let request = Request::ReplaceModel { app: "load".to_owned(), model: Some(read) };
    let began = Instant::now();
    engine.handle(1_000_000, request, &mut Group::default()).map(drop).expect("it fits");
    let taken_over = milliseconds(began);
    println!("and taken over {taken_over:6.2} ms, with {WAITING} decisions that wait");
    let state = engine.state_mut();
    let (after, longest_after) = index_of(state);
    println!("the index after it {after:7.1} ms, its longest part {longest_after:6.2} ms");
    figures::keep(
        "catalogue_pauses",
        &[
            ("items", ITEMS as f64, ""),
            ("index_of_vectors_ms", made, ""),
            ("its_longest_part_ms", longest, "20"),
            ("index_of_json_ms", made_of_json, ""),
            ("its_longest_part_of_json_ms", longest_of_json, "20"),
            ("measured_anew_ms", anew, ""),
            ("longest_part_measured_anew_ms", longest_anew, "20"),
            ("context_measured_anew_ms", beside, "20"),
            ("decisions_that_wait", WAITING as f64, ""),
            ("model_taken_over_ms", taken_over, "20"),
        ],
    );
}

fn milliseconds(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}

fn apply(state: &mut State, what: What) -> f64 {
    let event = Event { app: "load".to_owned(), at_ms: 1_000_000, what };
    let began = Instant::now();
    state.apply(event).expect("it fits");
    milliseconds(began)
}

fn index(mut state: State, what: &str) -> (f64, f64) {
    let (made, longest) = index_of(&mut state);
    println!("index of {what} {made:7.1} ms, its longest part {longest:6.2} ms");
    (made, longest)
}

/// All of an index, and the longest of its parts.
fn index_of(state: &mut State) -> (f64, f64) {
    let app = state.app_mut("load").expect("an app");
    let (mut all, mut longest) = (0.0, 0.0f64);
    loop {
        let began = Instant::now();
        let is_there = app.prepare_index(AT_ONCE);
        let took = milliseconds(began);
        (all, longest) = (all + took, longest.max(took));
        if is_there {
            return (all, longest);
        }
    }
}

/// Items as vectors, or as JSON with ten names.
fn catalogue(is_json: bool) -> State {
    let mut state = State::default();
    let settings = AppSettings { window_ms: 86_400_000, ..AppSettings::new(DIM) };
    apply(&mut state, What::Created(settings));
    if is_json {
        apply(&mut state, What::FeaturesSet(EncoderSettings::default()));
    }
    for item in 0..ITEMS {
        let id = format!("item-{item:08}");
        if !is_json {
            let value = |k: usize| ((item * 31 + k * 17) % 1000) as f64 / 4000.0;
            apply(&mut state, What::ItemPut(id, (0..DIM).map(value).collect()));
            continue;
        }
        let features = features(item);
        look(&mut state, &Offer { items: vec![&features], ..Offer::default() });
        apply(&mut state, What::ItemDescribed(id, features));
    }
    state
}

fn look(state: &mut State, offer: &Offer) {
    let encoder = state.app_mut("load").and_then(App::encoder_mut).expect("JSON");
    let seen = encoder.look(offer).expect("few interactions");
    if !seen.is_empty() {
        apply(state, What::FeaturesSeen(seen));
    }
}

fn features(item: usize) -> Features {
    let text = format!(
        r#"{{"price": {}, "year": {}, "length": {}, "rating": {}, "stock": {}, "new": {}, "kind": "k{}", "maker": "m{}", "place": "p{}", "colour": "c{}"}}"#,
        item % 997,
        1950 + item % 70,
        item % 211,
        (item % 50) as f64 / 10.0,
        item % 13,
        item.is_multiple_of(2),
        item % 7,
        item % 401,
        item % 53,
        item % 11
    );
    Features::parse(Side::Item, &text).expect("JSON")
}

/// Has as many numbers seen as were seen before.
fn measure_anew(state: &mut State, side: Side) {
    let before = state.app("load").and_then(App::encoder).expect("JSON").names().count();
    for at in 0..2 * ITEMS + 2 {
        let item = features(at);
        let text = format!(r#"{{"hour": {}}}"#, at % 24);
        let context = Arc::new(Features::parse(Side::Context, &text).expect("JSON"));
        let offer = match side {
            Side::Item => Offer { items: vec![&item], ..Offer::default() },
            _ => Offer { context: Some(&context), ..Offer::default() },
        };
        let encoder = state.app_mut("load").and_then(App::encoder_mut).expect("JSON");
        let seen = encoder.look(&offer).expect("few interactions");
        if !seen.is_empty() {
            apply(state, What::FeaturesSeen(seen));
            // What is new is no measurement of what was known.
            let names = state.app("load").and_then(App::encoder).expect("JSON").names().count();
            if names == before {
                return;
            }
        }
    }
}
