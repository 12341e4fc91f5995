//! The service on several machines: partitions of users, each a replicated stream with one owner at a time.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`record`] | what is a message of a partition's stream? |
//! | [`log`] | what is asked of a stream? (the seam of simulations) |
//! | [`journal`] | how is a stream a journal, with one writer and no lock? |
//! | [`nats`] | how is NATS reached? |
//! | [`durability`] | what do its servers promise? |
//! | [`objects`] | where are snapshots? |
//! | [`memory`] | what is a stream in a test? |
//! | [`members`] | which nodes are there, and who owns what? |
//! | [`assign`] | who should own what? |
//! | [`control`] | what is the same in all partitions, and how do they come by it? |
//! | `fitter` | what have users of all partitions in common? |
//! | [`partition`] | what is a partition on its owner? |
//! | [`replica`] | what does a node know of partitions that it does not own? |
//! | [`node`] | how does a node live, take over, give up? |
//! | [`wire`] | how do nodes ask each other? |
//! | [`front`] | where does a request go? |
//! | [`moving`] | how does an embedded folder become a cluster, and a cluster a folder? |
//! | [`server`] | how does a node start and stop? |
//!
//! Consensus, replication and membership of servers are NATS JetStream's business.

pub mod assign;
pub mod control;
pub mod durability;
mod fitter;
pub mod front;
pub mod journal;
pub mod log;
pub mod members;
pub mod memory;
pub mod moving;
pub mod nats;
pub mod node;
pub mod objects;
pub mod partition;
pub mod record;
pub mod replica;
pub mod server;
pub mod wire;
