//! `cmlb`: Clustered Multi-Agent Linear Bandits, Algorithm 2 of the paper, to the letter.
//!
//! ```text
//!  2  T_explore ← ⌈C² d (NT)^{2α} ln(1/δ)⌉
//!  3  all users play OFUL(δ) independently for T_explore rounds
//!  5  clusters ← MAXIMAL-CLUSTER({θ̂_i}, γ, p*)
//!  6  a fresh OFUL(δ) per cluster
//!  9  all users of a cluster play the arm of its OFUL
//! 10  the average of their rewards updates it
//! ```
//!
//! The letter discards what was learned individually, except to cluster by it (`cmlb-warm` keeps
//! it). If T_explore ≥ T the whole horizon is individual learning.
//!
//! | constant | range | meaning |
//! | --- | --- | --- |
//! | `alpha` α | (0, 1/2] | clusters 5/(NT)^α apart can be told apart; the theorems need < 1/2, the paper's Last.FM run uses 1/2 |
//! | `c` C | (0, ∞) | length of the individual phase |
//! | `gamma` γ | [0, ∞) | users whose estimates are within γ are alike; 3/(NT)^α unless set |
//! | `min_share` p* | [0, 1] | clusters with fewer than p*·N users are merged |
//! | `explore_rho_min` | (0, 1] | divides T_explore as in the proofs; 1, as in the algorithm, unless set |
//!
//! and those of OFUL ([`OFUL_PARAMS`]). Defaults are those of the paper's simulations.
//!
//! Reference: Ghosh, Sankararaman, Ramchandran, Algorithm 2 (CMLB) and Algorithm 3.

use std::io::{self, Read, Write};
use std::ops::Bound;

use super::shared::{ClusterLearners, Histories, PerCluster};
use crate::builder::builder;
use crate::cluster::maximal_cluster;
use crate::linear::{Bank, Confidence, OFUL_PARAMS};
use crate::params::{Kind, NOT_NEGATIVE, POSITIVE, Param, SHARE, Settings};
use crate::registry::PolicyInfo;
use crate::saved::{State, read_count, read_whole_bank, write_bank, write_count};
use crate::{Arm, Contexts, Error, Policy, Problem, Saved};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "cmlb",
    summary: "explore alone, cluster once, then one OFUL per cluster (the letter)",
    reference: "Ghosh et al., Algorithm 2",
    params: CMLB_PARAMS,
    build,
};

builder! { alpha: real, c: real, gamma: real, min_share: real, explore_rho_min: real; OFUL }

/// The parameter α of CMLB and SCLB.
pub(crate) const ALPHA: Param = Param::real(
    "alpha",
    Kind::Real(Bound::Excluded(0.0), Bound::Included(0.5)),
    0.2,
    "α: clusters 5/(NT)^α apart can be told apart",
);
/// The parameter C of CMLB and SCLB.
pub(crate) const C: Param = Param::real("c", POSITIVE, 0.2, "C: length of the individual phase");
/// The parameter by which T_explore is divided.
pub(crate) const EXPLORE_RHO_MIN: Param = Param::real(
    "explore_rho_min",
    Kind::Real(Bound::Excluded(0.0), Bound::Included(1.0)),
    1.0,
    "divides T_explore as in the proofs; the algorithm does not (1)",
);

/// The parameters of `cmlb` and `cmlb-warm`.
pub(crate) const CMLB_PARAMS: &[&[Param]] = &[
    &[
        ALPHA,
        C,
        Param::derived(
            "gamma",
            NOT_NEGATIVE,
            "3/(NT)^alpha",
            "γ: users whose estimates are this close are alike",
        ),
        Param::real("min_share", SHARE, 0.0, "p*: clusters with a smaller share are put together"),
        EXPLORE_RHO_MIN,
    ],
    OFUL_PARAMS,
];

/// Line 2: T_explore = ⌈C² d (NT)^{2α} ln(1/δ) / ρ⌉, with ρ = 1 in the algorithm.
pub fn explore_rounds(
    c: f64,
    dim: usize,
    users: usize,
    rounds: usize,
    alpha: f64,
    delta: f64,
    rho: f64,
) -> usize {
    let played = users as f64 * rounds as f64;
    (c * c * dim as f64 * played.powf(2.0 * alpha) * (1.0 / delta).ln() / rho).ceil() as usize
}

/// γ = 3/(NT)^α, the threshold of Lemma 1.
pub fn default_gamma(users: usize, rounds: usize, alpha: f64) -> f64 {
    3.0 / (users as f64 * rounds as f64).powf(alpha)
}

