//! The posterior of every user, carried along from one refit to the next: for users that are served in
//! rounds, where everybody is looked at in every round.
//!
//! A user with one probable component is one OFUL learner with that component as its prior, so
//! nearly all users live in a [`Bank`]; those that may belong to several have a [`Belief`]. Learners
//! know (θ, level): they choose by contexts (x, 0) and learn from (x, 1).

use rayon::prelude::*;

use super::widening;
use crate::linear::{Bank, Progress, Shape, Symmetric};
use crate::population::{
    Belief, Certain, EightBeliefs, Inference, Ledger, Moments, Population, ScoringMode,
};
use crate::simd::{F64x8, LANES};
use crate::{Arm, Contexts, Score};

/// The posterior of every user.
#[derive(Clone)]
pub(super) struct Posteriors {
    /// Users with one probable component: V⁻¹ is the posterior covariance over σ².
    pub(super) bank: Bank,
    /// The component of each of those.
    pub(super) components: Vec<usize>,
    /// Users that may belong to several.
    pub(super) undecided: Vec<Option<Box<Belief>>>,
    /// What is believed of users of whom nothing was seen.
    pub(super) newcomer: Option<Belief>,
    /// σ_i² of every user.
    pub(super) noises: Vec<f64>,
    /// What the population that posteriors rest on counts rewards from.
    pub(super) origin: f64,
    /// Contexts with a last coordinate.
    pub(super) padded: Vec<f64>,
}

/// Users whose posteriors are worked out by one task.
const USERS_PER_TASK: usize = 1024;

impl Posteriors {
    /// Nobody yet, in R^d.
    pub fn new(dim: usize) -> Self {
        Self {
            bank: Bank::new(0, dim + 1, 1.0),
            components: Vec::new(),
            undecided: Vec::new(),
            newcomer: None,
            noises: Vec::new(),
            origin: 0.0,
            padded: Vec::new(),
        }
    }

    /// Everybody's posterior afresh.
    pub fn take_on(&mut self, population: &Population, ledger: &Ledger, scoring_mode: ScoringMode) {
        let inference = Inference::new(population, scoring_mode);
        let [newcomer, ..] = inference.infer(Moments::unseen(ledger.dim()));
        self.origin = population.origin;
        let known = self.components.len();
        // Some at a time: beliefs of very many users take more memory than the users.
        for first in (0..ledger.slots()).step_by(64 * USERS_PER_TASK) {
            let last = ledger.slots().min(first + 64 * USERS_PER_TASK);
            // Users that come alone are looked at when they come.
            let in_rounds = |slot: &usize| ledger.user_of(*slot) < known;
            let slots: Vec<usize> = (first..last).filter(in_rounds).collect();
            let beliefs: Vec<EightBeliefs> = (slots.par_chunks(LANES))
                .with_min_len(USERS_PER_TASK / LANES)
                .map(|slots| inference.infer_eight(ledger.moments(slots), slots.len()))
                .collect();
            for (slots, beliefs) in slots.chunks(LANES).zip(beliefs) {
                match beliefs {
                    EightBeliefs::Certain(certain) => self.set_certain(ledger, slots, &certain),
                    EightBeliefs::Mixed(beliefs) => {
                        for (slot, belief) in slots.iter().zip(*beliefs) {
                            self.set_belief(ledger.user_of(*slot), belief, ledger.count(*slot));
                        }
                    }
                }
            }
        }
        // Those who never answered are newcomers for ever.
        for user in 0..known {
            if ledger.slot_of(user).is_none() {
                self.set_belief(user, newcomer.clone(), 0.0);
            }
        }
        self.newcomer = Some(newcomer);
    }

    /// Makes room for more users, of whom nothing was seen.
    pub fn grow(&mut self, users: usize) {
        let known = self.components.len();
        self.make_room(users);
        for user in known..users {
            if let Some(newcomer) = self.newcomer.clone() {
                self.set_belief(user, newcomer, 0.0);
            }
        }
    }

    /// How many users there is room for.
    pub fn users(&self) -> usize {
        self.components.len()
    }

    fn make_room(&mut self, users: usize) {
        let users = users.max(self.components.len());
        self.bank.grow(users);
        self.components.resize(users, 0);
        self.noises.resize(users, 1.0);
        self.undecided.resize_with(users, || None);
    }

