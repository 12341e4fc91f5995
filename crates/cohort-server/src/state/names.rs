//! Which number does a user have? Ids to dense numbers, in little more memory than the ids take.

use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::Arc;

use cohort::Pieces;
use hashbrown::DefaultHashBuilder;

use super::sharded::Sharded;

/// Words numbered 0, 1, 2, … in the order in which they came. The number of a word that was removed is
/// given to the next that comes, the smallest first.
///
/// The words lie in pages, one after the other; the table holds numbers only and looks the words up
/// there. Copies share all that is not written to.
pub struct Names {
    words: Words,
    free: BTreeSet<u32>,
    /// Bytes of all words, and of those that were removed.
    bytes: usize,
    unused: usize,
    table: Sharded<u32>,
    hasher: DefaultHashBuilder,
}

/// Words in the order of their numbers, and nothing to find them by.
#[derive(Clone)]
struct Words {
    pages: Vec<Arc<Vec<u8>>>,
    /// The page of each word, where it begins there, and how long it is; one that was removed has no length.
    places: Pieces<(u32, u32, u32)>,
}

/// A page is full with so many bytes.
const PAGE_BYTES: usize = 1 << 15;
/// Unused bytes that are not worth moving all words for.
const FEW_BYTES: usize = 1 << 16;

impl Default for Names {
    fn default() -> Self {
        Self {
            words: Words { pages: Vec::new(), places: Pieces::new(1) },
            free: BTreeSet::new(),
            bytes: 0,
            unused: 0,
            table: Sharded::default(),
            hasher: DefaultHashBuilder::default(),
        }
    }
}

impl Words {
    fn get(&self, number: usize) -> &[u8] {
        let (page, start, length) = self.places.value(number);
        match length {
            0 => &[],
            _ => &self.pages[page as usize][start as usize..][..length as usize],
        }
    }

    /// Adds bytes; returns where they are.
    fn add(&mut self, word: &[u8]) -> Option<(u32, u32, u32)> {
        let length = u32::try_from(word.len()).ok()?;
        let is_full = |page: &Arc<Vec<u8>>| page.len() + word.len() > PAGE_BYTES;
        if self.pages.last().is_none_or(is_full) {
            // A short list stays small.
            let room = if self.pages.is_empty() { word.len() } else { PAGE_BYTES.max(word.len()) };
            self.pages.push(Arc::new(Vec::with_capacity(room)));
        }
        let at = u32::try_from(self.pages.len() - 1).ok()?;
        let page = Arc::make_mut(self.pages.last_mut()?);
        let start = page.len() as u32;
        page.extend_from_slice(word);
        Some((at, start, length))
    }
}

impl Names {
    /// How many numbers were given: all are less than this.
    pub fn len(&self) -> usize {
        self.words.places.len()
    }

    /// Whether there never was one.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many words there are.
    pub fn count(&self) -> usize {
        self.len() - self.free.len()
    }

    /// The number that the next new word gets.
    pub fn next_number(&self) -> usize {
        self.free.first().map_or(self.len(), |free| *free as usize)
    }

    /// The word of a number; empty where it was removed.
    pub fn name(&self, number: usize) -> &str {
        std::str::from_utf8(self.words.get(number)).unwrap_or_default()
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
        let place = self.words.add(name.as_bytes())?;
        self.bytes += name.len();
        match self.free.remove(&number) {
            true => self.words.places.set(number as usize, place),
            false => self.words.places.push(&[place]),
        }
        let Self { words, table, hasher, .. } = self;
        let hash_of = |number: &u32| hasher.hash_one(words.get(*number as usize));
        table.insert(hasher.hash_one(name.as_bytes()), number, hash_of);
        Some(number as usize)
    }

    /// Removes a word; its number, if it was there.
    pub fn remove(&mut self, name: &str) -> Option<usize> {
        let hash = self.hasher.hash_one(name.as_bytes());
        let Self { words, table, hasher, .. } = self;
        let is_it = |number: &u32| words.get(*number as usize) == name.as_bytes();
        let hash_of = |number: &u32| hasher.hash_one(words.get(*number as usize));
        let number = table.remove(hash, is_it, hash_of)?;
        words.places.set(number as usize, (0, 0, 0));
        self.free.insert(number);
        self.unused += name.len();
        if self.unused > FEW_BYTES && 2 * self.unused > self.bytes {
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
        let number = u32::try_from(self.len()).ok()?;
        self.words.places.push(&[(0, 0, 0)]);
        self.free.insert(number);
        Some(number as usize)
    }

    fn move_together(&mut self) {
        let before = std::mem::take(&mut self.words.pages);
        for number in 0..self.len() {
            let (page, start, length) = self.words.places.value(number);
            if length > 0 {
                let word = &before[page as usize][start as usize..][..length as usize];
                // There is room for what was there before.
                let place = self.words.add(word).unwrap_or_default();
                self.words.places.set(number, place);
            }
        }
        (self.bytes, self.unused) = (self.bytes - self.unused, 0);
    }

    /// A copy that can be written elsewhere.
    pub fn list(&self) -> NameList {
        NameList(self.words.clone())
    }

    /// All words in the order of their numbers; those that were removed are empty.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|number| self.name(number))
    }
}

/// All words of one moment in the order of their numbers.
pub struct NameList(Words);

impl NameList {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All words, as bytes.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|number| self.0.get(number))
    }
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
