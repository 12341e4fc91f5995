//! When an edge can next be cut, without looking at it.
//!
//! CLUB cuts the edge of users i and l when `‖w_i − w_l‖ > c_i + c_l`, with `c_i = α₂·F(T_i)`; RCLUMB
//! adds half of its tolerance to every c_i. Only i's own turns move w_i and lower c_i. So every user has
//! a slack for its edges:
//!
//! - its **reference** (a_i, C_i): w_i and c_i as they were when it last looked at all its edges;
//! - its **drift bound** `e_i = ‖w_i − a_i‖ + (C_i − c_i)`: the most that any edge can have lost by i
//!   since then;
//! - its **slack** B_i: the most it may lose before i has to look at its edges again.
//!
//! Slacks are such that `‖a_i − a_l‖ + B_i + B_l ≤ C_i + C_l` for every edge. While e_i ≤ B_i
//! and e_l ≤ B_l the triangle inequality then gives
//!
//! ```text
//! ‖w_i − w_l‖ ≤ ‖a_i − a_l‖ + ‖w_i − a_i‖ + ‖w_l − a_l‖
//!             = ‖a_i − a_l‖ + e_i − (C_i − c_i) + e_l − (C_l − c_l)  ≤  c_i + c_l,
//! ```
//!
//! so that nothing can be cut. A user who has used up its slack looks at all its edges,
//! cuts what is to be cut, moves its reference to where it is, and takes the longest slack that all
//! neighbours' slacks allow; a neighbour whose slack is longer than half of what there is to
//! share gives some up. An edge with nothing to share, one just short of being cut, takes the
//! slacks of both its users away, and they look at every turn until it is settled.
//!
//! Movements shrink like 1/T and F like 1/√T, so that slacks soon last for many turns. Where
//! ‖a_i − m‖ + ‖a_l − m‖ is already within what both slacks allow, m being a point in the middle
//! of all, a look needs no distance at all.

use crate::linear::{Oful, dot};
use crate::policies::shared::clubs::{distance_squared, uncertainty};
use crate::simd::vectorized;

/// A slack that always has to be checked.
const NONE: f64 = -1.0;

/// References are padded with zeros to a multiple of this length, so that no distance has a
/// remainder.
const PADDING: usize = 4;

/// Bounds hold up to rounding: pairs closer than this, relatively, are compared exactly.
const ROUNDING: f64 = 1e-12;

/// The slacks of all users.
#[derive(Clone)]
pub(crate) struct EdgeSlacks {
    pub(crate) alpha2: f64,
    /// The constant added to every c_i.
    tolerance: f64,
    pub(crate) dim: usize,
    pub(crate) users: Vec<EdgeSlack>,
    /// a_i, padded, row by row.
    references: Vec<f64>,
    /// m, padded: the mean of references as it was some looks ago.
    middle: Vec<f64>,
    /// ‖a_i − m‖.
    from_middle: Vec<f64>,
    /// How many looks until m is the mean again.
    rechecks_left: usize,
    /// Neighbours whose slack may have to give, and what there is to share with each.
    shares: Vec<(usize, f64)>,
}

#[derive(Clone, Copy)]
pub(crate) struct EdgeSlack {
    /// c_i, now.
    pub reach: f64,
    /// C_i.
    pub reference_reach: f64,
    /// e_i.
    pub drift_bound: f64,
    /// B_i.
    pub length: f64,
}

impl EdgeSlacks {
    /// Of users of whom nothing is known: w = 0 and T = 0 for all, half of the way for each.
    pub(crate) fn new(users: usize, dim: usize, alpha2: f64, tolerance: f64) -> Self {
        let reach = alpha2 * uncertainty(0.0) + tolerance;
        let slack = EdgeSlack { reach, reference_reach: reach, drift_bound: 0.0, length: reach };
        Self {
            alpha2,
            tolerance,
            dim,
            users: vec![slack; users],
            references: vec![0.0; users * dim.next_multiple_of(PADDING)],
            middle: vec![0.0; dim.next_multiple_of(PADDING)],
            from_middle: vec![0.0; users],
            rechecks_left: users,
            shares: Vec::new(),
        }
    }

    /// Of users whose slack is known; all users must check their edges first.
    pub(crate) fn of(ofuls: &[Oful], dim: usize, alpha2: f64, tolerance: f64) -> Self {
        let mut slacks = Self::new(ofuls.len(), dim, alpha2, tolerance);
        for (user, oful) in ofuls.iter().enumerate() {
            let reach = slacks.reach(oful.progress().updates);
            slacks.users[user] =
                EdgeSlack { reach, reference_reach: reach, drift_bound: 0.0, length: NONE };
            slacks.reference_mut(user).copy_from_slice(oful.estimate());
        }
        slacks.find_middle();
        slacks
    }

