//! The catalogue as something to choose from: filters, and the best of very many items.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `Catalogue` | which version is it, and what attributes have items? |
//! | [`Filter`] | which items are meant? |
//! | `index` | where does a search find them? |
//! | [`Within`] | what are they in one context? |
//! | `bits` | how are sets of items kept? |
//!
//! Versions and attributes are part of the state. The index follows from it: it is made when the catalogue is
//! first chosen from, some items at a time, changes with every item that comes, changes or goes, and is in no snapshot.

mod bits;
mod filter;
mod index;
mod within;

use std::sync::Arc;

use cohort::{Contexts, Score};
use cohort_features::{Features, Offer, bytes::name_hash};

pub use filter::Filter;
use index::Index;
pub use within::Within;

use super::App;
use super::sorted::Sorted;

/// Attributes of items, by which they can be filtered beside their features.
pub type Attributes = Sorted<Arc<Features>>;

/// What is known of a catalogue beside the features of its items.
#[derive(Default)]
pub struct Catalogue {
    /// How often an item came, changed or went.
    pub(super) version: u64,
    pub(super) attributes: Arc<Attributes>,
    index: Option<Box<Index>>,
}

/// Items to choose from.
pub struct Selection {
    bits: Vec<u64>,
    /// How many there are.
    pub count: usize,
}

impl Selection {
    /// The slot of that number among them, from 0.
    pub fn nth(&self, number: usize) -> Option<u32> {
        bits::nth(&self.bits, number)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        bits::iter(&self.bits)
    }

    /// Takes one away.
    pub fn remove(&mut self, slot: u32) {
        self.count -= usize::from(bits::has(&self.bits, slot));
        bits::clear(&mut self.bits, slot);
    }

    /// Whether one is among them.
    pub fn has(&self, slot: u32) -> bool {
        bits::has(&self.bits, slot)
    }
}

impl Catalogue {
    /// How often an item came, changed or went.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Gives an index away, to be freed elsewhere: it is made anew when it is next needed.
    pub(super) fn give_index(&mut self, to: &mut Self) {
        to.index = self.index.take();
    }

    /// Attributes of items.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }
}

impl App {
    /// The catalogue.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// An item is to be put, or removed: what it was is taken away first.
    pub(super) fn unlist(&mut self, id: &str) {
        let Catalogue { version, attributes, index } = &mut self.catalogue;
        *version += 1;
        if let Some(index) = index {
            for features in attributes.get(id).into_iter().chain(self.described.get(id)) {
                index.unattribute(id, features);
            }
        }
        if attributes.contains_key(id) {
            Arc::make_mut(attributes).remove(id);
        }
    }

    /// An item was put: the index follows.
    pub(super) fn list(&mut self, id: &str) {
        let Some(index) = &mut self.catalogue.index else { return };
        if let Some(features) = self.items.get(id) {
            index.put(id, features);
        } else if let (Some(features), Some(encoder)) = (self.described.get(id), &self.encoder) {
            index.describe(id, features, encoder);
            index.attribute(id, features);
        } else {
            index.remove(id);
        }
    }

    /// An item got attributes.
    pub(super) fn attribute(&mut self, id: &str, features: Features) -> Result<(), String> {
        if !self.items.contains_key(id) && !self.described.contains_key(id) {
            return Err(format!("attributes of the item `{id}`, which is not there"));
        }
        let Catalogue { version, attributes, index } = &mut self.catalogue;
        *version += 1;
        if let Some(index) = index {
            if let Some(before) = attributes.get(id) {
                index.unattribute(id, before);
            }
            index.attribute(id, &features);
        }
        Arc::make_mut(attributes).insert(id.into(), Arc::new(features));
        Ok(())
    }

    /// Makes a part of the index, of so many items, where it is not there, or rests on what numbers were measured by before.
    /// Says whether it is there now: others are served between two parts. Only what is chosen from it is written down, so that
    /// nothing that is replayed depends on when it was made.
    pub fn prepare_index(&mut self, most: usize) -> bool {
        let Catalogue { attributes, index, .. } = &mut self.catalogue;
        let index = index.get_or_insert_with(|| Box::new(Index::new(self.settings.dim)));
        index.make(most, (&self.items, &self.described, attributes), self.encoder.as_ref())
    }

