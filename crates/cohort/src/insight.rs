//! What a policy knows, for people to look at.

use crate::Contexts;
use crate::population::{Explanation, Membership, Population};

/// A policy that can be looked into. Looking changes nothing.
pub trait Insight {
    /// What users have in common, where the policy learns that and has learned it.
    fn population(&self) -> Option<&Population> {
        None
    }

    /// Where a user is and the component it most probably belongs to: cheap, for many users. `None`
    /// of a user of whom nothing is known.
    fn position(&self, user: usize) -> Option<Position>;

    /// All that is known of one user.
    fn user_summary(&self, user: usize) -> Option<UserSummary>;

    /// Why an arm is played for a user; `None` while there is nothing to explain.
    fn explain(&self, _user: usize, _contexts: &Contexts) -> Option<Explanation> {
        None
    }
}

/// Where a user is.
#[derive(Clone, Debug, PartialEq)]
pub struct Position {
    /// E θ.
    pub estimate: Vec<f64>,
    /// The component it most probably belongs to, and how probable that is; `None` where the policy
    /// knows no components.
    pub membership: Option<Membership>,
    /// How many rewards it has given.
    pub rewards: f64,
}

/// What is known of one user.
#[derive(Clone, Debug, PartialEq)]
pub struct UserSummary {
    /// E θ.
    pub estimate: Vec<f64>,
    /// How unsure that is: one standard deviation of each coordinate.
    pub deviations: Vec<f64>,
    /// Where the user may belong, most probable first; empty where the policy knows no components.
    pub memberships: Vec<Membership>,
    /// How many rewards it has given.
    pub rewards: f64,
}
