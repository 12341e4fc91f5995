//! Which vector do features become?
//!
//! ```text
//! x = constant 1  +  ½ Σ sign·value over the features of item, context and user
//!                 +  ½ Σ sign·value·value over pairs of them (by default item × context, item × user)
//! ```
//!
//! Numbers are standardised by the moments of all that were seen, lists scaled to about length 1. The
//! halves make vectors of usual objects about as long as policies expect.
//!
//! Moments are not those of this very moment: what was seen is gathered, and learned when it has doubled.
//! A vector then rarely changes its meaning, whoever keeps what was learned writes it down some dozens of
//! times for millions of decisions, and what is encoded depends on nothing that is not kept.

use crate::coordinates::{Coordinates, Named};
use crate::features::{Atom, Features, Kind, Side, crossed, hash_of, member};

/// Interactions of one item, at most.
const MAX_PAIRS: usize = 16_384;

/// The weight of every feature but the constant.
const WEIGHT: f64 = 0.5;

/// What makes an app's vectors its own.
#[derive(Clone, Debug, PartialEq)]
pub struct EncoderSettings {
    /// Of the hashes: which features share a coordinate, where some must.
    pub seed: u64,
    /// Sides or namespaces whose features are multiplied by each other.
    pub interactions: Vec<(String, String)>,
    /// Whether the first coordinate is a constant 1.
    pub constant: bool,
}

impl Default for EncoderSettings {
    fn default() -> Self {
        let item_by = |side: Side| (Side::Item.name().to_owned(), side.name().to_owned());
        let interactions = vec![item_by(Side::Context), item_by(Side::User)];
        Self { seed: 0, interactions, constant: true }
    }
}

/// Items to be encoded, in one context, for one user.
#[derive(Clone, Debug, Default)]
pub struct Offer<'a> {
    /// The items.
    pub items: Vec<&'a Features>,
    /// The context.
    pub context: Option<&'a Features>,
    /// The user.
    pub user: Option<&'a Features>,
}

/// More interactions than are worked out.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "{found} interactions of one item: {MAX_PAIRS} are worked out at most; send fewer features of the \
     context, or name fewer interactions"
)]
pub struct TooManyPairs {
    /// How many there would be.
    pub found: usize,
}

/// Makes vectors of an app's features.
#[derive(Clone, Debug)]
pub struct Encoder {
    dim: usize,
    settings: EncoderSettings,
    /// The hashes of both names of every interaction.
    pairs: Vec<[u64; 2]>,
    /// Each of these names once, and whether an interaction is there twice.
    names_of_pairs: Vec<u64>,
    repeats_pairs: bool,
    pub(crate) coordinates: Coordinates,
    /// How often moments of what items have were learned.
    pub(crate) generation: u64,
    /// The features of the offer that was looked at last, as [`number_of`] has them.
    pub(crate) numbers: Vec<u32>,
}

/// A feature as it is multiplied: its hash, what it is in, its standardised value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Active {
    pub hash: u64,
    pub side: Side,
    pub space: u64,
    pub value: f64,
    /// Its number among those that were seen, or [`NO_NUMBER`].
    number: u32,
    /// Which feature of its object it is, or is of: for its name.
    of: u32,
}

/// Stands for the number of a feature that is not known by name.
const NO_NUMBER: u32 = u32::MAX;

/// The number of a feature as it is kept for a moment.
#[inline]
pub(crate) fn number_of(found: Option<usize>) -> u32 {
    found.map_or(NO_NUMBER, |number| number as u32)
}

impl<'a> Offer<'a> {
    /// Items, context and user.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'a Features> {
        self.items.iter().copied().chain(self.context).chain(self.user)
    }
}

