//! What is to be learned of features before they become a vector?

use hashbrown::HashMap;

use crate::encoder::{Encoder, Offer, TooManyPairs, name_of, number_of};
use crate::features::{Atom, Features, Kind, Side, crossed, member};
use crate::moments::Moments;

/// A feature that was seen for the first time.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenName {
    /// Its hash.
    pub hash: u64,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Whether it is an interaction.
    pub crossed: bool,
}

/// What is to be learned of features before they are encoded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Features that get a place.
    pub names: Vec<SeenName>,
    /// Moments to be added to those of features, by the features' numbers.
    pub moments: Vec<(u32, Moments)>,
}

impl Seen {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.moments.is_empty()
    }
}

/// What becomes of an offer.
#[derive(Clone, Debug, PartialEq)]
pub enum Known {
    /// It is encoded.
    Encoded {
        /// Whether there are interactions that could have a place of their own: [`Encoder::look_at_pairs`] finds them.
        has_new_pairs: bool,
    },
    /// This is to be learned first.
    First(Seen),
}

/// What a pass over an offer finds that is not known.
#[derive(Default)]
struct Found {
    seen: Seen,
    /// New names by hash, and what was seen of those that are numbers.
    new: HashMap<u64, usize>,
    moments: Vec<Moments>,
    /// Numbers of features whose moments have doubled.
    due: Vec<u32>,
}

impl Encoder {
    /// The vectors of all items, one after the other, learning first whatever is to be learned.
    pub fn encode_seen(&mut self, offer: &Offer, rows: &mut Vec<f64>) -> Result<(), TooManyPairs> {
        let has_more = match self.encode_known(offer, rows)? {
            Known::Encoded { has_new_pairs } => has_new_pairs,
            Known::First(seen) => {
                self.learn(&seen);
                self.encode(offer, rows)
            }
        };
        if has_more {
            let seen = self.look_at_pairs(offer);
            self.learn(&seen);
            self.encode(offer, rows);
        }
        Ok(())
    }

    /// The vectors of all items, if there is nothing to be learned before; else what that is. What it has of numbers is
    /// gathered, as [`Encoder::look`] does.
    pub fn encode_known(
        &mut self,
        offer: &Offer,
        rows: &mut Vec<f64>,
    ) -> Result<Known, TooManyPairs> {
        let seen = self.look(offer)?;
        if !seen.is_empty() {
            return Ok(Known::First(seen));
        }
        let has_new_pairs = self.encode_found(offer, &self.numbers, rows);
        Ok(Known::Encoded { has_new_pairs })
    }

    /// What is to be learned before an offer is encoded, but for interactions. What it has of numbers is
    /// gathered; nothing else changes before [`Encoder::learn`].
    pub fn look(&mut self, offer: &Offer) -> Result<Seen, TooManyPairs> {
        self.check(offer)?;
        let mut found = Found::default();
        let mut numbers = std::mem::take(&mut self.numbers);
        numbers.clear();
        for features in offer.all() {
            let atoms = features.atoms().iter();
            numbers.extend(atoms.map(|atom| self.look_at(features, atom, &mut found)));
        }
        self.numbers = numbers;
        let known = self.coordinates.named().len();
        let Found { mut seen, moments, mut due, .. } = found;
        let measured = moments.into_iter().enumerate().filter(|(_, moments)| moments.count > 0.0);
        seen.moments.extend(measured.map(|(at, moments)| ((known + at) as u32, moments)));
        due.sort_unstable();
        due.dedup();
        seen.moments
            .extend(due.iter().map(|at| (*at, self.coordinates.spot(*at as usize).pending)));
        Ok(seen)
    }

    /// Interactions of an offer that were not seen before.
    pub fn look_at_pairs(&self, offer: &Offer) -> Seen {
        let (mut found, mut active) = (Found::default(), Vec::new());
        for item in &offer.items {
            self.activate_all(offer, item, &mut active);
            self.each_pair(&active, |one, other| {
                let hash = crossed(one.hash, other.hash);
                let is_new =
                    self.coordinates.find(hash).is_none() && !found.new.contains_key(&hash);
                let kind = Kind::Category;
                if is_new && self.coordinates.has_room(kind, true, found.new.len()) {
                    let name = |active| name_of(offer, item, active);
                    found.add(hash, format!("{}^{}", name(one), name(other)), kind, true);
                }
            });
        }
        found.seen
    }

    #[inline]
    fn look_at(&mut self, features: &Features, atom: &Atom, found: &mut Found) -> u32 {
        let is_measured = matches!(atom.kind, Kind::Number | Kind::List);
        let number = self.coordinates.find(atom.hash);
        match number {
            Some(number) if is_measured => {
                if self.coordinates.spot_mut(number).gather(atom.value) {
                    found.due.push(number as u32);
                }
            }
            Some(_) => {}
            None => {
                let at = found.new.get(&atom.hash).copied();
                let at = at.or_else(|| self.meet(features, atom, found));
                if let (true, Some(at)) = (is_measured, at) {
                    found.moments[at].add(atom.value);
                }
            }
        }
        number_of(number)
    }

    /// A feature that is new, as far as there is room for it.
    fn meet(&self, features: &Features, atom: &Atom, found: &mut Found) -> Option<usize> {
        let has_room =
            |found: &Found, kind| self.coordinates.has_room(kind, false, found.new.len());
        if !has_room(found, atom.kind) {
            return None;
        }
        let at = found.add(atom.hash, features.name(atom).to_owned(), atom.kind, false);
        // The numbers of a list have places of their own, unless it has more of them than there are: then they
        // are spread over all, like those of a random projection.
        let list = features.list(atom);
        if list.len() <= self.dim() {
            for index in 0..list.len() {
                if has_room(found, Kind::Category) {
                    let name = format!("{}[{index}]", features.name(atom));
                    found.add(member(atom.hash, index), name, Kind::Category, false);
                }
            }
        }
        Some(at)
    }

    /// Learns what was seen.
    pub fn learn(&mut self, seen: &Seen) {
        for SeenName { hash, name, kind, crossed } in &seen.names {
            match kind {
                // A list itself has no place, only its numbers have: it lends its moments to them.
                Kind::List => self.coordinates.add_list(*hash, name),
                _ => self.coordinates.add(*hash, name, *kind, *crossed),
            };
        }
        // What contexts and users are measured by is in no item's own vector.
        let named = self.coordinates.named();
        let is_of_items = |number: u32| {
            let named = named.get(number as usize);
            named.is_some_and(|named| named.name.starts_with(Side::Item.name()))
        };
        let items_change = seen.moments.iter().any(|(number, _)| is_of_items(*number));
        self.generation += u64::from(items_change);
        for (number, moments) in &seen.moments {
            self.coordinates.measure(*number as usize, moments);
        }
    }

    /// All that was learned, as if it had been seen at once.
    pub(crate) fn as_seen(&self) -> Seen {
        let mut seen = Seen::default();
        for (number, named) in self.coordinates.named().iter().enumerate() {
            let (hash, name) = (named.hash, named.name.to_string());
            seen.names.push(SeenName { hash, name, kind: named.kind, crossed: named.crossed });
            if named.moments.count > 0.0 {
                seen.moments.push((number as u32, named.moments));
            }
        }
        seen
    }
}

impl Found {
    fn add(&mut self, hash: u64, name: String, kind: Kind, crossed: bool) -> usize {
        let at = self.seen.names.len();
        self.new.insert(hash, at);
        self.moments.push(Moments::default());
        self.seen.names.push(SeenName { hash, name, kind, crossed });
        at
    }
}
