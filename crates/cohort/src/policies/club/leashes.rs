//! When an edge can next be cut, without looking at it.
//!
//! CLUB cuts the edge of users i and l when `‖w_i − w_l‖ > c_i + c_l`, with `c_i = α₂·F(T_i)`.
//! Only i's own turns move w_i and lower c_i. So every user is kept on a leash:
//!
//! - its **anchor** (a_i, C_i): w_i and c_i as they were when it last looked at all its edges;
//! - its **strain** `e_i = ‖w_i − a_i‖ + (C_i − c_i)`: the most that any edge can have lost by i
//!   since then;
//! - its **leash** B_i: the most it may lose before i has to look at its edges again.
//!
//! Leashes are such that `‖a_i − a_l‖ + B_i + B_l ≤ C_i + C_l` for every edge. While e_i ≤ B_i
//! and e_l ≤ B_l the triangle inequality then gives
//!
//! ```text
//! ‖w_i − w_l‖ ≤ ‖a_i − a_l‖ + ‖w_i − a_i‖ + ‖w_l − a_l‖
//!             = ‖a_i − a_l‖ + e_i − (C_i − c_i) + e_l − (C_l − c_l)  ≤  c_i + c_l,
//! ```
//!
//! so that nothing can be cut. A user who has come to the end of the leash looks at all its edges,
//! cuts what is to be cut, moves its anchor to where it is, and takes the longest leash that all
//! neighbours' leashes allow; a neighbour whose leash is longer than half of what there is to
//! share gives some up. An edge with nothing to share, one just short of being cut, takes the
//! leashes of both its users away, and they look at every turn until it is settled.
//!
//! Movements shrink like 1/T and F like 1/√T, so that leashes soon last for many turns. Where
//! ‖a_i − m‖ + ‖a_l − m‖ is already within what both leashes allow, m being a point in the middle
//! of all, a look needs no distance at all.

use crate::linear::{Oful, dot};
use crate::policies::shared::clubs::{distance_squared, uncertainty};

/// A leash that always has to be checked.
const NONE: f64 = -1.0;

/// Anchors have so many numbers or a multiple, the last ones zero, so that no distance has a
/// remainder.
const PADDING: usize = 4;

/// Bounds hold up to rounding: closer calls than this, relative to what is compared, are looked at.
const ROUNDING: f64 = 1e-12;

/// The leashes of all users.
pub(super) struct Leashes {
    pub(super) alpha2: f64,
    pub(super) dim: usize,
    pub(super) users: Vec<Leash>,
    /// a_i, padded, row by row.
    anchors: Vec<f64>,
    /// m, padded: the mean of anchors as it was some looks ago.
    middle: Vec<f64>,
    /// ‖a_i − m‖.
    from_middle: Vec<f64>,
    /// How many looks until m is the mean again.
    looks_left: usize,
    /// Neighbours whose leash may have to give, and what there is to share with each.
    shares: Vec<(usize, f64)>,
}

#[derive(Clone, Copy)]
pub(super) struct Leash {
    /// c_i = α₂·F(T_i), now.
    pub reach: f64,
    /// C_i.
    pub anchor_reach: f64,
    /// e_i.
    pub strain: f64,
    /// B_i.
    pub length: f64,
}

impl Leashes {
    /// Of users of whom nothing is known: w = 0 and T = 0 for all, half of the way for each.
    pub(super) fn new(users: usize, dim: usize, alpha2: f64) -> Self {
        let reach = alpha2 * uncertainty(0.0);
        let leash = Leash { reach, anchor_reach: reach, strain: 0.0, length: reach };
        Self {
            alpha2,
            dim,
            users: vec![leash; users],
            anchors: vec![0.0; users * dim.next_multiple_of(PADDING)],
            middle: vec![0.0; dim.next_multiple_of(PADDING)],
            from_middle: vec![0.0; users],
            looks_left: users,
            shares: Vec::new(),
        }
    }

    /// One more user of whom nothing is known, and who is new to these neighbours.
    pub(super) fn add(&mut self, neighbours: impl Iterator<Item = usize>) {
        let reach = self.alpha2 * uncertainty(0.0);
        self.users.push(Leash { reach, anchor_reach: reach, strain: 0.0, length: NONE });
        self.anchors.resize(self.anchors.len() + self.middle.len(), 0.0);
        self.from_middle.push(dot(&self.middle, &self.middle).sqrt());
        for neighbour in neighbours {
            self.users[neighbour].length = NONE;
        }
    }

