//! What users and their neighbours in a graph that loses edges have seen: RCLUMB's information sets.
//!
//! ```text
//! A_V = Σ_{l∈V} Σxxᵀ,  b_V = Σ_{l∈V} Σxy,  V = i and its neighbours
//! ```
//!
//! Sets differ from user to user, so a reward changes nearly all of N sums. A user's own is brought up to
//! date when the user decides, and kept when it learns, in the cheapest of three ways:
//!
//! - rewards since it was kept are added (a list of the newest is there), and users who left the set are
//!   taken out;
//! - from the sum over all users, those outside the set are subtracted;
//! - those who are in it are summed.
//!
//! A user that lost no edge has the sum over all users, at no cost. With one decision a user in
//! every round that is at most N rank-one updates of d²/2 numbers each, which stay in the cache;
//! the N matrices themselves would be read from memory.
//!
//! Where most of a sum has been taken out again, what is left of it is rounding: those are summed. What is
//! kept follows from rewards alone, not from who was asked in between, and is part of the state: the same
//! rewards give the same bits.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{self, Read, Write};

use crate::Error;
use crate::cluster::Bits;
use crate::linear::{Oful, Symmetric};
use crate::saved::{
    check_equal, read_count, read_numbers, read_places, read_some, write_counts, write_numbers,
    write_places,
};

/// The least part of a sum that may be left when users are taken out of it.
const LEAST_PART: f64 = 1e-3;

/// The removed edges; all other pairs of users have one.
#[derive(Clone, Debug, Default)]
pub(crate) struct CutEdges {
    of: Vec<Bits>,
    count: Vec<usize>,
}

impl CutEdges {
    /// The given number of users, all edges present.
    pub(crate) fn grow_to(&mut self, users: usize) {
        self.of.resize(users.max(self.of.len()), Bits::default());
        self.count.resize(self.of.len(), 0);
    }

    /// Cuts the edge between two users, if they have one.
    pub(crate) fn cut(&mut self, a: usize, b: usize) {
        if self.is_cut(a, b) {
            return;
        }
        for (user, other) in [(a, b), (b, a)] {
            self.of[user].set(other);
            self.count[user] += 1;
        }
    }

    /// Whether two users have lost their edge; those who have not come yet have not.
    #[inline(always)]
    pub(crate) fn is_cut(&self, user: usize, other: usize) -> bool {
        self.of.get(user).is_some_and(|cuts| cuts.has(other))
    }

    /// How many edges a user has lost.
    fn lost(&self, user: usize) -> usize {
        self.count.get(user).copied().unwrap_or(0)
    }

    /// The users that still have an edge to this one.
    pub(crate) fn neighbours(&self, user: usize) -> impl Iterator<Item = usize> {
        (0..self.of.len()).filter(move |other| *other != user && !self.is_cut(user, *other))
    }
}

/// A_V, b_V and how many rewards they are of.
#[derive(Clone, Debug)]
pub(crate) struct Sum {
    pub(crate) gram: Symmetric,
    pub(crate) moment: Vec<f64>,
    pub(crate) rewards: f64,
    /// The largest trace since it was summed.
    most: f64,
}

impl Sum {
    fn new(dim: usize) -> Self {
        Self { gram: Symmetric::zero(dim), moment: vec![0.0; dim], rewards: 0.0, most: 0.0 }
    }

    /// All that a user has seen, once more or once less.
    fn add(&mut self, sign: f64, user: &Oful, lambda: f64) {
        if user.progress().updates > 0.0 {
            self.gram.add(sign, user.precision());
            self.gram.add_diagonal(-sign * lambda);
            self.moment.iter_mut().zip(user.moment()).for_each(|(sum, b)| *sum += sign * b);
            self.rewards += sign * user.progress().updates;
        }
    }

    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        write_numbers(out, self.gram.packed())?;
        write_numbers(out, &self.moment)?;
        write_numbers(out, &[self.rewards, self.most])
    }

    fn load(from: &mut dyn Read, what: &'static str, dim: usize) -> Result<Self, Error> {
        let mut sum = Self::new(dim);
        read_numbers(from, what, sum.gram.packed_mut())?;
        read_numbers(from, what, &mut sum.moment)?;
        let mut numbers = [0.0; 2];
        read_numbers(from, what, &mut numbers)?;
        [sum.rewards, sum.most] = numbers;
        Ok(sum)
    }

    fn add_reward(&mut self, x: &[f64], y: f64) {
        self.gram.add_outer(1.0, x);
        self.moment.iter_mut().zip(x).for_each(|(sum, x)| *sum += x * y);
        self.rewards += 1.0;
    }

    /// Whether more than rounding is left of it.
    fn is_sound(&mut self) -> bool {
        let trace: f64 = (0..self.moment.len()).map(|at| self.gram.at(at, at)).sum();
        self.most = self.most.max(trace);
        trace >= LEAST_PART * self.most
    }
}

