//! Which name is read? Objects of a request are much alike: a name that stands about where it stood in the object
//! before is neither put together nor hashed nor compared with the other names of its object again.

use crate::features::hash_of;

/// Names of an object that are remembered for the next one.
const REMEMBERED: usize = 256;
/// How many names the next object may lack, one after the other, and its names are still found.
const AHEAD: usize = 4;

/// A name that was read.
#[derive(Debug, Default)]
struct ReadName {
    /// In which object: the first, the second, … of all that were opened.
    object: u32,
    /// The hash of what that object is called.
    inside: u64,
    /// The name with all that it is inside of; the bare name is the end of it.
    path: String,
    bare: usize,
    hash: u64,
    is_ignored: bool,
}

impl ReadName {
    fn set(&mut self, place: &Place, name: &str) {
        self.path.clear();
        self.path.push_str(place.path);
        self.path.push('.');
        self.bare = self.path.len();
        self.path.push_str(name);
        self.hash = hash_of(&self.path);
        (self.object, self.inside) = (place.object, place.inside);
        self.is_ignored = name.starts_with('_');
    }

    #[inline]
    fn is(&self, place: &Place, name: &str) -> bool {
        self.object == place.object
            && self.inside == place.inside
            && self.path.as_bytes()[self.bare..] == *name.as_bytes()
    }
}

/// Where a name is read.
pub(crate) struct Place<'a> {
    /// In which object.
    pub object: u32,
    /// What that is called.
    pub path: &'a str,
    /// The hash of it.
    pub inside: u64,
}

/// A name that stands twice in one object.
pub(crate) struct Twice;

/// Names in the order in which they are read; behind them those of the objects before. All of them differ.
#[derive(Debug, Default)]
pub(crate) struct ReadNames {
    names: Vec<ReadName>,
    /// How many names were read, as far as they are remembered.
    read: usize,
    /// The last one, where it is one too many to be remembered.
    beyond: ReadName,
    is_beyond: bool,
    /// Hashes of the names of the objects that are open.
    open: Vec<u64>,
    objects: u32,
}

impl ReadNames {
    /// From here on other features are read.
    pub fn begin(&mut self) {
        (self.read, self.is_beyond, self.objects) = (0, false, 0);
        self.open.clear();
    }

    /// An object is opened. Returns its number, and what [`ReadNames::close`] takes.
    pub fn open(&mut self) -> (u32, usize) {
        self.objects += 1;
        (self.objects, self.open.len())
    }

    /// It is closed.
    pub fn close(&mut self, first: usize) {
        self.open.truncate(first);
    }

    /// How many names an object has so far.
    pub fn count(&self, first: usize) -> usize {
        self.open.len() - first
    }

    /// The next name of the innermost object; says whether it is ignored.
    #[inline]
    pub fn read(&mut self, place: &Place, first: usize, name: &str) -> Result<bool, Twice> {
        // What is found here or ahead was not read before, as all names differ.
        if self.names.get(self.read).is_some_and(|known| known.is(place, name)) {
            let known = &self.names[self.read];
            self.open.push(known.hash);
            self.read += 1;
            return Ok(known.is_ignored);
        }
        self.search(place, first, name)
    }

    fn search(&mut self, place: &Place, first: usize, name: &str) -> Result<bool, Twice> {
        let mut ahead = self.names[self.read..].iter().take(AHEAD);
        if let Some(found) = ahead.position(|known| known.is(place, name)) {
            return Ok(self.advance(self.read + found));
        }
        self.beyond.set(place, name);
        let (object, hash) = (place.object, self.beyond.hash);
        if self.open[first..].contains(&hash) {
            return Err(Twice);
        }
        let is_it = |known: &ReadName| known.object == object && known.hash == hash;
        let elsewhere = self.names[self.read..].iter().position(is_it);
        if let Some(found) = elsewhere {
            return Ok(self.advance(self.read + found));
        }
        if self.read == REMEMBERED {
            self.is_beyond = true;
            self.open.push(hash);
            return Ok(self.beyond.is_ignored);
        }
        let at = if self.names.len() < REMEMBERED { self.names.len() } else { self.read };
        let new = std::mem::take(&mut self.beyond);
        match at < self.names.len() {
            true => self.beyond = std::mem::replace(&mut self.names[at], new),
            false => self.names.push(new),
        }
        Ok(self.advance(at))
    }

    fn advance(&mut self, at: usize) -> bool {
        self.names.swap(self.read, at);
        let known = &self.names[self.read];
        self.open.push(known.hash);
        self.read += 1;
        known.is_ignored
    }

    #[inline]
    fn last(&self) -> Option<&ReadName> {
        match self.is_beyond {
            true => Some(&self.beyond),
            false => self.names[..self.read].last(),
        }
    }

    /// The name that was read last, with all that it is inside of, and the hash of it.
    #[inline]
    pub fn path(&self) -> (&str, u64) {
        self.last().map_or(("", 0), |known| (&known.path, known.hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads objects of names, one after the other; of each what was said of its names.
    fn read(names: &mut ReadNames, objects: &[Vec<&str>]) -> Vec<Vec<Option<String>>> {
        names.begin();
        let inside = hash_of("item");
        let mut told = Vec::new();
        for object in objects {
            let (number, first) = names.open();
            let place = Place { object: number, path: "item", inside };
            let of_names = object.iter().map(|name| {
                let is_new = names.read(&place, first, name);
                is_new.ok().map(|_| names.path().0.to_owned())
            });
            told.push(of_names.collect());
            names.close(first);
        }
        told
    }

    proptest! {
        /// However objects differ from those before: names are told as they are, and what is twice in one object, and
        /// nothing else, is refused.
        #[test]
        fn names_are_told_as_they_are(
            reads in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(0usize..300, 0..12), 0..4), 0..12),
            wide in any::<bool>(),
        ) {
            let words: Vec<String> = (0..300).map(|word| format!("n{}", word % 40)).collect();
            let many: Vec<String> = (0..300).map(|word| format!("m{word}")).collect();
            let mut names = ReadNames::default();
            for objects in reads {
                let mut objects: Vec<Vec<&str>> = objects
                    .into_iter()
                    .map(|object| object.into_iter().map(|word| words[word].as_str()).collect())
                    .collect();
                if wide && let Some(first) = objects.first_mut() {
                    first.extend(many.iter().map(String::as_str));
                }
                let told = read(&mut names, &objects);
                for (object, told) in objects.iter().zip(told) {
                    for (at, (name, told)) in object.iter().zip(told).enumerate() {
                        let expected =
                            (!object[..at].contains(name)).then(|| format!("item.{name}"));
                        prop_assert_eq!(told, expected);
                    }
                }
            }
        }
    }

    #[test]
    fn a_name_that_lacks_costs_the_others_nothing() {
        let mut names = ReadNames::default();
        read(&mut names, &[vec!["a", "b", "c", "d"]]);
        for object in [vec!["b", "c", "d"], vec!["a", "b", "c", "d"], vec!["a", "d"]] {
            names.begin();
            let (number, first) = names.open();
            let place = Place { object: number, path: "item", inside: hash_of("item") };
            for name in object {
                let ahead = names.names[names.read..].iter().take(AHEAD);
                assert!(ahead.into_iter().any(|known| known.is(&place, name)), "{name}");
                assert!(names.read(&place, first, name).is_ok());
            }
        }
        assert_eq!(names.names.len(), 4);
    }
}