    /// The index, made to its end.
    fn index(&mut self) -> &mut Index {
        while !self.prepare_index(usize::MAX) {}
        self.catalogue.index.get_or_insert_with(|| Box::new(Index::new(1)))
    }

    /// The items that match a filter and are not excluded.
    pub fn select<'a>(
        &mut self,
        filter: Option<&Filter>,
        excluded: impl Iterator<Item = &'a str>,
    ) -> Selection {
        let index = self.index();
        let excluded = excluded.filter_map(|id| index.slots.find(id));
        let excluded = excluded.map(|slot| slot as u32);
        let bits = filter::select(filter, &index.columns, index.matrix.present(), excluded);
        let count = bits::count(&bits);
        Selection { bits, count }
    }

    /// The slot of an id.
    pub fn slot_of(&self, id: &str) -> Option<u32> {
        self.catalogue.index.as_ref()?.slots.find(id).map(|slot| slot as u32)
    }

    /// The id of a slot.
    pub fn item_at(&self, slot: u32) -> &str {
        self.catalogue.index.as_ref().map_or("", |index| index.slots.name(slot as usize))
    }

    /// The vector of a slot's item, in a context.
    pub fn row_at(&self, slot: u32, around: &Offer) -> Option<Vec<f64>> {
        let encoder = self.encoder.as_ref();
        index::row_of(self.item_at(slot), &self.items, &self.described, encoder, around)
    }

    /// The same as the index has it, without a context.
    pub fn indexed_at(&self, slot: u32) -> Option<Vec<f64>> {
        let index = self.catalogue.index.as_ref()?;
        let mut row = vec![0.0; self.settings.dim];
        index.matrix.copy(slot as usize, &mut row);
        Some(row)
    }

    /// Whether vectors of items depend on the context.
    pub fn depends_on(&self, around: &Offer) -> bool {
        !self.described.is_empty() && (around.context.is_some() || around.user.is_some())
    }

    /// JSON of the items at these slots.
    pub fn described_at(&self, slots: &[u32]) -> Vec<Option<Arc<Features>>> {
        slots.iter().map(|slot| self.described.get(self.item_at(*slot)).cloned()).collect()
    }

    /// Slots among the selected that may have the `k` largest scores for a user, in a context where one is given: all that
    /// have, and a few more. `None` where the policy's scores are no form that can be searched. `Some(None)` where all
    /// are alike.
    pub fn search(
        &mut self,
        user: &str,
        k: usize,
        among: &Selection,
        within: Option<&Within>,
    ) -> Option<Option<Vec<u32>>> {
        let number = self.users.find(user).unwrap_or(self.users.next_number());
        let form = self.online().score_form(number)?;
        let index = self.catalogue.index.as_deref()?;
        let best = |bits: &[u64], shifts: Option<&[f32]>| match within {
            None => index.matrix.best(&form, k, Some(bits), shifts),
            Some(within) => within.best(&form, k, bits, shifts),
        };
        if !self.has_effects() {
            let all_alike = match within {
                None => index.matrix.all_alike(&form, Some(&among.bits)),
                Some(within) => within.all_alike(&form),
            };
            return Some((!all_alike).then(|| best(&among.bits, None)));
        }
        // Of items that the user has answered to more is known: they are looked at one by one.
        let mut bits = among.bits.clone();
        let answered = self.effects.items_of(number).iter();
        let answered = answered.filter_map(|item| index.by_hash.get(item).copied());
        let answered: Vec<u32> = answered.filter(|slot| among.has(*slot)).collect();
        answered.iter().for_each(|slot| bits::clear(&mut bits, *slot));
        let shifts = self.effects.shifts(number, &index.hashes, |hash| index.by_hash.get(&hash));
        let mut found = best(&bits, Some(&shifts));
        found.extend(answered);
        found.sort_unstable();
        found.dedup();
        Some(Some(found))
    }

    /// Adds what features do not say of the items at these slots, by their vectors.
    pub fn add_effects_at(
        &mut self,
        user: &str,
        slots: &[u32],
        contexts: &Contexts,
        scores: &mut [Score],
    ) {
        if self.has_effects() {
            let items: Vec<u64> = slots.iter().map(|slot| name_hash(self.item_at(*slot))).collect();
            self.adjust(user, &items, contexts, scores);
        }
    }
}
