//! What users have in common: the mixture behind the `cohort` policy.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`Population`] | what is assumed of users? |
//! | [`Ledger`] | what was seen of them? |
//! | [`Spectrum`] | what does that say, one direction at a time? |
//! | `message` | what does a user say about its component's centre? |
//! | `evidence` | what do all users say about a component? |
//! | `pass` | who belongs where? |
//! | `fit` | what follows for the components? |
//! | `scoring` | what follows for spreads and noise? |
//! | `structure`, `births`, `splits` | how many cohorts are there? |
//! | [`Belief`] | what follows for one user? |
//! | `judging` | … for many arms at once? |
//! | [`Prior`] | … for one that comes alone? |
//! | [`Explanation`] | why that arm? |
//! | `lanes` | how is that done for eight users at once? |

mod lanes;

mod births;
mod evidence;
mod explanation;
mod fit;
mod judging;
mod ledger;
mod message;
mod model;
mod pass;
mod posterior;
mod prior;
#[allow(dead_code, unused_imports)]
mod rows_posterior;
mod scoring;
mod spectrum;
mod splits;
#[allow(dead_code, unused_imports)]
mod store;
mod structure;

pub(crate) use explanation::Inherited;
pub use explanation::{ArmReport, Explanation, Membership};
pub use fit::{Fit, Given};
pub use ledger::{Ledger, Record};
pub use model::{Component, Population};
pub use posterior::{Belief, Believer, Guess, Outlook};
pub use prior::Prior;
pub use spectrum::Spectrum;
