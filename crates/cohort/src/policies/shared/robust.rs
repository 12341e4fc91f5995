//! What RCLUMB and RSCLUMB share: parameters, width, and the bonus for misspecified (not quite
//! linear) rewards.

use crate::intercept::INTERCEPT;
use crate::linear::dot;
use crate::params::{NOT_NEGATIVE, POSITIVE, PROBABILITY, Param, Settings};

/// The parameters of both.
pub(crate) const ROBUST_PARAMS: &[Param] = &[
    Param::real("alpha1", POSITIVE, 1.0, "α₁: how different users must be to be parted"),
    Param::real("alpha2", NOT_NEGATIVE, 1.5, "α₂: by how many ε* users may differ besides"),
    Param::real("epsilon", NOT_NEGATIVE, 0.2, "ε*: how far rewards may be from linear"),
    Param::derived(
        "beta",
        NOT_NEGATIVE,
        "√λ + √(2 ln(1/δ) + d ln(1 + t/(λd)))",
        "β, the width of the exploration",
    ),
    Param::real("delta", PROBABILITY, 0.1, "δ of that width: how often it may fail"),
    Param::real("exploration", NOT_NEGATIVE, 1.0, "multiplies β and ε* in scores"),
    INTERCEPT,
];

/// λ: M = λI + Σxxᵀ.
pub(crate) const LAMBDA: f64 = 1.0;

/// The values of [`ROBUST_PARAMS`].
#[derive(Clone)]
pub(crate) struct Robust {
    pub(crate) alpha1: f64,
    /// α₂·ε*.
    pub(crate) tolerance: f64,
    pub(crate) epsilon: f64,
    beta: Option<f64>,
    delta: f64,
    exploration: f64,
}

impl Robust {
    pub(crate) fn new(settings: &Settings) -> Self {
        let epsilon = settings.real("epsilon");
        Self {
            alpha1: settings.real("alpha1"),
            tolerance: settings.real("alpha2") * epsilon,
            epsilon,
            beta: settings.optional("beta"),
            delta: settings.real("delta"),
            exploration: settings.real("exploration"),
        }
    }

    /// For phases that set ε* themselves, and cut edges without regard to it.
    pub(crate) fn for_phases(settings: &Settings) -> Self {
        Self {
            alpha1: settings.real("alpha1"),
            tolerance: 0.0,
            epsilon: 0.0,
            beta: settings.optional("beta"),
            delta: settings.real("delta"),
            exploration: settings.real("exploration"),
        }
    }

    /// β for the next turn, after `turns` turns.
    pub(crate) fn beta(&self, dim: usize, turns: f64) -> f64 {
        let dim = dim as f64;
        let spread = dim * ((turns + 1.0) / (LAMBDA * dim)).ln_1p();
        let theory = || LAMBDA.sqrt() + (2.0 * (1.0 / self.delta).ln() + spread).sqrt();
        self.beta.unwrap_or_else(theory)
    }

    /// β‖x‖_{M⁻¹} + ε*·√N·√(xᵀM⁻¹(M − λI)M⁻¹x), from g = M⁻¹x and the number N of rewards.
    ///
    /// The second term bounds the paper's ε* Σ_s |xᵀM⁻¹x_s| by Cauchy and Schwarz: it takes
    /// O(d²), not the contexts of all turns.
    pub(crate) fn bonus(&self, x: &[f64], gain: &[f64], rewards: f64, beta: f64) -> f64 {
        let square = dot(x, gain).max(0.0);
        let seen = (square - LAMBDA * dot(gain, gain)).max(0.0);
        self.exploration * (beta * square.sqrt() + self.epsilon * (rewards * seen).sqrt())
    }
}
