//! From a user's id to its slot: open addressing over slots alone (ids are kept by slot anyway), in
//! pages that copies share. A page that is full is split in two by one more bit of the hash
//! (extendible hashing), so that no insertion moves more than one page.

use std::sync::Arc;

/// Stands for no slot.
pub const NONE: u32 = u32::MAX;

/// Entries of a page before it is split: 32 KiB.
const PAGE: usize = 8192;

/// Bits of the hash that tell pages apart, at most; where they are used up, pages grow.
const MOST_BITS: u32 = 20;

/// The index. The caller supplies the id of a slot.
#[derive(Clone, Debug)]
pub struct SlotIndex {
    /// How many leading bits of the hash choose the page.
    bits: u32,
    /// The page of each value of those bits.
    directory: Vec<u32>,
    pages: Vec<Arc<Page>>,
}

#[derive(Clone, Debug)]
struct Page {
    /// How many leading bits all hashes in this page have in common.
    bits: u32,
    used: usize,
    slots: Vec<u32>,
}

/// The finaliser of SplitMix64: one to one, every bit depends on all.
fn hash(id: usize) -> u64 {
    let mut h = (id as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    h = (h ^ (h >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    h = (h ^ (h >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    h ^ (h >> 31)
}

/// The first `bits` bits.
fn leading(hash: u64, bits: u32) -> usize {
    hash.checked_shr(64 - bits).unwrap_or(0) as usize
}

impl Page {
    fn new(bits: u32, entries: usize) -> Self {
        Self { bits, used: 0, slots: vec![NONE; entries] }
    }

    /// Where the search for a hash begins: the lower half of it, as a share of the entries.
    fn home(&self, hash: u64) -> usize {
        (((hash & 0xffff_ffff) * self.slots.len() as u64) >> 32) as usize
    }

    fn next(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }

    fn insert(&mut self, hash: u64, slot: u32) {
        let mut at = self.home(hash);
        while self.slots[at] != NONE {
            at = self.next(at);
        }
        self.slots[at] = slot;
        self.used += 1;
    }

    /// The entry of an id.
    fn find(&self, id: usize, id_of: impl Fn(u32) -> usize) -> Option<usize> {
        let mut at = self.home(hash(id));
        while self.slots[at] != NONE {
            if id_of(self.slots[at]) == id {
                return Some(at);
            }
            at = self.next(at);
        }
        None
    }

    /// Empties an entry and moves those behind it that it kept from their place.
    fn remove(&mut self, mut hole: usize, id_of: impl Fn(u32) -> usize) {
        self.used -= 1;
        let mut at = hole;
        loop {
            at = self.next(at);
            if self.slots[at] == NONE {
                break;
            }
            let home = self.home(hash(id_of(self.slots[at])));
            // Stays if its home is after the hole, going round.
            let stays =
                if hole < at { hole < home && home <= at } else { hole < home || home <= at };
            if !stays {
                self.slots[hole] = self.slots[at];
                hole = at;
            }
        }
        self.slots[hole] = NONE;
    }
}

impl SlotIndex {
    /// Without any user.
    pub fn new() -> Self {
        Self { bits: 0, directory: vec![0], pages: vec![Arc::new(Page::new(0, 8))] }
    }

    fn page_of(&self, hash: u64) -> usize {
        self.directory[leading(hash, self.bits)] as usize
    }

    /// The slot of an id.
    pub fn find(&self, id: usize, id_of: impl Fn(u32) -> usize) -> Option<u32> {
        let page = &self.pages[self.page_of(hash(id))];
        page.find(id, id_of).map(|at| page.slots[at])
    }

    /// An id that is not yet there.
    pub fn insert(&mut self, id: usize, slot: u32, id_of: impl Fn(u32) -> usize) {
        loop {
            let at = self.page_of(hash(id));
            let page = &self.pages[at];
            // Four of five entries at most.
            if 5 * (page.used + 1) <= 4 * page.slots.len() {
                return Arc::make_mut(&mut self.pages[at]).insert(hash(id), slot);
            }
            if page.slots.len() < PAGE || page.bits == MOST_BITS {
                self.grow(at, &id_of);
            } else {
                self.split(at, &id_of);
            }
        }
    }

    /// Forgets an id.
    pub fn remove(&mut self, id: usize, id_of: impl Fn(u32) -> usize) {
        let page = self.page_of(hash(id));
        if let Some(at) = self.pages[page].find(id, &id_of) {
            Arc::make_mut(&mut self.pages[page]).remove(at, id_of);
        }
    }

    /// A quarter more entries for a page.
    fn grow(&mut self, at: usize, id_of: impl Fn(u32) -> usize) {
        let page = &self.pages[at];
        let mut larger = Page::new(page.bits, page.slots.len() + page.slots.len() / 4);
        for slot in page.slots.iter().filter(|slot| **slot != NONE) {
            larger.insert(hash(id_of(*slot)), *slot);
        }
        self.pages[at] = Arc::new(larger);
    }

    /// Two pages instead of one.
    fn split(&mut self, at: usize, id_of: impl Fn(u32) -> usize) {
        let page = self.pages[at].clone();
        if page.bits == self.bits {
            self.bits += 1;
            self.directory = self.directory.iter().flat_map(|page| [*page; 2]).collect();
        }
        let bits = page.bits + 1;
        let (zeros, ones): (Vec<u32>, Vec<u32>) = (page.slots.iter().filter(|slot| **slot != NONE))
            .partition(|slot| leading(hash(id_of(**slot)), bits).is_multiple_of(2));
        let [zeros, ones] = [zeros, ones].map(|slots| {
            let mut half = Page::new(bits, slots.len() + slots.len() / 2 + 8);
            for slot in slots {
                half.insert(hash(id_of(slot)), slot);
            }
            Arc::new(half)
        });
        self.pages[at] = zeros;
        let new = self.pages.len() as u32;
        self.pages.push(ones);
        for (value, page) in self.directory.iter_mut().enumerate() {
            if *page == at as u32 && (value >> (self.bits - bits)) % 2 == 1 {
                *page = new;
            }
        }
    }

    /// Bytes taken.
    pub fn memory_bytes(&self) -> usize {
        let page = |page: &Arc<Page>| 4 * page.slots.capacity() + 8 * (2 + 5 + 4);
        self.pages.iter().map(page).sum::<usize>()
            + 8 * self.pages.capacity()
            + 4 * self.directory.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_any_size_are_found_until_they_are_removed() {
        for spread in [1usize, 256, 1_000_003, 1 << 40] {
            let ids: Vec<usize> = (0..60_000).map(|k: usize| k.wrapping_mul(spread)).collect();
            let id_of = |slot: u32| ids[slot as usize];
            let mut index = SlotIndex::new();
            for (slot, id) in ids.iter().enumerate() {
                assert_eq!(index.find(*id, id_of), None);
                index.insert(*id, slot as u32, id_of);
            }
            let before = index.clone();
            for id in ids.iter().step_by(3) {
                index.remove(*id, id_of);
            }
            for (slot, id) in ids.iter().enumerate() {
                let kept = (slot % 3 != 0).then_some(slot as u32);
                assert_eq!(
                    (index.find(*id, id_of), before.find(*id, id_of)),
                    (kept, Some(slot as u32))
                );
            }
            assert!(before.memory_bytes() < 8 * 60_000, "{}", before.memory_bytes());
        }
    }
}
