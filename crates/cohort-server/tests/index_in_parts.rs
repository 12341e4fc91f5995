//! The index of a catalogue is made some items at a time, while items come, change and go: is it the one that is made at once?
#![allow(missing_docs)]

use cohort_features::{EncoderSettings, Features, Offer, Side};
use cohort_server::event::{Decided, Event, Ranking, What};
use cohort_server::settings::AppSettings;
use cohort_server::state::{App, Filter, State};
use proptest::prelude::*;

const DIM: usize = 6;

#[derive(Clone, Debug)]
enum Step {
    Vector(u8, u8),
    Json(u8, u8),
    Attributes(u8, u8),
    Remove(u8),
    /// Numbers of so many items are seen.
    Seen(u8),
    /// So many items of the index are made.
    Make(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (any::<u8>(), any::<u8>()).prop_map(|(id, value)| Step::Vector(id, value)),
        4 => (any::<u8>(), any::<u8>()).prop_map(|(id, value)| Step::Json(id, value)),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(id, value)| Step::Attributes(id, value)),
        2 => any::<u8>().prop_map(Step::Remove),
        1 => any::<u8>().prop_map(Step::Seen),
        6 => (1..40u8).prop_map(Step::Make),
    ]
}

fn json(value: u8) -> Features {
    let text = format!(r#"{{"kind": "k{}", "price": {value}}}"#, value % 5);
    Features::parse(Side::Item, &text).unwrap()
}

fn shop(state: &mut State) -> &mut App {
    state.app_mut("shop").unwrap()
}

fn apply(state: &mut State, what: What) {
    state.apply(Event { app: "shop".to_owned(), at_ms: 1, what }).unwrap();
}

fn see(state: &mut State, features: &Features) {
    let offer = Offer { items: vec![features], ..Offer::default() };
    let seen = shop(state).encoder_mut().unwrap().look(&offer).unwrap();
    if !seen.is_empty() {
        apply(state, What::FeaturesSeen(seen));
    }
}

/// Does a step of the engine.
fn act(state: &mut State, step: &Step) {
    let name = |id: &u8| format!("i{:03}", id % 90);
    match step {
        Step::Vector(id, value) => {
            let row = (0..DIM).map(|k| f64::from((value.wrapping_mul(31)) >> k) / 256.0).collect();
            apply(state, What::ItemPut(name(id), row));
        }
        Step::Json(id, value) => {
            let features = json(*value);
            see(state, &features);
            apply(state, What::ItemDescribed(name(id), features));
        }
        Step::Attributes(id, value) => {
            let id = name(id);
            let app = shop(state);
            if app.items().contains_key(&id) || app.described().contains_key(&id) {
                let text = format!(r#"{{"shelf": "s{}"}}"#, value % 3);
                apply(state, What::ItemAttributes(id, Features::parse(Side::Item, &text).unwrap()));
            }
        }
        Step::Remove(id) => apply(state, What::ItemRemoved(name(id))),
        Step::Seen(count) => (0..*count).for_each(|value| see(state, &json(value))),
        Step::Make(_) => {}
    }
}

/// Whether the index has every item as it is encoded now.
fn is_up_to_date(state: &mut State) -> bool {
    let app = shop(state);
    let all = app.select(None, std::iter::empty());
    all.iter().all(|slot| {
        let row = app.row_at(slot, &Offer::default()).unwrap();
        let found = app.indexed_at(slot).unwrap();
        row.iter().zip(found).all(|(now, found)| f64::from(*now as f32) == found)
    })
}

/// What is found by filters, and the items that a user may like best.
fn found(state: &mut State) -> Vec<Vec<String>> {
    let app = shop(state);
    let filters = [
        None,
        Some(Filter::word("kind", "k1")),
        Some(Filter::word("shelf", "s2")),
        Some(Filter::named("shelf")),
        Some(Filter::within("price", (40.0, false), (150.0, true))),
    ];
    let mut all = Vec::new();
    for filter in filters {
        let selection = app.select(filter.as_ref(), std::iter::empty());
        let best = app.search("ann", 3, &selection, None).expect("a form that can be searched");
        for slots in [selection.iter().collect(), best.unwrap_or_default()] {
            let mut ids: Vec<String> =
                slots.iter().map(|slot| app.item_at(*slot).to_owned()).collect();
            ids.sort_unstable();
            all.push(ids);
        }
    }
    all
}

fn begun() -> State {
    let mut state = State::default();
    apply(&mut state, What::Created(AppSettings::new(DIM)));
    apply(&mut state, What::FeaturesSet(EncoderSettings::default()));
    for value in 0..60 {
        act(&mut state, &Step::Json(value, value.wrapping_mul(37)));
    }
    let made = Decided {
        id: "d".to_owned(),
        user: "ann".to_owned(),
        ranking: Ranking::new(["i000"]),
        context: vec![0.5, -0.2, 0.3, 0.1, -0.4, 0.6].into(),
        probability: 1.0,
        shown: true,
    };
    apply(&mut state, What::Decided(made));
    apply(&mut state, What::Rewarded { decision: "d".to_owned(), reward: 1.0 });
    state
}

proptest! {
    #[test]
    fn an_index_that_is_made_in_parts_is_the_one_that_is_made_at_once(
        steps in prop::collection::vec(step(), 1..120)
    ) {
        let (mut at_once, mut in_parts) = (begun(), begun());
        for step in &steps {
            act(&mut at_once, step);
            act(&mut in_parts, step);
            if let Step::Make(most) = step {
                shop(&mut in_parts).prepare_index(usize::from(*most));
            }
        }
        let mut parts = 0;
        while !shop(&mut in_parts).prepare_index(7) {
            parts += 1;
            prop_assert!(parts < 100, "it is never there");
        }
        prop_assert_eq!(found(&mut in_parts), found(&mut at_once));
        prop_assert!(is_up_to_date(&mut in_parts) && is_up_to_date(&mut at_once));
        // Nothing of it is in the state.
        prop_assert_eq!(in_parts.digest().unwrap(), at_once.digest().unwrap());
    }
}

/// What a context is measured by is in no item's own vector: nothing is made afresh for it.
#[test]
fn numbers_of_a_context_change_no_index() {
    let mut state = begun();
    assert!(!shop(&mut state).prepare_index(10));
    while !shop(&mut state).prepare_index(10) {}
    let hour = |hour: u32| {
        Features::parse(Side::Context, &format!(r#"{{"hour": {hour}, "items": {hour}}}"#)).unwrap()
    };
    for at in 0..100 {
        let context = hour(at % 24);
        let offer = Offer { context: Some(&context), ..Offer::default() };
        let seen = shop(&mut state).encoder_mut().unwrap().look(&offer).unwrap();
        if !seen.is_empty() {
            apply(&mut state, What::FeaturesSeen(seen));
        }
        assert!(shop(&mut state).prepare_index(1), "{at}");
    }
    // What items are measured by is.
    (0..200).for_each(|value| see(&mut state, &json(value)));
    assert!(!shop(&mut state).prepare_index(1));
}
