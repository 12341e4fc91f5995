//! The lab: environments, experiments, results and figures for the policies of crate `cohort`.
//!
//! | where | question it answers |
//! | --- | --- |
//! | [`arena`] | who is best, over all protocols of the field? |
//! | [`environment`] | what is a world that policies are tried in? |
//! | [`environments`] | which are there, and what can be set? |
//! | [`seed`] | where does every random number come from? |
//! | [`datasets`] | what if users are real? |
//! | [`evaluate`] | what would another policy have earned, by a log? |
//! | [`experiment`] | what is to be run? |
//! | [`runner`] | how is it run, on many threads, with the same bits on any number? |
//! | [`results`] | how are results summarised and written? |
//! | [`text`] | how does text fit a line? |
//! | [`figures`] | how are results drawn? |
//! | [`reproduce`] | what does the paper claim, and does it hold? |
//! | [`theory`] | what does the paper promise? |
//! | [`boundaries`] | what if input files are arbitrary bytes? |
//! | [`npy`] | how do arrays come in and go out? |
//!
//! The lab drives the engine of the `cohort` crate and has no learning step of its own.

pub mod arena;
pub mod boundaries;
pub mod datasets;
pub mod environment;
pub mod environments;
mod error;
pub mod evaluate;
pub mod experiment;
pub mod figures;
pub mod npy;
pub mod reproduce;
pub mod results;
pub mod runner;
pub mod seed;
pub mod text;
pub mod theory;

pub use error::Error;

/// Compiles and runs the code of docs/add-an-environment.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/add-an-environment.md")]
struct AddAnEnvironment;
