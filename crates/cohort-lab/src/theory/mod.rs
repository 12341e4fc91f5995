//! The paper's theory for given numbers: its constants, its schedules, and the right-hand sides of
//! its lemmas and theorems, under the paper's names.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `inputs` | for which inputs? |
//! | `bounds` | what do the lemmas and theorems state, and do they apply? |
//! | `schedules` | which phases do SCLB and PMLB have? |
//!
//! Bounds are up to constants in the paper; here every constant (C, C_1, C_2, c) is 1, every
//! logarithm is natural, and factors hidden by Õ are left out. They tell how regret grows, not how
//! large it is.
//!
//! ```
//! use cohort_lab::theory::{Inputs, Lists, Theory};
//!
//! let simulations = Inputs::new([], Lists::default())?; // those of the paper
//! assert_eq!(Theory::new(&simulations).cmlb.explore_rounds, 55);
//! # Ok::<(), cohort_lab::Error>(())
//! ```

mod bounds;
mod inputs;
mod schedules;

pub use bounds::{Bound, Condition, shift_probability};
pub use inputs::{Inputs, Lists, PARAMS};
pub use schedules::{Epoch, PmlbSchedule, SclbPhase};

use cohort::linear::tau_min;
use cohort::policies::cmlb::{default_gamma, explore_rounds};
use serde::Serialize;

/// All statements of the paper for one set of inputs.
#[derive(Clone, Debug, Serialize)]
pub struct Theory {
    /// The inputs.
    pub inputs: Inputs,
    /// The constants of CMLB.
    pub cmlb: CmlbConstants,
    /// The bounds for the users of each cluster.
    pub clusters: Vec<ClusterTheory>,
    /// The bound when all clusters are close: Theorem 2 with p_i = 1 and one cluster.
    pub all_close: Bound,
    /// The phases of SCLB.
    pub sclb_phases: Vec<SclbPhase>,
    /// The schedule of PMLB.
    pub pmlb: PmlbSchedule,
    /// The bounds of PMLB for users at these distances from the average.
    pub personalization: Vec<PersonalTheory>,
    /// The bounds of ALB-Norm by itself.
    pub alb_norm: Vec<Bound>,
}

/// The constants of CMLB (Algorithm 2) and of its analysis.
#[derive(Clone, Debug, Serialize)]
pub struct CmlbConstants {
    /// Line 2: T_explore = ⌈C² d (NT)^{2α} ln(1/δ)⌉.
    pub explore_rounds: usize,
    /// The same divided by ρ_min, as the proofs have it.
    pub explore_rounds_of_proofs: usize,
    /// γ = 3/(NT)^α.
    pub gamma: f64,
    /// 5/(NT)^α: the least separation of an α-separable cluster (Definition 1).
    pub separable_from: f64,
    /// 1/(NT)^α: clusters no further apart are merged.
    pub together_up_to: f64,
    /// τ_min(δ), equation (3).
    pub tau_min: f64,
    /// The least T of equation (3): C/N·[τ_min ρ_min/(d ln(1/δ))]^{1/2α}, with C = 1.
    pub rounds_needed: f64,
    /// Whether T is at least that.
    pub rounds_suffice: bool,
}

/// The bounds for the users of one cluster.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterTheory {
    /// p_i.
    pub share: f64,
    /// Δ_i.
    pub separation: f64,
    /// Δ_i ≥ 5/(NT)^α.
    pub separable: bool,
    /// Lemma 1: the probability that an α-separable cluster is recovered exactly, 1 − 2·(N choose
    /// 2)·δ.
    pub recovery_probability: f64,
    /// Lemmas 1 and 2, Theorems 1 and 2 and their consequences.
    pub bounds: Vec<Bound>,
}

/// The bounds of PMLB for a user.
#[derive(Clone, Debug, Serialize)]
pub struct PersonalTheory {
    /// ε_i, the user's distance from the average.
    pub epsilon: f64,
    /// Theorem 3 and Corollary 1.
    pub bounds: Vec<Bound>,
    /// Lemma 7 for ψ = ε_i: the probability that a shift cannot lower the regret; `None` where ψ ≥
    /// 1/(2√2).
    pub shift_probability: Option<f64>,
}

impl Theory {
    /// Evaluates all statements.
    pub fn new(inputs: &Inputs) -> Self {
        let cmlb = CmlbConstants::new(inputs);
        let cluster = |(&share, &separation): (&f64, &f64)| ClusterTheory {
            share,
            separation,
            separable: separation >= cmlb.separable_from,
            recovery_probability: bounds::recovery_probability(inputs),
            bounds: bounds::of_cluster(inputs, &cmlb, share, separation),
        };
        let personal = |&epsilon: &f64| PersonalTheory {
            epsilon,
            bounds: bounds::of_user(inputs, &cmlb, epsilon),
            shift_probability: shift_probability(inputs.dim, inputs.arms, epsilon),
        };
        Self {
            clusters: inputs.shares.iter().zip(&inputs.separations).map(cluster).collect(),
            all_close: bounds::all_close(inputs, &cmlb),
            sclb_phases: schedules::sclb_phases(inputs),
            pmlb: schedules::pmlb(inputs),
            personalization: inputs.epsilons.iter().map(personal).collect(),
            alb_norm: bounds::of_alb_norm(inputs),
            inputs: inputs.clone(),
            cmlb,
        }
    }
}

impl CmlbConstants {
    fn new(inputs: &Inputs) -> Self {
        let &Inputs { users, rounds, dim, rho_min, delta, alpha, c, .. } = inputs;
        let explore = |rho| explore_rounds(c, dim, users, rounds, alpha, delta, rho);
        let gamma = default_gamma(users, rounds, alpha);
        let tau_min = tau_min(rho_min, dim, rounds, delta);
        let individual = tau_min * rho_min / (dim as f64 * (1.0 / delta).ln());
        let rounds_needed = individual.powf(1.0 / (2.0 * alpha)) / users as f64;
        Self {
            explore_rounds: explore(1.0),
            explore_rounds_of_proofs: explore(rho_min),
            gamma,
            separable_from: gamma * 5.0 / 3.0,
            together_up_to: gamma / 3.0,
            tau_min,
            rounds_needed,
            rounds_suffice: rounds as f64 >= rounds_needed,
        }
    }
}

#[cfg(test)]
mod tests;
