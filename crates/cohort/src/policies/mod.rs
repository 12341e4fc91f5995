//! How each algorithm works: one file an algorithm, each with its reference, the lines of its
//! pseudo-code and the range of every constant.

pub mod alb_norm;
pub mod club;
pub mod cmlb;
pub mod cmlb_warm;
pub mod cohort;
pub mod common;
pub mod linucb_ind;
pub mod oracle;
pub mod oracle_centres;
pub mod oracle_individual;
pub mod pmlb;
pub mod pmlb_compensated;
pub mod pmlb_warm;
pub mod random;
pub mod sclb;
pub mod sclb_warm;
pub mod sclub;
mod shared;
