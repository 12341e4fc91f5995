//! How many standard deviations of optimism does a user get?
//!
//! ```text
//! w_n = ρ_n √(1 + ½ ln(1 + n)) + (1 − ρ_n) ½ √ln(1 + n/(d + 1))
//! ```
//!
//! for a user with n rewards, where an arm comes again with probability ρ_n while the user answers as many times again as it has so
//! far ([`Recurrence`]). An arm that comes again and is never tried is never known, so the first part is that of UCB. Where
//! every offer has other arms, whatever is chosen teaches about those to come; there exploration pays only
//! for users who stay, and little.

use crate::population::{Recurrence, constants};

/// Widths by the number of rewards.
#[derive(Clone, Debug)]
pub(super) struct Widths {
    exploration: f64,
    recurrence: Option<Recurrence>,
    /// d + 1.
    dim: f64,
    /// Those of few rewards: every user needs one in every round, and logarithms are slow.
    first: Vec<f64>,
}

/// Widths that are kept, at most.
const MOST_KEPT: usize = 4096;

impl Widths {
    /// In R^d; `rewards` is the mean number of rewards of frequent users.
    pub fn new(exploration: f64, recurrence: Option<Recurrence>, dim: usize, rewards: f64) -> Self {
        let dim = (dim + 1) as f64;
        let mut widths = Self { exploration, recurrence, dim, first: Vec::new() };
        let kept = (2.0 * rewards + 64.0).min(MOST_KEPT as f64) as usize;
        widths.first = (0..kept).map(|rewards| widths.work_out(rewards as f64)).collect();
        widths
    }

    /// The width of a user with the given number of rewards.
    pub fn of(&self, rewards: f64) -> f64 {
        let whole = rewards as usize;
        match self.first.get(whole) {
            Some(known) if whole as f64 == rewards => *known,
            _ => self.work_out(rewards),
        }
    }

    fn work_out(&self, rewards: f64) -> f64 {
        let again = self.recurrence.unwrap_or_default().within(rewards);
        let known = (1.0 + 0.5 * rewards.ln_1p()).sqrt();
        let new = constants::width_of_new_arms() * (rewards / self.dim).ln_1p().sqrt();
        self.exploration * (again * known + (1.0 - again) * new)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cohort, INFO};
    use super::*;
    use crate::{OnlinePolicy, Problem, Refits};

    #[test]
    fn users_get_as_much_as_arms_come_again() {
        let of = |same: f64, rewards: f64| {
            Widths::new(1.0, Some(Recurrence { pairs: 100.0, same }), 15, 0.0).of(rewards)
        };
        for rewards in [0.0, 1.0, 20.0, 63.0, 64.0, 20.5, 1000.0] {
            assert!((of(100.0, rewards) - (1.0 + 0.5 * rewards.ln_1p()).sqrt()).abs() < 1e-12);
            assert!(
                (of(0.0, rewards)
                    - constants::width_of_new_arms() * (rewards / 16.0).ln_1p().sqrt())
                .abs()
                    < 1e-12
            );
            assert!(of(0.0, rewards) < of(3.0, rewards) && of(3.0, rewards) < of(100.0, rewards));
        }
    }

    /// The width of a user with twenty rewards, where thirty users were given the arms that `arm` says, of user and turn.
    fn learned(arm: impl Fn(usize, usize) -> usize) -> f64 {
        let mut policy = Cohort::new(&Problem::new(0, 4), &INFO.check([]).unwrap()).unwrap();
        for turn in 0..20 {
            for user in 0..30 {
                let of = |by: f64| (arm(user, turn) as f64 * by).sin();
                let x = [of(1.7), of(2.9), of(0.37), of(5.3)];
                let noise = 0.1 * ((user + 7 * turn) as f64).sin();
                policy.learn_one(user, &x, x[0] - x[1] + noise);
                policy.catch_up();
            }
        }
        policy.width(3)
    }

    #[test]
    fn optimism_is_for_arms_that_come_again() {
        let full = (1.0 + 0.5 * 21f64.ln()).sqrt();
        let least = 0.5 * (1.0 + 20.0 / 5.0f64).ln().sqrt();
        let few = learned(|user, turn| (user + turn * turn) % 5);
        assert!(few > 0.9 * full, "{few} of {full}");
        let new = learned(|user, turn| 100 * user + turn);
        assert!(new < 1.25 * least, "{new} against {least}");
    }
}