    /// c_i after the given number of rewards.
    fn reach(&self, rewards: f64) -> f64 {
        self.alpha2 * uncertainty(rewards) + self.tolerance
    }

    /// One more user of whom nothing is known, and who is new to these neighbours.
    pub(crate) fn add(&mut self, neighbours: impl Iterator<Item = usize>) {
        let reach = self.reach(0.0);
        self.users.push(EdgeSlack {
            reach,
            reference_reach: reach,
            drift_bound: 0.0,
            length: NONE,
        });
        self.references.resize(self.references.len() + self.middle.len(), 0.0);
        self.from_middle.push(dot(&self.middle, &self.middle).sqrt());
        for neighbour in neighbours {
            self.users[neighbour].length = NONE;
        }
    }

    /// Updates a user after a reward; returns whether its edges must be checked.
    pub(crate) fn moved(&mut self, user: usize, oful: &Oful) -> bool {
        let moved = distance_squared(oful.estimate(), self.reference(user)).sqrt();
        let reach = self.reach(oful.progress().updates);
        let slack = &mut self.users[user];
        slack.reach = reach;
        slack.drift_bound = moved + (slack.reference_reach - slack.reach);
        slack.drift_bound > slack.length
    }

    /// Looks at all edges of a user: returns those to cut, and gives it a new slack for the rest.
    pub(crate) fn recheck(
        &mut self,
        user: usize,
        ofuls: &[Oful],
        neighbours: impl Iterator<Item = usize>,
    ) -> Vec<usize> {
        vectorized(
            #[inline(always)]
            || self.recheck_edges(user, ofuls, neighbours),
        )
    }

    #[inline(always)]
    fn recheck_edges(
        &mut self,
        user: usize,
        ofuls: &[Oful],
        neighbours: impl Iterator<Item = usize>,
    ) -> Vec<usize> {
        if self.rechecks_left == 0 {
            self.find_middle();
        }
        self.rechecks_left -= 1;
        let reach = self.users[user].reach;
        self.reference_mut(user).copy_from_slice(ofuls[user].estimate());
        let estimate = self.padded_reference(user).to_vec();
        let from_middle = distance_squared(&estimate, &self.middle).sqrt();
        self.from_middle[user] = from_middle;

        let mut cut = Vec::new();
        let mut length = f64::INFINITY;
        self.shares.clear();
        for other in neighbours {
            let slack = self.users[other];
            let allowed = reach + slack.reference_reach;
            // Most neighbours are close enough for both slacks as they are.
            let enough =
                allowed * (1.0 - ROUNDING) - slack.length.max(slack.drift_bound) - length.max(0.0);
            if from_middle + self.from_middle[other] < enough * (1.0 - ROUNDING) {
                continue;
            }
            let apart = distance_squared(&estimate, self.padded_reference(other));
            if enough > 0.0 && apart < enough * enough {
                continue;
            }
            let share = allowed - apart.sqrt();
            // What the other keeps: its slack, but no more than half, nor less than its drift bound.
            let kept = slack.length.min(share / 2.0).max(slack.drift_bound);
            if share - kept > ROUNDING * allowed {
                length = length.min(share - kept);
                self.shares.push((other, share));
            } else if distance_squared(&estimate[..self.dim], ofuls[other].estimate()).sqrt()
                > reach + slack.reach
            {
                cut.push(other);
            } else {
                length = NONE;
                self.users[other].length = NONE;
            }
        }
        self.users[user] = EdgeSlack { reach, reference_reach: reach, drift_bound: 0.0, length };
        for &(other, share) in &self.shares {
            let slack = &mut self.users[other];
            slack.length = slack.length.min(share - length.max(0.0));
        }
        cut
    }

    /// m: the mean of all references, and how far each is from it.
    pub(crate) fn find_middle(&mut self) {
        self.rechecks_left = self.users.len();
        self.middle.fill(0.0);
        for reference in self.references.chunks_exact(self.middle.len()) {
            for (sum, a) in self.middle.iter_mut().zip(reference) {
                *sum += a / self.users.len() as f64;
            }
        }
        let references = self.references.chunks_exact(self.middle.len());
        self.from_middle =
            references.map(|reference| distance_squared(reference, &self.middle).sqrt()).collect();
    }

    pub(crate) fn reference(&self, user: usize) -> &[f64] {
        &self.padded_reference(user)[..self.dim]
    }

    pub(crate) fn reference_mut(&mut self, user: usize) -> &mut [f64] {
        &mut self.references[user * self.middle.len()..][..self.dim]
    }

    #[inline(always)]
    fn padded_reference(&self, user: usize) -> &[f64] {
        &self.references[user * self.middle.len()..][..self.middle.len()]
    }
}
