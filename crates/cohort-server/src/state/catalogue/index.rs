//! The items of a catalogue by slots: where a search and a filter find them.

use std::sync::Arc;

use cohort::search::ItemMatrix;
use cohort_features::{Encoder, Features, Offer, bytes::name_hash};
use hashbrown::HashMap;

use super::Attributes;
use super::bits::Slots;
use crate::settings::MAX_FEATURE;
use crate::state::names::Names;
use crate::state::{Described, Items};

/// Slots by the hash of what they have in common.
pub(super) type ByHash = HashMap<u64, Slots>;

/// What a filter looks at.
#[derive(Default)]
pub(super) struct Columns {
    /// Items by words, flags and nulls.
    pub values: ByHash,
    /// Numbers by name; not a number where an item has none.
    pub numbers: HashMap<u64, Vec<f64>>,
    /// Items that have an attribute, by its name.
    pub names: ByHash,
}

/// All items.
pub(super) struct Index {
    /// Slots are numbers of ids.
    pub slots: Names,
    pub matrix: ItemMatrix,
    pub columns: Columns,
    /// Slots by the hash of the id.
    pub by_hash: HashMap<u64, u32>,
    /// The hash of every slot's id.
    pub hashes: Vec<u64>,
    /// JSON of every slot's item that has some.
    pub features: Vec<Option<Arc<Features>>>,
    /// How many features an item has at most, of those that were put since.
    pub longest: usize,
    /// Which moments of numbers the vectors of JSON rest on, as far as they were made.
    generation: u64,
    /// What comes next, and the last id that was done; nothing where all is there.
    next: Option<(Step, Option<Box<str>>)>,
}

/// What is done with all items, one after the other. Items that come or change meanwhile are done at once, and perhaps again.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    /// Items that are vectors.
    Vectors,
    /// Items that are JSON, and what they are filtered by.
    Json,
    /// What items are filtered by beside their features.
    Attributes,
    /// The vectors of items that are JSON.
    Refresh,
}

impl Index {
    pub fn new(dim: usize) -> Self {
        Self {
            slots: Names::default(),
            matrix: ItemMatrix::new(dim),
            columns: Columns::default(),
            by_hash: HashMap::new(),
            hashes: Vec::new(),
            features: Vec::new(),
            longest: 0,
            generation: 0,
            next: Some((Step::Vectors, None)),
        }
    }

    /// The slot of an id, which it gets if it has none.
    pub fn slot(&mut self, id: &str) -> Option<u32> {
        let slot = self.slots.find_or_add(id)?;
        if self.hashes.len() <= slot {
            self.hashes.resize(slot + 1, 0);
            self.features.resize(slot + 1, None);
        }
        let hash = name_hash(id);
        self.hashes[slot] = hash;
        self.by_hash.insert(hash, slot as u32);
        Some(slot as u32)
    }

    /// Puts an item that is a vector.
    pub fn put(&mut self, id: &str, features: &[f64]) {
        if let Some(slot) = self.slot(id) {
            self.features[slot as usize] = None;
            self.matrix.set(slot as usize, features);
        }
    }

    /// Puts an item that is JSON.
    pub fn describe(&mut self, id: &str, features: &Arc<Features>, encoder: &Encoder) {
        if let Some(slot) = self.slot(id) {
            let mut row = Vec::new();
            encode(encoder, &Offer { items: vec![features], ..Offer::default() }, &mut row);
            self.matrix.set(slot as usize, &row);
            self.features[slot as usize] = Some(features.clone());
            self.longest = self.longest.max(features.len());
        }
    }

    /// Does so many more items of what is to be done; says whether that is all.
    pub fn make(
        &mut self,
        mut most: usize,
        (items, described, attributes): (&Items, &Described, &Attributes),
        encoder: Option<&Encoder>,
    ) -> bool {
        let generation = encoder.map_or(0, Encoder::generation);
        if self.generation != generation {
            self.generation = generation;
            // Where all are to be made in any case, those that were made are made afresh.
            match &mut self.next {
                Some((Step::Vectors, _)) => {}
                Some((Step::Json | Step::Refresh, last)) => *last = None,
                Some((Step::Attributes, _)) => self.next = Some((Step::Json, None)),
                None => self.next = Some((Step::Refresh, None)),
            }
        }
        while let Some((step, last)) = self.next.take() {
            let after = last.as_deref();
            let done = match step {
                Step::Vectors => each(items.after(after), most, |id, row| self.put(id, row)),
                Step::Json => each(described.after(after), most, |id, features| {
                    if let Some(encoder) = encoder {
                        self.describe(id, features, encoder);
                        self.attribute(id, features);
                    }
                }),
                Step::Attributes => each(attributes.after(after), most, |id, features| {
                    self.attribute(id, features);
                }),
                Step::Refresh => each(described.after(after), most, |id, features| {
                    if let Some(encoder) = encoder {
                        self.describe(id, features, encoder);
                    }
                }),
            };
            match done {
                Ok(count) => most -= count,
                Err(last) => {
                    self.next = Some((step, Some(last)));
                    return false;
                }
            }
            self.next = match step {
                Step::Vectors => Some((Step::Json, None)),
                Step::Json => Some((Step::Attributes, None)),
                Step::Attributes | Step::Refresh => None,
            };
        }
        true
    }

    /// Adds what can be filtered by.
    pub fn attribute(&mut self, id: &str, features: &Features) {
        if let Some(slot) = self.slot(id) {
            self.columns.put(slot, features, self.slots.len());
        }
    }

    /// Takes that away.
    pub fn unattribute(&mut self, id: &str, features: &Features) {
        if let Some(slot) = self.slots.find(id) {
            self.columns.take(slot as u32, features);
        }
    }

    /// Takes an item away.
    pub fn remove(&mut self, id: &str) {
        if let Some(slot) = self.slots.remove(id) {
            self.matrix.remove(slot);
            self.features[slot] = None;
            self.by_hash.remove(&name_hash(id));
        }
    }
}

/// Does something with entries, so many at most: with how many, or where there are more, the last of them.
#[allow(clippy::borrowed_box)]
fn each<'a, V: 'a>(
    entries: impl Iterator<Item = (&'a Box<str>, &'a V)>,
    most: usize,
    mut with: impl FnMut(&str, &V),
) -> Result<usize, Box<str>> {
    let (mut count, mut last): (usize, Option<&Box<str>>) = (0, None);
    for (id, value) in entries {
        if count >= most {
            return Err(last.cloned().unwrap_or_default());
        }
        with(id, value);
        (count, last) = (count + 1, Some(id));
    }
    Ok(count)
}

/// The vectors of items, as decisions have them.
pub(super) fn encode(encoder: &Encoder, offer: &Offer, rows: &mut Vec<f64>) -> bool {
    let has_strangers = encoder.encode(offer, rows);
    rows.iter_mut().for_each(|x| *x = x.clamp(-MAX_FEATURE, MAX_FEATURE));
    has_strangers
}

/// The vector of an item that was registered.
pub(super) fn row_of(
    id: &str,
    items: &Items,
    described: &Described,
    encoder: Option<&Encoder>,
    around: &Offer,
) -> Option<Vec<f64>> {
    if let Some(features) = items.get(id) {
        return Some(features.to_vec());
    }
    let (features, mut row) = (described.get(id)?, Vec::new());
    encode(encoder?, &Offer { items: vec![&**features], ..around.clone() }, &mut row);
    Some(row)
}
