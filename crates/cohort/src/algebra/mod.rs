//! Small dense linear algebra: symmetric matrices of a few dozen rows, packed.
//!
//! | module | matrices |
//! | --- | --- |
//! | [`symmetric`] | one: products, Cholesky factor, inverse, eigendecomposition |
//! | `lanes` | eight at once, one in each SIMD lane: the same operations for the hot path |
//!
//! Both use the same layout, the lower triangle row by row. They are two implementations because
//! they round differently: `lanes` fuses products and sums, and decisions that were made with one
//! must not change by being made with the other. Tests compare them.

pub(crate) mod lanes;
pub mod symmetric;

pub(crate) use symmetric::packed_len;
pub use symmetric::{Cholesky, Eigen, Symmetric};
