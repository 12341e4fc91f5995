//! The algorithms: one file each, with its reference, the lines of its pseudo-code and the range of
//! every constant.
//!
//! A new one is its file, its module below and its place in [`POLICIES`]: no other file has to be
//! touched, which `tests/one_line.rs` checks.

pub mod alb_dim;
pub mod alb_norm;
pub mod cab;
pub mod club;
pub mod cmlb;
pub mod cmlb_warm;
pub mod cohort;
pub mod common;
pub mod dccb;
pub mod draws;
pub mod dynucb;
pub mod e2tc;
pub mod gob_lin;
pub mod hier_ts;
pub mod hier_ucb;
pub mod lints;
pub mod linucb_ind;
pub mod locb;
pub mod mix_ts;
pub mod mlin_greedy;
pub mod oracle;
pub mod oracle_centres;
pub mod oracle_individual;
pub mod osom;
pub mod phase_uniclub;
pub mod pmlb;
pub mod pmlb_compensated;
pub mod pmlb_warm;
pub mod random;
pub mod rclumb;
pub mod rsclumb;
pub mod sclb;
pub mod sclb_warm;
pub mod sclub;
mod shared;
pub mod squarecb;
pub mod trace_norm;
pub mod uniclub;

use crate::registry::PolicyInfo;

/// All policies: those of the paper and its baselines, simplest first, then those of other papers.
pub const POLICIES: &[PolicyInfo] = &[
    random::INFO,
    oracle::INFO,
    oracle_centres::INFO,
    oracle_individual::INFO,
    common::INFO,
    linucb_ind::INFO,
    club::INFO,
    sclub::INFO,
    cmlb::INFO,
    sclb::INFO,
    alb_norm::INFO,
    pmlb::INFO,
    pmlb_compensated::INFO,
    cmlb_warm::INFO,
    sclb_warm::INFO,
    pmlb_warm::INFO,
    cohort::INFO,
    lints::INFO,
    squarecb::INFO,
    hier_ts::INFO,
    hier_ucb::INFO,
    mix_ts::INFO,
    gob_lin::INFO,
    cab::INFO,
    dccb::INFO,
    dynucb::INFO,
    locb::INFO,
    rclumb::INFO,
    rsclumb::INFO,
    uniclub::INFO,
    phase_uniclub::INFO,
    trace_norm::INFO,
    mlin_greedy::INFO,
    e2tc::INFO,
    alb_dim::INFO,
    osom::INFO,
];
