//! SCLUB's phases: the update by a reward, independent of how arms are chosen.

use super::sets::{Scales, Sets};

/// Sets of users, and where in its phases the policy is.
#[derive(Clone)]
pub(in crate::policies) struct Phased {
    pub(in crate::policies) sets: Sets,
    /// τ, how many turns have been learned from.
    pub(in crate::policies) turns: f64,
    /// s, and the turns that are left of it.
    pub(super) phase: i32,
    pub(super) turns_left: f64,
}

impl Phased {
    pub(in crate::policies) fn new(users: usize, dim: usize, scales: Scales) -> Self {
        Self { sets: Sets::new(users, dim, scales), turns: 0.0, phase: 0, turns_left: 0.0 }
    }

    /// Lines 4–6 and 13–16.
    pub(in crate::policies) fn learn(&mut self, user: usize, context: &[f64], reward: f64) {
        self.sets.grow_to(user + 1);
        if self.turns_left == 0.0 {
            self.phase += 1;
            self.turns_left = 2f64.powi(self.phase);
            self.sets.start_phase();
        }
        self.turns_left -= 1.0;
        self.turns += 1.0;
        self.sets.update(user, context, reward);
        self.sets.split(user, self.turns);
        self.sets.check(user);
        self.sets.merge(self.turns);
    }
}
