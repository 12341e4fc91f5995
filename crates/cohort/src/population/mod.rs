//! What users have in common: the mixture behind the `cohort` policy.

mod evidence;
mod fit;
mod message;
mod model;
mod posterior;
mod spectrum;
mod structure;

pub use model::{Component, Population};
pub use posterior::{Belief, Guess};
pub use spectrum::Spectrum;
