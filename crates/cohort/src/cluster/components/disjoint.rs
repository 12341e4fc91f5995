//! Union-find: disjoint sets that many threads may join at once.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Disjoint sets of 0..count. Every set is a tree of parents with smaller numbers, so its root is
/// its smallest member, and no order of joins can make a cycle or a different set.
///
/// Nothing but the parents themselves is passed between threads, so relaxed order is enough.
pub(super) struct DisjointSets {
    parent: Vec<AtomicU32>,
}

impl DisjointSets {
    pub fn new(count: usize) -> Self {
        Self { parent: (0..count as u32).map(AtomicU32::new).collect() }
    }

    /// The root of the set of `at`: its smallest member once no thread joins any more.
    pub fn find(&self, mut at: u32) -> u32 {
        loop {
            let parent = self.parent[at as usize].load(Relaxed);
            let above = self.parent[parent as usize].load(Relaxed);
            if parent == above {
                return parent;
            }
            // Path halving. Another thread may have stored a shorter path, which this overwrites:
            // it is still a path to the root.
            self.parent[at as usize].store(above, Relaxed);
            at = above;
        }
    }

    /// Joins two sets; returns the root.
    pub fn join(&self, a: u32, b: u32) -> u32 {
        let (mut a, mut b) = (a, b);
        loop {
            (a, b) = (self.find(a), self.find(b));
            if a == b {
                return a;
            }
            let (low, high) = if a < b { (a, b) } else { (b, a) };
            // Only a root may get a parent: if `high` has got one meanwhile, try again.
            let root = &self.parent[high as usize];
            if root.compare_exchange(high, low, Relaxed, Relaxed).is_ok() {
                return low;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rayon::prelude::*;

    #[test]
    fn joins_from_many_threads_are_all_kept() {
        let sets = DisjointSets::new(10_000);
        // i with i + 7, in an order in which threads contend: seven classes modulo 7.
        (0..9_993_u32).into_par_iter().for_each(|i| {
            let i = (i * 7_919) % 9_993;
            sets.join(i, i + 7);
        });
        assert!((0..10_000).all(|i| sets.find(i) == i % 7));
    }
}
