//! What is offered in each place: actions are read once, whatever the number of places.

use std::slice::from_ref;
use std::sync::Arc;

use cohort_features::{Features, Side};
use serde_json::Value;

use super::error::DialectError;
use super::rank::{Action, BAD};
use super::vector::Encoded;
use crate::engine::request::Offer;
use crate::http::{Service, large};

/// Numbers that are worked out where the request arrived; more are worked out apart.
const SMALL_WORK: u64 = 1 << 16;

/// What is sent.
pub(super) struct Asked {
    /// All actions.
    pub actions: Vec<Action>,
    /// The situation.
    pub context: Value,
    /// The places.
    pub places: Vec<Place>,
    /// Whether it was a large body.
    pub is_large: bool,
}

/// One place.
pub(super) struct Place {
    /// Which actions are offered there, in their order.
    pub offered: Vec<usize>,
    /// What the place is like: a part of the situation there.
    pub features: Option<Value>,
}

/// What was sent, once it is read: of each action, and of the situation in each place.
struct Read {
    ids: Vec<String>,
    offered: Vec<Vec<usize>>,
    features: Sides,
}

enum Sides {
    Json { items: Vec<Arc<Features>>, contexts: Vec<Arc<Features>> },
    Vectors { items: Vec<Encoded>, contexts: Vec<Encoded> },
}

impl Service {
    /// The candidates of each place. What would be too much is refused before any of it is made, and what is much is made
    /// where large bodies are read.
    pub(super) async fn offers(&self, app: &str, asked: Asked) -> Result<Vec<Offer>, DialectError> {
        let directory = self.engine.directory();
        let Some(listed) = directory.app(app) else {
            let sentence = format!("there is no app `{app}`");
            return Err(DialectError::new(404, "ResourceNotFound", sentence));
        };
        let (dim, takes_json) = (listed.dim, listed.takes_json);
        let refused = |why| DialectError::from_refusal(why, BAD);
        let candidates: usize = asked.places.iter().map(|place| place.offered.len()).sum();
        self.check_places(candidates, dim).map_err(refused)?;
        let row = if takes_json { size_of::<Arc<Features>>() } else { size_of::<f64>() * dim };
        let bytes_of = |at: &usize| size_of::<String>() + asked.actions[*at].id.len() + row;
        let held: usize = asked.places.iter().flat_map(|place| &place.offered).map(bytes_of).sum();
        self.check_held(held).map_err(refused)?;
        let (is_large, most_held) = (asked.is_large, self.most_held());
        let read = done(is_large, move || read(asked, takes_json, most_held)).await??;
        let pairs = read.pairs()?;
        let limit = self.config.max_work;
        if pairs > limit {
            let sentence = format!(
                "{pairs} products of features of actions and of the situation, over all places, are more work than \
                 one request may bring ({limit}, max_work): send fewer features, or fewer actions"
            );
            return Err(DialectError::bad(BAD, sentence));
        }
        let work = pairs.saturating_add((candidates * dim) as u64);
        done(work > SMALL_WORK, move || read.offers(dim)).await
    }
}

/// Does something here, or where large bodies are read.
async fn done<T: Send + 'static>(
    is_large: bool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, DialectError> {
    match is_large {
        true => large::apart(work).await.map_err(|why| DialectError::from_api(why, BAD)),
        false => Ok(work()),
    }
}

fn read(asked: Asked, takes_json: bool, most_held: usize) -> Result<Read, DialectError> {
    let bad = |why: String| DialectError::bad(BAD, why);
    let Asked { actions, context, places, .. } = asked;
    let features = match takes_json {
        true => {
            let json = |side: Side, value: &Value| {
                Features::of(side, value).map_err(|why| bad(why.to_string()))
            };
            let item = |action: &Action| json(Side::Item, &action.features.0).map(Arc::new);
            let items = actions.iter().map(item).collect::<Result<_, _>>()?;
            let shared = Arc::new(json(Side::Context, &context)?);
            let (mut contexts, mut held) = (Vec::with_capacity(places.len()), 0);
            for place in &places {
                let own =
                    place.features.as_ref().map(|own| json(Side::Context, own)).transpose()?;
                contexts.push(match own.filter(|own| !own.is_empty()) {
                    None => shared.clone(),
                    Some(own) => {
                        held += shared.bytes() + own.bytes();
                        if held > most_held {
                            return Err(bad(format!(
                                "some {held} bytes of contextFeatures would be held for all slots, and {most_held} \
                                 may be: send fewer of them, or fewer slots with features"
                            )));
                        }
                        Arc::new(shared.joined(&own))
                    }
                });
            }
            Sides::Json { items, contexts }
        }
        false => {
            let item =
                |action: &Action| Encoded::of("action", from_ref(&action.features.0)).map_err(bad);
            let items = actions.iter().map(item).collect::<Result<_, _>>()?;
            let shared = Encoded::of("context", from_ref(&context)).map_err(bad)?;
            let in_place = |place: &Place| {
                let own = Encoded::of("context", place.features.as_slice())?;
                shared.joined(&own)
            };
            let contexts = places.iter().map(in_place).collect::<Result<_, _>>().map_err(bad)?;
            Sides::Vectors { items, contexts }
        }
    };
    let ids = actions.into_iter().map(|action| action.id).collect();
    let offered = places.into_iter().map(|place| place.offered).collect();
    Ok(Read { ids, offered, features })
}

impl Read {
    /// How many products of features the vectors of all places are made of.
    fn pairs(&self) -> Result<u64, DialectError> {
        let Sides::Vectors { items, contexts } = &self.features else { return Ok(0) };
        let mut sum: u64 = 0;
        for (offered, context) in self.offered.iter().zip(contexts) {
            for at in offered {
                let pairs = items[*at].pairs(context);
                let pairs = pairs.map_err(|why| DialectError::bad(BAD, why))?;
                sum = sum.saturating_add(pairs as u64);
            }
        }
        Ok(sum)
    }

    fn offers(self, dim: usize) -> Vec<Offer> {
        let Self { ids, offered, features } = self;
        let offer = |place: usize, offered: &Vec<usize>| {
            let names = offered.iter().map(|at| ids[*at].clone()).collect();
            match &features {
                Sides::Json { items, contexts } => {
                    let mut offer = Offer::new(names, vec![None; offered.len()]);
                    offer.described = offered.iter().map(|at| Some(items[*at].clone())).collect();
                    offer.context = Some(contexts[place].clone());
                    offer
                }
                Sides::Vectors { items, contexts } => {
                    let vector = |at: &usize| Some(items[*at].vector(&contexts[place], dim));
                    Offer::new(names, offered.iter().map(vector).collect())
                }
            }
        };
        offered.iter().enumerate().map(|(place, offered)| offer(place, offered)).collect()
    }
}
