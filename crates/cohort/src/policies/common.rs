//! `common`: one OFUL for everybody on the average reward of all users. What PMLB's first stage
//! would be if it never ended.
//!
//! Constants: those of OFUL ([`OFUL_PARAMS`]); the noise scale is σ/√N.
//!
//! Reference: the paper, Algorithm 4 (PMLB), lines 2–6.

use std::io::{self, Read, Write};

use super::shared::PerCluster;
use crate::linear::{Confidence, OFUL_PARAMS};
use crate::params::Settings;
use crate::registry::PolicyInfo;
use crate::{Arm, Contexts, Error, Policy, Problem, Saved, saved};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "common",
    summary: "one OFUL for everybody on the average reward of all users",
    reference: "Ghosh et al., Algorithm 4, lines 2–6, without end",
    params: &[OFUL_PARAMS],
    build,
};

struct Common {
    pooled: PerCluster,
    dim: usize,
    confidence: Confidence,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let confidence = Confidence::from_settings(problem, settings)?;
    let labels = vec![0; problem.users];
    let pooled = PerCluster::new(labels, problem.dim, &confidence);
    Ok(Box::new(Common { pooled, dim: problem.dim, confidence }))
}

impl Policy for Common {
    fn choose(&mut self, contexts: &Contexts, arms: &mut [Arm]) {
        self.pooled.choose(contexts, arms);
    }

    fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        self.pooled.learn(contexts, arms, rewards);
    }

    fn clusters(&self) -> Option<Vec<usize>> {
        Some(self.pooled.labels().to_vec())
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl Saved for Common {
    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        saved::write_header(out, SAVED_VERSION)?;
        self.pooled.save(out)
    }

    fn load(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        saved::read_header(from, INFO.name, SAVED_VERSION)?;
        let size = (self.pooled.labels().len(), self.dim);
        self.pooled = PerCluster::load(from, INFO.name, size, &self.confidence)?;
        Ok(())
    }
}

/// The layout that `save` writes.
const SAVED_VERSION: u32 = 1;
