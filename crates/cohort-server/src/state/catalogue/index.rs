//! The items of a catalogue by slots: where a search and a filter find them.

use std::sync::Arc;

use cohort::search::ItemMatrix;
use cohort_features::{Encoder, Features, Offer, bytes::name_hash};
use hashbrown::HashMap;

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
    /// Which moments of numbers the vectors of JSON rest on.
    pub generation: u64,
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

    /// Makes the vectors of all JSON afresh where numbers are measured by others since.
    pub fn refresh(&mut self, described: &Described, encoder: &Encoder) {
        if self.generation == encoder.generation() {
            return;
        }
        for (id, features) in described.iter() {
            self.describe(id, features, encoder);
        }
        self.generation = encoder.generation();
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
