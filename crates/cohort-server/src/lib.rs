//! The decision server: ask it what to show a user, tell it how the user answered, and it learns,
//! across users, and forgets nothing.
//!
//! | where | question it answers |
//! | --- | --- |
//! | [`event`] | what happened? |
//! | [`journal`] | where is that kept so that nothing is lost? |
//! | [`state`] | what follows from it? |
//! | [`trial`] | how can it be known whether the policy helps? |
//! | [`snapshot`] | how is a restart made short? |
//! | [`engine`] | what is done with a request? |
//! | [`export`] | how does the log get out? |
//! | [`insight`] | what does it know, why did it decide so, does it help? |
//! | [`http`] | how is it asked? |
//! | [`config`] | how is it set up? |
//! | [`server`] | how does it start and stop? |
//! | [`demo`] | who comes when nobody does? |
//! | [`boundaries`] | where do bytes from outside come in? |
//!
//! A request goes `http → engine → journal → answer`, and `state` is a fold of `journal` at every
//! moment. Learning itself is the crate `cohort`'s business.

pub mod auth;
pub mod boundaries;
pub mod bytes;
pub mod clock;
pub mod config;
pub mod demo;
pub mod directory;
pub mod engine;
pub mod event;
pub mod export;
pub mod http;
pub mod insight;
pub mod journal;
pub mod server;
pub mod settings;
pub mod snapshot;
pub mod state;
pub mod trial;
