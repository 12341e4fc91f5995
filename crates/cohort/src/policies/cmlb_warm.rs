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

use super::cmlb::{CMLB_PARAMS, Plan};
use super::shared::{PooledClusters, UserHistories};
use crate::builder::builder;
use crate::cluster::maximal_cluster;
use crate::linear::Bank;
use crate::params::Settings;
use crate::registry::PolicyInfo;
use crate::saved::{State, read_count, read_whole_bank, write_bank, write_count};
use crate::{Arm, Contexts, Error, Policy, Problem, Saved};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "cmlb-warm",
    summary: "CMLB whose clusters start from all that their members have learned",
    reference: "a variant of Ghosh et al., Algorithm 2",
    params: CMLB_PARAMS,
    build,
};

builder! {
    alpha: real, c: real, gamma: real, min_share: real, explore_rho_min: real, delta: real,
    lambda: real, norm_bound: real, sigma: real, exploration: real, confidence: choice,
    rho_min: real, intercept: flag,
}

/// CMLB over histories that live for ever; `sclb-warm` changes its plan from phase to phase.
#[derive(Clone)]
pub(crate) struct CmlbWarm {
    plan: Plan,
    users: usize,
    dim: usize,
    rounds_played: usize,
    histories: UserHistories,
    phase: Phase,
}

#[derive(Clone)]
enum Phase {
    Individual(Bank),
    Collaborative(PooledClusters),
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let plan = Plan::from_settings(problem, settings)?;
    Ok(Box::new(CmlbWarm::new(problem.users, problem.dim, plan)))
}

impl CmlbWarm {
    pub(crate) fn new(users: usize, dim: usize, plan: Plan) -> Self {
        let lambda = plan.confidence.lambda;
        Self {
            plan,
            users,
            dim,
            rounds_played: 0,
            histories: UserHistories::new(users, dim, lambda),
            phase: Phase::Individual(Bank::new(users, dim, lambda)),
        }
    }

    /// The same users with another plan: clusters are given up, histories are not. Rounds already
    /// played count towards the new T_explore.
    pub(crate) fn replan(&mut self, plan: Plan) {
        self.plan = plan;
        let Phase::Collaborative(_) = &self.phase else { return };
        let lambda = self.plan.confidence.lambda;
        let individual = Phase::Individual(Bank::new(0, self.dim, lambda));
        if let Phase::Collaborative(clusters) = std::mem::replace(&mut self.phase, individual) {
            clusters.dissolve(&mut self.histories);
        }
        self.phase = if self.rounds_played >= self.plan.explore_rounds {
            self.collaborate()
        } else {
            Phase::Individual(self.histories.ofuls())
        };
    }

    /// Lines 4–6': cluster the users' own estimates, pool the members' histories.
    fn collaborate(&self) -> Phase {
        let estimates = self.histories.estimates();
        let labels = maximal_cluster(&estimates, self.dim, self.plan.gamma, self.plan.min_share)
            .expect("estimates are finite and the plan was checked");
        Phase::Collaborative(PooledClusters::new(labels, &self.histories))
    }
}

impl Policy for CmlbWarm {
    fn choose(&mut self, contexts: &Contexts, arms: &mut [Arm]) {
        if matches!(self.phase, Phase::Individual(_))
            && self.rounds_played >= self.plan.explore_rounds
        {
            self.phase = self.collaborate();
        }
        let confidence = &self.plan.confidence;
        match &mut self.phase {
            Phase::Individual(ofuls) => {
                let radius = |_, progress| confidence.radius(progress);
                ofuls.choose(contexts, confidence.shape, radius, None, arms);
            }
            Phase::Collaborative(clusters) => clusters.choose(contexts, confidence, arms),
        }
    }

    fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        self.rounds_played += 1;
        match &mut self.phase {
            Phase::Individual(ofuls) => {
                ofuls.learn(contexts, arms, rewards);
                self.histories.learn(contexts, arms, rewards);
            }
            Phase::Collaborative(clusters) => {
                clusters.learn(contexts, arms, rewards, &mut self.histories);
            }
        }
    }

    fn clusters(&self) -> Option<Vec<usize>> {
        match &self.phase {
            Phase::Individual(_) => None,
            Phase::Collaborative(clusters) => Some(clusters.labels().to_vec()),
        }
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl CmlbWarm {
    /// Writes all but the plan.
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        write_count(out, self.rounds_played)?;
        self.histories.save(out)?;
        match &self.phase {
            Phase::Individual(ofuls) => {
                write_count(out, 0)?;
                write_bank(out, ofuls, self.plan.confidence.lambda)
            }
            Phase::Collaborative(clusters) => {
                write_count(out, 1)?;
                clusters.save(out)
            }
        }
    }

    /// Reads what it was, with its plan.
    pub(crate) fn read(
        &self,
        from: &mut dyn Read,
        what: &'static str,
        plan: Plan,
    ) -> Result<Self, Error> {
        let (users, dim) = (self.users, self.dim);
        let rounds_played = read_count(from, what)?;
        let histories = self.histories.load(from, what)?;
        let phase = match read_count(from, what)? {
            0 => {
                let lambda = plan.confidence.lambda;
                Phase::Individual(read_whole_bank(from, what, dim, lambda, users)?)
            }
            _ => Phase::Collaborative(PooledClusters::load(from, what, &histories)?),
        };
        Ok(Self { plan, users, dim, rounds_played, histories, phase })
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
