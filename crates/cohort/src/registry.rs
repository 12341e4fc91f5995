//! The registry: every policy by name. The lab, the service, the command line and Python make
//! policies from it. A new policy is one file in `policies/` and its line in the list of
//! [`policies`](crate::policies); nothing else names it.

use crate::error::nearest;
use crate::params::{Param, Settings, Value};
use crate::{Error, Policy, Problem, intercept};

/// Makes a policy for a problem from checked parameters.
pub type Build = fn(&Problem, &Settings) -> Result<Box<dyn Policy>, Error>;

/// Static metadata of a policy: name, summary, reference, parameters.
#[derive(Debug)]
pub struct PolicyInfo {
    /// Its name in every driver.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// The publication it comes from.
    pub reference: &'static str,
    /// Its parameters, in groups that policies share.
    pub params: &'static [&'static [Param]],
    /// Makes the policy for contexts as they are. Callers use [`PolicyInfo::make`], which adds the
    /// intercept.
    pub build: Build,
}

pub use crate::policies::POLICIES;

/// Looks a policy up by name.
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

/// Makes a policy by name, with some of its parameters set.
pub fn build(
    name: &str,
    problem: &Problem,
    params: impl IntoIterator<Item = (String, Value)>,
) -> Result<Box<dyn Policy>, Error> {
    let info = info(name)?;
    info.make(problem, &info.check(params)?)
}
