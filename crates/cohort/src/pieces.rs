//! A copy-on-write array: copies share its pieces, and a write copies only the piece it writes to.

use std::sync::Arc;

/// The most bytes of a piece (one item may be larger). Copying one takes a few microseconds.
const PIECE_BYTES: usize = 32 << 10;

/// Pieces per group. A copy of the array increments one reference count per group.
const GROUP: usize = 128;

type Piece<T> = Arc<Vec<T>>;

/// An array of items that are `stride` values each.
#[derive(Clone, Debug)]
pub struct Pieces<T> {
    stride: usize,
    per_piece: usize,
    len: usize,
    groups: Vec<Arc<Vec<Piece<T>>>>,
}

impl<T: Copy> Pieces<T> {
    /// An empty array.
    pub fn new(stride: usize) -> Self {
        let per_piece = (PIECE_BYTES / (stride * size_of::<T>())).max(1);
        Self { stride, per_piece, len: 0, groups: Vec::new() }
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Values of an item.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Items of a piece; the last one may have less.
    pub fn per_piece(&self) -> usize {
        self.per_piece
    }

    /// One item.
    #[inline]
    pub fn get(&self, at: usize) -> &[T] {
        let piece = at / self.per_piece;
        &self.groups[piece / GROUP][piece % GROUP][at % self.per_piece * self.stride..]
            [..self.stride]
    }

    /// One item, mutable.
    pub fn get_mut(&mut self, at: usize) -> &mut [T] {
        let (first, stride) = (at % self.per_piece * self.stride, self.stride);
        &mut self.piece_mut(at / self.per_piece)[first..][..stride]
    }

    /// The first value of an item, which is all of it where the stride is 1.
    #[inline]
    pub fn value(&self, at: usize) -> T {
        self.get(at)[0]
    }

    /// Writes the first value of an item.
    pub fn set(&mut self, at: usize, value: T) {
        self.get_mut(at)[0] = value;
    }

    /// Appends an item.
    pub fn push(&mut self, item: &[T]) {
        assert_eq!(item.len(), self.stride, "values of an item");
        let (piece, full) = (self.len / self.per_piece, self.per_piece * self.stride);
        if self.len.is_multiple_of(self.per_piece) {
            if piece.is_multiple_of(GROUP) {
                self.groups.push(Arc::default());
            }
            Arc::make_mut(&mut self.groups[piece / GROUP]).push(Arc::default());
        }
        let values = self.piece_mut(piece);
        if values.capacity() - values.len() < item.len() {
            // Short arrays stay small; of long ones only the last piece has room to spare.
            let room = if piece == 0 { (2 * values.len()).clamp(item.len(), full) } else { full };
            values.reserve_exact(room - values.len());
        }
        values.extend_from_slice(item);
        self.len += 1;
    }

    /// Removes the last item; a piece that has none left is freed.
    pub fn pop(&mut self) {
        let Some(last) = self.len.checked_sub(1) else { return };
        let piece = last / self.per_piece;
        self.len = last;
        if !last.is_multiple_of(self.per_piece) {
            let values = last % self.per_piece * self.stride;
            return self.piece_mut(piece).truncate(values);
        }
        match piece.is_multiple_of(GROUP) {
            true => drop(self.groups.pop()),
            false => drop(Arc::make_mut(&mut self.groups[piece / GROUP]).pop()),
        }
    }

    /// Moves the last item to the place of another one, which is removed.
    pub fn swap_remove(&mut self, at: usize) {
        let last = self.len.saturating_sub(1);
        if at != last {
            let moved = self.get(last).to_vec();
            self.get_mut(at).copy_from_slice(&moved);
        }
        self.pop();
    }

    /// All values, piece by piece.
    pub fn pieces(&self) -> impl Iterator<Item = &[T]> {
        self.groups.iter().flat_map(|group| group.iter()).map(|piece| piece.as_slice())
    }

    /// All pieces; `Arc::make_mut` makes one of them writable.
    pub fn pieces_mut(&mut self) -> Vec<&mut Piece<T>> {
        self.groups.iter_mut().flat_map(|group| Arc::make_mut(group).iter_mut()).collect()
    }

    fn piece_mut(&mut self, piece: usize) -> &mut Vec<T> {
        Arc::make_mut(&mut Arc::make_mut(&mut self.groups[piece / GROUP])[piece % GROUP])
    }

    /// Bytes taken, with the allocator's own: two words an allocation.
    pub fn memory_bytes(&self) -> usize {
        let piece = |piece: &Piece<T>| piece.capacity() * size_of::<T>() + PIECE_OVERHEAD;
        let group = |group: &Arc<Vec<Piece<T>>>| {
            group.iter().map(piece).sum::<usize>()
                + group.capacity() * size_of::<Piece<T>>()
                + PIECE_OVERHEAD
        };
        self.groups.iter().map(group).sum::<usize>() + self.groups.capacity() * 8
    }

    /// How many pieces are not shared with another array of the same length.
    #[cfg(test)]
    pub fn own(&self, other: &Self) -> usize {
        let pieces = |of: &Self| of.groups.iter().flat_map(|group| group.to_vec()).collect();
        let (a, b): (Vec<Piece<T>>, Vec<Piece<T>>) = (pieces(self), pieces(other));
        a.iter().zip(&b).filter(|(a, b)| !Arc::ptr_eq(a, b)).count() + a.len().abs_diff(b.len())
    }
}

/// Two reference counts, a vector's three words, and two words for each of two allocations.
const PIECE_OVERHEAD: usize = 8 * (2 + 3 + 4);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_back_and_copies_share_what_is_not_written_to() {
        let mut array = Pieces::new(3);
        for at in 0..500_000 {
            array.push(&[at, at + 1, at + 2]);
        }
        let copy = array.clone();
        assert_eq!(array.own(&copy), 0);
        array.set(77_777, -1);
        array.push(&[1, 2, 3]);
        assert_eq!(array.own(&copy), 2);
        assert_eq!(
            (array.get(77_777), copy.get(77_777)),
            (&[-1, 77_778, 77_779][..], &[77_777, 77_778, 77_779][..])
        );
        assert!((0..500_000).all(|at| copy.get(at as usize)[2] == at + 2));
        assert_eq!((array.len(), copy.len()), (500_001, 500_000));
        assert_eq!(copy.pieces().map(<[i32]>::len).sum::<usize>(), 1_500_000);
    }

