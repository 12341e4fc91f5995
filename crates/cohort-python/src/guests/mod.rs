//! How do an environment and a policy written in Python take part in the lab?
//!
//! The lab's traits cannot fail in the middle of a round, and Python can. So whatever a guest
//! raises is kept and stops the run; the round at hand is played to its end on nothing, and no
//! result is given.

mod environment;
mod policy;

pub use environment::{GuestEnvironment, PYTHON};
pub use policy::GuestPlayer;
