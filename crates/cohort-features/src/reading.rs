//! How is JSON read, and what is refused?
//!
//! ```text
//! "genre": "drama"            item.genre=drama          there
//! "price": 3.5                item.price                3.5, standardised by the encoder
//! "new": true                 item.new                  1; −1 if false
//! "tags": ["a", "b"]          item.tags=a, item.tags=b  there
//! "embedding": [0.1, 0.7]     item.embedding[0], …      0.1, …, scaled as a whole by the encoder
//! "film": {"year": 1957}      item.film.year            in the namespace `film`
//! "sold": null                item.sold=null            there
//! "_internal": …              ignored
//! ```
//!
//! A list of objects is all of them together, as other services write it.

use std::cell::Cell;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::features::{Features, Kind, Side, hash_of};
use crate::read_names::{Place, ReadNames, Twice};
use crate::unreadable::{
    MAX_DEPTH, MAX_FEATURES, MAX_LIST, MAX_NAME, MAX_NUMBER, MAX_WORD, Unreadable,
};

/// The features of an item: numbers that a policy takes as they are, or JSON.
#[derive(Clone, Debug, PartialEq)]
pub enum Given {
    /// A vector.
    Vector(Vec<f64>),
    /// An object, or a list of objects.
    Json(Features),
}

/// The features of an item, as they are sent.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemFeatures(pub Given);

/// The features of a context, as they are sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContextFeatures(pub Features);

/// The features of a user, as they are sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UserFeatures(pub Features);

impl<'de> Deserialize<'de> for ItemFeatures {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Whole(Side::Item)).map(Self)
    }
}

fn json_of<'de, D: Deserializer<'de>>(side: Side, from: D) -> Result<Features, D::Error> {
    match from.deserialize_any(Whole(side))? {
        Given::Json(features) => Ok(features),
        Given::Vector(vector) if vector.is_empty() => Ok(Features::default()),
        Given::Vector(_) => Err(de::Error::custom(format!(
            "the features of a {} are an object, not a list of numbers",
            side.name()
        ))),
    }
}

impl<'de> Deserialize<'de> for ContextFeatures {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        json_of(Side::Context, from).map(Self)
    }
}

impl<'de> Deserialize<'de> for UserFeatures {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        json_of(Side::User, from).map(Self)
    }
}

impl Features {
    /// Reads an object, or a list of objects, of one side.
    pub fn parse(side: Side, json: &str) -> Result<Self, serde_json::Error> {
        let mut from = serde_json::Deserializer::from_str(json);
        let features = json_of(side, &mut from)?;
        from.end()?;
        Ok(features)
    }

    /// The same of JSON that was read already.
    pub fn of(side: Side, json: &serde_json::Value) -> Result<Self, serde_json::Error> {
        json_of(side, json)
    }
}

/// Memory that is used again, and how large the object before was: objects of a request are much alike.
#[derive(Default)]
struct Scratch {
    path: String,
    names: ReadNames,
    features: usize,
    text: usize,
}

thread_local! {
    /// Of each side.
    static SCRATCH: [Cell<Option<Scratch>>; 3] = const { [const { Cell::new(None) }; 3] };
}

/// What is being read.
struct Reader {
    features: Features,
    side: Side,
    /// What the innermost object is called, with all that it is inside of, and the hash of it.
    path: String,
    inside: u64,
    /// Its number, and where its names begin among those of all objects that are open.
    object: u32,
    first: usize,
    names: ReadNames,
    /// The hash of the namespace.
    space: u64,
    depth: usize,
}

impl Reader {
    fn new(side: Side) -> Self {
        let scratch = SCRATCH.with(|scratch| scratch[side as usize].take());
        let Scratch { mut path, mut names, features, text } = scratch.unwrap_or_default();
        path.push_str(side.name());
        names.begin();
        let features = Features {
            names: String::with_capacity(text),
            atoms: Vec::with_capacity(features),
            numbers: Vec::new(),
        };
        let space = side.hash();
        let (inside, object, first, depth) = (space, 0, 0, 0);
        Self { features, side, path, inside, object, first, names, space, depth }
    }

