//! The decision server: ask it what to show a user, tell it how the user answered, and it learns,
//! across users, and forgets nothing.
//!
//! | where | question it answers |
//! | --- | --- |
//! | [`event`] | what happened? |
//! | [`journal`] | where is that kept so that nothing is lost? |
//! | [`state`] | what follows from it? |
//! | [`snapshot`] | how is a restart made short? |
//! | [`engine`] | what is done with a request? |
//!
//! A request goes `http → engine → journal → answer`, and `state` is a fold of `journal` at every
//! moment. Learning itself is the crate `cohort`'s business.

pub mod auth;
pub mod bytes;
pub mod clock;
pub mod directory;
pub mod engine;
pub mod event;
pub mod journal;
pub mod settings;
pub mod snapshot;
pub mod state;
