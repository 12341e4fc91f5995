//! Which coordinate does a feature have, and with which sign?
//!
//! ```text
//! h = xxh3(name, seed of the app)       sign = a bit of h,   place = h mod (number of places)
//! taken, and another place is free:     the next one that is free
//! none is free:                         shared
//! ```
//!
//! So features share a coordinate only where there are more of them than coordinates. Interactions, of
//! which there are very many, get half of the coordinates at most, and share those among each other. What
//! was seen first has its place first, and keeps it.

use std::hash::{BuildHasherDefault, Hasher};

use hashbrown::HashMap;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::features::Kind;
use crate::moments::{Moments, standardise};

/// Names that are kept. Features beyond them have a place and a sign like all others, and are not known by
/// name; numbers among them are not standardised.
pub const MAX_NAMES: usize = 8192;

/// A feature that was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// The hash of its name.
    pub hash: u64,
    /// What it is called; of an interaction both names with a `^` between them.
    pub name: Box<str>,
    /// Its kind.
    pub kind: Kind,
    /// Whether it is an interaction.
    pub crossed: bool,
    /// Its coordinate; of a list, whose numbers have theirs, none.
    pub place: usize,
    /// Its sign there.
    pub sign: f64,
    /// Of a number: how large it usually is. Of a list: how long.
    pub moments: Moments,
}

/// What every vector needs of a feature that was seen: apart from its name, so that many fit into the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    /// Its coordinate; of a list, whose numbers have theirs, none.
    pub place: usize,
    /// Its sign there.
    pub sign: f64,
    /// Its usual mean and standard deviation, if it is a number.
    mean: f64,
    deviation: f64,
    /// What was seen since, which counts once it is learned.
    pub pending: Moments,
    /// How often it was seen before.
    known: f64,
}

impl Spot {
    fn new(place: usize, sign: f64) -> Self {
        let pending = Moments::default();
        Self { place, sign, mean: 0.0, deviation: 0.0, pending, known: 0.0 }
    }

    /// Its moments have changed.
    fn measure(&mut self, moments: &Moments) {
        (self.mean, self.deviation) = (moments.mean, moments.deviation());
        (self.known, self.pending) = (moments.count, Moments::default());
    }

    /// One more number, or the size of a list. Says whether as many were seen as were known before.
    #[inline]
    pub fn gather(&mut self, number: f64) -> bool {
        self.pending.add(number);
        self.pending.count >= self.known
    }

    /// A number as [`Moments::standardise`] makes it.
    #[inline]
    pub fn standardise(&self, number: f64) -> f64 {
        standardise(number, self.mean, self.deviation)
    }
}

/// Where features are.
#[derive(Clone, Debug)]
pub struct Coordinates {
    seed: u64,
    /// The first coordinate that a feature can have: before it is the constant.
    first: usize,
    named: Vec<Named>,
    /// Of each of them.
    spots: Vec<Spot>,
    by_hash: HashMap<u64, u32, BuildHasherDefault<AsItIs>>,
    /// How many features each coordinate has.
    shared: Vec<u32>,
    free: usize,
    /// Coordinates of interactions, in the order in which they were given.
    crossed: Vec<usize>,
}

/// Names are hashed already.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsItIs(u64);

impl Hasher for AsItIs {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl Coordinates {
    /// For vectors of `dim`, whose coordinates before `first` are no feature's.
    pub(crate) fn new(dim: usize, first: usize, seed: u64) -> Self {
        let (by_hash, shared) = (HashMap::default(), vec![0; dim]);
        Self {
            seed,
            first,
            named: Vec::new(),
            spots: Vec::new(),
            by_hash,
            shared,
            free: dim - first,
            crossed: Vec::new(),
        }
    }

    /// All features that were seen, in the order in which they were.
    pub fn named(&self) -> &[Named] {
        &self.named
    }

    /// How many features a coordinate has.
    pub fn shared(&self, place: usize) -> usize {
        self.shared.get(place).map_or(0, |count| *count as usize)
    }