    /// What was read.
    fn done(mut self) -> Features {
        let (features, text) = (self.features.atoms.len(), self.features.names.len());
        self.path.clear();
        let scratch = Scratch { path: self.path, names: self.names, features, text };
        SCRATCH.with(|kept| kept[self.side as usize].set(Some(scratch)));
        self.features
    }

    /// The name of what is read, with all that it is inside of.
    fn name(&self) -> &str {
        self.names.path().0
    }

    fn check_room<E: de::Error>(&self) -> Result<(), E> {
        match self.features.atoms.len() < MAX_FEATURES {
            true => Ok(()),
            false => Err(E::custom(Unreadable::Many)),
        }
    }

    fn push<E: de::Error>(&mut self, kind: Kind, value: f64, list: &[f32]) -> Result<(), E> {
        self.check_room()?;
        self.features.push_hashed(self.names.path(), self.space, kind, value, list);
        Ok(())
    }

    fn number<E: de::Error>(&self, number: f64) -> Result<f64, E> {
        match number.abs() <= MAX_NUMBER {
            true => Ok(number),
            false => Err(self.no_number(&number.to_string())),
        }
    }

    fn no_number<E: de::Error>(&self, found: &str) -> E {
        E::custom(Unreadable::Number { name: self.name().to_owned(), found: found.to_owned() })
    }

    /// A category: the name and the word behind a `=`.
    /// Of a set, which begins at some feature, each word is there once.
    fn word<E: de::Error>(&mut self, word: &str, set: Option<usize>) -> Result<(), E> {
        if word.len() > MAX_WORD {
            return Err(self.long(word));
        }
        if is_no_number(word) {
            return Err(self.no_number(&format!("the word \"{word}\"")));
        }
        self.check_room()?;
        let known = set.unwrap_or(self.features.atoms.len());
        self.features.push_word(self.names.path().0, word, self.space, known);
        Ok(())
    }

    fn long<E: de::Error>(&self, name: &str) -> E {
        E::custom(Unreadable::Long { name: name.chars().take(60).collect() })
    }

    /// All names and values of an object, which is called as `path` says.
    fn object<'de, A: MapAccess<'de>>(&mut self, mut map: A) -> Result<(), A::Error> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(de::Error::custom(Unreadable::Deep { name: self.path.clone() }));
        }
        let outside = (self.object, self.first);
        (self.object, self.first) = self.names.open();
        while let Some(is_ignored) = map.next_key_seed(Key(self))? {
            if is_ignored {
                map.next_value::<IgnoredAny>()?;
            } else {
                map.next_value_seed(Value(self))?;
            }
        }
        self.names.close(self.first);
        (self.object, self.first) = outside;
        self.depth -= 1;
        Ok(())
    }
}

/// Words that programs write where they have no number.
#[inline]
pub fn is_no_number(word: &str) -> bool {
    // Most words are told by their first letter.
    if !matches!(word.as_bytes().first(), Some(b'-' | b'+' | b'n' | b'N' | b'i' | b'I')) {
        return false;
    }
    let bare = word.trim_start_matches(['-', '+']);
    ["nan", "inf", "infinity"].iter().any(|none| bare.eq_ignore_ascii_case(none))
}

/// A name. Says whether it is ignored.
struct Key<'a>(&'a mut Reader);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<bool, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<bool, E> {
        let reader = self.0;
        // Names that are ignored are counted too: looking through them takes time.
        if reader.names.count(reader.first) >= 2 * MAX_FEATURES {
            return Err(E::custom(Unreadable::Many));
        }
        if !name.starts_with('_') && reader.path.len() + name.len() >= MAX_NAME {
            return Err(reader.long(name));
        }
        let place = Place { object: reader.object, path: &reader.path, inside: reader.inside };
        let read = reader.names.read(&place, reader.first, name);
        read.map_err(|Twice| E::custom(Unreadable::Twice { name: name.to_owned() }))
    }
}

