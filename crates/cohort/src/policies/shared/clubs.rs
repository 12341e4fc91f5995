//! What CLUB and SCLUB share: parameters, the width of their exploration, and the uncertainty of an
//! estimate.

use crate::intercept::INTERCEPT;
use crate::linear::{Bonus, sum_in_parts};
use crate::params::{NOT_NEGATIVE, POSITIVE, Param, Settings};

/// α, its multiplier, and the intercept.
pub(crate) const EXPLORATION_PARAMS: &[Param] = &[
    Param::real("alpha", POSITIVE, 1.0, "α, the exploration of the algorithm's paper"),
    Param::real("exploration", NOT_NEGATIVE, 1.0, "multiplies α; 1 = α as it is"),
    INTERCEPT,
];

/// The form of the bonus of CLUB and SCLUB.
pub(crate) const BONUS: Param = Param::choice(
    "bonus",
    &["norm", "square"],
    "an arm's length in M̄⁻¹, or its square as much public code has it",
);

/// The value of [`BONUS`].
pub(crate) fn bonus(settings: &Settings) -> Bonus {
    match settings.choice("bonus") {
        "square" => Bonus::Squared,
        _ => Bonus::Norm,
    }
}

/// exploration·α.
pub(crate) fn exploration(settings: &Settings) -> f64 {
    settings.real("exploration") * settings.real("alpha")
}

/// √ln(1 + t), where t counts the turns (one user served once), the present one included.
pub(crate) fn width(turns_before: f64) -> f64 {
    (turns_before + 1.0).ln_1p().sqrt()
}

/// F(T) = √((1 + ln(1 + T))/(1 + T)): the uncertainty of an estimate from T rewards. Falls as T
/// grows, from F(0) = 1.
pub(crate) fn uncertainty(rewards: f64) -> f64 {
    ((1.0 + rewards.ln_1p()) / (1.0 + rewards)).sqrt()
}

/// ‖a − b‖²
#[inline(always)]
pub(crate) fn distance_squared(a: &[f64], b: &[f64]) -> f64 {
    sum_in_parts(a, b, |a, b| (a - b) * (a - b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uncertainty_starts_at_one_and_only_falls() {
        assert_eq!(uncertainty(0.0), 1.0);
        assert!((uncertainty(1.0) - ((1.0 + 2f64.ln()) / 2.0).sqrt()).abs() < 1e-15);
        assert!((1..10_000).all(|t| uncertainty(f64::from(t)) < uncertainty(f64::from(t - 1))));
    }

    #[test]
    fn the_first_turn_explores_with_the_logarithm_of_two() {
        assert!((width(0.0) - 2f64.ln().sqrt()).abs() < 1e-15);
    }

    #[test]
    fn distances_in_any_dimension() {
        for dim in 1..10 {
            let (a, b) = (vec![1.0; dim], vec![3.0; dim]);
            assert_eq!(distance_squared(&a, &b), 4.0 * dim as f64);
        }
    }
}
