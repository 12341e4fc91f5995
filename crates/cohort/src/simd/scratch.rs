//! Scratch memory per thread: a call allocates only if no earlier one needed as much.

use std::cell::Cell;

use super::F64x8;

thread_local! {
    static SCRATCH: Cell<Vec<F64x8>> = const { Cell::new(Vec::new()) };
}

/// Calls `work` with `lanes` lanes of unspecified content.
pub fn with_scratch<R>(lanes: usize, work: impl FnOnce(&mut [F64x8]) -> R) -> R {
    let mut scratch = SCRATCH.take();
    if scratch.len() < lanes {
        scratch.resize(lanes, F64x8::splat(0.0));
    }
    let result = work(&mut scratch[..lanes]);
    SCRATCH.set(scratch);
    result
}
