//! A map by name in small pieces that copies share, in the order of the names.
//!
//! A copy takes no entry with it: writing to it, or to what it was copied from, copies the piece that is
//! written to and no other. So a snapshot may hold a catalogue while that changes.

use std::sync::Arc;

/// Entries of a piece, at most.
const PIECE: usize = 256;

type Piece<V> = Arc<Vec<(Box<str>, V)>>;

/// The map.
#[derive(Clone, Debug, PartialEq)]
pub struct Sorted<V> {
    /// None of them is empty.
    pieces: Vec<Piece<V>>,
    len: usize,
}

impl<V> Default for Sorted<V> {
    fn default() -> Self {
        Self { pieces: Vec::new(), len: 0 }
    }
}

impl<V: Clone> Sorted<V> {
    /// Without any entry.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The piece in which a name is, or would be, and where in it.
    fn place(&self, name: &str) -> (usize, Result<usize, usize>) {
        let after = self.pieces.partition_point(|piece| &*piece[0].0 <= name);
        let at = after.saturating_sub(1);
        let place = match self.pieces.get(at) {
            Some(piece) => piece.binary_search_by(|(known, _)| (**known).cmp(name)),
            None => Err(0),
        };
        (at, place)
    }

    /// What a name stands for.
    pub fn get(&self, name: &str) -> Option<&V> {
        let (at, place) = self.place(name);
        place.ok().map(|place| &self.pieces[at][place].1)
    }

    /// Whether a name is there.
    pub fn contains_key(&self, name: &str) -> bool {
        self.place(name).1.is_ok()
    }

    /// Lets a name stand for something; returns what it stood for.
    pub fn insert(&mut self, name: Box<str>, value: V) -> Option<V> {
        let (at, place) = self.place(&name);
        if self.pieces.is_empty() {
            self.pieces.push(Arc::default());
        }
        let piece = Arc::make_mut(&mut self.pieces[at]);
        match place {
            Ok(place) => return Some(std::mem::replace(&mut piece[place].1, value)),
            Err(place) => piece.insert(place, (name, value)),
        }
        self.len += 1;
        if piece.len() > PIECE {
            let rest = piece.split_off(PIECE / 2);
            self.pieces.insert(at + 1, Arc::new(rest));
        }
        None
    }

    /// Takes a name out.
    pub fn remove(&mut self, name: &str) -> Option<V> {
        let (at, place) = self.place(name);
        let place = place.ok()?;
        let piece = Arc::make_mut(&mut self.pieces[at]);
        let (_, value) = piece.remove(place);
        if piece.is_empty() {
            self.pieces.remove(at);
        }
        self.len -= 1;
        Some(value)
    }

    /// All entries, in the order of their names.
    #[allow(clippy::borrowed_box)]
    pub fn iter(&self) -> impl Iterator<Item = (&Box<str>, &V)> {
        self.pieces.iter().flat_map(|piece| piece.iter().map(|(name, value)| (name, value)))
    }

    /// All entries whose names come after one, in order.
    #[allow(clippy::borrowed_box)]
    pub fn after(&self, name: Option<&str>) -> impl Iterator<Item = (&Box<str>, &V)> {
        let (piece, first) = match name.map(|name| self.place(name)) {
            None => (0, 0),
            Some((piece, Ok(at))) => (piece, at + 1),
            Some((piece, Err(at))) => (piece, at),
        };
        let pieces = self.pieces.iter().skip(piece).enumerate();
        pieces.flat_map(move |(nth, piece)| {
            let from = if nth == 0 { first.min(piece.len()) } else { 0 };
            piece[from..].iter().map(|(name, value)| (name, value))
        })
    }

    /// All names, in order.
    #[allow(clippy::borrowed_box)]
    pub fn keys(&self) -> impl Iterator<Item = &Box<str>> {
        self.iter().map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_copy_shares_what_is_not_written_to() {
        let mut map = Sorted::new();
        for n in 0..50_000 {
            map.insert(format!("item-{:06}", n * 7919 % 50_000).into(), n);
        }
        let copy = map.clone();
        map.insert("item-000777".into(), -1);
        map.remove("item-040000");
        let shared = |piece: &&Piece<i32>| copy.pieces.iter().any(|one| Arc::ptr_eq(one, piece));
        assert!(map.pieces.iter().filter(shared).count() + 2 >= map.pieces.len());
        assert_ne!(copy.get("item-000777"), Some(&-1));
        assert!(copy.contains_key("item-040000") && !map.contains_key("item-040000"));
        assert_eq!((map.len(), copy.len(), copy.keys().count()), (49_999, 50_000, 50_000));
    }

    proptest! {
        #[test]
        fn it_is_a_map(events in prop::collection::vec(("[a-f]{0,5}", 0..9, any::<bool>()), 0..2000)) {
            let (mut map, mut plain) = (Sorted::new(), BTreeMap::<Box<str>, i32>::new());
            for (name, value, goes) in events {
                prop_assert_eq!(map.get(&name), plain.get(name.as_str()));
                match goes {
                    true => prop_assert_eq!(map.remove(&name), plain.remove(name.as_str())),
                    false => {
                        let name: Box<str> = name.into();
                        prop_assert_eq!(map.insert(name.clone(), value), plain.insert(name, value));
                    }
                }
                prop_assert_eq!(map.len(), plain.len());
            }
            prop_assert!(map.iter().eq(plain.iter()));
        }
    }
}
