//! `oracle`: told the true clusters, one OFUL per cluster on averaged rewards. What CMLB would be
//! if clustering were free and never wrong.
//!
//! Constants: those of OFUL ([`OFUL_PARAMS`]); a cluster of m users has the noise scale σ/√m.
//!
//! Reference: the paper, Section 5 ("an oracle that knows the cluster identities").

use std::io::{self, Read, Write};

use super::shared::PerCluster;
use crate::linear::{Confidence, OFUL_PARAMS};
use crate::params::Settings;
use crate::registry::PolicyInfo;
use crate::{Arm, Contexts, Error, Policy, Problem, Saved, saved};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "oracle",
    summary: "told the true clusters; one OFUL per cluster on averaged rewards",
    reference: "Ghosh et al., Section 5",
    params: &[OFUL_PARAMS],
    build,
};

struct Oracle {
    clusters: PerCluster,
    dim: usize,
    confidence: Confidence,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let confidence = Confidence::from_settings(problem, settings)?;
    let truth = problem.truth.ok_or(Error::Needs {
        policy: settings.policy(),
        what: "the true clusters, which only an environment can tell",
    })?;
    let mut labels = truth.clusters.to_vec();
    crate::cluster::partition::number_by_smallest_member(&mut labels);
    let clusters = PerCluster::new(labels, problem.dim, &confidence);
    Ok(Box::new(Oracle { clusters, dim: problem.dim, confidence }))
}

impl Policy for Oracle {
    fn choose(&mut self, contexts: &Contexts, arms: &mut [Arm]) {
        self.clusters.choose(contexts, arms);
    }

    fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        self.clusters.learn(contexts, arms, rewards);
    }

    fn clusters(&self) -> Option<Vec<usize>> {
        Some(self.clusters.labels().to_vec())
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl Saved for Oracle {
    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        saved::write_header(out, SAVED_VERSION)?;
        self.clusters.save(out)
    }

    fn load(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        saved::read_header(from, INFO.name, SAVED_VERSION)?;
        let size = (self.clusters.labels().len(), self.dim);
        self.clusters = PerCluster::load(from, INFO.name, size, &self.confidence)?;
        Ok(())
    }
}

/// The layout that `save` writes.
const SAVED_VERSION: u32 = 1;