impl Encoder {
    /// For vectors of `dim`.
    ///
    /// # Panics
    /// If `dim` is 0.
    pub fn new(dim: usize, settings: EncoderSettings) -> Self {
        assert!(dim > 0, "vectors have a coordinate or more");
        let first = usize::from(settings.constant && dim > 1);
        let coordinates = Coordinates::new(dim, first, settings.seed);
        let pairs = settings.interactions.iter().map(|(a, b)| [hash_of(a), hash_of(b)]);
        let pairs: Vec<[u64; 2]> = pairs.collect();
        let mut names_of_pairs = pairs.concat();
        names_of_pairs.sort_unstable();
        names_of_pairs.dedup();
        let mut sorted: Vec<[u64; 2]> = pairs.iter().map(|[a, b]| [*a.min(b), *a.max(b)]).collect();
        sorted.sort_unstable();
        let repeats_pairs = sorted.windows(2).any(|two| two[0] == two[1]);
        let (generation, numbers) = (0, Vec::new());
        Self {
            dim,
            settings,
            pairs,
            names_of_pairs,
            repeats_pairs,
            coordinates,
            generation,
            numbers,
        }
    }

    /// As it was made.
    pub fn settings(&self) -> &EncoderSettings {
        &self.settings
    }

    /// How many numbers a vector has.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// How often numbers of items were measured anew: as long as it stays, an item that was seen has the same vector, apart
    /// from what a context or a user adds to it.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// All features that were seen, in the order in which they were.
    pub fn names(&self) -> impl Iterator<Item = &Named> {
        self.coordinates.named().iter()
    }

    /// Where features are.
    pub fn coordinates(&self) -> &Coordinates {
        &self.coordinates
    }

    /// Refuses an offer with more interactions than are worked out.
    pub fn check(&self, offer: &Offer) -> Result<(), TooManyPairs> {
        if offer.context.is_none() && offer.user.is_none() && self.pairs_need_more() {
            return Ok(());
        }
        let longest = offer.items.iter().map(|item| item.len()).max().unwrap_or(0);
        if !self.may_have_too_many_pairs(offer, longest) {
            return Ok(());
        }
        let mut active = Vec::new();
        for item in &offer.items {
            self.activate_all(offer, item, &mut active);
            let found = self.pairs_of(&active);
            if found > MAX_PAIRS {
                return Err(TooManyPairs { found });
            }
        }
        Ok(())
    }

    /// Whether an item of so many features could have more interactions than are worked out.
    pub(crate) fn may_have_too_many_pairs(&self, offer: &Offer, features: usize) -> bool {
        let shared = offer.context.map_or(0, Features::len) + offer.user.map_or(0, Features::len);
        let all = features + shared;
        !self.pairs.is_empty() && all.saturating_mul(all) > MAX_PAIRS
    }

    /// The vectors of all items, one after the other, as places and moments are now. Says whether there
    /// are interactions that could have a place of their own: [`Encoder::look_at_pairs`] finds them.
    pub fn encode(&self, offer: &Offer, rows: &mut Vec<f64>) -> bool {
        let mut numbers = Vec::new();
        for features in offer.all() {
            let of_atom = |atom: &Atom| number_of(self.coordinates.find(atom.hash));
            numbers.extend(features.atoms().iter().map(of_atom));
        }
        self.encode_found(offer, &numbers, rows)
    }

    /// The same where every feature was looked up: `numbers` has what [`number_of`] makes of each, those of the items
    /// first, then those of the context and of the user.
    pub(crate) fn encode_found(&self, offer: &Offer, numbers: &[u32], rows: &mut Vec<f64>) -> bool {
        rows.clear();
        rows.reserve(offer.items.len() * self.dim);
        let mut common = vec![0.0; self.dim];
        if self.settings.constant {
            common[0] = 1.0;
        }
        let of_items = offer.items.iter().map(|item| item.atoms().len()).sum();
        let (mut numbers, of_shared) = numbers.split_at(of_items);
        let (of_context, of_user) =
            of_shared.split_at(offer.context.map_or(0, |context| context.atoms().len()));
        let (mut shared, mut active, mut strangers) = (Vec::new(), Vec::new(), false);
        self.activate(offer.context, Side::Context, of_context, &mut shared);
        self.activate(offer.user, Side::User, of_user, &mut shared);
        shared.iter().for_each(|one| self.add(one, &mut common));
        let needs_more = shared.is_empty() && self.pairs_need_more();
        let is_crossed = !self.pairs.is_empty() && !needs_more;
        for item in &offer.items {
            let start = rows.len();
            rows.extend_from_slice(&common);
            let row = &mut rows[start..];
            let (of_item, of_others) = numbers.split_at(item.atoms().len());
            numbers = of_others;
            if !is_crossed {
                self.each_active(item, Side::Item, of_item, |one| self.add(&one, row));
                continue;
            }
            active.clear();
            self.activate(Some(item), Side::Item, of_item, &mut active);
            active.iter().for_each(|one| self.add(one, row));
            active.extend_from_slice(&shared);
            self.each_pair(&active, |one, other| {
                let hash = crossed(one.hash, other.hash);
                let (place, sign) = match self.coordinates.find(hash) {
                    Some(number) => self.coordinates.place_and_sign(number),
                    None => {
                        strangers = true;
                        self.coordinates.of_stranger(hash, true)
                    }
                };
                row[place] += WEIGHT * sign * one.value * other.value;
            });
        }
        strangers && self.coordinates.has_room(Kind::Category, true, 0)
    }

