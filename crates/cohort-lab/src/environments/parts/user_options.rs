//! How else users differ, and the options for it: levels, unequal noise, a subspace of all users'
//! vectors, and visitors.

use cohort::params::{Kind, NOT_NEGATIVE, Param, Settings};
use rand::RngExt;
use rand_distr::StandardNormal;
use std::ops::Bound;

use super::centres::orthogonal_to;
use super::laws::{Laws, check_fits, on_unit_sphere};
use super::linear::{LinearWorld, Users};
use super::visited::{VISITORS_WHEN, Visited, When};
use crate::Error;
use crate::environment::World;
use crate::seed::{Purpose, Seed};

/// The options of every environment whose users are drawn once.
pub const USER_OPTIONS: &[Param] = &[
    Param::real(
        "level",
        Kind::Real(Bound::Unbounded, Bound::Unbounded),
        0.0,
        "added to every reward",
    ),
    Param::real(
        "level_spread",
        NOT_NEGATIVE,
        0.0,
        "standard deviation of a level of each user's own, added to all of its rewards",
    ),
    Param::derived(
        "noise_odd",
        NOT_NEGATIVE,
        "that of all users",
        "σ of users with odd numbers; policies are told the root mean square of both",
    ),
    Param::derived(
        "rank",
        Kind::Count(1),
        "dim",
        "users' vectors lie in a random subspace of so many dimensions, as long as otherwise",
    ),
    Param::count("visitors", 0, 0, "users besides, who come once; regret is that of the others"),
    Param::count(
        "visitor_rewards",
        0,
        0,
        "how often a visitor answers before it is asked for the last time and leaves without",
    ),
    Param::choice(
        "visitors_when",
        VISITORS_WHEN,
        "visitors come before the first round with the lowest numbers, during all rounds with \
         numbers between those of the others, or during all rounds with the highest numbers",
    ),
];

/// The values of [`USER_OPTIONS`].
pub struct UserOptions {
    level: f64,
    level_spread: f64,
    rank: Option<usize>,
    visitors: usize,
    visitor_rewards: usize,
    when: When,
}

impl UserOptions {
    /// From [`USER_OPTIONS`].
    pub fn from_settings(settings: &Settings, laws: &Laws) -> Result<Self, Error> {
        let rank = settings.optional("rank").map(|rank| rank as usize);
        if let Some(rank) = rank.filter(|rank| *rank > laws.dim) {
            let expected = format!("at most dim = {}", laws.dim);
            return Err(Error::unexpected("rank", rank.to_string(), expected));
        }
        let visitors = settings.count("visitors");
        check_fits("visitors", visitors, laws.dim)?;
        Ok(Self {
            level: settings.real("level"),
            level_spread: settings.real("level_spread"),
            rank,
            visitors,
            visitor_rewards: settings.count("visitor_rewards"),
            when: When::from_word(settings.choice("visitors_when")),
        })
    }

    /// The number of visitors. In [`Users`] they come last.
    pub fn visitors(&self) -> usize {
        self.visitors
    }

    /// The subspace of the users' vectors.
    pub fn subspace(&self, dim: usize, seed: Seed) -> Subspace {
        let mut basis = Vec::new();
        let rng = &mut seed.stream(Purpose::Subspace, 0);
        for at in 0..self.rank.unwrap_or(0) {
            basis.push(if at == 0 { on_unit_sphere(dim, rng) } else { orthogonal_to(&basis, rng) });
        }
        Subspace { basis, dim }
    }

    /// The world of these users, visitors last.
    pub fn world(&self, mut users: Users, laws: &Laws, seed: Seed) -> Box<dyn World> {
        let count = users.clusters.len();
        if (self.level, self.level_spread) != (0.0, 0.0) {
            let rng = &mut seed.stream(Purpose::Levels, 0);
            let own = |_| self.level + self.level_spread * rng.sample::<f64, _>(StandardNormal);
            users.levels = (0..count).map(own).collect();
        }
        users.sigmas = laws.sigmas(count);
        if let Some(law) = &mut users.law {
            (law.level, law.level_spread) = (self.level, self.level_spread);
        }
        let world = LinearWorld::new(users, laws.dim, laws.sigma(), laws.rounds(seed));
        match self.visitors {
            0 => Box::new(world),
            visitors => {
                let ordinary = count - visitors;
                Box::new(Visited::new(world, ordinary, visitors, self.visitor_rewards, self.when))
            }
        }
    }
}

/// A subspace of R^d, or all of it.
pub struct Subspace {
    /// An orthonormal basis; empty where it is all of R^d.
    basis: Vec<Vec<f64>>,
    dim: usize,
}

impl Subspace {
    /// Its dimension.
    pub fn rank(&self) -> usize {
        if self.basis.is_empty() { self.dim } else { self.basis.len() }
    }

    /// The factor by which standard normal vectors in it are stretched to the expected length in
    /// R^d.
    pub fn stretch(&self) -> f64 {
        (self.dim as f64 / self.rank() as f64).sqrt()
    }

    /// Maps coordinates in the subspace to R^d.
    pub fn lift(&self, inner: Vec<f64>) -> Vec<f64> {
        if self.basis.is_empty() {
            return inner;
        }
        let coordinate =
            |k: usize| self.basis.iter().zip(&inner).map(|(axis, z)| axis[k] * z).sum();
        (0..self.dim).map(coordinate).collect()
    }

    /// The scatter directions of a normal distribution with the expected squared length of this
    /// variance in every coordinate of R^d.
    pub fn scatter(&self, variance: f64) -> Vec<f64> {
        if variance == 0.0 {
            return Vec::new();
        }
        let deviation = variance.sqrt() * self.stretch();
        let axis = |k: usize| {
            let inner = (0..self.rank()).map(|j| if j == k { deviation } else { 0.0 }).collect();
            self.lift(inner)
        };
        (0..self.rank()).flat_map(axis).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohort::linear::dot;

    #[test]
    fn a_subspace_keeps_lengths_and_spreads_the_same_variance() {
        let user_options = UserOptions {
            level: 0.0,
            level_spread: 0.0,
            rank: Some(3),
            visitors: 0,
            visitor_rewards: 0,
            when: When::Before,
        };
        let subspace = user_options.subspace(7, Seed { seed: 1, repetition: 0 });
        let lifted = subspace.lift(vec![1.0, -2.0, 0.5]);
        assert!((dot(&lifted, &lifted) - 5.25).abs() < 1e-12);
        let scatter = subspace.scatter(0.25);
        assert_eq!(scatter.len(), 3 * 7);
        assert!((dot(&scatter, &scatter) - 7.0 * 0.25).abs() < 1e-12);
    }
}