/// The inputs of one run of CMLB.
#[derive(Clone, Debug)]
pub(crate) struct CmlbInputs {
    /// T_explore.
    pub explore_rounds: usize,
    /// γ.
    pub gamma: f64,
    /// p*.
    pub min_share: f64,
    /// OFUL(δ).
    pub confidence: Confidence,
}

impl CmlbInputs {
    /// From the parameters of `cmlb` and `cmlb-warm`.
    pub(crate) fn from_settings(problem: &Problem, settings: &Settings) -> Result<Self, Error> {
        let rounds = problem.rounds.ok_or(Error::Needs {
            policy: settings.policy(),
            what: "the number of rounds (its T_explore and γ depend on T)",
        })?;
        let confidence = Confidence::from_settings(problem, settings)?;
        let alpha = settings.real("alpha");
        Ok(Self {
            explore_rounds: explore_rounds(
                settings.real("c"),
                problem.dim,
                problem.users,
                rounds,
                alpha,
                confidence.delta,
                settings.real("explore_rho_min"),
            ),
            gamma: settings.derived("gamma", || default_gamma(problem.users, rounds, alpha)),
            min_share: settings.real("min_share"),
            confidence,
        })
    }
}

/// One run of CMLB; SCLB runs several in sequence. `C` says what clusters start from.
#[derive(Clone)]
pub(crate) struct Cmlb<C: ClusterLearners = PerCluster> {
    pub(super) plan: CmlbInputs,
    users: usize,
    dim: usize,
    pub(super) rounds_played: usize,
    pub(super) histories: C::Histories,
    pub(super) phase: Phase<C>,
}

/// The two phases of a run.
#[derive(Clone)]
pub(super) enum Phase<C> {
    /// Line 3.
    Individual(Bank),
    /// Lines 6–12.
    Collaborative(C),
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    let plan = CmlbInputs::from_settings(problem, settings)?;
    Ok(Box::new(Cmlb::<PerCluster>::new(problem.users, problem.dim, plan)))
}

impl<C: ClusterLearners> Cmlb<C> {
    pub(crate) fn new(users: usize, dim: usize, plan: CmlbInputs) -> Self {
        let lambda = plan.confidence.lambda;
        Self {
            plan,
            users,
            dim,
            rounds_played: 0,
            histories: C::Histories::new(users, dim, lambda),
            phase: Phase::Individual(Bank::new(users, dim, lambda)),
        }
    }

    /// Lines 4–6: clusters the users' estimates once the individual phase is over.
    pub(super) fn cluster_if_due(&mut self) {
        if let Phase::Individual(ofuls) = &self.phase
            && self.rounds_played >= self.plan.explore_rounds
        {
            let estimates = self.histories.estimates(ofuls);
            let labels =
                maximal_cluster(&estimates, self.dim, self.plan.gamma, self.plan.min_share)
                    .expect("estimates are finite and the plan was checked");
            let clusters = C::new(labels, &self.histories, &self.plan.confidence);
            self.phase = Phase::Collaborative(clusters);
        }
    }

    /// Writes everything but the plan.
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

    /// Reads a run for as many users, with its plan.
    pub(crate) fn read(
        &self,
        from: &mut dyn Read,
        what: &'static str,
        plan: CmlbInputs,
    ) -> Result<Self, Error> {
        let (users, dim) = (self.users, self.dim);
        let rounds_played = read_count(from, what)?;
        let histories = self.histories.load(from, what)?;
        let phase = match read_count(from, what)? {
            0 => {
                let lambda = plan.confidence.lambda;
                Phase::Individual(read_whole_bank(from, what, dim, lambda, users)?)
            }
            _ => Phase::Collaborative(C::load(from, what, &histories, &plan.confidence)?),
        };
        Ok(Self { plan, users, dim, rounds_played, histories, phase })
    }
}

impl<C: ClusterLearners> Policy for Cmlb<C>
where
    Self: Saved,
{
    fn choose(&mut self, contexts: &Contexts, arms: &mut [Arm]) {
        // Only if another round is played.
        self.cluster_if_due();
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

impl State for Cmlb {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_explores_for_55_rounds() {
        // N = 100, T = 1000, d = 15, α = C = 0.2, δ = 0.4: 0.04·15·100·0.9163 = 54.98.
        assert_eq!(explore_rounds(0.2, 15, 100, 1000, 0.2, 0.4, 1.0), 55);
        // Divided by ρ_min = 1/45 it would be longer than the horizon.
        assert_eq!(explore_rounds(0.2, 15, 100, 1000, 0.2, 0.4, 1.0 / 45.0), 2474);
    }
}
