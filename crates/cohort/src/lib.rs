//! Linear contextual bandits for many users: decide for all of them, and learn *across* them.
//!
//! In every round a user is offered some arms, each a vector of features; the policy picks one and
//! sees a noisy reward whose mean is linear in the features, with an unknown vector per user. The
//! goal is little *regret*: the reward lost against always playing the best arm. Users resemble each
//! other in ways nobody has told the policy, so what one user shows should help others — but only
//! those who are like it.
//!
//! ```
//! use cohort::policies::linucb_ind;
//! use cohort::{Contexts, Problem};
//!
//! // Two users, contexts in R³, no horizon told.
//! let problem = Problem::new(2, 3);
//! let mut policy = linucb_ind::builder().exploration(0.5).build(&problem)?;
//! let values = [0.5, 0.0, 0.0, 0.0, 0.5, 0.0]; // two arms
//! let contexts = Contexts::new(&values, 3)?;
//! let mut arms = [0; 2];
//! for _ in 0..50 {
//!     policy.choose(&contexts, &mut arms);
//!     // The first user likes arm 0, the second arm 1.
//!     let rewards = [f64::from(arms[0] == 0), f64::from(arms[1] == 1)];
//!     policy.learn(&contexts, &arms, &rewards);
//! }
//! policy.choose(&contexts, &mut arms);
//! assert_eq!(arms, [0, 1]);
//! # Ok::<(), cohort::Error>(())
//! ```
//!
//! # The policies
//!
//! | take | if |
//! | --- | --- |
//! | [`policies::cohort`] | you know nothing of your users: it learns cohorts, spreads and noise from all of them |
//! | [`policies::linucb_ind`] | users have nothing in common, or you need a baseline: one OFUL per user |
//! | [`policies::cmlb`], [`policies::sclb`], [`policies::pmlb`] | you want the paper's algorithms, to the letter (Ghosh, Sankararaman, Ramchandran, *Adaptive Clustering and Personalization in Multi-Agent Stochastic Linear Bandits*) |
//! | [`policies::cmlb_warm`], [`policies::sclb_warm`], [`policies::pmlb_warm`] | you want them without throwing rewards away |
//! | [`policies::club`], [`policies::sclub`], … | you want algorithms of others; [`registry::POLICIES`] lists all |
//!
//! A policy comes from its typed builder (`cmlb::builder().alpha(0.2).build(&problem)?`, see
//! [`builder`](mod@builder)) or, where its name is only known at run time, from [`registry::build`]. Both check
//! the same ranges with the same sentences.
//!
//! # Traits
//!
//! | trait | what it is for |
//! | --- | --- |
//! | [`Policy`] | rounds: an arm for every user, then their rewards |
//! | [`OnlinePolicy`] | users one at a time, each with candidates of its own; rewards come late or never |
//! | [`Refits`] | when a refit of what users have in common is run, and on which thread |
//! | [`insight::Insight`] | a read-only view of what was learned, for people |
//! | [`Saved`] | what was learned, as bytes |
//!
//! # Where to go on
//!
//! - `examples/`: a loop (`rounds.rs`), users one at a time (`one_at_a_time.rs`), a policy of your
//!   own (`own_policy.rs`), the engine embedded in an application (`embed.rs`).
//! - How an algorithm works: its file under [`policies`] has its reference, its pseudo-code and the
//!   range of every constant. docs/add-a-policy.md says how to add one.
//! - What it is made of:
//!
//! | where | question it answers |
//! | --- | --- |
//! | [`linear`] | what is known of a user? Sufficient statistics, ridge estimate, confidence |
//! | [`cluster`] | which users are alike? MAXIMAL-CLUSTER, exactly |
//! | [`population`] | what do users have in common? The mixture that `cohort` learns |
//! | [`bounds`] | how large may numbers be? |
//! | [`intercept`] | what if rewards have a level of their own? |
//! | [`params`], [`registry`] | what can be set, and which policies are there? |
//! | [`saved`] | how is learned state serialised? |
//!
//! The crate uses no files, no network, no clock, and no thread pool of its own: parallel loops run on
//! the rayon pool of the caller, and give the same bits on any number of threads.

#[macro_use]
mod widest;

pub mod bounds;
pub mod builder;
pub mod cluster;
mod contexts;
mod error;
pub mod insight;
pub mod intercept;
pub mod linear;
mod pace;
pub mod params;
pub mod policies;
mod policy;
pub mod population;
mod problem;
pub mod registry;
pub mod saved;
mod simd;

pub use contexts::{Arm, Contexts};
pub use error::{Error, nearest};
pub use policy::{Frozen, OnlinePolicy, Order, Policy, RefitJob, Refits, Saved, Score, Shared};
pub use problem::{Law, Problem, Truth};

/// Compiles and runs the code of docs/add-a-policy.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/add-a-policy.md")]
struct AddAPolicy;