/// The sum over a user's information set, as of its last update.
#[derive(Clone, Debug)]
struct UserSum {
    sum: Sum,
    /// How many rewards there had been.
    until: usize,
    /// Who has left the set since then.
    left: Vec<usize>,
}

/// The sums of all users.
#[derive(Clone)]
pub(crate) struct InformationSets {
    lambda: f64,
    all_users: Sum,
    own: Vec<Option<Box<UserSum>>>,
    /// The newest rewards: who, x, y.
    newest: VecDeque<(usize, Vec<f64>, f64)>,
    /// How many rewards there have been.
    rewards: usize,
}

impl InformationSets {
    /// Of users who have seen this, with M = λI + Σxxᵀ.
    pub(crate) fn of(users: &[Oful], dim: usize, lambda: f64) -> Self {
        let mut all_users = Sum::new(dim);
        users.iter().for_each(|user| all_users.add(1.0, user, lambda));
        Self { lambda, all_users, own: Vec::new(), newest: VecDeque::new(), rewards: 0 }
    }

    /// Adds a reward of a user.
    pub(crate) fn learned(&mut self, user: usize, x: &[f64], y: f64, users: usize) {
        self.all_users.add_reward(x, y);
        self.all_users.is_sound();
        self.rewards += 1;
        let room = if self.newest.len() < users { None } else { self.newest.pop_front() };
        let mut kept = room.map_or_else(Vec::new, |(_, kept, _)| kept);
        kept.clear();
        kept.extend_from_slice(x);
        self.newest.push_back((user, kept, y));
    }

    /// Two users have lost their edge.
    pub(crate) fn parted(&mut self, a: usize, b: usize) {
        for (user, other) in [(a, b), (b, a)] {
            if let Some(Some(own)) = self.own.get_mut(user) {
                own.left.push(other);
            }
        }
    }

    /// Keeps the sum of a user as it is now.
    pub(crate) fn keep(&mut self, user: usize, users: &[Oful], cuts: &CutEdges) {
        if let Cow::Owned(sum) = self.sum(user, users, cuts) {
            if self.own.len() <= user {
                self.own.resize_with(user + 1, || None);
            }
            self.own[user] = Some(Box::new(UserSum { sum, until: self.rewards, left: Vec::new() }));
        }
    }

