//! `cmlb-warm`: CMLB that never throws a reward away.
//!
//! ```text
//!  2–5  as CMLB: explore alone, cluster the estimates
//!  6'   one OFUL per cluster on the sum of its members' statistics, the individual phase included
//!  9    all users of a cluster play the arm of its OFUL
//! 10'   every member's reward updates it (noise scale σ; m rewards at once instead of their mean)
//! ```
//!
//! Constants: those of [`super::cmlb`].

use std::io::{self, Read, Write};

use super::cmlb::{CMLB_PARAMS, Cmlb, CmlbInputs, Phase};
use super::shared::PooledClusters;
use crate::builder::builder;
use crate::linear::Bank;
use crate::params::Settings;
use crate::registry::PolicyInfo;
use crate::saved::State;
use crate::{Error, Policy, Problem};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "cmlb-warm",
    summary: "CMLB whose clusters start from all that their members have learned",
    reference: "a variant of Ghosh et al., Algorithm 2",
    params: CMLB_PARAMS,
    build,
};

builder! { alpha: real, c: real, gamma: real, min_share: real, explore_rho_min: real; OFUL }

/// CMLB whose users' histories are never reset; `sclb-warm` changes its plan from phase to phase.
pub(crate) type CmlbWarm = Cmlb<PooledClusters>;

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let plan = CmlbInputs::from_settings(problem, settings)?;
    Ok(Box::new(CmlbWarm::new(problem.users, problem.dim, plan)))
}

impl CmlbWarm {
    /// The same users with another plan: clusters are dissolved, histories stay. Rounds already
    /// played count towards the new T_explore.
    pub(crate) fn replan(&mut self, plan: CmlbInputs) {
        self.plan = plan;
        if let Phase::Collaborative(clusters) = &self.phase {
            clusters.dissolve(&mut self.histories);
            // Users' own learners are needed only if they play alone again.
            let due = self.rounds_played >= self.plan.explore_rounds;
            let ofuls = if due { Bank::new(0, 1, 1.0) } else { self.histories.ofuls() };
            self.phase = Phase::Individual(ofuls);
            self.cluster_if_due();
        }
    }
}

impl State for CmlbWarm {
    const NAME: &'static str = INFO.name;
    const VERSION: u32 = 1;

    fn write_state(&self, out: &mut dyn Write) -> io::Result<()> {
        self.write(out)
    }

    fn read_state(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        *self = self.read(from, INFO.name, self.plan.clone())?;
        Ok(())
    }
}
