//! The decision server: ask it what to show a user, tell it how the user answered, and it learns,
//! across users, and forgets nothing.
//!
//! | where | question it answers |
//! | --- | --- |
//! | [`event`] | what happened? |
//! | [`journal`] | where is that kept so that nothing is lost? |
//! | [`state`] | what follows from it? |
//! | [`learning`] | what does an app make of rewards, and who decides meanwhile? |
//! | [`imitation`] | what does whoever decides instead of the policy choose? |
//! | [`trial`] | how can it be known whether the policy helps? |
//! | [`snapshot`] | how is a restart made short? |
//! | [`backup`] | how is all of it copied while it is used? |
//! | [`cluster`] | how do several machines do it together? |
//! | [`engine`] | what is done with a request? |
//! | [`export`] | how does the log get out? |
//! | [`insight`] | what does it know, why did it decide so, does it help? |
//! | [`http`] | how is it asked? |
//! | [`config`] | how is it set up? |
//! | [`server`] | how does it start and stop? |
//! | `measured` | what is counted and timed? |
//! | `priority` | who goes first when the machine has no time left? |
//! | [`demo`] | who comes when nobody does? |
//! | [`boundaries`] | where do bytes from outside come in? |
//!
//! Without the feature `service` only the state and its snapshots are there.
//!
//! A request goes `http → engine → journal → answer`, and `state` is a fold of `journal` at every
//! moment. Learning itself is the crate `cohort`'s business.

pub mod auth;
#[cfg(feature = "service")]
pub mod backup;
#[cfg(feature = "service")]
pub mod boundaries;
pub mod bytes;
#[cfg(feature = "service")]
pub mod clock;
#[cfg(feature = "service")]
pub mod cluster;
#[cfg(feature = "service")]
pub mod config;
#[cfg(feature = "service")]
pub mod demo;
#[cfg(feature = "service")]
pub mod directory;
#[cfg(feature = "service")]
pub mod engine;
pub mod event;
#[cfg(feature = "service")]
pub mod export;
#[cfg(feature = "service")]
pub mod http;
pub mod imitation;
#[cfg(feature = "service")]
pub mod insight;
#[cfg(feature = "service")]
pub mod journal;
pub mod learning;
#[cfg(feature = "service")]
mod measured;
#[cfg(feature = "service")]
mod priority;
#[cfg(feature = "service")]
pub mod server;
pub mod settings;
pub mod snapshot;
pub mod state;
pub mod trial;
