//! OFUL's confidence set: its parameters, shape and radius.
//!
//! Abbasi-Yadkori, Pál, Szepesvári, *Improved Algorithms for Linear Stochastic Bandits* (2011),
//! Theorem 2; the ball form is that of Chatterji, Muthukumar, Bartlett, *OSOM* (2020), which the
//! paper cites.

use std::ops::Bound;

use super::{Symmetric, dot};
use crate::intercept::INTERCEPT;
use crate::params::{Kind, NOT_NEGATIVE, PROBABILITY, Param, Settings};
use crate::{Error, Problem};

/// The parameters of an OFUL; every policy that explores has them.
#[derive(Clone, Debug)]
pub struct Confidence {
    /// δ ∈ (0, 1): the set holds θ* with probability 1 − δ.
    pub delta: f64,
    /// λ > 0: the regulariser, V = λI + Σxxᵀ.
    pub lambda: f64,
    /// S ≥ 0: a bound on ‖θ*‖.
    pub norm_bound: f64,
    /// σ ≥ 0: the noise scale of a single reward.
    pub sigma: f64,
    /// ≥ 0: multiplies the whole radius; 1 is the value of the theory.
    pub exploration: f64,
    /// The shape of the set.
    pub shape: Shape,
}

/// The progress of a learner, on which its radius depends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// ln det V − d ln λ.
    pub log_det: f64,
    /// The number of updates.
    pub updates: f64,
}

/// The shape of a confidence set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// `‖θ − θ̂‖_V ≤ β`.
    Ellipsoid,
    /// `‖θ − θ̂‖₂ ≤ β / √(1 + ρ_min t/2)` once `t ≥ τ_min`, `≤ β` before.
    Ball {
        /// ρ_min ∈ (0, 1]: the contexts' covariance is at least ρ_min·I.
        rho_min: f64,
        /// τ_min(δ).
        tau_min: f64,
    },
    /// Not a confidence set: the bonus is `β·‖x‖²_{V⁻¹}`, without the square root, as in much
    /// public code of these algorithms; here to measure the difference.
    Squared,
}

impl Shape {
    /// ‖x‖ in the norm of the set, given V⁻¹; its square for [`Shape::Squared`].
    pub fn length(self, x: &[f64], inverse: &Symmetric) -> f64 {
        match self {
            Self::Ellipsoid => inverse.quadratic(x).max(0.0).sqrt(),
            Self::Squared => inverse.quadratic(x).max(0.0),
            Self::Ball { .. } => dot(x, x).sqrt(),
        }
    }
}

/// λ beside contexts of about unit length: smaller values are lost in rounding.
const REGULARISER: Kind = Kind::Real(Bound::Included(1e-6), Bound::Included(1e12));

/// The parameters of [`Confidence`].
pub const OFUL_PARAMS: &[Param] = &[
    Param::real("delta", PROBABILITY, 0.4, "δ, how often the confidence set may miss"),
    Param::real("lambda", REGULARISER, 1.0, "λ, the regulariser: V = λI + Σxxᵀ"),
    Param::real("norm_bound", NOT_NEGATIVE, 1.0, "S, a bound on the length of users' vectors"),
    Param::derived(
        "sigma",
        NOT_NEGATIVE,
        "the environment's noise",
        "σ, the noise scale of one reward",
    ),
    Param::real("exploration", NOT_NEGATIVE, 1.0, "multiplies the radius; 1 = theory"),
    Param::choice(
        "confidence",
        &["ellipsoid", "ball", "square"],
        "form of the confidence set; square = an ellipsoid's bonus without its square root",
    ),
    Param::derived(
        "rho_min",
        Kind::Real(Bound::Excluded(0.0), Bound::Included(1.0)),
        "1/(3d), that of the paper's contexts",
        "ρ_min, smallest eigenvalue of the contexts' covariance (confidence = ball)",
    ),
    INTERCEPT,
];

/// ρ_min of the paper's contexts: Unif[−1/√d, 1/√d] has variance 1/(3d).
pub fn default_rho_min(dim: usize) -> f64 {
    1.0 / (3.0 * dim as f64)
}

/// τ_min(δ) = (16/ρ_min² + 8/(3ρ_min)) ln(2dT/δ), equation (3) of the paper.
pub fn tau_min(rho_min: f64, dim: usize, rounds: usize, delta: f64) -> f64 {
    (16.0 / rho_min.powi(2) + 8.0 / (3.0 * rho_min))
        * (2.0 * dim as f64 * rounds as f64 / delta).ln()
}

impl Confidence {
    /// From a policy's parameters and the problem.
    pub fn from_settings(problem: &Problem, settings: &Settings) -> Result<Self, Error> {
        let delta = settings.real("delta");
        let shape = match settings.choice("confidence") {
            "ellipsoid" => Shape::Ellipsoid,
            "square" => Shape::Squared,
            _ => {
                let rounds = problem.rounds.ok_or(Error::Needs {
                    policy: settings.policy(),
                    what: "the number of rounds for confidence = ball (its τ_min depends on T)",
                })?;
                let rho_min = settings.derived("rho_min", || default_rho_min(problem.dim));
                Shape::Ball { rho_min, tau_min: tau_min(rho_min, problem.dim, rounds, delta) }
            }
        };
        Ok(Self {
            delta,
            lambda: settings.real("lambda"),
            norm_bound: settings.real("norm_bound"),
            sigma: settings.derived("sigma", || problem.sigma),
            exploration: settings.real("exploration"),
            shape,
        })
    }

    /// The same, for rewards that are the average of `rewards` single ones: R = σ/√m.
    pub fn averaged_over(&self, rewards: usize) -> Self {
        Self { sigma: self.sigma / (rewards as f64).sqrt(), ..self.clone() }
    }

    /// The same for a run of its own: another δ and number of rounds. The ball's τ_min(δ) depends
    /// on both, so neither changes without the other.
    pub fn for_run(&self, dim: usize, rounds: usize, delta: f64) -> Self {
        let shape = match self.shape {
            Shape::Ball { rho_min, .. } => {
                Shape::Ball { rho_min, tau_min: tau_min(rho_min, dim, rounds, delta) }
            }
            other => other,
        };
        Self { delta, shape, ..self.clone() }
    }

    /// The radius at some progress: `β = R·√(2 ln(1/δ) + log_det) + √λ·S`, times the exploration
    /// scale; for the ball, shrunk by its definition.
    #[inline]
    pub fn radius(&self, progress: Progress) -> f64 {
        self.radius_for(self.norm_bound, progress)
    }

    /// [`Self::radius`] with another norm bound S.
    #[inline]
    pub fn radius_for(&self, norm_bound: f64, progress: Progress) -> f64 {
        let Progress { log_det, updates } = progress;
        let noise = self.sigma * (2.0 * (1.0 / self.delta).ln() + log_det).sqrt();
        let beta = self.exploration * (noise + self.lambda.sqrt() * norm_bound);
        match self.shape {
            Shape::Ball { rho_min, tau_min } if updates >= tau_min => {
                beta / (1.0 + rho_min * updates / 2.0).sqrt()
            }
            _ => beta,
        }
    }
}
