//! Environments and policies written in Python, as parts of the lab.
//!
//! The lab's traits cannot fail in the middle of a round, and Python can. So an exception is stored
//! and stops the run; the current round ends with placeholder values, and no result is returned.

mod environment;
mod policy;

pub use environment::{GuestEnvironment, PYTHON};
pub use policy::GuestPlayer;