    /// The sum over a user and its neighbours.
    pub(crate) fn sum(&self, user: usize, users: &[Oful], cuts: &CutEdges) -> Cow<'_, Sum> {
        let lost = cuts.lost(user);
        if lost == 0 {
            return Cow::Borrowed(&self.all_users);
        }
        let members = users.len() - lost;
        let in_time = |own: &&UserSum| {
            let missed = self.rewards - own.until;
            missed <= self.newest.len() && missed + own.left.len() <= members.min(lost)
        };
        let kept = self.own.get(user).and_then(Option::as_deref).filter(in_time);
        let mut sum = match kept {
            Some(own) => self.caught_up(user, own, users, cuts),
            None if lost < members => {
                let mut sum = self.all_users.clone();
                (0..users.len())
                    .filter(|other| cuts.is_cut(user, *other))
                    .for_each(|other| sum.add(-1.0, &users[other], self.lambda));
                sum
            }
            None => return Cow::Owned(self.summed(user, users, cuts)),
        };
        if !sum.is_sound() {
            sum = self.summed(user, users, cuts);
        }
        Cow::Owned(sum)
    }

    /// The rewards since it was kept added, then those taken out who have left.
    fn caught_up(&self, user: usize, own: &UserSum, users: &[Oful], cuts: &CutEdges) -> Sum {
        let (mut sum, mut left) = (own.sum.clone(), own.left.clone());
        left.sort_unstable();
        let missed = self.rewards - own.until;
        for (other, x, y) in self.newest.range(self.newest.len() - missed..) {
            // All that those have seen who have left is taken out below, so it must be in.
            if !cuts.is_cut(user, *other) || left.binary_search(other).is_ok() {
                sum.add_reward(x, *y);
            }
        }
        sum.is_sound();
        for other in left {
            sum.add(-1.0, &users[other], self.lambda);
        }
        sum
    }

    /// The members' sums, added.
    fn summed(&self, user: usize, users: &[Oful], cuts: &CutEdges) -> Sum {
        let mut sum = Sum::new(self.all_users.moment.len());
        for (other, seen) in users.iter().enumerate() {
            if !cuts.is_cut(user, other) {
                sum.add(1.0, seen, self.lambda);
            }
        }
        sum.is_sound();
        sum
    }

    /// Writes what [`InformationSets::load`] reads.
    pub(crate) fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        self.all_users.save(out)?;
        write_counts(out, &[self.rewards, self.newest.len(), self.own.len()])?;
        for (user, x, y) in &self.newest {
            write_places(out, [*user].into_iter())?;
            write_numbers(out, x)?;
            write_numbers(out, &[*y])?;
        }
        for own in &self.own {
            write_counts(out, &[own.as_ref().map_or(0, |own| own.until)])?;
            if let Some(own) = own {
                own.sum.save(out)?;
                write_places(out, own.left.iter().copied())?;
            }
        }
        Ok(())
    }

    /// Reads the sums of these users.
    pub(crate) fn load(
        from: &mut dyn Read,
        what: &'static str,
        users: &[Oful],
        dim: usize,
        lambda: f64,
    ) -> Result<Self, Error> {
        let all_users = Sum::load(from, what, dim)?;
        check_equal(what, "counts", read_count(from, what)?, 3)?;
        let (rewards, newest) = (read_count(from, what)?, read_count(from, what)?);
        let count = read_count(from, what)?;
        check_equal(what, "newest rewards", newest.min(rewards), newest)?;
        check_equal(what, "users with a sum", count.min(users.len()), count)?;
        let mut sets = Self::of(&[], dim, lambda);
        for _ in 0..newest {
            let user = read_places(from, what, users.len())?;
            check_equal(what, "users of a reward", user.len(), 1)?;
            let x = read_some(from, what, dim)?;
            sets.newest.push_back((user[0], x, read_some(from, what, 1)?[0]));
        }
        for _ in 0..count {
            check_equal(what, "counts", read_count(from, what)?, 1)?;
            let until = read_count(from, what)?;
            check_equal(what, "rewards of a sum", until.min(rewards), until)?;
            // A sum that is kept is of one reward at least.
            let own = match until {
                0 => None,
                until => {
                    let sum = Sum::load(from, what, dim)?;
                    let left = read_places(from, what, users.len())?;
                    Some(Box::new(UserSum { sum, until, left }))
                }
            };
            sets.own.push(own);
        }
        (sets.all_users, sets.rewards) = (all_users, rewards);
        Ok(sets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Users of very different scales learn and lose edges at random; every decision uses exactly
    /// the rewards of the user's neighbours, however the sum was found.
    #[test]
    fn sums_are_those_of_the_members() {
        const USERS: usize = 30;
        const DIM: usize = 3;
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut users = vec![Oful::new(DIM, 1.0); USERS];
        let mut cuts = CutEdges::default();
        cuts.grow_to(USERS);
        let mut sets = InformationSets::of(&users, DIM, 1.0);
        for turn in 0..6000 {
            let user = (rng.random::<f64>().powi(2) * USERS as f64) as usize;
            let scale = if user.is_multiple_of(7) { 1e4 } else { 1.0 };
            let x: Vec<f64> = (0..DIM).map(|_| scale * rng.random_range(-1.0..1.0)).collect();
            let y = rng.random_range(-1.0..1.0);
            users[user].learn(&x, y);
            sets.learned(user, &x, y, USERS);
            let other = rng.random_range(0..USERS);
            if turn % 17 == 0 && other != user && !cuts.is_cut(user, other) {
                cuts.cut(user, other);
                sets.parted(user, other);
            }
            sets.keep(user, &users, &cuts);
            if turn % 200 == 0 {
                let mut bytes = Vec::new();
                sets.save(&mut bytes).unwrap();
                sets =
                    InformationSets::load(&mut bytes.as_slice(), "test", &users, DIM, 1.0).unwrap();
            }
            if turn % 2 == 0 {
                let user = rng.random_range(0..USERS);
                let direct = sets.summed(user, &users, &cuts);
                let found = sets.sum(user, &users, &cuts);
                assert_eq!(found.rewards, direct.rewards, "turn {turn}");
                let close = |a: &[f64], b: &[f64]| {
                    let largest = b.iter().fold(1.0f64, |most, b| most.max(b.abs()));
                    a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9 * largest)
                };
                assert!(close(found.gram.packed(), direct.gram.packed()), "turn {turn}");
                assert!(close(&found.moment, &direct.moment), "turn {turn}");
            }
        }
        assert!((0..USERS).all(|user| cuts.lost(user) > 5), "edges were cut");
    }
}
