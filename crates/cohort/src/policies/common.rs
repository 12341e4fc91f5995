//! `common`: one OFUL for all users, on their average reward: PMLB's first stage, for ever.
//!
//! Constants: those of OFUL ([`OFUL_PARAMS`]); the noise scale is σ/√N.
//!
//! Reference: the paper, Algorithm 4 (PMLB), lines 2–6.

use super::shared::KnownClusters;
use crate::builder::builder;
use crate::linear::{Confidence, OFUL_PARAMS};
use crate::params::Settings;
use crate::registry::PolicyInfo;
use crate::{Error, Policy, Problem};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "common",
    summary: "one OFUL for everybody on the average reward of all users",
    reference: "Ghosh et al., Algorithm 4, lines 2–6, without end",
    params: &[OFUL_PARAMS],
    build,
};

builder! { OFUL }

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let confidence = Confidence::from_settings(problem, settings)?;
    let labels = vec![0; problem.users];
    Ok(Box::new(KnownClusters::new(INFO.name, problem.dim, labels, confidence)))
}
