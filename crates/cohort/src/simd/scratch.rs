//! Memory to work in, kept by every thread: a call allocates only where none before it needed as
//! much.

use std::cell::Cell;

use super::Lane;

thread_local! {
    static SCRATCH: Cell<Vec<Lane>> = const { Cell::new(Vec::new()) };
}

/// Lends `lanes` lanes, with whatever is in them.
pub fn with_scratch<R>(lanes: usize, work: impl FnOnce(&mut [Lane]) -> R) -> R {
    let mut scratch = SCRATCH.take();
    if scratch.len() < lanes {
        scratch.resize(lanes, Lane::splat(0.0));
    }
    let result = work(&mut scratch[..lanes]);
    SCRATCH.set(scratch);
    result
}
