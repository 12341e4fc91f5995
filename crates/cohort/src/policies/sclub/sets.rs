//! Users in sets, with what SCLUB does to them: update, split, check, merge. Every step does only
//! the work it must:
//!
//! - the least and most served member of a cluster are remembered as bounds, and the members are
//!   looked at only when the bounds would allow a split by frequency;
//! - after a turn only pairs with a cluster that has changed are compared. A pair that has not
//!   changed can still come to merge, as frequencies even out: `|p_V − p_V'| < α_p·F(τ)` is
//!   `D < α_p·τF(τ)` with D fixed, and τF(τ) grows; that turn is known beforehand, and the pair is
//!   compared again when it has come.

use std::borrow::Cow;
use std::cmp::Reverse;

use super::estimates::ClusterEstimates;
use crate::cluster::partition::number_by_smallest_member;
use crate::linear::Oful;
use crate::policies::shared::clubs::{distance_squared, uncertainty};

/// M = I + Σxxᵀ: the regulariser.
pub(super) const LAMBDA: f64 = 1.0;

/// Up to here every turn is a number of its own.
const MOST_TURNS: f64 = 9e15;

/// α_θ and α_p.
#[derive(Clone, Copy)]
pub(in crate::policies) struct Scales {
    pub(in crate::policies) estimates: f64,
    /// Infinite where frequencies do not matter.
    pub(in crate::policies) frequencies: f64,
    /// How much estimates may differ besides: 0 for SCLUB.
    pub(in crate::policies) tolerance: f64,
}

/// All users and their clusters.
#[derive(Clone)]
pub(in crate::policies) struct Sets {
    pub(super) dim: usize,
    pub(super) scales: Scales,
    pub(super) users: Vec<User>,
    /// Those without members are free to be used again.
    pub(super) clusters: Vec<Cluster>,
    pub(super) free: Vec<usize>,
    pub(super) estimates: ClusterEstimates,
    /// Scratch: clusters that one is close to.
    near: Vec<usize>,
    /// The number of clusters ever created.
    pub(super) numbers: u64,
    /// The clusters whose users are all checked, by number.
    pub(super) checked: Vec<usize>,
    /// Those that changed in this turn.
    changed: Vec<usize>,
    /// The first turn at which clusters that have not changed may merge.
    pub(super) next_reunion: f64,
}

#[derive(Clone)]
pub(super) struct User {
    /// M_i, b_i, w_i, T_i.
    pub(super) sums: Oful,
    /// Its cluster, and its place among the members.
    pub(super) cluster: usize,
    pub(super) place: usize,
    pub(super) checked: bool,
}

/// A set of users.
#[derive(Clone)]
pub(in crate::policies) struct Cluster {
    pub(super) number: u64,
    pub(super) members: Vec<usize>,
    /// M_V, b_V, w_V, T_V; old where there is a single member, whose own they are.
    pub(super) sums: Oful,
    /// w̃_V and F(T̃_V).
    pub(super) pivot: (Vec<f64>, f64),
    pub(super) unchecked: usize,
    /// No member was served less often, none more often.
    pub(super) served: (f64, f64),
    /// The first turn at which it may merge with a cluster although neither has changed.
    pub(super) reunion: f64,
}

impl Cluster {
    /// Its users.
    pub(super) fn members(&self) -> &[usize] {
        &self.members
    }

    /// M_V, b_V, w_V, T_V, of these users.
    pub(super) fn sums<'a>(&'a self, users: &'a [User]) -> &'a Oful {
        match self.members[..] {
            [only] => &users[only].sums,
            _ => &self.sums,
        }
    }

    /// T_V/|V| = p_V·τ.
    fn served_on_average(&self, users: &[User]) -> f64 {
        self.sums(users).progress().updates / self.members.len() as f64
    }

    fn freeze_pivot(&mut self, users: &[User]) {
        let sums = self.sums(users);
        self.pivot = (sums.estimate().to_vec(), uncertainty(sums.progress().updates));
    }

    /// Before a member is added: what the only one has seen is the sum from now on.
    fn begin_pooling(&mut self, users: &[User]) {
        if let [only] = self.members[..] {
            self.sums = users[only].sums.clone();
        }
    }
}

/// Which cluster to merge with.
enum MergePartner {
    /// This cluster, now.
    Now(usize),
    /// None before this turn, unless one of the two changes.
    NotBefore(f64),
}

