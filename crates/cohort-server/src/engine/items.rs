//! Items come, change and go.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, OnceLock};

use cohort_features as json;
use cohort_features::{Features, Given};

use super::{Answer, Engine, Refusal, check_features};
use crate::event::What;
use crate::journal::Group;

/// An item to be registered.
#[derive(Clone, Debug)]
pub struct ListedItem {
    /// Its id.
    pub id: String,
    /// Its features.
    pub features: Given,
    /// What it can be filtered by beside its features.
    pub attributes: Option<Features>,
}

impl ListedItem {
    /// Without attributes.
    pub fn new(id: String, features: Given) -> Self {
        Self { id, features, attributes: None }
    }

    /// Its features, where they are JSON.
    fn described(&self) -> Option<&Features> {
        match &self.features {
            Given::Json(features) => Some(features),
            Given::Vector(_) => None,
        }
    }

    /// How much memory it takes, roughly.
    pub fn bytes(&self) -> usize {
        let features = match &self.features {
            Given::Vector(vector) => size_of_val(&vector[..]),
            Given::Json(features) => features.bytes(),
        };
        self.id.len() + 48 + features + self.attributes.as_ref().map_or(0, Features::bytes)
    }
}

/// Items that are registered in parts: none is before all of them were found to be such as can be.
#[derive(Debug, Default)]
pub struct Registering {
    items: Vec<ListedItem>,
    /// Whether there was something wrong with one of them.
    is_refused: AtomicBool,
    /// How many are new, of those that were looked at.
    added: AtomicUsize,
    /// Room that is kept for them: given back when the last part is done, or will not be.
    room: OnceLock<Room>,
}

/// Items that will be registered in an app.
#[derive(Debug)]
struct Room(Arc<AtomicUsize>, usize);

impl Drop for Room {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Relaxed);
    }
}

impl Registering {
    /// Of these.
    pub fn new(items: Vec<ListedItem>) -> Self {
        Self { items, ..Self::default() }
    }

    /// How much memory some of them take, roughly.
    pub fn bytes(&self, part: Range<usize>) -> usize {
        self.items[part].iter().map(ListedItem::bytes).sum()
    }
}

impl Engine {
    /// Looks at a part of the items, or registers it. Whatever can be refused is refused while they are looked at.
    pub(super) fn put_part(
        &mut self,
        now_ms: u64,
        app: &str,
        put: &Registering,
        part: Range<usize>,
        registers: bool,
        group: &mut Group,
    ) -> Result<Answer, Refusal> {
        if put.is_refused.load(Relaxed) {
            return Err(Refusal::Bug { why: "a part after one that was refused".to_owned() });
        }
        let is_last = part.end == put.items.len();
        let items = &put.items[part];
        let done = match registers {
            false => self.look_at_part(app, put, items, is_last),
            true => self.check_items(app, items).map(drop),
        };
        if let Err(why) = done {
            put.is_refused.store(true, Relaxed);
            return Err(why);
        }
        match registers {
            true => self.register(now_ms, app, items.to_vec(), group),
            false => Ok(Answer::Done),
        }
    }

    fn look_at_part(
        &mut self,
        app: &str,
        put: &Registering,
        items: &[ListedItem],
        is_last: bool,
    ) -> Result<(), Refusal> {
        let added = self.check_items(app, items)?;
        let added = put.added.fetch_add(added, Relaxed) + added;
        let known = self.app(app)?;
        let described = items.iter().filter_map(ListedItem::described).collect();
        if let Some(encoder) = known.encoder() {
            encoder.check(&json::Offer { items: described, ..Default::default() })?;
        }
        // Others may be between being looked at and being registered.
        let count = known.items().len() + known.described().len();
        let kept = self.kept_room.entry(app.to_owned()).or_default();
        if count + kept.load(Relaxed) + added > self.limits.items {
            return Err(Refusal::TooMany { what: "items", limit: self.limits.items });
        }
        if is_last {
            kept.fetch_add(added, Relaxed);
            let _ = put.room.set(Room(kept.clone(), added));
        }
        Ok(())
    }

    /// Refuses items that the app cannot take; returns how many are new.
    fn check_items(&self, app: &str, items: &[ListedItem]) -> Result<usize, Refusal> {
        let known = self.app(app)?;
        let (dim, takes_json) = (known.settings().dim, known.encoder().is_some());
        for ListedItem { id, features, .. } in items {
            match features {
                Given::Vector(vector) => check_features(id, vector, dim)?,
                Given::Json(_) if !takes_json => return Err(Refusal::NotJson),
                Given::Json(_) => {}
            }
        }
        let is_new =
            |id: &str| !known.items().contains_key(id) && !known.described().contains_key(id);
        Ok(items.iter().filter(|item| is_new(&item.id)).count())
    }

    /// Registers items, all or none, learning which features they have.
    pub(super) fn put_items(
        &mut self,
        now_ms: u64,
        app: &str,
        items: Vec<ListedItem>,
        group: &mut Group,
    ) -> Result<Answer, Refusal> {
        let added = self.check_items(app, &items)?;
        let known = self.app(app)?;
        if known.items().len() + known.described().len() + added > self.limits.items {
            return Err(Refusal::TooMany { what: "items", limit: self.limits.items });
        }
        self.register(now_ms, app, items, group)
    }

    fn register(
        &mut self,
        now_ms: u64,
        app: &str,
        items: Vec<ListedItem>,
        group: &mut Group,
    ) -> Result<Answer, Refusal> {
        let at_ms = self.advance(now_ms, app, group)?;
        let described = items.iter().filter_map(ListedItem::described);
        let offer = json::Offer { items: described.collect(), ..Default::default() };
        if !offer.items.is_empty() {
            let seen = match self.app_mut(app)?.encoder_mut() {
                Some(encoder) => encoder.look(&offer)?,
                None => return Err(Refusal::NotJson),
            };
            self.record_seen(at_ms, app, seen, group)?;
        }
        for ListedItem { id, features, attributes } in items {
            let attributes = attributes.map(|found| What::ItemAttributes(id.clone(), found));
            let put = match features {
                Given::Vector(vector) => What::ItemPut(id, vector),
                Given::Json(features) => What::ItemDescribed(id, features),
            };
            self.record(group, app, at_ms, put)?;
            if let Some(attributes) = attributes {
                self.record(group, app, at_ms, attributes)?;
            }
        }
        Ok(Answer::Done)
    }

    pub(super) fn remove_item(
        &mut self,
        now_ms: u64,
        app: &str,
        item: String,
        group: &mut Group,
    ) -> Result<Answer, Refusal> {
        let at_ms = self.advance(now_ms, app, group)?;
        let known = self.app(app)?;
        let is_described = known.described().contains_key(item.as_str());
        if !known.items().contains_key(item.as_str()) && !is_described {
            return Err(Refusal::ItemUnknown { item });
        }
        self.record(group, app, at_ms, What::ItemRemoved(item))?;
        Ok(Answer::Done)
    }
}