    /// An array that became shorter takes no more than one that was never longer, but for the last piece.
    #[test]
    fn what_is_removed_is_freed_and_copies_keep_it() {
        let filled = |items: usize| {
            let mut array = Pieces::new(3);
            (0..items).for_each(|at| array.push(&[at, at + 1, at + 2]));
            array
        };
        for left in [0, 1, 1365, 1366, 200_000] {
            let mut array = filled(400_000);
            let copy = array.clone();
            (left..400_000).for_each(|_| array.pop());
            assert_eq!(array.len(), left);
            let least = filled(left).memory_bytes();
            assert!(array.memory_bytes() <= least + PIECE_BYTES + 4096, "{left}");
            assert!((0..left).all(|at| array.get(at) == [at, at + 1, at + 2]));
            assert_eq!(copy.get(399_999)[0], 399_999);
            array.push(&[7, 8, 9]);
            assert_eq!((array.len(), array.get(left)), (left + 1, &[7, 8, 9][..]));
        }
        let mut array = filled(5);
        array.swap_remove(1);
        array.swap_remove(3);
        assert_eq!(
            array.pieces().flatten().copied().collect::<Vec<_>>(),
            [0, 1, 2, 4, 5, 6, 2, 3, 4]
        );
        Pieces::<u8>::new(1).pop();
    }

    #[test]
    fn a_short_array_is_small() {
        let mut array = Pieces::new(1);
        array.push(&[1.0]);
        assert!(array.memory_bytes() < 400, "{}", array.memory_bytes());
    }
}
