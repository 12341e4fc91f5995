//! Everybody's posterior, carried along from one refit to the next: for users that are served in
//! rounds, where everybody is looked at in every round.
//!
//! A user with one probable component is one OFUL learner with that component as its prior, so
//! nearly all users live in a [`Bank`]; those that may belong to several have a [`Belief`].

use std::io::{self, Read, Write};

use rayon::prelude::*;

use super::saved::{read_belief, write_belief};
use super::{INFO, widening};
use crate::linear::{Bank, Progress, Shape, Symmetric};
use crate::population::{Belief, Believer, Fit, Ledger, Outlook, Spectrum};
use crate::saved::{expect, read_bank, read_count, read_numbers, write_bank, write_count};
use crate::{Arm, Contexts, Error, Judgement};

/// The posterior of every user.
pub(super) struct Everybody {
    /// Users with one probable component: V⁻¹ is the posterior covariance over σ².
    bank: Bank,
    /// The component of each of those.
    components: Vec<usize>,
    /// Users that may belong to several.
    undecided: Vec<Option<Box<Belief>>>,
    /// What is believed of users of whom nothing was seen.
    newcomer: Option<Belief>,
    /// σ² and the level of the population that posteriors rest on.
    noise: f64,
    level: f64,
}

impl Everybody {
    /// Nobody yet.
    pub fn new(dim: usize) -> Self {
        Self {
            bank: Bank::new(0, dim, 1.0),
            components: Vec::new(),
            undecided: Vec::new(),
            newcomer: None,
            noise: 1.0,
            level: 0.0,
        }
    }

    /// Everybody's posterior afresh.
    pub fn take_on(&mut self, fit: &Fit, ledger: &Ledger, outlook: Outlook) {
        let believer = Believer::new(&fit.population, outlook);
        let beliefs: Vec<Belief> =
            fit.spectra.par_iter().flat_map_iter(|users| believer.believe(users)).collect();
        let [newcomer, ..] = believer.believe(&Spectrum::unseen(ledger.dim()));
        self.newcomer = Some(newcomer);
        (self.noise, self.level) = (fit.population.noise, fit.population.level);
        self.make_room(ledger.users());
        for (user, belief) in beliefs.into_iter().take(ledger.users()).enumerate() {
            self.believe(user, belief, ledger.rewards_of(user));
        }
    }

    /// Makes room for more users, of whom nothing was seen.
    pub fn grow(&mut self, users: usize) {
        let known = self.components.len();
        self.make_room(users);
        for user in known..users {
            if let Some(newcomer) = self.newcomer.clone() {
                self.believe(user, newcomer, 0.0);
            }
        }
    }

    fn make_room(&mut self, users: usize) {
        let users = users.max(self.components.len());
        self.bank.grow(users);
        self.components.resize(users, 0);
        self.undecided.resize_with(users, || None);
    }

    /// Puts a user where its posterior is this.
    fn believe(&mut self, user: usize, belief: Belief, rewards: f64) {
        if let [only] = belief.guesses.as_slice() {
            let mut inverse = only.covariance.clone();
            for value in inverse.packed_mut() {
                *value /= self.noise;
            }
            self.bank.set_state(user, &only.mean, &inverse, rewards);
            self.components[user] = only.component;
            self.undecided[user] = None;
        } else {
            self.undecided[user] = Some(Box::new(belief));
        }
    }

    /// What is believed of one user.
    pub fn belief(&self, user: usize) -> Belief {
        if let Some(belief) = &self.undecided[user] {
            return Belief::clone(belief);
        }
        let mut covariance: Symmetric = self.bank.inverse(user);
        for value in covariance.packed_mut() {
            *value *= self.noise;
        }
        Belief::certain(self.components[user], self.bank.estimate(user), covariance)
    }

    /// The most probable component of one user.
    pub fn component(&self, user: usize) -> usize {
        (self.undecided[user].as_ref())
            .map_or(self.components[user], |belief| belief.likeliest().component)
    }

