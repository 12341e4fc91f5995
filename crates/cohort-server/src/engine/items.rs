//! Items come, change and go.

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

    /// How much memory it takes, roughly.
    pub fn bytes(&self) -> usize {
        let features = match &self.features {
            Given::Vector(vector) => size_of_val(&vector[..]),
            Given::Json(features) => features.bytes(),
        };
        self.id.len() + 48 + features + self.attributes.as_ref().map_or(0, Features::bytes)
    }
}

impl Engine {
    /// Registers items, all or none, learning which features they have.
    pub(super) fn put_items(
        &mut self,
        now_ms: u64,
        app: &str,
        items: Vec<ListedItem>,
        group: &mut Group,
    ) -> Result<Answer, Refusal> {
        let at_ms = self.advance(now_ms, app, group)?;
        let known = self.app(app)?;
        let (dim, takes_json) = (known.settings().dim, known.encoder().is_some());
        for ListedItem { id, features, .. } in &items {
            match features {
                Given::Vector(vector) => check_features(id, vector, dim)?,
                Given::Json(_) if !takes_json => return Err(Refusal::NotJson),
                Given::Json(_) => {}
            }
        }
        let is_new =
            |id: &str| !known.items().contains_key(id) && !known.described().contains_key(id);
        let added = items.iter().filter(|item| is_new(&item.id)).count();
        if known.items().len() + known.described().len() + added > self.limits.items {
            return Err(Refusal::TooMany { what: "items", limit: self.limits.items });
        }
        let described = items.iter().filter_map(|item| match &item.features {
            Given::Json(features) => Some(features),
            Given::Vector(_) => None,
        });
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
