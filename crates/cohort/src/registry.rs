//! Every policy by name: what `cohort policies` lists and what the lab, the service and Python
//! make policies from. A new policy is one file in `policies/` and its line in the list of
//! [`policies`](crate::policies); figures, the example, the server and the tests know it from there.

use crate::error::nearest;
use crate::params::{Param, Settings, Value};
use crate::{Error, Policy, Problem, intercept};

/// Makes a policy for a problem from parameters that were checked.
pub type Build = fn(&Problem, &Settings) -> Result<Box<dyn Policy>, Error>;

/// What is known of a policy before it is made.
#[derive(Debug)]
pub struct PolicyInfo {
    /// Its name everywhere.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Where it comes from.
    pub reference: &'static str,
    /// Its parameters, in groups that policies share.
    pub params: &'static [&'static [Param]],
    /// Makes one, for contexts as they are; [`PolicyInfo::make`] is for everybody else.
    pub build: Build,
}

pub use crate::policies::POLICIES;

/// The policy of that name.
pub fn info(name: &str) -> Result<&'static PolicyInfo, Error> {
    POLICIES.iter().find(|info| info.name == name).ok_or_else(|| Error::UnknownPolicy {
        name: name.to_owned(),
        nearest: nearest(name, POLICIES.iter().map(|info| info.name)),
    })
}

impl PolicyInfo {
    /// Checks parameters without making the policy.
    pub fn check(
        &self,
        params: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<Settings, Error> {
        Settings::check(self.name, self.params, params)
    }

    /// Makes the policy for a problem.
    pub fn make(&self, problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
        intercept::build(self.build, problem, settings)
    }
}

/// Makes the policy of that name for a problem, with some of its parameters set.
pub fn build(
    name: &str,
    problem: &Problem,
    params: impl IntoIterator<Item = (String, Value)>,
) -> Result<Box<dyn Policy>, Error> {
    let info = info(name)?;
    info.make(problem, &info.check(params)?)
}
