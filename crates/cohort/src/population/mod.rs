//! What users have in common: the mixture behind the `cohort` policy.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`Population`] | what is assumed of users? |
//! | [`Ledger`] | what was seen of them? |
//! | `moments`, `gram_root` | what of that does a fit look at, eight users at a time? |
//! | `message`, `root_message` | what does a user say about its component's centre? |
//! | `e_step`, `pass`, `sums` | who belongs where, and what do all users say together? |
//! | `maximise`, `fisher_scoring` | what follows for centres, weights, variances and noise? |
//! | `fit`, `sample` | how is a population fitted, and to whom? |
//! | [`Fitted`], [`Panel`] | do cohorts predict rewards that they were not fitted to? |
//! | `shared` | … and to users who are in several ledgers, on machines of their own? |
//! | `structure`, `candidates`, `proposal`, `splits` | how many cohorts are there? |
//! | `drift` | are users still what they were? |
//! | [`Recurrence`] | do arms come again? |
//! | `covariance` | in which directions do users differ? |
//! | `noise` | how noisy is each of them? |
//! | [`Belief`] | what follows for one user? |
//! | `arm_scores`, `lane_beliefs` | … for many arms, for eight users at once? |
//! | [`Prior`] | … for one that comes alone, or for the first time? |
//! | [`Explanation`] | why that arm? |
//! | `constants` | which numbers were chosen, and what do they trade? |
//! | `lanes`, `buffer_pool` | how is that done for eight users at once? |

mod lanes;

mod arm_scores;
mod buffer_pool;
mod candidates;
pub(crate) mod constants;
mod covariance;
mod drift;
mod e_step;
mod explanation;
mod fisher_scoring;
mod fit;
mod fitted;
mod gram_root;
mod inference;
mod lane_beliefs;
mod ledger;
mod maximise;
mod message;
mod model;
mod moments;
mod noise;
mod panel;
mod pass;
mod posterior;
mod prior;
mod proposal;
mod recurrence;
mod root_message;
mod sample;
mod shared;
mod splits;
mod structure;
mod sums;

pub use drift::has_jumped;
pub(crate) use explanation::Inherited;
pub use explanation::{ArmReport, Explanation, Membership};
pub use fit::FitOptions;
pub(crate) use fitted::Polish;
pub use fitted::{FitScope, Fitted, HeldOutComparison};
pub(crate) use inference::{CertainBeliefs, EightBeliefs};
pub use inference::{Inference, ScoringMode};
pub(crate) use lane_beliefs::LaneBeliefs;
pub use ledger::{Ledger, memory_of};
pub use model::{Basis, Component, Population};
pub use moments::Moments;
pub(crate) use panel::Member;
pub use panel::{Panel, PredictionWindow};
pub use posterior::{Belief, ClassBelief, ComponentPosterior};
pub use prior::{Prior, unexplored};
pub use recurrence::Recurrence;
pub use sample::mean_rewards;
pub(crate) use shared::{Counts, SampleRequest, SampleStatistics};
pub use sums::{ClassSums, PassSums, Sums};
