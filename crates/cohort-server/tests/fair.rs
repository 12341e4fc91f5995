//! Is somebody else served while a large request is done, whatever it asks for? And is it still done as a whole?
//!
//! | test | request |
//! | --- | --- |
//! | `others_are_served_while_many_items_…` | items to register: all or none |
//! | `others_are_served_while_a_slate_…` | places of a slate: all or none |
//! | `others_are_served_while_a_catalogue_…` | the best of all items, for which an index must be made first |
#![allow(missing_docs)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cohort_features::{EncoderSettings, Features, Given, Side};
use cohort_server::clock::SystemClock;
use cohort_server::engine::items::ListedItem;
use cohort_server::engine::request::{AppView, ForUser, Offer, Pick, Slot};
use cohort_server::engine::runtime::{Durability, Handle, Options, Runtime};
use cohort_server::engine::{Answer, Engine, Limits, Refusal, Request};
use cohort_server::journal::memory::{MemoryDisk, MemoryJournal};
use cohort_server::settings::AppSettings;
use cohort_server::snapshot::Snapshots;
use cohort_server::snapshot::disk::MemoryFolder;
use cohort_server::state::State;
use common::{LIMITS, create, decide};
use rand::SeedableRng;
use rand_chacha::ChaCha12Rng;

const DIM: usize = 16;
const ITEMS: usize = 20_000;

/// Two apps in a service, `loud` and `quiet`.
fn serve(ask: impl AsyncFnOnce(&Handle)) {
    let journal = Box::new(MemoryJournal::open(&MemoryDisk::default()).unwrap());
    let limits = Limits { items: ITEMS + 10, ..LIMITS };
    let engine = Engine::new(State::default(), limits, ChaCha12Rng::seed_from_u64(5));
    let options = Options {
        durability: Durability::Always,
        queue: 64,
        snapshot_events: 0,
        snapshot_interval: Duration::ZERO,
        prunes: false,
    };
    let snapshots = Snapshots::new(MemoryFolder::default());
    let runtime = Runtime::start(engine, journal, snapshots, Box::new(SystemClock), options);
    let runtime = runtime.unwrap();
    let asker = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    asker.block_on(async {
        let handle = runtime.handle();
        for (app, dim) in [("loud", DIM), ("quiet", 3)] {
            handle.ask(create(app, AppSettings::new(dim))).await.map(drop).unwrap();
        }
        ask(&handle).await;
    });
    runtime.stop();
}

/// How many of ten small requests are answered before a large one, and the answer to that.
async fn beside(handle: &Handle, large: Request) -> (usize, Result<Answer, Refusal>) {
    let done = AtomicBool::new(false);
    let loud = async {
        let answer = handle.ask(large).await;
        done.store(true, Ordering::Relaxed);
        answer
    };
    let quiet = async {
        let mut between = 0;
        for n in 0..10 {
            handle.ask(decide("quiet", "ann", None, 3, n)).await.map(drop).unwrap();
            between += usize::from(!done.load(Ordering::Relaxed));
        }
        between
    };
    let (answer, between) = tokio::join!(loud, quiet);
    (between, answer)
}

async fn view(handle: &Handle) -> Box<AppView> {
    match handle.ask(Request::ShowApp { app: "loud".to_owned() }).await.unwrap() {
        Answer::App(view) => view,
        _ => panic!("another answer"),
    }
}

fn items(range: std::ops::Range<usize>, dim: usize) -> Vec<ListedItem> {
    let item = |at: usize| ListedItem::new(format!("i{at}"), Given::Vector(vec![0.1; dim]));
    range.map(item).collect()
}

fn put(items: Vec<ListedItem>) -> Request {
    Request::RegisterItems { app: "loud".to_owned(), items }
}

#[test]
fn others_are_served_while_many_items_are_registered_all_of_them_or_none() {
    serve(async |handle: &Handle| {
        let (between, answer) = beside(handle, put(items(0..ITEMS, DIM))).await;
        assert!(matches!(answer, Ok(Answer::Done)));
        assert!(between >= 5, "{between} of 10 were served before");
        assert_eq!(view(handle).await.items, ITEMS);
        // The last of them has another number of features: the new one before it is not there.
        let mut wrong = items(ITEMS..ITEMS + 1, DIM);
        wrong.extend(items(0..ITEMS, DIM));
        wrong.extend(items(0..1, DIM + 1));
        assert!(matches!(handle.ask(put(wrong)).await, Err(Refusal::WrongDim { .. })));
        assert_eq!(view(handle).await.items, ITEMS);
        // They are 11 more than there may be; those that are there already are not counted.
        let more = put(items(10_000..ITEMS + 11, DIM));
        assert!(matches!(handle.ask(more).await, Err(Refusal::TooMany { .. })));
        assert_eq!(view(handle).await.items, ITEMS);
        // Two at the same time that fit, and do not fit together.
        let (one, two) = (items(10_000..ITEMS + 10, DIM), {
            let mut two = items(10_000..ITEMS + 10, DIM);
            two.iter_mut().skip(10_000).for_each(|item| item.id.push('y'));
            two
        });
        let (one, two) = tokio::join!(handle.ask(put(one)), handle.ask(put(two)));
        assert!(one.is_ok() != two.is_ok(), "one of them is registered");
        assert_eq!(view(handle).await.items, ITEMS + 10);
        let last = handle.ask(put(items(5000..ITEMS, DIM))).await;
        assert!(last.is_ok(), "room that was kept is given back");
    });
}

