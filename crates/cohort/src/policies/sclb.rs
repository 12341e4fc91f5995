//! `sclb`: Successive Clustering of Linear Bandits, Algorithm 1 of the paper, to the letter.
//!
//! ```text
//! 2  for phases 1 ≤ i ≤ log₂T
//! 3     play a fresh CMLB(γ = 3/(N·2^i)^α, horizon 2^i, δ/2^i, p* = i⁻²) for 2^i rounds
//! ```
//!
//! Phases of 2, 4, …, 2^i rounds are 2^{i+1} − 2 rounds together: the bound of line 2 on i fits no
//! T exactly. Here phases follow each other until T, as in the analysis (which counts ⌈log₂T⌉ of
//! them): the last one keeps its parameters (from 2^i) and is cut off. Nothing else depends on T,
//! so T need not be known. In phase 1, p* = 1: all users share one cluster.
//!
//! | constant | range | meaning |
//! | --- | --- | --- |
//! | `alpha` α | (0, 1/2] | as for `cmlb` |
//! | `c` C | (0, ∞) | as for `cmlb` |
//! | `explore_rho_min` | (0, 1] | as for `cmlb` |
//!
//! and those of OFUL ([`OFUL_PARAMS`]); its `delta` is the δ of line 1.
//!
//! Reference: Ghosh, Sankararaman, Ramchandran, Algorithm 1 (SCLB).

use std::io::{self, Read, Write};

use super::cmlb::{ALPHA, C, Cmlb, CmlbInputs, EXPLORE_RHO_MIN, default_gamma, explore_rounds};
use crate::builder::builder;
use crate::linear::{Confidence, OFUL_PARAMS};
use crate::params::{Param, Settings};
use crate::registry::PolicyInfo;
use crate::saved::{State, read_count, read_labels, write_count, write_labels};
use crate::{Arm, Contexts, Error, Policy, Problem, Saved};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "sclb",
    summary: "a fresh CMLB in phases of 2, 4, 8, … rounds, told no gap and no sizes (the letter)",
    reference: "Ghosh et al., Algorithm 1",
    params: SCLB_PARAMS,
    build,
};

builder! { alpha: real, c: real, explore_rho_min: real; OFUL }

/// The parameters of `sclb` and `sclb-warm`.
pub(crate) const SCLB_PARAMS: &[&[Param]] = &[&[ALPHA, C, EXPLORE_RHO_MIN], OFUL_PARAMS];

/// 2^i, the number of rounds of phase i.
pub fn phase_rounds(phase: u32) -> usize {
    1usize.checked_shl(phase).unwrap_or(usize::MAX)
}

/// δ/2^i, the δ of phase i.
pub fn phase_delta(delta: f64, phase: u32) -> f64 {
    delta / phase_rounds(phase) as f64
}

/// p* = i⁻² of phase i.
pub fn phase_min_share(phase: u32) -> f64 {
    f64::from(phase).powi(-2)
}

/// The inputs of all phases.
#[derive(Clone, Debug)]
pub(crate) struct Phases {
    alpha: f64,
    c: f64,
    explore_rho_min: f64,
    confidence: Confidence,
    users: usize,
    dim: usize,
}

impl Phases {
    pub(crate) fn from_settings(problem: &Problem, settings: &Settings) -> Result<Self, Error> {
        Ok(Self {
            alpha: settings.real("alpha"),
            c: settings.real("c"),
            explore_rho_min: settings.real("explore_rho_min"),
            confidence: Confidence::from_settings(problem, settings)?,
            users: problem.users,
            dim: problem.dim,
        })
    }

    /// Line 3: the plan of phase i.
    pub(crate) fn plan(&self, phase: u32) -> CmlbInputs {
        let rounds = phase_rounds(phase);
        let delta = phase_delta(self.confidence.delta, phase);
        CmlbInputs {
            explore_rounds: explore_rounds(
                self.c,
                self.dim,
                self.users,
                rounds,
                self.alpha,
                delta,
                self.explore_rho_min,
            ),
            gamma: default_gamma(self.users, rounds, self.alpha),
            min_share: phase_min_share(phase),
            confidence: self.confidence.for_run(self.dim, rounds, delta),
        }
    }
}