    /// Whether one more name is kept, if `more` are added before: the last eighth is for numbers and lists,
    /// which must be measured, and interactions get half of the rest at most.
    pub(crate) fn has_room(&self, kind: Kind, crossed: bool, more: usize) -> bool {
        let known = self.named.len() + more;
        match kind {
            Kind::Number | Kind::List => known < MAX_NAMES,
            _ if crossed => known < MAX_NAMES / 16 * 7,
            _ => known < MAX_NAMES / 8 * 7,
        }
    }

    /// The number of a feature among those that were seen.
    #[inline]
    pub(crate) fn find(&self, hash: u64) -> Option<usize> {
        self.by_hash.get(&hash).map(|number| *number as usize)
    }

    #[inline]
    pub(crate) fn spot(&self, number: usize) -> &Spot {
        &self.spots[number]
    }

    #[inline]
    pub(crate) fn spot_mut(&mut self, number: usize) -> &mut Spot {
        &mut self.spots[number]
    }

    /// Adds to what is known of a number or a list; what was gathered is part of that.
    pub(crate) fn measure(&mut self, number: usize, moments: &Moments) {
        if let (Some(named), Some(spot)) = (self.named.get_mut(number), self.spots.get_mut(number))
        {
            named.moments.merge(moments);
            spot.measure(&named.moments);
        }
    }

    /// Coordinate and sign of a feature that was seen. A number or a flag may have the name of what was a list before: it
    /// has a place as if it was not known by name.
    #[inline]
    pub(crate) fn place_and_sign(&self, number: usize) -> (usize, f64) {
        let Spot { place, sign, .. } = self.spots[number];
        match place {
            usize::MAX => self.of_stranger(self.named[number].hash, false),
            _ => (place, sign),
        }
    }

    /// Coordinate and sign of a feature that is not known by name.
    pub(crate) fn of_stranger(&self, hash: u64, crossed: bool) -> (usize, f64) {
        let hash = self.seeded(hash);
        (self.taken(hash, crossed), sign(hash))
    }

    /// Gives a feature a place; one that has one keeps it.
    pub(crate) fn add(&mut self, hash: u64, name: &str, kind: Kind, crossed: bool) -> usize {
        if let Some(known) = self.find(hash) {
            return known;
        }
        let seeded = self.seeded(hash);
        let may_be_alone = !crossed || self.crossed.len() < (self.shared.len() - self.first) / 2;
        let place = match self.free > 0 && may_be_alone {
            true => self.next_free(seeded),
            false => self.taken(seeded, crossed),
        };
        if self.shared[place] == 0 {
            self.free -= 1;
            if crossed {
                self.crossed.push(place);
            }
        }
        self.shared[place] += 1;
        self.keep(hash, name, kind, crossed, (place, sign(seeded)))
    }

    /// Remembers a list, which has no place itself: its numbers have.
    pub(crate) fn add_list(&mut self, hash: u64, name: &str) -> usize {
        if let Some(known) = self.find(hash) {
            return known;
        }
        self.keep(hash, name, Kind::List, false, (usize::MAX, 1.0))
    }

    fn keep(
        &mut self,
        hash: u64,
        name: &str,
        kind: Kind,
        crossed: bool,
        (place, sign): (usize, f64),
    ) -> usize {
        self.by_hash.insert(hash, self.named.len() as u32);
        self.spots.push(Spot::new(place, sign));
        let (name, moments) = (name.into(), Moments::default());
        self.named.push(Named { hash, name, kind, crossed, place, sign, moments });
        self.named.len() - 1
    }

    fn seeded(&self, hash: u64) -> u64 {
        xxh3_64_with_seed(&hash.to_le_bytes(), self.seed)
    }

    fn next_free(&self, hash: u64) -> usize {
        let count = self.shared.len() - self.first;
        let start = (hash >> 8) as usize % count;
        let place = |step: usize| self.first + (start + step) % count;
        (0..count).map(place).find(|place| self.shared[*place] == 0).unwrap_or(place(0))
    }

    fn taken(&self, hash: u64, crossed: bool) -> usize {
        if crossed && !self.crossed.is_empty() {
            return self.crossed[(hash >> 8) as usize % self.crossed.len()];
        }
        self.first + (hash >> 8) as usize % (self.shared.len() - self.first)
    }
}

fn sign(hash: u64) -> f64 {
    if hash & 1 == 0 { 1.0 } else { -1.0 }
}
