//! Lists in clumps that copies share: a copy takes no item with it, and writing to it (or to what it was copied from)
//! copies the clump that is written to and no other.
//!
//! For items with memory of their own; [`Pieces`](crate::Pieces) is for plain numbers.

use std::sync::Arc;

/// Items of a clump.
const CLUMP: usize = 64;

/// A list.
#[derive(Clone, Debug)]
pub struct Clumps<T> {
    len: usize,
    clumps: Vec<Arc<Vec<T>>>,
}

impl<T> Default for Clumps<T> {
    fn default() -> Self {
        Self { len: 0, clumps: Vec::new() }
    }
}

impl<T: Clone> Clumps<T> {
    /// How many items there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// One item, if it is there.
    #[inline]
    pub fn get(&self, at: usize) -> Option<&T> {
        self.clumps.get(at / CLUMP)?.get(at % CLUMP)
    }

    /// One item, to write to; where it is not there, that and all before it are made first.
    pub fn get_or_grow(&mut self, at: usize, fresh: &T) -> &mut T {
        while self.len <= at {
            self.push(fresh.clone());
        }
        &mut Arc::make_mut(&mut self.clumps[at / CLUMP])[at % CLUMP]
    }

    /// One more item.
    pub fn push(&mut self, item: T) {
        if self.len.is_multiple_of(CLUMP) {
            self.clumps.push(Arc::default());
        }
        Arc::make_mut(&mut self.clumps[self.len / CLUMP]).push(item);
        self.len += 1;
    }

    /// All items.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.clumps.iter().flat_map(|clump| clump.iter())
    }
}

impl<T: Clone> FromIterator<T> for Clumps<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut all = Self::default();
        items.into_iter().for_each(|item| all.push(item));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_share_what_is_not_written_to() {
        let mut all: Clumps<String> = (0..1000).map(|n| n.to_string()).collect();
        let copy = all.clone();
        all.get_or_grow(70, &String::new()).push('!');
        *all.get_or_grow(1100, &"fresh".to_owned()) = "last".to_owned();
        assert_eq!((copy.len(), all.len()), (1000, 1101));
        assert_eq!((copy.get(70).unwrap().as_str(), all.get(70).unwrap().as_str()), ("70", "70!"));
        assert_eq!((copy.get(1000), all.get(1050).unwrap().as_str()), (None, "fresh"));
        let shared = all.clumps.iter().zip(&copy.clumps).filter(|(a, b)| Arc::ptr_eq(a, b));
        // Neither the one that was written to nor the last, which has grown.
        assert_eq!(shared.count(), 1000usize.div_ceil(CLUMP) - 2);
        assert_eq!(all.iter().count(), 1101);
    }
}