#[derive(Clone)]
struct Sclb {
    phases: Phases,
    /// i.
    phase: u32,
    rounds_left: usize,
    cmlb: Cmlb,
    /// The clusters of the last phase that clustered.
    found: Option<Vec<usize>>,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let phases = Phases::from_settings(problem, settings)?;
    Ok(Box::new(Sclb::new(phases)))
}

impl Sclb {
    fn new(phases: Phases) -> Self {
        let cmlb = Cmlb::new(phases.users, phases.dim, phases.plan(1));
        Self { phases, phase: 1, rounds_left: phase_rounds(1), cmlb, found: None }
    }

    fn next_phase(&mut self) {
        self.found = self.cmlb.clusters().or(self.found.take());
        self.phase += 1;
        self.rounds_left = phase_rounds(self.phase);
        self.cmlb = Cmlb::new(self.phases.users, self.phases.dim, self.phases.plan(self.phase));
    }
}

impl Policy for Sclb {
    fn choose(&mut self, contexts: &Contexts, arms: &mut [Arm]) {
        if self.rounds_left == 0 {
            self.next_phase();
        }
        self.cmlb.choose(contexts, arms);
    }

    fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        self.rounds_left -= 1;
        self.cmlb.learn(contexts, arms, rewards);
    }

    fn clusters(&self) -> Option<Vec<usize>> {
        self.cmlb.clusters().or_else(|| self.found.clone())
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

/// Writes the phase and its remaining rounds.
pub(crate) fn write_phase(out: &mut dyn Write, phase: u32, rounds_left: usize) -> io::Result<()> {
    write_count(out, phase as usize)?;
    write_count(out, rounds_left)
}

/// Reads what [`write_phase`] wrote.
pub(crate) fn read_phase(from: &mut dyn Read, what: &'static str) -> Result<(u32, usize), Error> {
    let (phase, rounds_left) = (read_count(from, what)?, read_count(from, what)?);
    match u32::try_from(phase) {
        Ok(phase) if phase > 0 && rounds_left <= phase_rounds(phase) => Ok((phase, rounds_left)),
        _ => {
            let found = format!("phase {phase} with {rounds_left} rounds left");
            Err(Error::Saved { what, found, expected: "no more than it lasts".to_owned() })
        }
    }
}

impl State for Sclb {
    const NAME: &'static str = INFO.name;
    const VERSION: u32 = 1;

    fn write_state(&self, out: &mut dyn Write) -> io::Result<()> {
        write_phase(out, self.phase, self.rounds_left)?;
        write_count(out, self.found.iter().len())?;
        if let Some(found) = &self.found {
            write_labels(out, found)?;
        }
        self.cmlb.write(out)
    }

    fn read_state(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        let what = INFO.name;
        let (phase, rounds_left) = read_phase(from, what)?;
        let found = match read_count(from, what)? {
            0 => None,
            _ => Some(read_labels(from, what, self.phases.users)?),
        };
        self.cmlb = self.cmlb.read(from, what, self.phases.plan(phase))?;
        (self.phase, self.rounds_left, self.found) = (phase, rounds_left, found);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_follow_line_3() {
        let phases = Phases {
            alpha: 0.2,
            c: 0.2,
            explore_rho_min: 1.0,
            confidence: Confidence::from_settings(&Problem::new(100, 15), &INFO.check([]).unwrap())
                .unwrap(),
            users: 100,
            dim: 15,
        };
        let first = phases.plan(1);
        assert_eq!(first.min_share, 1.0);
        assert_eq!(first.confidence.delta, 0.2);
        let ninth = phases.plan(9);
        assert_eq!(phase_rounds(9), 512);
        assert!((ninth.min_share - 1.0 / 81.0).abs() < 1e-15);
        assert!((ninth.confidence.delta - 0.4 / 512.0).abs() < 1e-15);
        assert!((ninth.gamma - 3.0 / 51_200f64.powf(0.2)).abs() < 1e-15);
        // 0.04·15·51200^0.4·ln(1280)
        assert_eq!(ninth.explore_rounds, 329);
    }
}
