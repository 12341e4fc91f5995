//! The parameters.

use std::ops::Bound;

use crate::params::{Kind, NOT_NEGATIVE, POSITIVE, Param, Settings};
use crate::population::{FitOptions, ScoringMode};

const RATIO: Kind = Kind::Real(Bound::Excluded(1.0), Bound::Included(10.0));

const POSITIVE_OR: Kind = Kind::RealOr(Bound::Excluded(0.0), Bound::Unbounded, &["auto", "never"]);

/// The parameters of the policy.
pub(super) const PARAMS: &[Param] = &[
    Param::real("exploration", NOT_NEGATIVE, 1.0, "multiplies the width; 1 = as it should be"),
    Param::choice(
        "exploration_rule",
        &["ucb", "thompson"],
        "optimism on the posterior, or an arm drawn from it",
    ),
    Param::real("refit_ratio", RATIO, 1.25, "rewards seen from one refit to the next, as a ratio"),
    Param::real_or(
        "half_life",
        POSITIVE_OR,
        "never",
        "rewards of a user after which an earlier one counts half; auto: all is forgotten when users change",
    ),
    Param::choice("mixture", &["learned", "none"], "ablation: one component for everybody"),
    Param::choice(
        "directions",
        &["learned", "none"],
        "ablation: users differ as much in every direction",
    ),
    Param::choice("labels", &["soft", "hard"], "ablation: everybody is of its likeliest component"),
    Param::choice("doubt", &["kept", "none"], "ablation: centres count as known"),
    Param::derived("sigma", POSITIVE, "learned", "ablation: σ, told instead of learned"),
];

/// The checked parameters.
pub(super) struct CohortSettings {
    pub exploration: f64,
    pub thompson: bool,
    pub refit_ratio: f64,
    pub half_life: Option<f64>,
    /// Whether everything is forgotten after a drift.
    pub watched: bool,
    pub given: FitOptions,
    pub scoring_mode: ScoringMode,
}

impl CohortSettings {
    /// From checked settings.
    pub fn new(settings: &Settings) -> Self {
        let set = |name: &str| settings.optional(name);
        Self {
            exploration: settings.real("exploration"),
            thompson: settings.choice("exploration_rule") == "thompson",
            refit_ratio: settings.real("refit_ratio"),
            half_life: set("half_life"),
            watched: settings.text("half_life").is_some_and(|word| word == "auto"),
            given: FitOptions {
                cohorts: settings.choice("mixture") == "learned",
                directions: settings.choice("directions") == "learned",
                noise: set("sigma").is_none(),
                sigma: set("sigma"),
                least_noise: 0.0,
            },
            scoring_mode: ScoringMode {
                soft: settings.choice("labels") == "soft",
                doubt: settings.choice("doubt") == "kept",
            },
        }
    }
}
