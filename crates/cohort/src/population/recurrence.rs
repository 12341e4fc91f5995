//! How often the same arms are offered again. A reward is worth most if its arm recurs. If every
//! offer has new arms, each of them teaches about the others, and optimism costs regret without
//! return.
//!
//! ```text
//! q = P(two rewards of a user are of the same arm),   over pairs of rewards of the panel since the last refit
//! ρ_n = 1 − (1 − q)^{n+1}      whether an arm comes again while the user answers as many times as it has so far
//! ```
//!
//! Arms are the same if they differ by next to nothing beside how much arms differ.

use super::constants;
use super::panel::Panel;

/// How often arms recurred.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recurrence {
    /// Pairs of rewards, each of one user.
    pub pairs: f64,
    /// Those of them that are of the same arm.
    pub same: f64,
}

impl Default for Recurrence {
    /// Before anything is known, arms are assumed to recur.
    fn default() -> Self {
        Self { pairs: 1.0, same: 0.5 }
    }
}

impl Recurrence {
    /// q.
    pub fn share(&self) -> f64 {
        if self.pairs > 0.0 { (self.same / self.pairs).clamp(0.0, 1.0) } else { 1.0 }
    }

    /// ρ_n of a user with the given number of rewards.
    pub fn within(&self, rewards: f64) -> f64 {
        1.0 - (1.0 - self.share()).powf(rewards + 1.0)
    }

    /// One more refit, and what a panel saw before it.
    pub(super) fn update(&mut self, panel: &Panel) {
        let (pairs, same) = pairs_of(panel);
        if pairs > 0.0 {
            let kept = constants::recurrence_kept();
            *self = Self { pairs: kept * self.pairs + pairs, same: kept * self.same + same };
        }
    }
}

/// The number of pairs of rewards of one user in a panel, and how many of them are of the same arm.
fn pairs_of(panel: &Panel) -> (f64, f64) {
    let width = panel.dim() + 2;
    let rewards: Vec<Vec<f64>> =
        panel.members().iter().map(|member| member.since.iter().copied().collect()).collect();
    let users: Vec<Vec<&[f64]>> = (rewards.iter())
        .map(|rows| rows.chunks_exact(width).map(|row| &row[..panel.dim()]).collect())
        .collect();
    // How much arms differ: the first of each user and the last of the next.
    let ends = users.iter().filter_map(|rows| Some((*rows.first()?, *rows.last()?)));
    let ends: Vec<(&[f64], &[f64])> = ends.collect();
    let next = ends.iter().cycle().skip(1);
    let between: f64 = ends.iter().zip(next).map(|(one, other)| distance(one.0, other.1)).sum();
    let least = constants::recurrence_distance() * between / ends.len().max(1) as f64;
    let (mut pairs, mut same) = (0.0, 0.0);
    for rows in &users {
        for (at, row) in rows.iter().enumerate() {
            let alike = rows[..at].iter().filter(|other| distance(row, other) <= least);
            pairs += at as f64;
            same += alike.count() as f64;
        }
    }
    (pairs, same)
}

/// ‖a − b‖².
fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::population::Ledger;

    /// The estimate after users were given the arms `arm(user, turn)`.
    fn heard(arm: impl Fn(usize, usize) -> Vec<f64>) -> Recurrence {
        let mut ledger = Ledger::new(2, 1.0);
        (0..20).for_each(|user| ledger.learn_one(user, &arm(user, 0), 1.0));
        let mut panel = Panel::new(&ledger);
        for turn in 1..9 {
            (0..20).for_each(|user| panel.see(user, &arm(user, turn), 1.0, &ledger));
        }
        let mut recurrence = Recurrence::default();
        recurrence.update(&panel);
        recurrence
    }

    fn any(number: usize) -> Vec<f64> {
        vec![(number as f64 * 1.7).sin(), (number as f64 * 2.3).cos()]
    }

    #[test]
    fn arms_that_come_again_are_noticed_in_any_units() {
        let new = heard(|user, turn| any(user * 100 + turn));
        assert!(new.share() < 0.01 && new.within(20.0) < 0.1, "{new:?}");
        let few = heard(|_, turn| any(turn % 4));
        assert!((few.share() - 4.0 / 28.0).abs() < 0.01, "{few:?}");
        assert!(few.within(50.0) > 0.99 && few.within(0.0) < 0.2);
        // Next to the same, far from zero, in other units.
        let jitter = |turn: usize| 1e-3 * (turn as f64).sin();
        let near = heard(|_, turn| {
            any(turn % 4).iter().map(|x| 1e4 * (100.0 + x + jitter(turn))).collect()
        });
        assert_eq!(near, few);
        let always = heard(|_, _| any(3));
        assert!(always.within(0.0) > 0.98, "{always:?}");
    }

    #[test]
    fn before_anything_was_seen_arms_may_come_again() {
        assert!(Recurrence::default().within(5.0) > 0.98);
    }
}
