//! The `cohort` command, run as a process.

mod apps;
mod arena;
mod backup;
mod bad_input;
mod cluster;
mod command;
mod evaluate;
mod features;
mod insight;
mod interrupt;
mod npy;
mod policies;
mod readme;
mod serve;
mod serving;
mod silent;
mod simulate;
mod table;
mod theory;
mod warm_start;
