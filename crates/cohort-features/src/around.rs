//! Very many items in one context: what the context makes of a feature is worked out once, not for every item that has it.
//!
//! ```text
//! x(item) = common + Σ over features a of the item: value of a · part of a
//! part of a = ½ sign at its place  +  ½ Σ over features of context and user that it is multiplied by: sign · value
//! ```
//!
//! The sums are those of [`Encoder::encode`] in another order, so they differ by rounding.

use hashbrown::{HashMap, HashSet};

use std::hash::BuildHasherDefault;

use crate::coordinates::AsItIs;
use crate::encoder::{Active, Encoder, Offer, name_of, number_of};
use crate::features::{Atom, Features, Kind, crossed, member};
use crate::learning::{Seen, SeenName};

/// A context and a user, to which items are added.
pub struct Around<'a> {
    encoder: &'a Encoder,
    offer: &'a Offer<'a>,
    /// Features of context and user.
    shared: Vec<Active>,
    /// What all items have: the constant, context and user.
    common: Vec<f64>,
}

/// Parts that were worked out, and interactions without a place of their own that were met.
#[derive(Default)]
pub struct Parts {
    /// By a feature's hash, namespace and kind.
    by_key: HashMap<u64, Part, BuildHasherDefault<AsItIs>>,
    /// Of every feature, or every number of a list, from where to where its entries go.
    ranges: Vec<(u32, u32)>,
    entries: Vec<(u32, f64)>,
    new: HashSet<u64>,
    names: Vec<SeenName>,
    is_crossed_with_itself: bool,
}

/// What is kept of a feature.
#[derive(Clone, Copy)]
struct Part {
    /// Where its range is; of a list the first of its numbers'.
    first: u32,
    /// Of how many numbers.
    len: u32,
    /// As [`number_of`] has it.
    number: u32,
}

impl Encoder {
    /// Items around this context and user; nothing where features of items are multiplied by each other, or items of
    /// so many features could have too many interactions.
    pub fn around<'a>(&'a self, offer: &'a Offer, most_features: usize) -> Option<Around<'a>> {
        if !self.pairs_need_more() || self.may_have_too_many_pairs(offer, most_features) {
            return None;
        }
        let (mut shared, mut common) = (Vec::new(), vec![0.0; self.dim()]);
        self.activate_shared(offer, &mut shared);
        if self.settings().constant {
            common[0] = 1.0;
        }
        shared.iter().for_each(|one| self.add(one, &mut common));
        self.each_pair(&shared, |one, other| {
            let (place, sign) = self.place_of(crossed(one.hash, other.hash), true);
            common[place] += Self::weight() * sign * one.value * other.value;
        });
        Some(Around { encoder: self, offer, shared, common })
    }
}

impl Around<'_> {
    /// The vector of an item.
    pub fn row(&self, item: &Features, parts: &mut Parts, row: &mut [f64]) {
        row.copy_from_slice(&self.common);
        for (at, atom) in item.atoms().iter().enumerate() {
            let list = item.list(atom);
            let key = atom.hash ^ atom.space.rotate_left(17) ^ u64::from(atom.kind.number());
            let found = parts.by_key.get(&key).copied();
            let enough = (list.len().max(1)) as u32;
            let part = match found.filter(|part| part.len >= enough) {
                Some(part) => part,
                None => {
                    let part = self.part(item, (at, atom), enough, parts);
                    parts.by_key.insert(key, part);
                    part
                }
            };
            let Parts { ranges, entries, .. } = &*parts;
            let mut add = |index: u32, value: f64| {
                let (from, to) = ranges[(part.first + index) as usize];
                for (place, factor) in &entries[from as usize..to as usize] {
                    row[*place as usize] += factor * value;
                }
            };
            match atom.kind {
                Kind::List => {
                    let scale = self.encoder.scale_of_list(atom, part.number);
                    for (index, number) in list.iter().enumerate() {
                        add(index as u32, Encoder::of_list(*number, scale));
                    }
                }
                _ => add(0, self.encoder.standardised(atom, part.number)),
            }
        }
    }

    /// What a feature, or each number of a list, adds to a vector for each unit of its value.
    fn part(
        &self,
        item: &Features,
        (at, atom): (usize, &Atom),
        len: u32,
        parts: &mut Parts,
    ) -> Part {
        let encoder = self.encoder;
        let first = parts.ranges.len() as u32;
        let number = number_of(encoder.coordinates.find(atom.hash));
        for index in 0..len as usize {
            let hash = if atom.kind == Kind::List { member(atom.hash, index) } else { atom.hash };
            let mut active = vec![encoder.item_feature(hash, atom.space, at)];
            let from = parts.entries.len() as u32;
            let (place, sign) = encoder.place_of(hash, false);
            parts.entries.push((place as u32, Encoder::weight() * sign));
            active.extend_from_slice(&self.shared);
            parts.is_crossed_with_itself |= active[0].is_named_like_others();
            encoder.each_pair(&active, |a, b| {
                let other = match (std::ptr::eq(a, &active[0]), std::ptr::eq(b, &active[0])) {
                    (true, false) => b,
                    (false, true) => a,
                    _ => return,
                };
                let hash = crossed(a.hash, b.hash);
                if encoder.coordinates.find(hash).is_none() {
                    self.meet(
                        item,
                        hash,
                        a,
                        b,
                        parts.names.len(),
                        &mut parts.new,
                        &mut parts.names,
                    );
                }
                let (place, sign) = encoder.place_of(hash, true);
                parts.entries.push((place as u32, Encoder::weight() * sign * other.value));
            });
            parts.ranges.push((from, parts.entries.len() as u32));
        }
        Part { first, len, number }
    }

    #[expect(clippy::too_many_arguments, reason = "parts are borrowed one by one")]
    fn meet(
        &self,
        item: &Features,
        hash: u64,
        a: &Active,
        b: &Active,
        known: usize,
        new: &mut HashSet<u64>,
        names: &mut Vec<SeenName>,
    ) {
        let kind = Kind::Category;
        if self.encoder.coordinates.has_room(kind, true, known) && new.insert(hash) {
            let name = |active| name_of(self.offer, item, active);
            let name = format!("{}^{}", name(a), name(b));
            names.push(SeenName { hash, name, kind, crossed: true });
        }
    }
}

impl Parts {
    /// Whether items have a namespace that is called as context or user are: its features may be multiplied by others of
    /// the item, and rows are not whole.
    pub fn are_incomplete(&self) -> bool {
        self.is_crossed_with_itself
    }

    /// Interactions that could have a place of their own, once more of such of others.
    pub fn add_new(self, encoder: &Encoder, seen: &mut Seen) {
        for name in self.names {
            let is_known = seen.names.iter().any(|known| known.hash == name.hash);
            let has_room = encoder.coordinates.has_room(Kind::Category, true, seen.names.len());
            if !is_known && has_room {
                seen.names.push(name);
            }
        }
    }
}
