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

use hashbrown::HashMap;

use crate::coordinates::{Coordinates, Named};
use crate::features::{Atom, Features, Kind, Side, crossed, hash_of, member};
use crate::moments::Moments;

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
    coordinates: Coordinates,
    /// How often moments were learned.
    generation: u64,
}

/// A feature as it is multiplied: its hash, what it is in, its standardised value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Active {
    pub hash: u64,
    pub side: Side,
    pub space: u64,
    pub value: f64,
    /// Its number among those that were seen.
    number: Option<u32>,
    /// Of which object, which of its features, which number of a list: for its name.
    of: (u32, u32),
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
    /// For vectors of `dim`.
    ///
    /// # Panics
    /// If `dim` is 0.
    pub fn new(dim: usize, settings: EncoderSettings) -> Self {
        assert!(dim > 0, "vectors have a coordinate or more");
        let first = usize::from(settings.constant && dim > 1);
        let coordinates = Coordinates::new(dim, first, settings.seed);
        let pairs = settings.interactions.iter().map(|(a, b)| [hash_of(a), hash_of(b)]).collect();
        Self { dim, settings, pairs, coordinates, generation: 0 }
    }

    /// As it was made.
    pub fn settings(&self) -> &EncoderSettings {
        &self.settings
    }

    /// How many numbers a vector has.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// How often numbers were measured anew: as long as it stays, an item that was seen has the same vector.
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

    /// The vectors of all items, one after the other, learning first whatever is to be learned.
    pub fn encode_seen(&mut self, offer: &Offer, rows: &mut Vec<f64>) -> Result<(), TooManyPairs> {
        let seen = self.look(offer)?;
        self.learn(&seen);
        if self.encode(offer, rows) {
            let seen = self.look_at_pairs(offer);
            self.learn(&seen);
            self.encode(offer, rows);
        }
        Ok(())
    }

    /// What is to be learned before an offer is encoded, but for interactions. What it has of numbers is
    /// gathered; nothing else changes before [`Encoder::learn`].
    pub fn look(&mut self, offer: &Offer) -> Result<Seen, TooManyPairs> {
        self.check(offer)?;
        let mut found = Found::default();
        let (context, user) = (offer.context, offer.user);
        for features in offer.items.iter().copied().chain(context).chain(user) {
            for atom in features.atoms() {
                self.look_at(features, atom, &mut found);
            }
        }
        let known = self.coordinates.named().len();
        let Found { mut seen, moments, mut due, .. } = found;
        let measured = moments.into_iter().enumerate().filter(|(_, moments)| moments.count > 0.0);
        seen.moments.extend(measured.map(|(at, moments)| ((known + at) as u32, moments)));
        due.sort_unstable();
        due.dedup();
        seen.moments.extend(due.iter().map(|at| (*at, self.coordinates.get(*at as usize).pending)));
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

    fn look_at(&mut self, features: &Features, atom: &Atom, found: &mut Found) {
        let is_measured = matches!(atom.kind, Kind::Number | Kind::List);
        match self.coordinates.find(atom.hash) {
            Some(number) if is_measured => {
                let known = self.coordinates.get_mut(number);
                known.pending.add(atom.value);
                if known.pending.count >= known.moments.count {
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
        if list.len() <= self.dim {
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
        self.generation += u64::from(!seen.moments.is_empty());
        for (number, moments) in &seen.moments {
            if (*number as usize) < self.coordinates.named().len() {
                let known = self.coordinates.get_mut(*number as usize);
                known.moments.merge(moments);
                known.pending = Moments::default();
            }
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

    /// Refuses an offer with more interactions than are worked out.
    pub fn check(&self, offer: &Offer) -> Result<(), TooManyPairs> {
        if offer.context.is_none() && offer.user.is_none() && self.pairs_need_more() {
            return Ok(());
        }
        let longest = offer.items.iter().map(|item| item.len()).max().unwrap_or(0);
        let shared = offer.context.map_or(0, Features::len) + offer.user.map_or(0, Features::len);
        let most = (longest + shared).saturating_mul(longest + shared);
        if most <= MAX_PAIRS || self.pairs.is_empty() {
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

    /// The vectors of all items, one after the other, as places and moments are now. Says whether there
    /// are interactions that could have a place of their own: [`Encoder::look_at_pairs`] finds them.
    pub fn encode(&self, offer: &Offer, rows: &mut Vec<f64>) -> bool {
        rows.clear();
        rows.reserve(offer.items.len() * self.dim);
        let mut common = vec![0.0; self.dim];
        if self.settings.constant {
            common[0] = 1.0;
        }
        let (mut shared, mut active, mut strangers) = (Vec::new(), Vec::new(), false);
        self.activate(offer.context, Side::Context, 1, &mut shared);
        self.activate(offer.user, Side::User, 2, &mut shared);
        self.add_all(&shared, &mut common);
        let needs_more = shared.is_empty() && self.pairs_need_more();
        let is_crossed = !self.pairs.is_empty() && !needs_more;
        for item in &offer.items {
            let start = rows.len();
            rows.extend_from_slice(&common);
            let row = &mut rows[start..];
            active.clear();
            self.activate(Some(item), Side::Item, 0, &mut active);
            self.add_all(&active, row);
            if is_crossed {
                active.extend_from_slice(&shared);
                self.each_pair(&active, |one, other| {
                    let hash = crossed(one.hash, other.hash);
                    let (place, sign) = match self.coordinates.find(hash) {
                        Some(number) => self.coordinates.get(number).place_and_sign(),
                        None => {
                            strangers = true;
                            self.coordinates.of_stranger(hash, true)
                        }
                    };
                    row[place] += WEIGHT * sign * one.value * other.value;
                });
            }
        }
        strangers && self.coordinates.has_room(Kind::Category, true, 0)
    }

    /// Whether every interaction is with a context or a user.
    fn pairs_need_more(&self) -> bool {
        let others = [hash_of(Side::Context.name()), hash_of(Side::User.name())];
        self.pairs.iter().all(|pair| pair.iter().any(|name| others.contains(name)))
    }

    fn add_all(&self, active: &[Active], row: &mut [f64]) {
        for one in active {
            let (place, sign) = match one.number {
                Some(number) => self.coordinates.get(number as usize).place_and_sign(),
                None => self.coordinates.of_stranger(one.hash, false),
            };
            row[place] += WEIGHT * sign * one.value;
        }
    }

    pub(crate) fn place_of(&self, hash: u64, crossed: bool) -> (usize, f64) {
        match self.coordinates.find(hash) {
            Some(number) => self.coordinates.get(number).place_and_sign(),
            None => self.coordinates.of_stranger(hash, crossed),
        }
    }

    /// What a feature adds to a vector, apart from its sign.
    pub(crate) fn weight() -> f64 {
        WEIGHT
    }

    pub(crate) fn activate_all(&self, offer: &Offer, item: &Features, active: &mut Vec<Active>) {
        active.clear();
        self.activate(Some(item), Side::Item, 0, active);
        self.activate(offer.context, Side::Context, 1, active);
        self.activate(offer.user, Side::User, 2, active);
    }

    fn activate(&self, features: Option<&Features>, side: Side, of: u32, active: &mut Vec<Active>) {
        let Some(features) = features else { return };
        for (at, atom) in features.atoms().iter().enumerate() {
            let (space, of) = (atom.space, (of, at as u32));
            let number = self.coordinates.find(atom.hash);
            let known = number.map(|number| self.coordinates.get(number));
            let value = match atom.kind {
                Kind::Category | Kind::Flag => atom.value,
                Kind::Number => match known {
                    Some(known) => known.moments.standardise(atom.value),
                    None => atom.value / (1.0 + atom.value.abs()),
                },
                Kind::List => {
                    let size = known.map_or(atom.value, |known| known.moments.size());
                    let scale = if size > 0.0 { 1.0 / size } else { 0.0 };
                    for (index, number) in features.list(atom).iter().enumerate() {
                        let (hash, value) = (member(atom.hash, index), f64::from(*number) * scale);
                        let number = self.coordinates.find(hash).map(|number| number as u32);
                        active.push(Active {
                            hash,
                            number,
                            side,
                            space,
                            value: value.clamp(-1e3, 1e3),
                            of,
                        });
                    }
                    continue;
                }
            };
            let number = number.map(|number| number as u32);
            active.push(Active { hash: atom.hash, number, side, space, value, of });
        }
    }

    /// How many interactions features have.
    fn pairs_of(&self, active: &[Active]) -> usize {
        let count = |name| active.iter().filter(|one| one.is_in(name)).count();
        self.pairs.iter().map(|[a, b]| count(*a).saturating_mul(count(*b))).sum()
    }

    /// All interactions, each once. Those of a number that is 0 are nothing.
    pub(crate) fn each_pair(&self, active: &[Active], mut with: impl FnMut(&Active, &Active)) {
        for [a, b] in &self.pairs {
            for (at, one) in active.iter().enumerate().filter(|(_, one)| one.is_in(*a)) {
                let from = if a == b { at + 1 } else { 0 };
                for other in active[from..].iter().filter(|other| other.is_in(*b)) {
                    if one.hash != other.hash {
                        with(one, other);
                    }
                }
            }
        }
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

impl Active {
    fn is_in(&self, name: u64) -> bool {
        self.space == name || side_hash(self.side) == name
    }
}

fn side_hash(side: Side) -> u64 {
    static HASHES: std::sync::LazyLock<[u64; 3]> = std::sync::LazyLock::new(|| {
        [Side::Item, Side::Context, Side::User].map(|side| hash_of(side.name()))
    });
    HASHES[side as usize]
}

/// What an active feature is called.
pub(crate) fn name_of(offer: &Offer, item: &Features, active: &Active) -> String {
    let features = match active.of.0 {
        0 => Some(item),
        1 => offer.context,
        _ => offer.user,
    };
    let Some(features) = features else { return String::new() };
    let Some(atom) = features.atoms().get(active.of.1 as usize) else { return String::new() };
    let name = features.name(atom);
    let index =
        (0..features.list(atom).len()).find(|index| member(atom.hash, *index) == active.hash);
    index.map_or_else(|| name.to_owned(), |index| format!("{name}[{index}]"))
}
