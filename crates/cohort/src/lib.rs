//! Decide for many users at once, and learn *across* them.
//!
//! Every algorithm of Ghosh, Sankararaman, Ramchandran, *Adaptive Clustering and Personalization
//! in Multi-Agent Stochastic Linear Bandits*, and its baselines, behind one trait: [`Policy`].
//!
//! | where | question it answers |
//! | --- | --- |
//! | [`Policy`], [`OnlinePolicy`] | what is an algorithm? |
//! | [`registry`] | which are there, and what can be set? |
//! | [`policies`] | how does each one work? |
//! | [`bounds`] | how large may numbers be? |
//! | [`intercept`] | what if rewards have a level of their own? |
//! | [`insight`] | what does a policy know, for people to look at? |
//! | [`linear`] | what is known of a user? |
//! | [`cluster`] | which users are alike? |
//!
//! The crate knows no files, no network, no clock, and no thread pool of its own: parallel loops
//! run on whatever rayon pool the caller is in, and give the same bits on any number of threads.

#[macro_use]
mod widest;

pub mod bounds;
pub mod cluster;
mod contexts;
mod error;
pub mod insight;
pub mod intercept;
pub mod linear;
mod pace;
pub mod params;
pub mod policies;
mod policy;
pub mod population;
mod problem;
pub mod registry;
pub mod saved;
mod simd;

pub use contexts::{Arm, Contexts};
pub use error::{Error, nearest};
pub use policy::{Frozen, OnlinePolicy, Order, Policy, RefitJob, Saved, Score, Shared};
pub use problem::{Law, Problem, Truth};

/// The README's examples compile and hold.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
