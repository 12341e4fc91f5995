//! What every algorithm is: the core trait, and the form for users that come one at a time.

use std::any::Any;
use std::io::{self, Read, Write};

use crate::insight::Insight;
use crate::{Arm, Contexts, Error};

/// The center: picks an arm for every user and learns from their answers.
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
    /// One arm per user, on what was known before this round; all users see the same contexts.
    fn choose(&mut self, contexts: &Contexts, arms: &mut [Arm]);

    /// What came of it: `rewards[i]` is user i's answer to `arms[i]`.
    fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]);

    /// The cluster of every user as the policy sees it now, numbered by smallest member; `None`
    /// where the policy has no clusters (yet).
    fn clusters(&self) -> Option<Vec<usize>> {
        None
    }

    /// The same learner for users that come one at a time, where the algorithm allows it.
    fn online(&mut self) -> Option<&mut dyn OnlinePolicy> {
        None
    }

    /// The same learner as something that can be kept, where it can be.
    fn saved(&mut self) -> Option<&mut dyn Saved> {
        self.online()?.saved()
    }

    /// Whether the algorithm is defined for rounds or for single turns: that is how it is run.
    fn order(&self) -> Order {
        Order::Together
    }
}

/// The form for users that come one at a time, each with candidates of its own, whose rewards
/// come later, in any order, or never. It ends in the same statistics as rounds do.
///
/// A user number not seen before is a new user.
pub trait OnlinePolicy {
    /// An arm for one user.
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm;

    /// What the policy thinks of every arm for one user, one score per arm. Nothing that was
    /// learned changes (a user not seen before stays unknown); only caches may.
    /// `decide` plays the arm with the largest [`Score::total`]; a policy that does not care
    /// which arm is played gives all of them the same score, and one whose [`OnlinePolicy::chances`] are
    /// exact plays an arm drawn by them.
    ///
    /// A service that explores on its own, ranks and explains needs no more than this.
    fn score(&mut self, user: usize, contexts: &Contexts, scores: &mut [Score]);

    /// One reward for one context that was played for one user.
    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64);

    /// Forgets a user, for whom all is then as if it had never come; what users have in common stays
    /// as it was fitted. `false` from a policy that cannot forget anybody, and then nothing changes.
    fn forget(&mut self, _user: usize) -> bool {
        false
    }

    /// With what probability each arm is to be played, for a policy that draws its arms; `false`
    /// from all others, which play the arm with the largest score. Where probabilities have no
    /// closed form they are shares of some draws, which depend on the seed: an arm drawn with
    /// these shares is an arm drawn as the policy draws it, and has been played with exactly the
    /// probability that is told.
    fn chances(
        &mut self,
        _user: usize,
        _contexts: &Contexts,
        _seed: u64,
        _chances: &mut [f64],
    ) -> bool {
        false
    }

    /// Whether something that takes long is due, such as a refit of what users have in common.
    /// `decide` does it by itself; whoever judges does it by [`OnlinePolicy::catch_up`], or elsewhere by
    /// [`OnlinePolicy::job`] and [`OnlinePolicy::install`], when it suits.
    fn is_due(&self) -> bool {
        false
    }

    /// Does what is due. It depends on nothing but what was learned.
    fn catch_up(&mut self) {}

    /// What is due as work that can be done on another thread, on what is known now, while
    /// decisions and rewards go on.
    fn job(&mut self) -> Option<RefitJob> {
        None
    }

    /// Takes over what a [`RefitJob`] found. Invalid bytes are rejected and leave the policy unchanged.
    fn install(&mut self, _found: &[u8]) -> Result<(), Error> {
        Err(Error::Saved {
            what: "a policy without jobs",
            found: "what a job found".to_owned(),
            expected: "nothing".to_owned(),
        })
    }

    /// The same learner as something that can be looked into, where it can be.
    fn insight(&self) -> Option<&dyn Insight> {
        None
    }

    /// The same learner as something that can be kept, where it can be.
    fn saved(&mut self) -> Option<&mut dyn Saved> {
        None
    }
}

/// Work to be done elsewhere; it returns what it found, in a layout of the policy's own.
pub type RefitJob = Box<dyn FnOnce() -> Vec<u8> + Send>;

/// Something to be written, later and elsewhere.
pub type Frozen = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + Send>;

/// What was learned as bytes: written, and taken over bit by bit. Pieces that policies share are in
/// [`crate::saved`].
pub trait Saved {
    /// Writes all that was learned: a layout of the policy's own, little-endian, that begins with
    /// its version and the sizes it relies on. What follows from the problem and the parameters is
    /// not written.
    fn save(&self, out: &mut dyn Write) -> io::Result<()>;

    /// What [`Saved::save`] would write now, to be written while learning goes on.
    fn freeze(&self) -> io::Result<Frozen> {
        let mut bytes = Vec::new();
        self.save(&mut bytes)?;
        Ok(Box::new(move |out| out.write_all(&bytes)))
    }

    /// Takes over what [`Saved::save`] wrote. The policy must have been built for the same
    /// dimension and the same parameters that its statistics rest on; anything else, a version it
    /// does not know, numbers that are not finite and bytes that end too early are refused, and
    /// the policy is then as it was before or empty, never half of each.
    fn load(&mut self, from: &mut dyn Read) -> Result<(), Error>;

    /// All that was learned, for a policy of the same kind with other parameters. Where it can be,
    /// numbers are shared until one of the two learns; else they are copied.
    fn share(&self) -> io::Result<Shared> {
        let mut bytes = Vec::new();
        self.save(&mut bytes)?;
        Ok(Box::new(bytes))
    }

    /// Takes over what [`Saved::share`] gave: the policy then knows the same as after
    /// [`Saved::load`] of what was saved, bit by bit, and the same is refused.
    fn take_over(&mut self, shared: Shared) -> Result<(), Error> {
        match shared.downcast::<Vec<u8>>() {
            Ok(bytes) => self.load(&mut bytes.as_slice()),
            Err(_) => Err(crate::saved::not_alike("a policy")),
        }
    }
}

/// What was learned, as it is kept by policies of one kind.
pub type Shared = Box<dyn Any>;

/// What a policy thinks of one arm for one user.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    /// The reward it expects.
    pub expected: f64,
    /// What is added for being unsure: the exploration bonus.
    pub bonus: f64,
}

impl Score {
    /// By which arms are ranked.
    pub fn total(&self) -> f64 {
        self.expected + self.bonus
    }
}

/// How an algorithm is run on a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All users choose on what was known before the round; all updates come after.
    Together,
    /// Users are served one after the other, each update before the next choice (CLUB, SCLUB).
    OneByOne,
}
