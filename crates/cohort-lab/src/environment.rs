//! What policies are tried in.
//!
//! An [`Environment`] is a family of worlds with its constants set; a [`World`] is one of them, as
//! one repetition sees it. What a reward is and what was lost is the world's own business: the
//! runner only asks.

use cohort::params::{Param, Settings};
use cohort::{Arm, Contexts, Truth};
use rayon::prelude::*;

use crate::Error;
use crate::seed::Seed;

/// A family of worlds, its constants set and checked.
pub trait Environment: Send + Sync {
    /// How large its worlds are.
    fn size(&self) -> Size;

    /// The world of one repetition: the same for the same seed, whoever asks.
    fn world(&self, seed: Seed) -> Result<Box<dyn World>, Error>;
}

/// One world: users, what they are offered, and what they answer.
///
/// A round begins with [`start_round`](World::start_round); until the next one everything else is
/// fixed, so that users can be asked in any order and on any thread.
pub trait World: Send + Sync {
    /// σ, the noise scale that policies are told.
    fn sigma(&self) -> f64;

    /// What only oracles may look at, and what clusters found are compared with; `None` where
    /// nobody knows.
    fn truth(&self) -> Option<Truth<'_>>;

    /// Pairs of users who are known to be joined, say as friends: anybody may look at them.
    fn graph(&self) -> Option<&[(usize, usize)]> {
        None
    }

    /// Begins a round, numbered from 0; rounds may be visited in any order.
    fn start_round(&mut self, round: usize);

    /// What is on offer in this round, the same for all users.
    fn contexts(&self) -> Contexts<'_>;

    /// What is on offer to one user, where users are served one at a time.
    fn contexts_for(&self, _user: usize) -> Contexts<'_> {
        self.contexts()
    }

    /// Whether every user has an offer of its own, so that users must be served one at a time.
    fn own_offers(&self) -> bool {
        false
    }

    /// Whether some users stay away from some rounds, so that users must be served one at a time.
    fn absences(&self) -> bool {
        false
    }

    /// Whether a user stays away from this round, and so is neither served nor loses anything.
    fn is_absent(&self, _user: usize) -> bool {
        false
    }

    /// Users who come for one visit, besides those whose regret counts.
    fn visitors(&self) -> Option<&Visitors> {
        None
    }

    /// What a user answers to an arm of what it was offered.
    fn play(&self, user: usize, arm: Arm) -> Feedback;

    /// What all users answer, `arms[i]` being user i's: as asking each of them.
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

/// Users answered for on one thread before it is worth asking another.
const USERS_PER_SPLIT: usize = 1024;

/// What came of one user's arm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Feedback {
    /// The noisy reward: what the policy learns from.
    pub reward: f64,
    /// How much less than the best arm it is worth *in expectation*: never from the noisy reward.
    pub regret: f64,
}

/// Users who come for one visit: each is asked until it has answered so often, and once more, to
/// which it does not answer. [`World::is_absent`] is true of them in all rounds.
#[derive(Clone, Debug)]
pub struct Visitors {
    /// Their numbers among all users, in the order in which they come.
    pub users: Vec<usize>,
    /// How often each of them answers.
    pub rewards: usize,
    /// Whether all come before the first round; else they are spread evenly over rounds.
    pub at_once: bool,
}

impl Visitors {
    /// Who comes just before a round of so many.
    pub fn of_round(&self, round: usize, rounds: usize) -> &[usize] {
        let before = |round: usize| match self.at_once {
            true => {
                if round == 0 {
                    0
                } else {
                    self.users.len()
                }
            }
            false => round * self.users.len() / rounds,
        };
        &self.users[before(round)..before(round + 1)]
    }
}

/// How large a world is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// N, how many users, visitors not counted.
    pub users: usize,
    /// d, the dimension of contexts.
    pub dim: usize,
    /// K, how many arms a round has (the most, where that changes).
    pub arms: usize,
    /// How many rounds there are, where that is limited.
    pub rounds: Option<usize>,
}

/// Makes an environment from options that were checked.
pub type Build = fn(&Settings) -> Result<Box<dyn Environment>, Error>;

/// What is known of an environment before it is made.
#[derive(Debug)]
pub struct EnvironmentInfo {
    /// Its name everywhere.
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
