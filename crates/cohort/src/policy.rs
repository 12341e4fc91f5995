//! The core traits: [`Policy`] for rounds, [`OnlinePolicy`] for users one at a time, [`Refits`],
//! [`Saved`].

use std::any::Any;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex};

use crate::insight::Insight;
use crate::search::ScoreForm;
use crate::{Arm, Contexts, Error};

/// A bandit algorithm for many users: picks an arm for every user and learns from their rewards.
///
/// ```
/// use cohort::{Contexts, Problem};
///
/// let mut policy = cohort::registry::build("linucb-ind", &Problem::new(2, 3), [])?;
/// let values = [0.5, 0.0, 0.0, 0.0, 0.5, 0.0]; // two arms in R³
/// let contexts = Contexts::new(&values, 3)?;
/// let mut arms = [0; 2];
/// for _ in 0..50 {
///     policy.choose(&contexts, &mut arms);
///     // The first user likes arm 0, the second arm 1.
///     let rewards = [f64::from(arms[0] == 0), f64::from(arms[1] == 1)];
///     policy.learn(&contexts, &arms, &rewards);
/// }
/// policy.choose(&contexts, &mut arms);
/// assert_eq!(arms, [0, 1]);
/// # Ok::<(), cohort::Error>(())
/// ```
pub trait Policy: Send {
    /// Chooses one arm per user from what was learned before this round; all users see the same
    /// contexts.
    fn choose(&mut self, contexts: &Contexts, arms: &mut [Arm]);

    /// Learns a round: `rewards[i]` is user i's reward for `arms[i]`.
    fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]);

    /// The cluster of every user as the policy sees it now, numbered by smallest member; `None`
    /// where the policy has no clusters (yet).
    fn clusters(&self) -> Option<Vec<usize>> {
        None
    }

    /// The online form, for users that come one at a time; `None` where the algorithm has none.
    fn online(&mut self) -> Option<&mut dyn OnlinePolicy> {
        None
    }

    /// The schedule of refits; `None` where the policy never refits.
    fn refits(&mut self) -> Option<&mut dyn Refits> {
        None
    }

    /// Runs the refit that is due, if any.
    fn catch_up(&mut self) {
        if let Some(refits) = self.refits() {
            refits.catch_up();
        }
    }

    /// A read-only view of what was learned; `None` where the policy offers none.
    fn insight(&self) -> Option<&dyn Insight> {
        None
    }

    /// Serialisation of what was learned; `None` where the policy has none.
    fn saved(&mut self) -> Option<&mut dyn Saved> {
        None
    }

    /// Whether a round is served all at once or user by user, as the algorithm is defined.
    fn order(&self) -> Order {
        Order::Together
    }
}

/// The online form of a policy: users come one at a time, each with candidates of its own; rewards
/// come later, in any order, or never. It ends in the same statistics as rounds do.
///
/// A user number not seen before is a new user.
pub trait OnlinePolicy {
    /// Chooses an arm for one user.
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm;

    /// Scores every arm for one user. Learned state does not change (an unknown user stays
    /// unknown); only caches may.
    /// `decide` plays the arm with the largest [`Score::total`]. A policy that is indifferent gives
    /// all arms the same score, and one whose [`OnlinePolicy::chances`] are exact plays an arm
    /// drawn by them. A service ranks, explains and explores with the scores alone.
    fn score(&mut self, user: usize, contexts: &Contexts, scores: &mut [Score]);

    /// [`OnlinePolicy::score`] as a function of an arm's features, by which the best of very many items are
    /// found without scoring each ([`crate::search`]); `None` where it is no such function.
    fn score_form(&mut self, _user: usize) -> Option<ScoreForm> {
        None
    }

    /// Learns one reward for one context that was played for one user.
    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64);

    /// Forgets a user: it is then as if it had never come, except for the population model as it
    /// was fitted. `false` from a policy that cannot forget users, and then nothing changes.
    fn forget(&mut self, _user: usize) -> bool {
        false
    }

    /// Lets a user go, for whom all is then as if it had never come, and keeps what it taught of users in
    /// general: that is still there at the next fit, under no name. `false` from a policy that cannot, and then
    /// nothing changes.
    fn retire(&mut self, user: usize) -> bool {
        self.forget(user)
    }

    /// The propensity of every arm, for a policy that samples its arms; `false` from all others,
    /// which play the arm with the largest score. Where propensities have no closed form they are
    /// the frequencies in some draws, which depend on the seed: an arm drawn by these frequencies
    /// is distributed as the policy's own draws are, and its propensity is exact.
    fn chances(
        &mut self,
        _user: usize,
        _contexts: &Contexts,
        _seed: u64,
        _chances: &mut [f64],
    ) -> bool {
        false
    }
}

