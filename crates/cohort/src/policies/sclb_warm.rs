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

use std::io::{self, Read, Write};

use super::cmlb_warm::CmlbWarm;
use super::sclb::{Phases, SCLB_PARAMS, phase_rounds, read_phase, write_phase};
use crate::builder::builder;
use crate::params::Settings;
use crate::registry::PolicyInfo;
use crate::saved::State;
use crate::{Arm, Contexts, Error, Policy, Problem, Saved};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "sclb-warm",
    summary: "SCLB that goes on with all that was learned in the phases before",
    reference: "a variant of Ghosh et al., Algorithm 1",
    params: SCLB_PARAMS,
    build,
};

builder! { alpha: real, c: real, explore_rho_min: real; OFUL }

#[derive(Clone)]
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

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl State for SclbWarm {
    const NAME: &'static str = INFO.name;
    const VERSION: u32 = 1;

    fn write_state(&self, out: &mut dyn Write) -> io::Result<()> {
        write_phase(out, self.phase, self.rounds_left)?;
        self.cmlb.write(out)
    }

    fn read_state(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        let (phase, rounds_left) = read_phase(from, INFO.name)?;
        self.cmlb = self.cmlb.read(from, INFO.name, self.phases.plan(phase))?;
        (self.phase, self.rounds_left) = (phase, rounds_left);
        Ok(())
    }
}
