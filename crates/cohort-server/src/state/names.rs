//! Which number does a user have? Ids to dense numbers, in little more memory than the ids take.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// Words numbered 0, 1, 2, … in the order in which they came.
///
/// The words lie in one piece of memory, one after the other; the table holds numbers only and
/// looks the words up there.
#[derive(Default)]
pub struct Names {
    words: Vec<u8>,
    /// Where each word ends; it begins where the one before it ends.
    ends: Vec<u64>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Names {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The word of a number.
    pub fn name(&self, number: usize) -> &str {
        std::str::from_utf8(word(&self.words, &self.ends, number)).unwrap_or_default()
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
        let number = u32::try_from(self.ends.len()).ok()?;
        self.words.extend_from_slice(name.as_bytes());
        self.ends.push(self.words.len() as u64);
        let Self { words, ends, table, hasher } = self;
        let hash_of = |number: &u32| hasher.hash_one(word(words, ends, *number as usize));
        table.insert_unique(hasher.hash_one(name.as_bytes()), number, hash_of);
        Some(number as usize)
    }

    /// A copy that can be written elsewhere.
    pub fn list(&self) -> NameList {
        NameList { words: self.words.clone(), ends: self.ends.clone() }
    }

    /// All words in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|number| self.name(number))
    }
}

/// Words in the order of their numbers, and nothing to find them by.
pub struct NameList {
    words: Vec<u8>,
    ends: Vec<u64>,
}

impl NameList {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All words, as bytes.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|number| word(&self.words, &self.ends, number))
    }
}

fn word<'a>(words: &'a [u8], ends: &[u64], number: usize) -> &'a [u8] {
    let start = number.checked_sub(1).map_or(0, |before| ends[before]);
    &words[start as usize..ends[number] as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
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
