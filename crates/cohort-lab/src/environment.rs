//! Environments: simulated worlds or data sets in which policies are run.
//!
//! An [`Environment`] is a family of worlds with its options set; a [`World`] is one of them, as
//! one repetition sees it. Rewards and regrets are computed by the world; the runner only asks for
//! them.

use cohort::params::{Param, Settings};
use cohort::{Arm, Contexts, Truth};
use rayon::prelude::*;

use crate::Error;
use crate::seed::Seed;

/// A family of worlds, its options set and checked.
pub trait Environment: Send + Sync {
    /// The size of its worlds.
    fn size(&self) -> Size;

    /// The world of one repetition: a function of the seed alone.
    fn world(&self, seed: Seed) -> Result<Box<dyn World>, Error>;
}

/// One world: users, their offers, and their rewards.
/// A round begins with [`start_round`](World::start_round); until the next one everything else is
/// fixed, so that users can be asked in any order and on any thread.
pub trait World: Send + Sync {
    /// σ, the noise scale that policies are given.
    fn sigma(&self) -> f64;

    /// The ground truth, for oracles and for comparison with the clusters found; `None` where it is
    /// unknown.
    fn truth(&self) -> Option<Truth<'_>>;

    /// Pairs of users known to be connected, say as friends: any policy may use them.
    fn graph(&self) -> Option<&[(usize, usize)]> {
        None
    }

    /// Begins a round, numbered from 0; rounds may be started in any order.
    fn start_round(&mut self, round: usize);

    /// The contexts of this round, the same for all users.
    fn contexts(&self) -> Contexts<'_>;

    /// The contexts of one user, where users are served one at a time.
    fn contexts_for(&self, _user: usize) -> Contexts<'_> {
        self.contexts()
    }

    /// Whether every user has contexts of its own, so that users must be served one at a time.
    fn own_offers(&self) -> bool {
        false
    }

    /// Whether some users are absent from some rounds, so that users must be served one at a time.
    fn absences(&self) -> bool {
        false
    }

    /// Whether a user is absent from this round: neither served nor charged regret.
    fn is_absent(&self, _user: usize) -> bool {
        false
    }

    /// Users who come for one visit, besides those whose regret counts.
    fn visitors(&self) -> Option<&Visitors> {
        None
    }

    /// The reward and the regret of a user's arm.
    fn play(&self, user: usize, arm: Arm) -> Feedback;

    /// The rewards and regrets of all users, `arms[i]` being user i's: the same as `play` for each.
    fn play_all(&self, arms: &[Arm], rewards: &mut [f64], regrets: &mut [f64]) {
        (arms.par_iter(), rewards, regrets)
            .into_par_iter()
            .with_min_len(USERS_PER_SPLIT)
            .enumerate()
            .for_each(|(user, (arm, to_reward, to_regret))| {
                let Feedback { reward, regret } = self.play(user, *arm);
                (*to_reward, *to_regret) = (reward, regret);
            });
    }
}

/// The fewest users per task of a parallel loop.
const USERS_PER_SPLIT: usize = 1024;

/// The reward and the regret of one user's arm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Feedback {
    /// The noisy reward, from which the policy learns.
    pub reward: f64,
    /// The difference to the best arm *in expectation*, never from the noisy reward.
    pub regret: f64,
}

/// Users who come for one visit: each decides and answers `rewards` times, and decides once more
/// without an answer. [`World::is_absent`] is true of them in all rounds.
#[derive(Clone, Debug)]
pub struct Visitors {
    /// Their numbers among all users, in the order in which they come.
    pub users: Vec<usize>,
    /// How often each of them answers.
    pub rewards: usize,
    /// Whether all come before the first round; else they are spread evenly over the rounds.
    pub at_once: bool,
}

impl Visitors {
    /// The visitors who come just before a round.
    pub fn of_round(&self, round: usize, rounds: usize) -> &[usize] {
        let before = |round: usize| {
            if self.at_once {
                if round == 0 { 0 } else { self.users.len() }
            } else {
                round * self.users.len() / rounds
            }
        };
        &self.users[before(round)..before(round + 1)]
    }
}

/// The size of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// N, the number of users, visitors not counted.
    pub users: usize,
    /// d, the dimension of contexts.
    pub dim: usize,
    /// K, the number of arms per round (the largest, where it varies).
    pub arms: usize,
    /// The number of rounds, where it is limited.
    pub rounds: Option<usize>,
}

/// Makes an environment from checked options.
pub type Build = fn(&Settings) -> Result<Box<dyn Environment>, Error>;

/// Static metadata of an environment: name, summary, options.
#[derive(Debug)]
pub struct EnvironmentInfo {
    /// Its name in every driver.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// Its options, in groups that environments share.
    pub params: &'static [&'static [Param]],
    /// Makes one.
    pub build: Build,
}

impl EnvironmentInfo {
    /// All of its options.
    pub fn options(&self) -> impl Iterator<Item = &'static Param> {
        self.params.iter().copied().flatten()
    }
}