    /// Whether every interaction is with a context or a user.
    pub(crate) fn pairs_need_more(&self) -> bool {
        let others = [Side::Context.hash(), Side::User.hash()];
        self.pairs.iter().all(|pair| pair.iter().any(|name| others.contains(name)))
    }

    #[inline]
    pub(crate) fn add(&self, one: &Active, row: &mut [f64]) {
        let (place, sign) = match one.number {
            NO_NUMBER => self.coordinates.of_stranger(one.hash, false),
            number => self.coordinates.place_and_sign(number as usize),
        };
        row[place] += WEIGHT * sign * one.value;
    }

    pub(crate) fn place_of(&self, hash: u64, crossed: bool) -> (usize, f64) {
        match self.coordinates.find(hash) {
            Some(number) => self.coordinates.place_and_sign(number),
            None => self.coordinates.of_stranger(hash, crossed),
        }
    }

    /// What a feature adds to a vector, apart from its sign.
    pub(crate) fn weight() -> f64 {
        WEIGHT
    }

    pub(crate) fn activate_all(&self, offer: &Offer, item: &Features, active: &mut Vec<Active>) {
        active.clear();
        let sides =
            [(Some(item), Side::Item), (offer.context, Side::Context), (offer.user, Side::User)];
        for (features, side) in sides {
            let atoms = features.map_or(&[][..], Features::atoms).iter();
            let numbers: Vec<u32> =
                atoms.map(|atom| number_of(self.coordinates.find(atom.hash))).collect();
            self.activate(features, side, &numbers, active);
        }
    }

    /// The features of context and user.
    pub(crate) fn activate_shared(&self, offer: &Offer, active: &mut Vec<Active>) {
        for (features, side) in [(offer.context, Side::Context), (offer.user, Side::User)] {
            let atoms = features.map_or(&[][..], Features::atoms).iter();
            let numbers: Vec<u32> =
                atoms.map(|atom| number_of(self.coordinates.find(atom.hash))).collect();
            self.activate(features, side, &numbers, active);
        }
    }

    /// A feature of an item with the value 1, which is the `of`-th of its object or a number of that.
    pub(crate) fn item_feature(&self, hash: u64, space: u64, of: usize) -> Active {
        let number = number_of(self.coordinates.find(hash));
        Active { hash, side: Side::Item, space, value: 1.0, number, of: of as u32 }
    }

    /// The value of a feature that is no list, as it is added.
    #[inline]
    pub(crate) fn standardised(&self, atom: &Atom, number: u32) -> f64 {
        match (atom.kind, number) {
            (Kind::Number, NO_NUMBER) => atom.value / (1.0 + atom.value.abs()),
            (Kind::Number, _) => self.coordinates.spot(number as usize).standardise(atom.value),
            _ => atom.value,
        }
    }

    /// By what the numbers of a list are multiplied.
    #[inline]
    pub(crate) fn scale_of_list(&self, atom: &Atom, number: u32) -> f64 {
        let known = self.coordinates.named().get(number as usize);
        let size = known.map_or(atom.value, |known| known.moments.size());
        if size > 0.0 { 1.0 / size } else { 0.0 }
    }

