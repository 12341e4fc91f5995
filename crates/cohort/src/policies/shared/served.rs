//! Policies written for one user at a time: rounds are derived from their online form.

use std::io::{self, Read, Write};

use crate::linear::{Oful, Ridge};
use crate::saved::{check_equal, read_count, write_count};
use crate::shared_list::SharedList;
use crate::{Arm, Contexts, Error, OnlinePolicy, Order, Policy, Saved};

/// A policy written for one user at a time: what it has besides its online form.
pub(crate) trait OneUser: OnlinePolicy + Send {
    /// The cluster of every user, numbered by smallest member, where there are any.
    fn clusters(&self) -> Option<Vec<usize>> {
        None
    }

    /// Whether a round is served all at once or user by user.
    fn order(&self) -> Order {
        Order::OneByOne
    }

    /// Serialisation of the learned state; `None` where there is none.
    fn saved(&mut self) -> Option<&mut dyn Saved> {
        None
    }
}

/// Derives [`crate::Policy`] from an online policy. In a round all users choose from what was
/// learned before it, and rewards are learned in the order of users.
pub(crate) struct Served<T>(pub(crate) T);

impl<T: OneUser> Policy for Served<T> {
    fn choose(&mut self, contexts: &Contexts, arms: &mut [Arm]) {
        for (user, arm) in arms.iter_mut().enumerate() {
            *arm = self.0.decide(user, contexts);
        }
    }

    fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        for (user, (arm, reward)) in arms.iter().zip(rewards).enumerate() {
            self.0.learn_one(user, contexts.arm(*arm), *reward);
        }
    }

    fn clusters(&self) -> Option<Vec<usize>> {
        self.0.clusters()
    }

    fn online(&mut self) -> Option<&mut dyn OnlinePolicy> {
        Some(&mut self.0)
    }

    fn order(&self) -> Order {
        self.0.order()
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        self.0.saved()
    }
}

/// Writes learners of one dimension and one regulariser.
pub(crate) fn write_ofuls(out: &mut dyn Write, dim: usize, ofuls: &[Oful]) -> io::Result<()> {
    write_count(out, dim)?;
    write_count(out, ofuls.len())?;
    ofuls.iter().try_for_each(|oful| oful.save(out))
}

/// Reads learners of this dimension and regulariser.
pub(crate) fn read_ofuls(
    from: &mut dyn Read,
    what: &'static str,
    dim: usize,
    lambda: f64,
) -> Result<Vec<Oful>, Error> {
    read_all(from, what, dim, |from| Oful::load(from, what, dim, lambda))
}

/// Writes learners of one dimension.
pub(crate) fn write_ridges(
    out: &mut dyn Write,
    dim: usize,
    ridges: &SharedList<Ridge>,
) -> io::Result<()> {
    write_count(out, dim)?;
    write_count(out, ridges.len())?;
    ridges.iter().try_for_each(|ridge| ridge.save(out))
}

/// Reads learners of this dimension.
pub(crate) fn read_ridges(
    from: &mut dyn Read,
    what: &'static str,
    dim: usize,
) -> Result<SharedList<Ridge>, Error> {
    let all = read_all(from, what, dim, |from| Ridge::load(from, what, dim))?;
    Ok(all.into_iter().collect())
}

fn read_all<T>(
    from: &mut dyn Read,
    what: &'static str,
    dim: usize,
    mut read: impl FnMut(&mut dyn Read) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    check_equal(what, "dimension", read_count(from, what)?, dim)?;
    let mut all = Vec::new();
    for _ in 0..read_count(from, what)? {
        all.push(read(from)?);
    }
    Ok(all)
}