    /// Puts users that have one probable component each where their posteriors are these.
    fn set_certain(&mut self, ledger: &Ledger, slots: &[usize], certain: &Certain) {
        let Certain { components, mean, covariance, noise } = certain;
        let first = ledger.user_of(slots[0]);
        let in_a_row = slots.iter().enumerate().all(|(k, slot)| ledger.user_of(*slot) == first + k);
        if slots.len() == LANES && in_a_row && first.is_multiple_of(LANES) {
            let scale = F64x8(std::array::from_fn(|lane| 1.0 / noise[lane]));
            let rewards = F64x8(std::array::from_fn(|lane| ledger.count(slots[lane])));
            self.bank.set_eight(first, mean, covariance, &scale, &rewards);
            self.components[first..first + LANES].copy_from_slice(components);
            self.noises[first..first + LANES].copy_from_slice(&noise.0);
            self.undecided[first..first + LANES].fill_with(|| None);
            return;
        }
        for (lane, slot) in slots.iter().enumerate() {
            let own = mean.iter().map(|lanes| lanes[lane]).collect();
            let packed = covariance.iter().map(|lanes| lanes[lane]).collect();
            let covariance = Symmetric::from_packed(mean.len(), packed);
            let belief = Belief::certain(components[lane], own, covariance, noise[lane]);
            self.set_belief(ledger.user_of(*slot), belief, ledger.count(*slot));
        }
    }

    /// Puts a user where its posterior is this.
    pub fn set_belief(&mut self, user: usize, belief: Belief, rewards: f64) {
        self.noises[user] = belief.noise;
        if let Some((only, covariance)) = belief.only() {
            let mut inverse = covariance.clone();
            for value in inverse.packed_mut() {
                *value /= belief.noise;
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
            *value *= self.noises[user];
        }
        let (component, mean) = (self.components[user], self.bank.estimate(user));
        Belief::certain(component, mean, covariance, self.noises[user])
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
        let noises = &self.noises;
        let radius = |user: usize, progress: Progress| {
            exploration * widening(progress.updates) * noises[user].sqrt()
        };
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
                let radius = width * self.noises[user].sqrt();
                pad(contexts, 0.0, &mut self.padded);
                let padded = padded(&self.padded, contexts);
                self.bank.choose_one(user, &padded, Shape::Ellipsoid, radius)
            }
        }
    }

    /// What is thought of every arm for one user, rewards counted from the origin.
    pub fn score(&mut self, user: usize, contexts: &Contexts, width: f64, scores: &mut [Score]) {
        match &self.undecided[user] {
            Some(belief) => belief.score(contexts, width, scores),
            None => {
                let radius = width * self.noises[user].sqrt();
                pad(contexts, 0.0, &mut self.padded);
                let padded = padded(&self.padded, contexts);
                self.bank.score_one(user, &padded, Shape::Ellipsoid, radius, scores);
                let level = self.bank.estimate(user)[contexts.dim()];
                scores.iter_mut().for_each(|one| one.expected += level);
            }
        }
    }

    /// One reward for everybody.
    pub fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        let origin = self.origin;
        let counted: Vec<f64> = rewards.iter().map(|reward| reward - origin).collect();
        pad(contexts, 1.0, &mut self.padded);
        let padded = padded(&self.padded, contexts);
        self.bank.learn(&padded, arms, &counted);
        (self.undecided.par_iter_mut().zip(arms).zip(&counted)).with_min_len(64).for_each(
            |((belief, arm), y)| {
                if let Some(belief) = belief {
                    belief.learn(padded.arm(*arm), *y);
                }
            },
        );
    }

    /// One reward for one user.
    pub fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        let mut x = context.to_vec();
        x.push(1.0);
        match &mut self.undecided[user] {
            Some(belief) => belief.learn(&x, reward - self.origin),
            None => self.bank.learn_one(user, &x, reward - self.origin),
        }
    }
}

/// Every context with one more coordinate.
fn pad(contexts: &Contexts, last: f64, out: &mut Vec<f64>) {
    out.clear();
    for x in contexts.iter() {
        out.extend_from_slice(x);
        out.push(last);
    }
}

fn padded<'a>(values: &'a [f64], contexts: &Contexts) -> Contexts<'a> {
    Contexts::new(values, contexts.dim() + 1).expect("contexts that were checked")
}
