//! Read-only views of what a policy has learned.

use crate::Contexts;
use crate::population::{Explanation, Membership, Population};

/// A read-only view of what a policy has learned.
pub trait Insight {
    /// The fitted population model, where the policy has one.
    fn population(&self) -> Option<&Population> {
        None
    }

    /// A user's estimate and most probable component: cheap enough for many users. `None` for an
    /// unknown user.
    fn position(&self, user: usize) -> Option<Position>;

    /// Everything that was learned about one user.
    fn user_summary(&self, user: usize) -> Option<UserSummary>;

    /// Why an arm is played for a user; `None` while there is nothing to explain.
    fn explain(&self, _user: usize, _contexts: &Contexts) -> Option<Explanation> {
        None
    }
}

/// A user's estimate and most probable component.
#[derive(Clone, Debug, PartialEq)]
pub struct Position {
    /// E θ.
    pub estimate: Vec<f64>,
    /// The most probable component and its probability; `None` where the policy has no components.
    pub membership: Option<Membership>,
    /// How many rewards it has given.
    pub rewards: f64,
}

/// Everything that was learned about one user.
#[derive(Clone, Debug, PartialEq)]
pub struct UserSummary {
    /// E θ.
    pub estimate: Vec<f64>,
    /// The posterior standard deviation of each coordinate.
    pub deviations: Vec<f64>,
    /// The components the user may belong to, most probable first; empty where the policy has none.
    pub memberships: Vec<Membership>,
    /// How many rewards it has given.
    pub rewards: f64,
}
