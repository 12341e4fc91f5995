//! Who plays, and how well.
//!
//! | where | question it answers |
//! | --- | --- |
//! | [`environment`] | what is a world that policies are tried in? |
//! | [`environments`] | which are there, and what can be set? |
//! | [`seed`] | where does every random number come from? |
//! | [`experiment`] | what is to be run? |
//! | [`runner`] | how is it run, on many threads, with the same bits on any number? |
//! | [`results`] | what came of it, as tables and in one page? |
//! | [`text`] | how does text fit a line? |
//! | [`npy`] | how do arrays come in and go out? |
//!
//! The lab drives the engine of the `cohort` crate and has no learning step of its own.

pub mod environment;
pub mod environments;
mod error;
pub mod experiment;
pub mod npy;
pub mod results;
pub mod runner;
pub mod seed;
pub mod text;

pub use error::Error;