/// A value, whose name was read last.
struct Value<'a>(&'a mut Reader);

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a word, a number, true or false, null, a list, or an object")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<(), E> {
        self.0.push(Kind::Flag, if value { 1.0 } else { -1.0 }, &[])
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<(), E> {
        let value = self.0.number(value)?;
        self.0.push(Kind::Number, value, &[])
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<(), E> {
        self.visit_f64(value as f64)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<(), E> {
        self.visit_f64(value as f64)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<(), E> {
        self.0.word(value, None)
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        self.0.word("null", None)
    }

    fn visit_none<E: de::Error>(self) -> Result<(), E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        let reader = self.0;
        let (outside, inside, length) = (reader.space, reader.inside, reader.path.len());
        let (path, hash) = reader.names.path();
        reader.path.push_str(&path[length..]);
        reader.inside = hash;
        if reader.depth == 1 {
            reader.space = hash_of(&reader.path[reader.side.name().len() + 1..]);
        }
        reader.object(map)?;
        reader.path.truncate(length);
        (reader.space, reader.inside) = (outside, inside);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let reader = self.0;
        let refused = |reader: &Reader| {
            de::Error::custom(Unreadable::List { name: reader.name().to_owned() })
        };
        let (first, mut words) = (reader.features.atoms.len(), 0);
        let mut numbers = Vec::new();
        while let Some(member) = list.next_element_seed(Member(reader, first))? {
            match member {
                Some(number) => numbers.push(number),
                None => words += 1,
            }
            if numbers.len() > MAX_LIST || (words > 0 && !numbers.is_empty()) {
                return Err(refused(reader));
            }
        }
        if numbers.is_empty() {
            return Ok(());
        }
        let norm = numbers.iter().map(|number| f64::from(*number).powi(2)).sum::<f64>().sqrt();
        reader.push(Kind::List, norm, &numbers)
    }
}

/// A member of a list: a number, or a word, which is pushed. The second is where the list begins.
struct Member<'a>(&'a mut Reader, usize);

impl<'de> DeserializeSeed<'de> for Member<'_> {
    type Value = Option<f32>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Option<f32>, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Member<'_> {
    type Value = Option<f32>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a list of words only (a set), or of numbers only")
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Option<f32>, E> {
        self.0.number(value).map(|value| Some(value as f32))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Option<f32>, E> {
        self.visit_f64(value as f64)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Option<f32>, E> {
        self.visit_f64(value as f64)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Option<f32>, E> {
        self.0.word(value, Some(self.1)).map(|()| None)
    }
}

/// All features of one side.
struct Whole(Side);

impl<'de> Visitor<'de> for Whole {
    type Value = Given;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.0 {
            Side::Item => f.write_str("features: an object, or a list of numbers"),
            _ => f.write_str("features: an object"),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Given, A::Error> {
        let mut reader = Reader::new(self.0);
        reader.object(map)?;
        Ok(Given::Json(reader.done()))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Given, E> {
        Ok(Given::Json(Features::default()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Given, A::Error> {
        let (mut reader, mut vector, mut objects) = (Reader::new(self.0), Vec::new(), 0);
        while let Some(number) = list.next_element_seed(Part(&mut reader))? {
            match number {
                Some(number) => vector.push(number),
                None => objects += 1,
            }
            if objects > 0 && !vector.is_empty() {
                return Err(de::Error::custom("a list of numbers, or of objects, not of both"));
            }
        }
        Ok(if objects > 0 { Given::Json(reader.done()) } else { Given::Vector(vector) })
    }
}

/// A number of a vector, or one of several objects.
struct Part<'a>(&'a mut Reader);

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = Option<f64>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Option<f64>, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = Option<f64>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a number, or an object of features")
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Option<f64>, E> {
        Ok(Some(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Option<f64>, E> {
        Ok(Some(value as f64))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Option<f64>, E> {
        Ok(Some(value as f64))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Option<f64>, A::Error> {
        self.0.object(map).map(|()| None)
    }
}
