//! Greedy policies on estimates that are fitted to all users at once, at intervals: the frame of
//! `trace-norm`, `mlin-greedy` and `e2tc`.

use std::io::{self, Read, Write};

use rand::RngExt;

use super::served::OneUser;
use crate::linear::{Statistics, argmax, dot};
use crate::policies::draws::stream;
use crate::saved::{State, check_equal, read_counts, read_some, write_counts, write_numbers};
use crate::{Arm, Contexts, Error, OnlinePolicy, Order, Saved, Score};

/// The sufficient statistics of every user.
#[derive(Clone)]
pub(crate) struct Tasks {
    pub(crate) dim: usize,
    pub(crate) users: Vec<Statistics>,
    /// The number of rewards.
    pub(crate) rewards: f64,
}

/// An estimator of all users at once, and its schedule.
pub(crate) trait JointEstimator: Clone + Send + 'static {
    /// The name of the policy, for error messages.
    const NAME: &'static str;

    /// Whether arms are drawn at random after `rewards` rewards.
    fn explores(&self, _rewards: f64) -> bool {
        false
    }

    /// The number of rewards at which the next fit is due, given that of the last.
    fn next(&self, rewards: f64) -> f64;

    /// Updates the estimates of all users, row by row.
    fn fit(&mut self, tasks: &Tasks, estimates: &mut Vec<f64>);

    /// The state to save besides the estimates, as numbers.
    fn kept(&self) -> Vec<f64> {
        Vec::new()
    }

    /// Restores what [`JointEstimator::kept`] returned.
    fn keep(&mut self, _numbers: &[f64]) {}
}

/// The greedy policy.
#[derive(Clone)]
pub(crate) struct Greedy<F> {
    seed: u64,
    fit: F,
    tasks: Tasks,
    estimates: Vec<f64>,
    due: f64,
}

impl<F: JointEstimator> Greedy<F> {
    pub(crate) fn new(users: usize, dim: usize, seed: u64, fit: F) -> Self {
        let tasks = Tasks { dim, users: vec![Statistics::new(dim); users], rewards: 0.0 };
        let (estimates, due) = (vec![0.0; users * dim], fit.next(0.0));
        Self { seed, fit, tasks, estimates, due }
    }

    fn estimate(&self, user: usize) -> Option<&[f64]> {
        self.estimates.get(user * self.tasks.dim..(user + 1) * self.tasks.dim)
    }

    fn rewards_of(&self, user: usize) -> f64 {
        self.tasks.users.get(user).map_or(0.0, |user| user.rewards)
    }
}

impl<F: JointEstimator> OneUser for Greedy<F> {
    fn order(&self) -> Order {
        Order::Together
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }
}

impl<F: JointEstimator> OnlinePolicy for Greedy<F> {
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm {
        if self.fit.explores(self.tasks.rewards) {
            let mut rng = stream(self.seed, user, self.rewards_of(user));
            return rng.random_range(0..contexts.arms());
        }
        match self.estimate(user) {
            Some(estimate) => argmax(contexts.iter().map(|x| dot(x, estimate))),
            None => 0,
        }
    }

    /// All arms score the same while they are drawn at random.
    fn score(&mut self, user: usize, contexts: &Contexts, scores: &mut [Score]) {
        scores.fill(Score::default());
        if let Some(estimate) = self.estimate(user)
            && !self.fit.explores(self.tasks.rewards)
        {
            for (x, score) in contexts.iter().zip(scores) {
                score.expected = dot(x, estimate);
            }
        }
    }

    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        let tasks = &mut self.tasks;
        if user >= tasks.users.len() {
            tasks.users.resize(user + 1, Statistics::new(tasks.dim));
            self.estimates.resize((user + 1) * tasks.dim, 0.0);
        }
        tasks.users[user].learn(context, reward);
        tasks.rewards += 1.0;
        if tasks.rewards >= self.due {
            self.fit.fit(&self.tasks, &mut self.estimates);
            // Extreme contexts may overflow a fit: such an estimate becomes 0.
            self.estimates.iter_mut().filter(|w| !w.is_finite()).for_each(|w| *w = 0.0);
            self.due = self.fit.next(self.tasks.rewards);
        }
    }

    fn chances(
        &mut self,
        _user: usize,
        contexts: &Contexts,
        _seed: u64,
        chances: &mut [f64],
    ) -> bool {
        chances.fill(1.0 / contexts.arms() as f64);
        self.fit.explores(self.tasks.rewards)
    }
}

impl<F: JointEstimator> State for Greedy<F> {
    const NAME: &'static str = F::NAME;
    const VERSION: u32 = 1;

    fn write_state(&self, out: &mut dyn Write) -> io::Result<()> {
        let kept = self.fit.kept();
        write_counts(out, &[self.tasks.dim, self.tasks.users.len(), kept.len()])?;
        write_numbers(out, &[self.tasks.rewards, self.due])?;
        write_numbers(out, &kept)?;
        for (user, estimate) in
            self.tasks.users.iter().zip(self.estimates.chunks_exact(self.tasks.dim))
        {
            user.save(out)?;
            write_numbers(out, estimate)?;
        }
        Ok(())
    }

    fn read_state(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        let (what, dim) = (F::NAME, self.tasks.dim);
        let sizes = read_counts(from, what)?;
        let [found_dim, count, kept] = sizes[..] else {
            let expected = "three sizes".to_owned();
            return Err(Error::Saved { what, found: format!("{} sizes", sizes.len()), expected });
        };
        check_equal(what, "dimension", found_dim, dim)?;
        check_equal(what, "numbers of the fit", kept, self.fit.kept().len())?;
        let totals = read_some(from, what, 2)?;
        let kept = read_some(from, what, kept)?;
        let (mut users, mut estimates) = (Vec::new(), Vec::new());
        for _ in 0..count {
            users.push(Statistics::load(from, what, dim)?);
            estimates.extend(read_some(from, what, dim)?);
        }
        self.fit.keep(&kept);
        self.tasks = Tasks { dim, users, rewards: totals[0] };
        (self.estimates, self.due) = (estimates, totals[1]);
        Ok(())
    }
}
