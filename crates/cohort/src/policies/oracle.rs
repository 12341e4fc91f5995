//! `oracle`: given the true clusters, one OFUL per cluster on averaged rewards: CMLB if clustering
//! were free and always right.
//!
//! Constants: those of OFUL ([`OFUL_PARAMS`]); a cluster of m users has the noise scale σ/√m.
//!
//! Reference: the paper, Section 5 ("an oracle that knows the cluster identities").

use super::shared::KnownClusters;
use crate::builder::builder;
use crate::linear::{Confidence, OFUL_PARAMS};
use crate::params::Settings;
use crate::registry::PolicyInfo;
use crate::{Error, Policy, Problem};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "oracle",
    summary: "told the true clusters; one OFUL per cluster on averaged rewards",
    reference: "Ghosh et al., Section 5",
    params: &[OFUL_PARAMS],
    build,
};

builder! { OFUL }

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let confidence = Confidence::from_settings(problem, settings)?;
    let truth = problem.truth.ok_or(Error::Needs {
        policy: settings.policy(),
        what: "the true clusters, which only an environment can tell",
    })?;
    let mut labels = truth.clusters.to_vec();
    crate::cluster::partition::number_by_smallest_member(&mut labels);
    Ok(Box::new(KnownClusters::new(INFO.name, problem.dim, labels, confidence)))
}
