//! Buffers that are used again: a fit needs megabytes for messages, and pages that are new cost as much as the arithmetic.

use std::cell::RefCell;

use super::lanes::{F64x8, ZERO};

/// Lanes that a thread keeps at most: 32 MiB.
const MOST_LANES: usize = 1 << 19;

thread_local! {
    static SPARE: RefCell<Vec<Vec<F64x8>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer of so many lanes, with whatever is in them.
pub fn take(lanes: usize) -> Vec<F64x8> {
    let found = SPARE.with_borrow_mut(|spare| {
        let at = spare.iter().rposition(|buffer| buffer.len() == lanes)?;
        Some(spare.swap_remove(at))
    });
    found.unwrap_or_else(|| vec![ZERO; lanes])
}

/// Keeps buffers for the next who needs such.
pub fn give(buffers: impl IntoIterator<Item = Vec<F64x8>>) {
    SPARE.with_borrow_mut(|spare| {
        let mut kept: usize = spare.iter().map(Vec::len).sum();
        for buffer in buffers {
            kept += buffer.len();
            if buffer.is_empty() || kept > MOST_LANES {
                kept -= buffer.len();
            } else {
                spare.push(buffer);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_and_not_too_many_are_kept() {
        let buffer = take(24);
        let place = buffer.as_ptr();
        give([buffer, vec![ZERO; MOST_LANES], Vec::new()]);
        assert_eq!(SPARE.with_borrow(Vec::len), 1);
        assert_eq!(take(23).len(), 23);
        let again = take(24);
        assert_eq!(again.as_ptr(), place);
    }
}
