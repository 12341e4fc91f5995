//! Which number does a user have? Ids to dense numbers, in little more memory than the ids take.

use std::collections::BTreeSet;
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// Words numbered 0, 1, 2, … in the order in which they came. The number of a word that was removed is
/// given to the next that comes, the smallest first.
///
/// The words lie in one piece of memory, one after the other; the table holds numbers only and
/// looks the words up there.
#[derive(Default)]
pub struct Names {
    words: Vec<u8>,
    /// Where each word begins, and how long it is; one that was removed has no length.
    places: Vec<(u64, u32)>,
    free: BTreeSet<u32>,
    /// Bytes of words that were removed.
    unused: usize,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

/// Unused bytes that are not worth moving all words for.
const FEW_BYTES: usize = 1 << 16;

impl Names {
    /// How many numbers were given: all are less than this.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there never was one.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// How many words there are.
    pub fn count(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// The number that the next new word gets.
    pub fn next_number(&self) -> usize {
        self.free.first().map_or(self.places.len(), |free| *free as usize)
    }

    /// The word of a number; empty where it was removed.
    pub fn name(&self, number: usize) -> &str {
        std::str::from_utf8(word(&self.words, &self.places, number)).unwrap_or_default()
    }

    /// The number of a word.
    pub fn find(&self, name: &str) -> Option<usize> {
        let is_it = |number: &u32| self.name(*number as usize) == name;
        self.table.find(self.hasher.hash_one(name.as_bytes()), is_it).map(|found| *found as usize)
    }

    /// The number of a word, a new one if it is not there yet; `None` where 2³² are there already.
    pub fn find_or_add(&mut self, name: &str) -> Option<usize> {
        if let Some(number) = self.find(name) {
            return Some(number);
        }
        let number = u32::try_from(self.next_number()).ok()?;
        let place = (self.words.len() as u64, u32::try_from(name.len()).ok()?);
        self.words.extend_from_slice(name.as_bytes());
        match self.free.remove(&number) {
            true => self.places[number as usize] = place,
            false => self.places.push(place),
        }
        let Self { words, places, table, hasher, .. } = self;
        let hash_of = |number: &u32| hasher.hash_one(word(words, places, *number as usize));
        table.insert_unique(hasher.hash_one(name.as_bytes()), number, hash_of);
        Some(number as usize)
    }

    /// Removes a word; its number, if it was there.
    pub fn remove(&mut self, name: &str) -> Option<usize> {
        let hash = self.hasher.hash_one(name.as_bytes());
        let Self { words, places, table, .. } = self;
        let is_it = |number: &u32| word(words, places, *number as usize) == name.as_bytes();
        let (number, _) = table.find_entry(hash, is_it).ok()?.remove();
        self.places[number as usize].1 = 0;
        self.free.insert(number);
        self.unused += name.len();
        if self.unused > FEW_BYTES && 2 * self.unused > self.words.len() {
            self.move_together();
        }
        Some(number as usize)
    }

    /// Gives a new word the number after all others: for reading what was kept. `None` if it is there.
    pub(super) fn append(&mut self, name: &str) -> Option<usize> {
        if self.find(name).is_some() {
            return None;
        }
        let free = std::mem::take(&mut self.free);
        let number = self.find_or_add(name);
        self.free = free;
        number
    }

    /// A number that no word has, as after a removal: for reading what was kept.
    pub(super) fn add_hole(&mut self) -> Option<usize> {
        let number = u32::try_from(self.places.len()).ok()?;
        self.places.push((self.words.len() as u64, 0));
        self.free.insert(number);
        Some(number as usize)
    }

    fn move_together(&mut self) {
        let mut words = Vec::with_capacity(self.words.len() - self.unused);
        for place in &mut self.places {
            let start = words.len() as u64;
            words.extend_from_slice(word(&self.words, std::slice::from_ref(place), 0));
            place.0 = start;
        }
        (self.words, self.unused) = (words, 0);
    }

    /// A copy that can be written elsewhere.
    pub fn list(&self) -> NameList {
        NameList { words: self.words.clone(), places: self.places.clone() }
    }

    /// All words in the order of their numbers; those that were removed are empty.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|number| self.name(number))
    }
}

/// Words in the order of their numbers, and nothing to find them by.
pub struct NameList {
    words: Vec<u8>,
    places: Vec<(u64, u32)>,
}

impl NameList {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// All words, as bytes.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|number| word(&self.words, &self.places, number))
    }
}

fn word<'a>(words: &'a [u8], places: &[(u64, u32)], number: usize) -> &'a [u8] {
    let (start, length) = places[number];
    &words[start as usize..start as usize + length as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn names_come_and_go_as_in_a_plain_list(
            events in prop::collection::vec(("[a-e]{1,2}", any::<bool>()), 0..300),
        ) {
            let mut names = Names::default();
            let mut plain: Vec<Option<String>> = Vec::new();
            for (name, goes) in events {
                let known = plain.iter().position(|known| known.as_deref() == Some(name.as_str()));
                prop_assert_eq!(names.find(&name), known);
                if goes {
                    prop_assert_eq!(names.remove(&name), known);
                    known.iter().for_each(|known| plain[*known] = None);
                    names.move_together();
                    continue;
                }
                let number = names.find_or_add(&name).unwrap();
                let free = plain.iter().position(Option::is_none).unwrap_or(plain.len());
                prop_assert_eq!(number, known.unwrap_or(free));
                if number == plain.len() {
                    plain.push(None);
                }
                plain[number] = Some(name);
            }
            prop_assert_eq!(names.len(), plain.len());
            prop_assert_eq!(names.count(), plain.iter().flatten().count());
            let all: Vec<_> = plain.iter().map(|name| name.as_deref().unwrap_or("")).collect();
            prop_assert_eq!(names.iter().collect::<Vec<_>>(), all);
        }

        #[test]
        fn numbers_are_those_of_a_plain_map(words in prop::collection::vec(".{0,6}", 0..300)) {
            let mut names = Names::default();
            let mut plain = HashMap::new();
            for word in &words {
                let next = plain.len();
                let number = *plain.entry(word.clone()).or_insert(next);
                prop_assert_eq!(names.find_or_add(word), Some(number));
            }
            for (word, number) in &plain {
                prop_assert_eq!(names.find(word), Some(*number));
                prop_assert_eq!(names.name(*number), word);
            }
            prop_assert_eq!(names.len(), plain.len());
            prop_assert_eq!(names.find("not there, too long"), None);
        }
    }
}