    /// How many rewards its posterior rests on.
    pub fn rewards(&self, user: usize, ledger: &Ledger) -> f64 {
        match self.undecided[user] {
            Some(_) => ledger.rewards_of(user),
            None => self.bank.progress(user).updates,
        }
    }

    /// An arm for everybody, by optimism.
    pub fn choose(
        &mut self,
        contexts: &Contexts,
        exploration: f64,
        ledger: &Ledger,
        arms: &mut [Arm],
    ) {
        let sigma = self.noise.sqrt();
        let radius = |_, progress: Progress| exploration * widening(progress.updates) * sigma;
        self.bank.choose(contexts, Shape::Ellipsoid, radius, None, arms);
        arms.par_iter_mut().zip(&self.undecided).enumerate().with_min_len(64).for_each(
            |(user, (arm, belief))| {
                if let Some(belief) = belief {
                    let width = exploration * widening(ledger.rewards_of(user));
                    *arm = belief.choose(contexts, width);
                }
            },
        );
    }

    /// An arm for one user, by so much optimism.
    pub fn choose_one(&mut self, user: usize, contexts: &Contexts, width: f64) -> Arm {
        match &self.undecided[user] {
            Some(belief) => belief.choose(contexts, width),
            None => {
                let radius = width * self.noise.sqrt();
                self.bank.choose_one(user, contexts, Shape::Ellipsoid, radius)
            }
        }
    }

    /// What is thought of every arm for one user, rewards counted from the level.
    pub fn judge(
        &mut self,
        user: usize,
        contexts: &Contexts,
        width: f64,
        judgements: &mut [Judgement],
    ) {
        match &self.undecided[user] {
            Some(belief) => belief.judge(contexts, width, judgements),
            None => {
                let radius = width * self.noise.sqrt();
                self.bank.judge_one(user, contexts, Shape::Ellipsoid, radius, judgements);
            }
        }
    }

    /// One reward for everybody.
    pub fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        let (noise, level) = (self.noise, self.level);
        let counted: Vec<f64> = rewards.iter().map(|reward| reward - level).collect();
        self.bank.learn(contexts, arms, &counted);
        (self.undecided.par_iter_mut().zip(arms).zip(&counted)).with_min_len(64).for_each(
            |((belief, arm), y)| {
                if let Some(belief) = belief {
                    belief.learn(contexts.arm(*arm), *y, noise);
                }
            },
        );
    }

    /// One reward for one user.
    pub fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        match &mut self.undecided[user] {
            Some(belief) => belief.learn(context, reward - self.level, self.noise),
            None => self.bank.learn_one(user, context, reward - self.level),
        }
    }

    /// Writes every posterior: carried along, it is not, to the last bit, the one that would be
    /// worked out afresh.
    pub fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        crate::saved::write_numbers(out, &[self.noise, self.level])?;
        write_count(out, self.newcomer.iter().len())?;
        if let Some(newcomer) = &self.newcomer {
            write_belief(out, newcomer)?;
        }
        write_bank(out, &self.bank, 1.0)?;
        for (component, undecided) in self.components.iter().zip(&self.undecided) {
            write_count(out, *component)?;
            match undecided {
                Some(belief) => write_belief(out, belief)?,
                None => write_count(out, 0)?,
            }
        }
        Ok(())
    }

    /// Reads what [`Everybody::save`] wrote of so many users.
    pub fn load(from: &mut dyn Read, dim: usize, users: usize) -> Result<Self, Error> {
        let mut numbers = [0.0; 2];
        read_numbers(from, INFO.name, &mut numbers)?;
        let newcomer = match read_count(from, INFO.name)? {
            0 => None,
            _ => read_belief(from, dim)?,
        };
        let bank = read_bank(from, INFO.name, dim, 1.0)?;
        expect(INFO.name, "users", bank.learners(), users)?;
        let (mut components, mut undecided) = (Vec::new(), Vec::new());
        for _ in 0..users {
            components.push(read_count(from, INFO.name)?);
            undecided.push(read_belief(from, dim)?.map(Box::new));
        }
        let [noise, level] = numbers;
        Ok(Self { bank, components, undecided, newcomer, noise, level })
    }
}
