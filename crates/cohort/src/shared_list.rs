//! A copy-on-write list: copies share its chunks, and a write copies only the chunk it writes to.
//!
//! For items that own memory; [`Pieces`](crate::Pieces) is for plain numbers.

use std::sync::Arc;

/// Items in a chunk.
const CHUNK: usize = 64;

/// A list whose copies share chunks until one of them is written to.
#[derive(Clone, Debug)]
pub struct SharedList<T> {
    len: usize,
    chunks: Vec<Arc<Vec<T>>>,
}

impl<T> Default for SharedList<T> {
    fn default() -> Self {
        Self { len: 0, chunks: Vec::new() }
    }
}

impl<T: Clone> SharedList<T> {
    /// The number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// One item, if present.
    #[inline]
    pub fn get(&self, at: usize) -> Option<&T> {
        self.chunks.get(at / CHUNK)?.get(at % CHUNK)
    }

    /// One item, mutable; the list grows with copies of `fresh` up to it.
    pub fn get_or_grow(&mut self, at: usize, fresh: &T) -> &mut T {
        while self.len <= at {
            self.push(fresh.clone());
        }
        &mut Arc::make_mut(&mut self.chunks[at / CHUNK])[at % CHUNK]
    }

    /// Appends an item.
    pub fn push(&mut self, item: T) {
        if self.len.is_multiple_of(CHUNK) {
            self.chunks.push(Arc::default());
        }
        Arc::make_mut(&mut self.chunks[self.len / CHUNK]).push(item);
        self.len += 1;
    }

    /// All items.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }
}

impl<T: Clone> FromIterator<T> for SharedList<T> {
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
        let mut all: SharedList<String> = (0..1000).map(|n| n.to_string()).collect();
        let copy = all.clone();
        all.get_or_grow(70, &String::new()).push('!');
        *all.get_or_grow(1100, &"fresh".to_owned()) = "last".to_owned();
        assert_eq!((copy.len(), all.len()), (1000, 1101));
        assert_eq!((copy.get(70).unwrap().as_str(), all.get(70).unwrap().as_str()), ("70", "70!"));
        assert_eq!((copy.get(1000), all.get(1050).unwrap().as_str()), (None, "fresh"));
        let shared = all.chunks.iter().zip(&copy.chunks).filter(|(a, b)| Arc::ptr_eq(a, b));
        // Neither the one that was written to nor the last, which has grown.
        assert_eq!(shared.count(), 1000usize.div_ceil(CHUNK) - 2);
        assert_eq!(all.iter().count(), 1101);
    }
}