    /// A user has learned: takes note of it and tells whether its edges must be looked at.
    pub(super) fn moved(&mut self, user: usize, oful: &Oful) -> bool {
        let moved = distance_squared(oful.estimate(), self.anchor(user)).sqrt();
        let leash = &mut self.users[user];
        leash.reach = self.alpha2 * uncertainty(oful.progress().updates);
        leash.strain = moved + (leash.anchor_reach - leash.reach);
        leash.strain > leash.length
    }

    /// Looks at all edges of a user: returns those to cut, and gives it a new leash for the rest.
    pub(super) fn look(
        &mut self,
        user: usize,
        ofuls: &[Oful],
        neighbours: impl Iterator<Item = usize>,
    ) -> Vec<usize> {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: this processor has AVX2.
            return unsafe { self.look_avx2(user, ofuls, neighbours) };
        }
        self.look_portable(user, ofuls, neighbours)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn look_avx2(
        &mut self,
        user: usize,
        ofuls: &[Oful],
        neighbours: impl Iterator<Item = usize>,
    ) -> Vec<usize> {
        self.look_portable(user, ofuls, neighbours)
    }

    #[inline(always)]
    fn look_portable(
        &mut self,
        user: usize,
        ofuls: &[Oful],
        neighbours: impl Iterator<Item = usize>,
    ) -> Vec<usize> {
        if self.looks_left == 0 {
            self.find_middle();
        }
        self.looks_left -= 1;
        let reach = self.users[user].reach;
        self.anchor_mut(user).copy_from_slice(ofuls[user].estimate());
        let estimate = self.padded_anchor(user).to_vec();
        let from_middle = distance_squared(&estimate, &self.middle).sqrt();
        self.from_middle[user] = from_middle;

        let mut cut = Vec::new();
        let mut length = f64::INFINITY;
        self.shares.clear();
        for other in neighbours {
            let leash = self.users[other];
            let allowed = reach + leash.anchor_reach;
            // Most neighbours are close enough for both leashes as they are.
            let enough =
                allowed * (1.0 - ROUNDING) - leash.length.max(leash.strain) - length.max(0.0);
            if from_middle + self.from_middle[other] < enough * (1.0 - ROUNDING) {
                continue;
            }
            let apart = distance_squared(&estimate, self.padded_anchor(other));
            if enough > 0.0 && apart < enough * enough {
                continue;
            }
            let share = allowed - apart.sqrt();
            // What the other keeps: its leash, but no more than half, nor less than its strain.
            let kept = leash.length.min(share / 2.0).max(leash.strain);
            if share - kept > ROUNDING * allowed {
                length = length.min(share - kept);
                self.shares.push((other, share));
            } else if distance_squared(&estimate[..self.dim], ofuls[other].estimate()).sqrt()
                > reach + leash.reach
            {
                cut.push(other);
            } else {
                length = NONE;
                self.users[other].length = NONE;
            }
        }
        self.users[user] = Leash { reach, anchor_reach: reach, strain: 0.0, length };
        for &(other, share) in &self.shares {
            let leash = &mut self.users[other];
            leash.length = leash.length.min(share - length.max(0.0));
        }
        cut
    }

    /// m: the mean of all anchors, and how far each is from it.
    pub(super) fn find_middle(&mut self) {
        self.looks_left = self.users.len();
        self.middle.fill(0.0);
        for anchor in self.anchors.chunks_exact(self.middle.len()) {
            for (sum, a) in self.middle.iter_mut().zip(anchor) {
                *sum += a / self.users.len() as f64;
            }
        }
        let anchors = self.anchors.chunks_exact(self.middle.len());
        self.from_middle =
            anchors.map(|anchor| distance_squared(anchor, &self.middle).sqrt()).collect();
    }

    pub(super) fn anchor(&self, user: usize) -> &[f64] {
        &self.padded_anchor(user)[..self.dim]
    }

    pub(super) fn anchor_mut(&mut self, user: usize) -> &mut [f64] {
        &mut self.anchors[user * self.middle.len()..][..self.dim]
    }

    #[inline(always)]
    fn padded_anchor(&self, user: usize) -> &[f64] {
        &self.anchors[user * self.middle.len()..][..self.middle.len()]
    }
}