/// So many places that share so many candidates.
fn slate(id: &str, places: usize, candidates: usize) -> Request {
    let ids: Vec<String> = (0..candidates).map(|at| format!("i{at}")).collect();
    let features = |at: usize| Some((0..DIM).map(|k| ((at * 31 + k) % 7) as f64 / 7.0).collect());
    let offer = Offer::new(ids, (0..candidates).map(features).collect());
    let slot = |at: usize| {
        let (name, decision) = (format!("p{at}"), format!("{id}/p{at}"));
        Slot { id: name, decision, offer: offer.clone() }
    };
    let user = ForUser { user: "ann".to_owned(), decision: None, shown: true };
    let slots = (0..places).map(slot).collect();
    Request::Slate { app: "loud".to_owned(), user, slots, explain: false }
}

/// What is shown in each place.
fn shown(answer: Result<Answer, Refusal>) -> Vec<String> {
    let Ok(Answer::Decided(made)) = answer else { panic!("another answer") };
    made.into_iter().map(|made| made.unwrap().ranking.first().to_owned()).collect()
}

#[test]
fn others_are_served_while_a_slate_is_filled_all_of_it_or_nothing() {
    serve(async |handle: &Handle| {
        let (between, answer) = beside(handle, slate("a", 64, 1000)).await;
        let first = shown(answer);
        assert!(between >= 5, "{between} of 10 were served before");
        let mut items = first.clone();
        items.sort_unstable();
        items.dedup();
        assert_eq!((first.len(), items.len()), (64, 64), "no item twice");
        assert_eq!(view(handle).await.counts.decisions, 64);
        // A retry, and two at the same time, get what was decided.
        assert_eq!(shown(handle.ask(slate("a", 64, 1000)).await), first);
        let (one, two) =
            tokio::join!(handle.ask(slate("b", 64, 1000)), handle.ask(slate("b", 64, 1000)));
        assert_eq!(shown(one), shown(two));
        assert_eq!(view(handle).await.counts.decisions, 128);
        // Whoever goes before the end leaves nothing behind.
        let given_up = tokio::time::timeout(Duration::ZERO, handle.ask(slate("c", 64, 1000)));
        assert!(given_up.await.is_err());
        assert_eq!(view(handle).await.counts.decisions, 128);
    });
}

/// The best of all items, which are to be made findable before: first of all, and again when their numbers are measured anew.
#[test]
fn others_are_served_while_a_catalogue_is_made_findable() {
    const COUNT: usize = 20_000;
    let described = |at: usize| {
        let text =
            format!(r#"{{"price": {}, "kind": "k{}", "size": {}}}"#, at % 97, at % 7, at % 31);
        let features = Given::Json(Features::parse(Side::Item, &text).unwrap());
        ListedItem { id: format!("i{at}"), features, attributes: None }
    };
    let best = || {
        let offer = Offer { pick: Some(Arc::new(Pick::default())), ..Offer::default() };
        let users = vec![ForUser { user: "ann".to_owned(), decision: None, shown: true }];
        Request::Decide { app: "json".to_owned(), offer, users, explain: false }
    };
    serve(async |handle: &Handle| {
        let features = Some(EncoderSettings::default());
        let settings = AppSettings { features, ..AppSettings::new(DIM) };
        handle.ask(create("json", settings)).await.map(drop).unwrap();
        let items = (0..COUNT).map(described).collect();
        let put = Request::RegisterItems { app: "json".to_owned(), items };
        handle.ask(put).await.map(drop).unwrap();
        let (between, answer) = beside(handle, best()).await;
        assert!(matches!(answer, Ok(Answer::Decided(made)) if made.len() == 1));
        assert!(between >= 5, "{between} of 10 were served before");
        // As many numbers again as were seen: all vectors are others.
        let items = (0..COUNT).map(described).collect();
        let put = Request::RegisterItems { app: "json".to_owned(), items };
        handle.ask(put).await.map(drop).unwrap();
        let (between, answer) = beside(handle, best()).await;
        assert!(answer.is_ok() && between >= 3, "{between} of 10 were served before");
        let (between, answer) = beside(handle, best()).await;
        assert!(answer.is_ok() && between <= 2, "it was there already: {between}");
    });
}
