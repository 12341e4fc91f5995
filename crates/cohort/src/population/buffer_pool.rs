//! A pool of buffers for messages: a fit needs megabytes of them, and the page faults of fresh ones
//! cost as much as the arithmetic.

use std::cell::RefCell;

use super::lanes::{F64x8, ZERO};

/// The most lanes that a thread keeps: 32 MiB.
const MOST_LANES: usize = 1 << 19;

thread_local! {
    static SPARE: RefCell<Vec<Vec<F64x8>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer of the given size; its contents are unspecified.
pub fn take(lanes: usize) -> Vec<F64x8> {
    let found = SPARE.with_borrow_mut(|buffer_pool| {
        let at = buffer_pool.iter().rposition(|buffer| buffer.len() == lanes)?;
        Some(buffer_pool.swap_remove(at))
    });
    found.unwrap_or_else(|| vec![ZERO; lanes])
}

/// Returns buffers to the pool.
pub fn give(buffers: impl IntoIterator<Item = Vec<F64x8>>) {
    SPARE.with_borrow_mut(|buffer_pool| {
        let mut kept: usize = buffer_pool.iter().map(Vec::len).sum();
        for buffer in buffers {
            kept += buffer.len();
            if buffer.is_empty() || kept > MOST_LANES {
                kept -= buffer.len();
            } else {
                buffer_pool.push(buffer);
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