    /// The value of a number of a list, as it is added.
    #[inline]
    pub(crate) fn of_list(number: f32, scale: f64) -> f64 {
        (f64::from(number) * scale).clamp(-1e3, 1e3)
    }

    fn activate(
        &self,
        features: Option<&Features>,
        side: Side,
        numbers: &[u32],
        active: &mut Vec<Active>,
    ) {
        if let Some(features) = features {
            self.each_active(features, side, numbers, |one| active.push(one));
        }
    }

    /// Every feature with its standardised value.
    #[inline]
    fn each_active(
        &self,
        features: &Features,
        side: Side,
        numbers: &[u32],
        mut with: impl FnMut(Active),
    ) {
        for ((at, atom), number) in features.atoms().iter().enumerate().zip(numbers) {
            let (hash, space, number, of) = (atom.hash, atom.space, *number, at as u32);
            if atom.kind == Kind::List {
                let scale = self.scale_of_list(atom, number);
                for (index, number) in features.list(atom).iter().enumerate() {
                    let hash = member(atom.hash, index);
                    let value = Self::of_list(*number, scale);
                    let number = number_of(self.coordinates.find(hash));
                    with(Active { hash, number, side, space, value, of });
                }
                continue;
            }
            let value = self.standardised(atom, number);
            with(Active { hash, number, side, space, value, of });
        }
    }

    /// How many interactions features have.
    fn pairs_of(&self, active: &[Active]) -> usize {
        let count = |name| active.iter().filter(|one| one.is_in(name)).count();
        self.pairs.iter().map(|[a, b]| count(*a).saturating_mul(count(*b))).sum()
    }

    /// All interactions, each once, also of a feature that is in several of what is multiplied: in a namespace of the
    /// context that is called `user`, say. Those of a number that is 0 are nothing.
    pub(crate) fn each_pair(&self, active: &[Active], mut with: impl FnMut(&Active, &Active)) {
        let names = self.names_of_pairs.iter();
        let is_twice = |one: &Active| names.clone().filter(|name| one.is_in(**name)).count() > 1;
        let may_repeat = self.repeats_pairs || active.iter().any(is_twice);
        for (before, [a, b]) in self.pairs.iter().enumerate() {
            for (at, one) in active.iter().enumerate().filter(|(_, one)| one.is_in(*a)) {
                let from = if a == b { at + 1 } else { 0 };
                let others = active.iter().enumerate().skip(from);
                for (to, other) in others.filter(|(_, other)| other.is_in(*b)) {
                    let is_either_way = to < at && one.is_in(*b) && other.is_in(*a);
                    let is_known = may_repeat
                        && (is_either_way || are_multiplied(&self.pairs[..before], one, other));
                    if one.hash != other.hash && !is_known {
                        with(one, other);
                    }
                }
            }
        }
    }
}

/// Whether one of these interactions is of both features.
fn are_multiplied(pairs: &[[u64; 2]], one: &Active, other: &Active) -> bool {
    let are = |a: u64, b: u64| one.is_in(a) && other.is_in(b);
    pairs.iter().any(|[a, b]| are(*a, *b) || are(*b, *a))
}

impl Active {
    /// Whether its namespace is called as context or user are.
    pub(crate) fn is_named_like_others(&self) -> bool {
        [Side::Context.hash(), Side::User.hash()].contains(&self.space)
    }

    fn is_in(&self, name: u64) -> bool {
        self.space == name || self.side.hash() == name
    }
}

/// What an active feature is called.
pub(crate) fn name_of(offer: &Offer, item: &Features, active: &Active) -> String {
    let features = match active.side {
        Side::Item => Some(item),
        Side::Context => offer.context,
        Side::User => offer.user,
    };
    let Some(features) = features else { return String::new() };
    let Some(atom) = features.atoms().get(active.of as usize) else { return String::new() };
    let name = features.name(atom);
    let index =
        (0..features.list(atom).len()).find(|index| member(atom.hash, *index) == active.hash);
    index.map_or_else(|| name.to_owned(), |index| format!("{name}[{index}]"))
}
