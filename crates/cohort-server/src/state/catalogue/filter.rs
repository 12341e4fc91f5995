//! Which items are meant, by their attributes?

use cohort_features::{Atom, Features, Kind, bytes::name_hash};

use super::bits::{self, Slots};
use super::index::Columns;

/// What an item must be like.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// All of these; of none, any item.
    All(Vec<Filter>),
    /// One of these; of none, no item.
    Any(Vec<Filter>),
    /// Not that.
    Not(Box<Filter>),
    /// It has this word, flag, or null: hashed as [`Filter::word`] and the others do.
    Has(u64),
    /// Its number is within this range.
    Within {
        /// Of the number's name.
        name: u64,
        /// The least, which is in it unless `above`.
        from: f64,
        /// Whether the least is not in it.
        above: bool,
        /// The largest, which is in it unless `below`.
        to: f64,
        /// Whether the largest is not in it.
        below: bool,
    },
    /// It has an attribute of this name.
    Named(u64),
}

impl Filter {
    /// `name` is this word, or has it among others.
    pub fn word(name: &str, word: &str) -> Self {
        Self::Has(name_hash(&format!("item.{name}={word}")))
    }

    /// `name` is null.
    pub fn null(name: &str) -> Self {
        Self::word(name, "null")
    }

    /// `name` is true, or false.
    pub fn flag(name: &str, value: bool) -> Self {
        Self::Has(flag_hash(name_hash(&format!("item.{name}")), value))
    }

    /// `name` is within a range.
    pub fn within(name: &str, from: (f64, bool), to: (f64, bool)) -> Self {
        let name = name_hash(&format!("item.{name}"));
        Self::Within { name, from: from.0, above: from.1, to: to.0, below: to.1 }
    }

    /// `name` is there.
    pub fn named(name: &str) -> Self {
        Self::Named(name_hash(&format!("item.{name}")))
    }

    /// One bit a slot: which match.
    pub(super) fn matching(&self, columns: &Columns, words: usize) -> Vec<u64> {
        let none = || vec![0; words];
        let of = |slots: Option<&Slots>| {
            let mut found = none();
            slots.into_iter().for_each(|slots| slots.add_to(&mut found));
            found
        };
        match self {
            Self::All(filters) => {
                let mut found = vec![u64::MAX; words];
                for filter in filters {
                    let other = filter.matching(columns, words);
                    found.iter_mut().zip(other).for_each(|(word, other)| *word &= other);
                }
                found
            }
            Self::Any(filters) => {
                let mut found = none();
                for filter in filters {
                    let other = filter.matching(columns, words);
                    found.iter_mut().zip(other).for_each(|(word, other)| *word |= other);
                }
                found
            }
            Self::Not(filter) => {
                let mut found = filter.matching(columns, words);
                found.iter_mut().for_each(|word| *word = !*word);
                found
            }
            Self::Has(hash) => of(columns.values.get(hash)),
            Self::Named(hash) => of(columns.names.get(hash)),
            Self::Within { name, from, above, to, below } => {
                let mut found = none();
                let Some(column) = columns.numbers.get(name) else { return found };
                let fits = |value: f64| {
                    let after = if *above { value > *from } else { value >= *from };
                    after && if *below { value < *to } else { value <= *to }
                };
                for (word, values) in found.iter_mut().zip(column.chunks(64)) {
                    for (bit, value) in values.iter().enumerate() {
                        *word |= u64::from(fits(*value)) << bit;
                    }
                }
                found
            }
        }
    }

    /// How much there is to do, in looks at all items.
    pub fn len(&self) -> usize {
        match self {
            Self::All(filters) | Self::Any(filters) => {
                1 + filters.iter().map(Self::len).sum::<usize>()
            }
            Self::Not(filter) => 1 + filter.len(),
            _ => 1,
        }
    }

    /// Never: a filter is something.
    pub fn is_empty(&self) -> bool {
        false
    }
}

fn flag_hash(name: u64, value: bool) -> u64 {
    name ^ if value { 0x9E37_79B9_7F4A_7C15 } else { 0xC2B2_AE3D_27D4_EB4F }
}

impl Columns {
    /// Adds or takes away what an item has.
    pub(super) fn put(&mut self, slot: u32, features: &Features, slots: usize) {
        for atom in features.atoms() {
            match value_of(atom) {
                Some(value) => self.values.entry(value).or_default().insert(slot, slots),
                None if atom.kind == Kind::Number => {
                    let column = self.numbers.entry(atom.hash).or_default();
                    if column.len() <= slot as usize {
                        column.resize(slot as usize + 1, f64::NAN);
                    }
                    column[slot as usize] = atom.value;
                }
                None => {}
            }
            self.names.entry(attribute(features, atom)).or_default().insert(slot, slots);
        }
    }

    pub(super) fn take(&mut self, slot: u32, features: &Features) {
        let drop_from = |map: &mut super::index::ByHash, hash: u64| {
            if map.get_mut(&hash).is_some_and(|slots| slots.remove(slot)) {
                map.remove(&hash);
            }
        };
        for atom in features.atoms() {
            match value_of(atom) {
                Some(value) => drop_from(&mut self.values, value),
                None => {
                    let column = self.numbers.get_mut(&atom.hash);
                    if let Some(value) = column.and_then(|column| column.get_mut(slot as usize)) {
                        *value = f64::NAN;
                    }
                }
            }
            drop_from(&mut self.names, attribute(features, atom));
        }
    }
}

/// By what a word, a flag or null is found.
fn value_of(atom: &Atom) -> Option<u64> {
    match atom.kind {
        Kind::Category => Some(atom.hash),
        Kind::Flag => Some(flag_hash(atom.hash, atom.value > 0.0)),
        Kind::Number | Kind::List => None,
    }
}

/// The name of an attribute: of a word what is before the `=`.
fn attribute(features: &Features, atom: &Atom) -> u64 {
    match atom.kind {
        Kind::Category => {
            let name = features.name(atom);
            name_hash(name.split_once('=').map_or(name, |(name, _)| name))
        }
        _ => atom.hash,
    }
}

/// Slots that match a filter and are there.
pub(super) fn select(
    filter: Option<&Filter>,
    columns: &Columns,
    present: &[u64],
    excluded: impl Iterator<Item = u32>,
) -> Vec<u64> {
    let mut found = match filter {
        None => present.to_vec(),
        Some(filter) => {
            let mut found = filter.matching(columns, present.len());
            found.iter_mut().zip(present).for_each(|(word, present)| *word &= present);
            found
        }
    };
    excluded.for_each(|slot| bits::clear(&mut found, slot));
    found
}