impl Sets {
    /// Lines 2 and 3: one cluster of all users.
    pub(super) fn new(users: usize, dim: usize, scales: Scales) -> Self {
        let mut sets = Self {
            dim,
            scales,
            users: Vec::new(),
            clusters: Vec::new(),
            free: Vec::new(),
            estimates: ClusterEstimates::new(dim),
            near: Vec::new(),
            numbers: 0,
            checked: Vec::new(),
            changed: Vec::new(),
            next_reunion: f64::INFINITY,
        };
        sets.grow_to(users);
        sets
    }

    /// Adds users up to the given number: new ones join the largest cluster, unchecked.
    pub(super) fn grow_to(&mut self, users: usize) {
        while self.users.len() < users {
            let largest = self.largest();
            let at = largest.unwrap_or_else(|| self.add_cluster(Oful::new(self.dim, LAMBDA)));
            self.checked.retain(|&checked| checked != at);
            let cluster = &mut self.clusters[at];
            cluster.begin_pooling(&self.users);
            let place = cluster.members.len();
            cluster.members.push(self.users.len());
            cluster.unchecked += 1;
            cluster.served.0 = 0.0;
            let sums = Oful::new(self.dim, LAMBDA);
            self.users.push(User { sums, cluster: at, place, checked: false });
        }
    }

    /// The cluster with the most members, the lowest where several have as many.
    fn largest(&self) -> Option<usize> {
        let size = |at: usize| self.clusters[at].members.len();
        (0..self.clusters.len())
            .filter(|&at| size(at) > 0)
            .max_by_key(|&at| (size(at), Reverse(self.clusters[at].number)))
    }

    /// A cluster without members yet.
    fn add_cluster(&mut self, sums: Oful) -> usize {
        let served = sums.progress().updates;
        let mut cluster = Cluster {
            number: self.numbers,
            members: Vec::new(),
            sums,
            pivot: (Vec::new(), 0.0),
            unchecked: 0,
            served: (served, served),
            reunion: f64::INFINITY,
        };
        cluster.freeze_pivot(&self.users);
        self.numbers += 1;
        let at = self.free.pop().unwrap_or(self.clusters.len());
        self.estimates.set(at, &cluster.sums);
        if at < self.clusters.len() {
            self.clusters[at] = cluster;
        } else {
            self.clusters.push(cluster);
        }
        at
    }

    /// All clusters.
    pub(super) fn clusters(&self) -> impl Iterator<Item = &Cluster> {
        self.clusters.iter().filter(|cluster| !cluster.members.is_empty())
    }

    /// M_V, b_V, w_V, T_V of a cluster.
    pub(super) fn sums<'a>(&'a self, cluster: &'a Cluster) -> &'a Oful {
        cluster.sums(&self.users)
    }

    /// The cluster of a user.
    pub(super) fn cluster_of(&self, user: usize) -> &Cluster {
        &self.clusters[self.users[user].cluster]
    }

