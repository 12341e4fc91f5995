//! Sets of slots: a few as a list, many as one bit each.

/// Slots that have something in common.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Slots {
    /// In order.
    Few(Vec<u32>),
    /// One bit a slot, and how many are set.
    Many(Vec<u64>, usize),
}

/// As few as this are a list in any case.
const FEW: usize = 64;

impl Default for Slots {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Slots {
    /// Adds a slot of a catalogue that has so many.
    pub fn insert(&mut self, slot: u32, slots: usize) {
        match self {
            Self::Few(list) => {
                if let Err(at) = list.binary_search(&slot) {
                    list.insert(at, slot);
                }
                // A bit for every slot takes no more than twice as much as the list then.
                if list.len() > FEW.max(slots / 64) {
                    let (list, mut bits) = (std::mem::take(list), Vec::new());
                    list.iter().for_each(|slot| set(&mut bits, *slot));
                    *self = Self::Many(bits, list.len());
                }
            }
            Self::Many(bits, count) => {
                *count += usize::from(!has(bits, slot));
                set(bits, slot);
            }
        }
    }

    /// Takes a slot away. Says whether none is left.
    pub fn remove(&mut self, slot: u32) -> bool {
        match self {
            Self::Few(list) => {
                if let Ok(at) = list.binary_search(&slot) {
                    list.remove(at);
                }
                list.is_empty()
            }
            Self::Many(bits, count) => {
                *count -= usize::from(has(bits, slot));
                clear(bits, slot);
                *count == 0
            }
        }
    }

    /// Sets the bits of all.
    pub fn add_to(&self, bits: &mut [u64]) {
        match self {
            Self::Few(list) => list.iter().for_each(|slot| {
                if let Some(word) = bits.get_mut(*slot as usize / 64) {
                    *word |= 1 << (slot % 64);
                }
            }),
            Self::Many(own, _) => bits.iter_mut().zip(own).for_each(|(to, from)| *to |= from),
        }
    }
}

pub(super) fn has(bits: &[u64], slot: u32) -> bool {
    bits.get(slot as usize / 64).is_some_and(|word| word >> (slot % 64) & 1 == 1)
}

pub(super) fn set(bits: &mut Vec<u64>, slot: u32) {
    let word = slot as usize / 64;
    if bits.len() <= word {
        bits.resize(word + 1, 0);
    }
    bits[word] |= 1 << (slot % 64);
}

pub(super) fn clear(bits: &mut [u64], slot: u32) {
    if let Some(word) = bits.get_mut(slot as usize / 64) {
        *word &= !(1 << (slot % 64));
    }
}

/// How many are set.
pub(super) fn count(bits: &[u64]) -> usize {
    bits.iter().map(|word| word.count_ones() as usize).sum()
}

/// All that are set, in order.
pub(super) fn iter(bits: &[u64]) -> impl Iterator<Item = u32> {
    bits.iter().enumerate().flat_map(|(at, word)| {
        let mut left = *word;
        std::iter::from_fn(move || {
            let bit = (left != 0).then(|| left.trailing_zeros())?;
            left &= left - 1;
            Some(at as u32 * 64 + bit)
        })
    })
}

/// The one of that number among those that are set, from 0.
pub(super) fn nth(bits: &[u64], number: usize) -> Option<u32> {
    let mut left = number;
    for (at, word) in bits.iter().enumerate() {
        let here = word.count_ones() as usize;
        if left < here {
            return iter(std::slice::from_ref(word)).nth(left).map(|bit| at as u32 * 64 + bit);
        }
        left -= here;
    }
    None
}