/// Refits: long-running work, such as fitting the population model, and its schedule.
/// [`OnlinePolicy::decide`] refits by itself when a refit is due. Callers that score instead refit
/// when it suits them: in place by [`Refits::catch_up`], or on another thread by [`Refits::job`]
/// and [`Refits::install`].
pub trait Refits {
    /// Whether a refit is due.
    fn is_due(&self) -> bool;

    /// Refits if due. The result depends on nothing but what was learned.
    fn catch_up(&mut self);

    /// The refit that is due, on a copy of the present state, while decisions and rewards go on.
    fn job(&mut self) -> Option<RefitJob>;

    /// Installs the result of a [`RefitJob`]. Invalid bytes are rejected and leave the policy
    /// unchanged.
    fn install(&mut self, found: &[u8]) -> Result<(), Error>;

    /// Fits to users who are with several policies; `None` where each fits its own.
    fn shared(&mut self) -> Option<&mut dyn SharedFits> {
        None
    }
}

/// Asks all policies that have users something, and returns what each answers; `None` where one does not answer.
pub type AskAll = Box<dyn FnMut(&[u8]) -> Option<Vec<Vec<u8>>> + Send>;

/// One model for users who are with several policies of the same kind, on machines of their own: one that has no users asks all others
/// for statistics and sums, and what it finds all of them [`Refits::install`].
pub trait SharedFits {
    /// How many rewards its users gave: what a refit is due by.
    fn rewards(&self) -> f64;

    /// Answers a question of [`SharedFits::ask_others`], on a copy of the present state. An empty answer is none.
    fn answer(&mut self, question: &[u8]) -> Result<RefitJob, Error>;

    /// The refit of all, if one is due: asks, fits, and returns what all shall install; nothing where none is due, or where
    /// somebody did not answer. `next_look` is when users are looked at for changes, and is kept from one to the next.
    fn ask_others(&mut self, ask: AskAll, next_look: Arc<Mutex<f64>>) -> RefitJob;

    /// From now on rewards that count for refits are those of the users it has: others were taken from it.
    fn count_own(&mut self);

    /// Takes in the users of another policy of the same kind and parameters ([`Saved::share`]), each under the number that `number`
    /// gives it.
    fn take_in(
        &mut self,
        other: Shared,
        number: &mut dyn FnMut(usize) -> Option<usize>,
    ) -> Result<(), Error>;
}

/// A refit that can run on any thread; its result is encoded in a layout of the policy's own.
pub type RefitJob = Box<dyn FnOnce() -> Vec<u8> + Send>;

/// A snapshot of learned state, which writes itself later, on any thread.
pub type Frozen = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + Send>;

/// Serialisation of learned state; loading restores it bit by bit. [`crate::saved`] has the
/// building blocks, and [`crate::saved::State`] is the usual way to implement this trait.
pub trait Saved {
    /// Writes the learned state: a layout of the policy's own, little-endian, that begins with its
    /// version and the sizes it relies on. What follows from the problem and the parameters is not
    /// written.
    fn save(&self, out: &mut dyn Write) -> io::Result<()>;

    /// Copies the state that [`Saved::save`] would write now, to be written while learning goes on.
    fn freeze(&self) -> io::Result<Frozen> {
        let mut bytes = Vec::new();
        self.save(&mut bytes)?;
        Ok(Box::new(move |out| out.write_all(&bytes)))
    }

    /// Restores what [`Saved::save`] wrote. The policy must have been built for the same dimension
    /// and the same parameters that its statistics rest on. Anything else, an unknown version,
    /// numbers that are not finite and truncated bytes are refused; the policy is then unchanged or
    /// empty, never partly loaded.
    fn load(&mut self, from: &mut dyn Read) -> Result<(), Error>;

    /// The learned state in memory, for a policy of the same kind with other parameters. Where
    /// possible, numbers are shared copy-on-write; else they are copied.
    fn share(&self) -> io::Result<Shared> {
        let mut bytes = Vec::new();
        self.save(&mut bytes)?;
        Ok(Box::new(bytes))
    }

    /// Takes over what [`Saved::share`] returned: the same state, bit by bit, as after
    /// [`Saved::load`] of what was saved, with the same refusals.
    fn take_over(&mut self, shared: Shared) -> Result<(), Error> {
        match shared.downcast::<Vec<u8>>() {
            Ok(bytes) => self.load(&mut bytes.as_slice()),
            Err(_) => Err(crate::saved::not_alike("a policy")),
        }
    }
}

/// Learned state in memory, in a type of the policy's own.
pub type Shared = Box<dyn Any>;

/// A policy's score of one arm for one user.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    /// The expected reward.
    pub expected: f64,
    /// The exploration bonus.
    pub bonus: f64,
}

impl Score {
    /// The sum, by which arms are ranked.
    pub fn total(&self) -> f64 {
        self.expected + self.bonus
    }
}

/// How an algorithm serves a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All users choose from what was learned before the round; all updates come after.
    Together,
    /// Users are served one after the other, each update before the next choice (CLUB, SCLUB).
    OneByOne,
}
