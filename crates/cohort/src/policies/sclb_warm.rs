//! `sclb-warm`: SCLB that never throws a reward away.
//!
//! ```text
//! 2  for phases i = 1, 2, … of 2^i rounds
//! 3'    go on as CMLB with γ = 3/(N·2^i)^α, T_explore from 2^i, δ/2^i, p* = i⁻²,
//!       with all that every user has learned in the phases before
//! ```
//!
//! Rounds already played count towards T_explore, so a late phase clusters at once. A cluster's
//! statistic is the sum of its members', all history included, as in `cmlb-warm`.
//!
//! Constants: those of [`super::sclb`].

use super::cmlb_warm::CmlbWarm;
use super::sclb::{Phases, SCLB_PARAMS, phase_rounds};
use crate::params::Settings;
use crate::registry::PolicyInfo;
use crate::{Arm, Contexts, Error, Policy, Problem};

/// What is known of it before it is made.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "sclb-warm",
    summary: "SCLB that goes on with all that was learned in the phases before",
    reference: "a variant of Ghosh et al., Algorithm 1",
    params: SCLB_PARAMS,
    build,
};

struct SclbWarm {
    phases: Phases,
    phase: u32,
    rounds_left: usize,
    cmlb: CmlbWarm,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let phases = Phases::from_settings(problem, settings)?;
    Ok(Box::new(SclbWarm {
        cmlb: CmlbWarm::new(problem.users, problem.dim, phases.plan(1)),
        phases,
        phase: 1,
        rounds_left: phase_rounds(1),
    }))
}

impl Policy for SclbWarm {
    fn choose(&mut self, contexts: &Contexts, arms: &mut [Arm]) {
        if self.rounds_left == 0 {
            self.phase += 1;
            self.rounds_left = phase_rounds(self.phase);
            self.cmlb.replan(self.phases.plan(self.phase));
        }
        self.cmlb.choose(contexts, arms);
    }

    fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        self.rounds_left -= 1;
        self.cmlb.learn(contexts, arms, rewards);
    }

    fn clusters(&self) -> Option<Vec<usize>> {
        self.cmlb.clusters()
    }
}
