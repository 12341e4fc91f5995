//! Linear contextual bandits for many users: decide for all of them, and learn *across* them.
//!
//! In every round a user is offered some arms, each a vector of features (a context); the policy
//! picks one and sees a noisy reward whose mean is linear in the context, with an unknown parameter
//! vector per user. The goal is little *regret*: the expected reward lost against always playing the
//! best arm. Users resemble each other in unknown ways, so the rewards of one user should inform the
//! decisions for others, but only for those who are like it.
//!
//! ```
//! use cohort::policies::cohort as cohort_policy;
//! use cohort::{Contexts, Problem};
//!
//! // 40 users, contexts in R³. Half of the users like coordinate 0, the others coordinate 1.
//! const USERS: usize = 40;
//! let mut policy = cohort_policy::builder().build(&Problem::new(USERS, 3))?;
//! let (mut arms, mut lost) = ([0; USERS], [0.0; 2]);
//! for round in 0..60 {
//!     let values: Vec<f64> = (0..15).map(|k| f64::sin((7 * k + 11 * round) as f64) / 2.0).collect();
//!     let contexts = Contexts::new(&values, 3)?; // five arms
//!     policy.choose(&contexts, &mut arms);
//!     let expected = |user: usize, arm: usize| contexts.arm(arm)[user % 2];
//!     let rewards: Vec<f64> = (0..USERS).map(|user| expected(user, arms[user])).collect();
//!     policy.learn(&contexts, &arms, &rewards);
//!     for user in 0..USERS {
//!         let best = (0..5).map(|arm| expected(user, arm)).fold(f64::MIN, f64::max);
//!         lost[round / 30] += best - rewards[user];
//!     }
//! }
//! assert!(lost[1] < lost[0] / 2.0, "regret in the first and the last 30 rounds: {lost:?}");
//! # Ok::<(), cohort::Error>(())
//! ```
//!
//! # The policies
//!
//! | take | if |
//! | --- | --- |
//! | [`policies::cohort`] | you know nothing about your users: it learns cohorts, spreads and noise from all of them |
//! | [`policies::linucb_ind`] | users have nothing in common, or you need a baseline: one OFUL per user |
//! | [`policies::cmlb`], [`policies::sclb`], [`policies::pmlb`] | you want the paper's algorithms, to the letter (Ghosh, Sankararaman, Ramchandran, *Adaptive Clustering and Personalization in Multi-Agent Stochastic Linear Bandits*) |
//! | [`policies::cmlb_warm`], [`policies::sclb_warm`], [`policies::pmlb_warm`] | you want their variants that keep every reward |
//! | [`policies::club`], [`policies::sclub`], … | you want algorithms of other papers; [`registry::POLICIES`] lists all |
//!
//! A policy is made by its typed builder (`cmlb::builder().alpha(0.2).build(&problem)?`, see
//! [`builder`](mod@builder)) or, where its name is only known at run time, by [`registry::build`]. Both
//! check the same ranges and give the same messages.
//!
//! # Traits
//!
//! | trait | what it is for |
//! | --- | --- |
//! | [`Policy`] | rounds: an arm for every user, then their rewards |
//! | [`OnlinePolicy`] | users one at a time, each with candidates of its own; rewards come late or never |
//! | [`Refits`] | when a refit of the population model runs, and on which thread |
//! | [`insight::Insight`] | read-only views of what was learned |
//! | [`Saved`] | serialisation of what was learned |
//!
//! # Where to go on
//!
//! - `examples/`: a loop (`rounds.rs`), users one at a time (`one_at_a_time.rs`), a policy of your
//!   own (`own_policy.rs`), the engine embedded in an application (`embed.rs`), the best of very many items
//!   (`catalogue.rs`).
//! - How an algorithm works: its file under [`policies`] has its reference, its pseudo-code and the
//!   range of every constant. docs/add-a-policy.md says how to add one.
//! - The modules:
//!
//! | where | question it answers |
//! | --- | --- |
//! | [`linear`] | what is known of a user? Sufficient statistics, ridge estimate, confidence set |
//! | [`cluster`] | which users are alike? MAXIMAL-CLUSTER, exactly |
//! | [`population`] | what do users have in common? The mixture model behind `cohort` |
//! | [`bounds`] | how large may numbers be? |
//! | [`intercept`] | what if rewards have a level of their own? |
//! | [`params`], [`registry`] | what can be set, and which policies are there? |
//! | [`saved`] | how is learned state serialised? |
//! | [`search`] | which of very many items are best for a user? |
//!
//! The crate uses no files, no network and no clock. Parallel loops run on the rayon pool of the
//! caller, and give the same bits on any number of threads; only a refit that is run in slices between
//! online decisions has one thread of its own.

pub mod algebra;
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
mod pieces;
pub mod policies;
mod policy;
pub mod population;
mod problem;
pub mod registry;
pub mod saved;
pub mod search;
mod shared_list;
mod simd;

pub use contexts::{Arm, Contexts};
pub use error::{Error, nearest};
pub use pieces::Pieces;
pub use policy::{
    AskAll, Frozen, OnlinePolicy, Order, Policy, RefitJob, Refits, Saved, Score, Shared, SharedFits,
};
pub use problem::{Law, Problem, Truth};

/// Compiles and runs the code of docs/add-a-policy.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/add-a-policy.md")]
struct AddAPolicy;