    /// M_V, b_V, w_V of a user's cluster; a user who has not come yet would join the largest.
    pub(in crate::policies) fn sums_for(&self, user: usize) -> Cow<'_, Oful> {
        let at = match self.users.get(user) {
            Some(user) => Some(user.cluster),
            None => self.largest(),
        };
        match at {
            Some(at) => Cow::Borrowed(self.sums(&self.clusters[at])),
            None => Cow::Owned(Oful::new(self.dim, LAMBDA)),
        }
    }

    /// The cluster of every user, numbered by smallest member.
    pub(in crate::policies) fn labels(&self) -> Vec<usize> {
        let mut labels: Vec<usize> = self.users.iter().map(|user| user.cluster).collect();
        number_by_smallest_member(&mut labels);
        labels
    }

    /// Lines 5 and 6.
    pub(super) fn start_phase(&mut self) {
        self.checked.clear();
        for user in &mut self.users {
            user.checked = false;
        }
        for cluster in &mut self.clusters {
            cluster.unchecked = cluster.members.len();
            cluster.freeze_pivot(&self.users);
        }
    }

    /// Line 13.
    pub(super) fn update(&mut self, user: usize, x: &[f64], y: f64) {
        let User { sums, cluster: at, .. } = &mut self.users[user];
        let (at, cluster) = (*at, &mut self.clusters[*at]);
        sums.learn(x, y);
        cluster.served.1 = cluster.served.1.max(sums.progress().updates);
        if cluster.members.len() > 1 {
            cluster.sums.learn(x, y);
        }
        self.estimates.set(at, cluster.sums(&self.users));
        self.changed.clear();
        self.changed.push(at);
    }

    /// Line 14.
    pub(super) fn split(&mut self, user: usize, turns: f64) {
        let alone = self.cluster_of(user).members.len() == 1;
        if alone || !(self.differs_from_pivot(user) || self.differs_in_frequency(user, turns)) {
            return;
        }
        let User { cluster: from, place, checked, .. } = self.users[user];
        let into = self.add_cluster(self.users[user].sums.clone());
        self.clusters[into].members.push(user);
        self.clusters[into].unchecked = 1;
        (self.users[user].cluster, self.users[user].place) = (into, 0);
        self.users[user].checked = false;
        self.changed.push(into);

        let rest = &mut self.clusters[from];
        rest.members.swap_remove(place);
        if rest.members.len() > 1 {
            rest.sums.release(&self.users[user].sums);
        }
        self.estimates.set(from, rest.sums(&self.users));
        if let Some(&moved) = rest.members.get(place) {
            self.users[moved].place = place;
        }
        if !checked {
            rest.unchecked -= 1;
            self.note_if_checked(from);
        }
    }

    /// ‖w_i − w̃_V‖ > α_θ·(F(T_i) + F(T̃_V))
    fn differs_from_pivot(&self, user: usize) -> bool {
        let sums = &self.users[user].sums;
        let (pivot, pivot_uncertainty) = &self.cluster_of(user).pivot;
        distance_squared(sums.estimate(), pivot).sqrt()
            > self.scales.estimates * (uncertainty(sums.progress().updates) + pivot_uncertainty)
                + self.scales.tolerance
    }

    /// |p_i − p_l| > 2α_p·F(τ) for some member l
    fn differs_in_frequency(&mut self, user: usize, turns: f64) -> bool {
        let served = |user: &User| user.sums.progress().updates;
        let own = served(&self.users[user]);
        let allowed = 2.0 * self.scales.frequencies * uncertainty(turns);
        let differs = |(least, most): (f64, f64)| (own - least).max(most - own) / turns > allowed;
        let cluster = &mut self.clusters[self.users[user].cluster];
        if differs(cluster.served) {
            // The bounds may be old: what they are now decides.
            let members = cluster.members.iter().map(|&member| served(&self.users[member]));
            cluster.served = members
                .fold((own, own), |(least, most), served| (least.min(served), most.max(served)));
        }
        differs(cluster.served)
    }

    /// Line 15.
    pub(super) fn check(&mut self, user: usize) {
        if !self.users[user].checked {
            self.users[user].checked = true;
            let at = self.users[user].cluster;
            self.clusters[at].unchecked -= 1;
            self.note_if_checked(at);
        }
    }

    /// Keeps `checked` in the order of the clusters' numbers.
    fn note_if_checked(&mut self, at: usize) {
        if self.clusters[at].unchecked == 0 {
            let number = self.clusters[at].number;
            let place = self.checked.partition_point(|&at| self.clusters[at].number < number);
            self.checked.insert(place, at);
        }
    }

    /// Line 16: the lowest pair first, again and again.
    pub(super) fn merge(&mut self, turns: f64) {
        if turns >= self.next_reunion {
            let reunion = |&at: &usize| self.clusters[at].reunion;
            self.changed.extend(self.checked.iter().filter(|at| reunion(at) <= turns));
            self.next_reunion = (self.checked.iter().map(reunion))
                .filter(|&reunion| reunion > turns)
                .fold(f64::INFINITY, f64::min);
        }
        while let Some((low, high)) = self.lowest_pair(turns) {
            self.join(low, high);
        }
    }

    /// The lowest pair of clusters to merge. One of the two has changed in this turn.
    fn lowest_pair(&mut self, turns: f64) -> Option<(usize, usize)> {
        let mut pairs = Vec::new();
        for k in 0..self.changed.len() {
            let at = self.changed[k];
            if self.clusters[at].unchecked == 0 {
                match self.partner(at, turns) {
                    MergePartner::Now(other) => pairs.push(self.by_number(at, other)),
                    MergePartner::NotBefore(turn) => {
                        self.clusters[at].reunion = turn;
                        self.next_reunion = self.next_reunion.min(turn);
                    }
                }
            }
        }
        pairs
            .into_iter()
            .min_by_key(|&(low, high)| (self.clusters[low].number, self.clusters[high].number))
    }

    fn by_number(&self, a: usize, b: usize) -> (usize, usize) {
        if self.clusters[a].number < self.clusters[b].number { (a, b) } else { (b, a) }
    }

    /// The lowest cluster that this one is to merge with.
    fn partner(&mut self, at: usize, turns: f64) -> MergePartner {
        let mut near = std::mem::take(&mut self.near);
        let estimate = self.sums(&self.clusters[at]).estimate();
        self.estimates.near(at, estimate, &self.scales, &mut near);
        near.retain(|&other| other != at && self.is_checked(other));
        near.sort_unstable_by_key(|&other| self.clusters[other].number);
        let served = |at: usize| self.clusters[at].served_on_average(&self.users);
        let mut closest = f64::INFINITY;
        let mut partner = None;
        for &other in &near {
            let others = self.sums(&self.clusters[other]).estimate();
            let apart = distance_squared(estimate, others);
            let alike = self.estimates.alike(&self.scales, at, other);
            if apart < alike * alike {
                let difference = (served(at) - served(other)).abs();
                if self.as_frequent(difference, turns) {
                    partner = Some(other);
                    break;
                }
                closest = closest.min(difference);
            }
        }
        self.near = near;
        let later = || MergePartner::NotBefore(self.first_turn_as_frequent(closest, turns));
        partner.map_or_else(later, MergePartner::Now)
    }

    /// Whether it is a cluster whose users are all checked.
    fn is_checked(&self, at: usize) -> bool {
        let cluster = self.clusters.get(at);
        cluster.is_some_and(|cluster| cluster.unchecked == 0 && !cluster.members.is_empty())
    }

    /// |p_V − p_V'| < α_p·F(τ), where the p are times served, by τ.
    fn as_frequent(&self, difference: f64, turns: f64) -> bool {
        difference / turns < self.scales.frequencies * uncertainty(turns)
    }

    /// The first turn after this one at which a difference in times served is small enough.
    fn first_turn_as_frequent(&self, difference: f64, turns: f64) -> f64 {
        if !self.as_frequent(difference, MOST_TURNS) {
            return f64::INFINITY;
        }
        let (mut before, mut after) = (turns, turns + 1.0);
        while !self.as_frequent(difference, after) {
            (before, after) = (after, 2.0 * after);
        }
        while after - before > 1.0 {
            let between = ((before + after) / 2.0).floor();
            if self.as_frequent(difference, between) { after = between } else { before = between }
        }
        after
    }

    /// Makes one cluster of two; the lower number and its pivot stay.
    fn join(&mut self, low: usize, high: usize) {
        let [into, gone] = self.clusters.get_disjoint_mut([low, high]).expect("two clusters");
        into.begin_pooling(&self.users);
        into.sums.absorb([gone.sums(&self.users)]);
        self.estimates.set(low, &into.sums);
        into.served = (into.served.0.min(gone.served.0), into.served.1.max(gone.served.1));
        for member in gone.members.drain(..) {
            (self.users[member].cluster, self.users[member].place) = (low, into.members.len());
            into.members.push(member);
        }
        self.free.push(high);
        self.checked.retain(|&at| at != high);
        self.changed.retain(|&at| at != high && at != low);
        self.changed.push(low);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    /// After 40,000 turns with many splits and merges the sums of every cluster, carried along,
    /// are those of its members added up directly.
    #[test]
    fn what_clusters_carry_along_is_what_their_members_have_seen() {
        let (users, dim) = (40, 6);
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        let scales = Scales { estimates: 0.5, frequencies: 1.4, tolerance: 0.0 };
        let mut sets = Sets::new(users, dim, scales);
        for turn in 0..40_000 {
            if (turn + 2usize).is_power_of_two() {
                sets.start_phase();
            }
            let x: Vec<f64> = (0..dim).map(|_| rng.random_range(-0.5..0.5)).collect();
            let user = turn % users;
            sets.update(user, &x, x[user % 5] + rng.random_range(-0.5..0.5));
            sets.split(user, turn as f64 + 1.0);
            sets.check(user);
            sets.merge(turn as f64 + 1.0);
        }
        let (now, ever) = (sets.clusters().count(), sets.numbers);
        assert!(now > 4 && now < users && ever > 200, "{now} clusters now, {ever} ever");
        for cluster in sets.clusters() {
            let mut direct = Oful::new(dim, LAMBDA);
            direct.absorb(cluster.members.iter().map(|&member| &sets.users[member].sums));
            let sums = sets.sums(cluster);
            assert_eq!(sums.progress().updates, direct.progress().updates);
            for (carried, direct) in sums.estimate().iter().zip(direct.estimate()) {
                assert!((carried - direct).abs() < 1e-10, "{carried} against {direct}");
            }
            let (carried, direct) = (sums.inverse(), direct.inverse());
            for (carried, direct) in carried.packed().iter().zip(direct.packed()) {
                assert!((carried - direct).abs() < 1e-10, "{carried} against {direct}");
            }
        }
    }
}
