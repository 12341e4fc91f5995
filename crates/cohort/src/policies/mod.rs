//! How each algorithm works: one file an algorithm, each with its reference, the lines of its
//! pseudo-code and the range of every constant.

pub mod cohort;
pub mod linucb_ind;
pub mod random;
