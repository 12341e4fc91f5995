//! A hash table in small pieces that copies share.
//!
//! A copy takes no entry with it: writing to it, or to what it was copied from, copies the piece that is
//! written to and no other. Pieces are split one at a time as the table grows (linear hashing), so that
//! no insertion moves more than one piece: neither growing nor copying ever takes long.

use std::sync::Arc;

use hashbrown::HashTable;

/// Entries of a piece, on average.
const PIECE: usize = 256;
/// A piece has room for at most so many times its entries.
const SPARE: usize = 4;
/// The bits of a hash that choose the piece begin here: others find the entry in it.
const SHIFT: u32 = 24;

/// The table. Whoever asks brings the hash of what it looks for.
#[derive(Clone, Debug)]
pub struct Sharded<T> {
    pieces: Vec<Arc<HashTable<T>>>,
    len: usize,
}

impl<T> Default for Sharded<T> {
    fn default() -> Self {
        Self { pieces: vec![Arc::new(HashTable::new())], len: 0 }
    }
}

/// The piece of a hash among so many: of the first bits that are enough, without the first of them where
/// that piece was not split yet.
fn place(hash: u64, pieces: usize) -> usize {
    let bits = pieces.next_power_of_two();
    let at = (hash >> SHIFT) as usize & (bits - 1);
    if at < pieces { at } else { at & (bits / 2 - 1) }
}

impl<T: Clone> Sharded<T> {
    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// An entry.
    pub fn find(&self, hash: u64, is_it: impl FnMut(&T) -> bool) -> Option<&T> {
        self.pieces[place(hash, self.pieces.len())].find(hash, is_it)
    }

    /// An entry, to write to.
    pub fn find_mut(&mut self, hash: u64, mut is_it: impl FnMut(&T) -> bool) -> Option<&mut T> {
        // A piece that is shared is copied only if the entry is there.
        self.find(hash, &mut is_it)?;
        let at = place(hash, self.pieces.len());
        Arc::make_mut(&mut self.pieces[at]).find_mut(hash, is_it)
    }

    /// Adds an entry that is not there.
    pub fn insert(&mut self, hash: u64, entry: T, hash_of: impl Fn(&T) -> u64) {
        let at = place(hash, self.pieces.len());
        Arc::make_mut(&mut self.pieces[at]).insert_unique(hash, entry, &hash_of);
        self.len += 1;
        if self.len > PIECE * self.pieces.len() {
            self.split(hash_of);
        }
    }

    /// Takes an entry out; a piece that has become nearly empty becomes smaller.
    pub fn remove(
        &mut self,
        hash: u64,
        mut is_it: impl FnMut(&T) -> bool,
        hash_of: impl Fn(&T) -> u64,
    ) -> Option<T> {
        self.find(hash, &mut is_it)?;
        let at = place(hash, self.pieces.len());
        let piece = Arc::make_mut(&mut self.pieces[at]);
        let (removed, _) = piece.find_entry(hash, is_it).ok()?.remove();
        if piece.capacity() > SPARE * (piece.len() + SPARE) {
            piece.shrink_to(2 * piece.len(), hash_of);
        }
        self.len -= 1;
        Some(removed)
    }

    /// All entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flat_map(|piece| piece.iter())
    }

    /// Two pieces instead of one.
    fn split(&mut self, hash_of: impl Fn(&T) -> u64) {
        let pieces = self.pieces.len() + 1;
        let from = pieces - 1 - pieces.next_power_of_two() / 2;
        let (mut stays, mut goes) = (HashTable::new(), HashTable::new());
        for entry in self.pieces[from].iter() {
            let hash = hash_of(entry);
            let half = if place(hash, pieces) == from { &mut stays } else { &mut goes };
            half.insert_unique(hash, entry.clone(), &hash_of);
        }
        self.pieces[from] = Arc::new(stays);
        self.pieces.push(Arc::new(goes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hashbrown::DefaultHashBuilder;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::hash::BuildHasher;

    #[test]
    fn a_copy_shares_what_is_not_written_to_and_no_insertion_moves_many() {
        let hasher = DefaultHashBuilder::default();
        let hash_of = |word: &u64| hasher.hash_one(word);
        let mut table = Sharded::default();
        for word in 0..100_000u64 {
            table.insert(hash_of(&word), word, hash_of);
        }
        let most = table.pieces.iter().map(|piece| piece.len()).max().unwrap();
        assert!(most < 4 * PIECE, "{most} in one piece");
        let copy = table.clone();
        table.insert(hash_of(&200_000), 200_000, hash_of);
        assert_eq!(table.remove(hash_of(&7), |word| *word == 7, hash_of), Some(7));
        assert_eq!(table.remove(hash_of(&7), |word| *word == 7, hash_of), None);
        let own = table.pieces.iter().zip(&copy.pieces).filter(|(a, b)| !Arc::ptr_eq(a, b)).count();
        assert!(own <= 3, "{own} pieces were copied");
        assert_eq!((table.len(), copy.len()), (100_000, 100_000));
        assert_eq!(copy.find(hash_of(&7), |word| *word == 7), Some(&7));
        assert!((0..100_000).all(|word| copy.find(hash_of(&word), |w| *w == word).is_some()));
    }

    #[test]
    fn entries_that_go_take_their_memory_with_them() {
        let hasher = DefaultHashBuilder::default();
        let hash_of = |word: &u64| hasher.hash_one(word);
        let mut table = Sharded::default();
        (0..100_000u64).for_each(|word| table.insert(hash_of(&word), word, hash_of));
        let room = |table: &Sharded<u64>| -> usize {
            table.pieces.iter().map(|piece| piece.capacity()).sum()
        };
        let before = room(&table);
        for word in 0..90_000 {
            let removed = table.remove(hash_of(&word), |known| *known == word, hash_of);
            assert_eq!(removed, Some(word));
        }
        let after = room(&table);
        assert!(after < before / 2 && after < 8 * 10_000, "{after} of {before}");
        let is_there = |word: u64| table.find(hash_of(&word), |known| *known == word).is_some();
        assert!((90_000..100_000).all(is_there));
    }

    proptest! {
        #[test]
        fn it_is_a_set(events in prop::collection::vec((0..900u32, any::<bool>()), 0..3000)) {
            let hasher = DefaultHashBuilder::default();
            let hash_of = |word: &u32| hasher.hash_one(word);
            let (mut table, mut plain) = (Sharded::default(), BTreeSet::new());
            for (word, goes) in events {
                let found = table.find(hash_of(&word), |known| *known == word).is_some();
                prop_assert_eq!(found, plain.contains(&word));
                if goes {
                    let removed = table.remove(hash_of(&word), |known| *known == word, hash_of);
                    prop_assert_eq!(removed.is_some(), plain.remove(&word));
                } else if plain.insert(word) {
                    table.insert(hash_of(&word), word, hash_of);
                }
            }
            prop_assert_eq!(table.len(), plain.len());
            let all: BTreeSet<u32> = table.iter().copied().collect();
            prop_assert_eq!(all, plain);
        }
    }
}
