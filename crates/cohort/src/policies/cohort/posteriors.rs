//! The posterior of every user, updated from one refit to the next: for users that are served in
//! rounds.
//!
//! A user with one probable component is one OFUL learner with that component as its prior, so
//! nearly all users live in a [`Bank`]. Eight users of whom some may belong to several have
//! [`LaneBeliefs`]; the bank holds the moments of their mixture, so that all users choose by one
//! kernel. Learners know (θ, level): they choose by contexts (x, 0) and learn from (x, 1).

use rayon::prelude::*;

use super::width::Widths;
use crate::algebra::packed_len;
use crate::linear::{Bank, Progress, Shape, Symmetric};
use crate::population::{
    Belief, CertainBeliefs, EightBeliefs, Inference, LaneBeliefs, Ledger, Moments, Population,
    ScoringMode,
};
use crate::simd::{F64x8, LANES};
use crate::{Arm, Contexts, Score};

/// The posterior of every user.
#[derive(Clone)]
pub(super) struct Posteriors {
    /// All users: V⁻¹ is the posterior covariance over σ².
    pub(super) bank: Bank,
    /// The component of users that have one probable component.
    pub(super) components: Vec<usize>,
    /// Eight users each of whom some may belong to several.
    undecided: Vec<Option<Box<LaneBeliefs>>>,
    /// The belief about new users.
    pub(super) newcomer: Option<Belief>,
    /// σ_i² of every user.
    pub(super) noises: Vec<f64>,
    /// The origin of rewards in the population that posteriors use.
    pub(super) origin: f64,
    /// Contexts with a last coordinate.
    pub(super) padded: Vec<f64>,
}

/// Users whose posteriors are worked out by one task.
const USERS_PER_TASK: usize = 1024;

impl Posteriors {
    /// Without users, in R^d.
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

    /// Recomputes all posteriors.
    pub fn install_fit(
        &mut self,
        population: &Population,
        ledger: &Ledger,
        scoring_mode: ScoringMode,
    ) {
        let inference = Inference::new(population, scoring_mode);
        let [newcomer, ..] = inference.infer(Moments::unseen(ledger.dim()));
        self.origin = population.origin;
        let known = self.components.len();
        // In batches: beliefs of very many users take more memory than the users.
        for first in (0..known).step_by(64 * USERS_PER_TASK) {
            let last = known.min(first + 64 * USERS_PER_TASK);
            let blocks: Vec<usize> = (first..last).step_by(LANES).collect();
            let beliefs: Vec<EightBeliefs> = (blocks.par_iter())
                .with_min_len(USERS_PER_TASK / LANES)
                .map(|first| {
                    let count = LANES.min(known - first);
                    inference.infer_eight(moments_of_users(ledger, *first, count), count)
                })
                .collect();
            for (first, beliefs) in blocks.into_iter().zip(beliefs) {
                let rewards = F64x8(std::array::from_fn(|lane| ledger.rewards_of(first + lane)));
                match beliefs {
                    EightBeliefs::CertainBeliefs(certain) => {
                        self.set_certain(first, &certain, &rewards)
                    }
                    EightBeliefs::Mixed(beliefs) => self.set_mixed(first, beliefs, &rewards),
                }
            }
        }
        self.newcomer = Some(newcomer);
    }

    /// Adds new users.
    pub fn grow(&mut self, users: usize) {
        let known = self.components.len();
        self.make_room(users);
        for user in known..users {
            if let Some(newcomer) = self.newcomer.clone() {
                self.set_belief(user, newcomer, 0.0);
            }
        }
    }

    /// Restores saved posteriors: users without a belief have one probable component each.
    pub(super) fn restore(
        &mut self,
        bank: Bank,
        components: Vec<usize>,
        noises: Vec<f64>,
        mut beliefs: Vec<Option<Belief>>,
    ) {
        (self.bank, self.components, self.noises) = (bank, components, noises);
        self.make_room(0);
        for (block, beliefs) in beliefs.chunks_mut(LANES).enumerate() {
            if beliefs.iter().any(Option::is_some) {
                let updates = self.bank.updates_of_eight(block * LANES);
                self.set_beliefs(block * LANES, &updates, |lane| beliefs.get_mut(lane)?.take());
            }
        }
    }

    /// The number of users.
    pub fn users(&self) -> usize {
        self.components.len()
    }

    fn make_room(&mut self, users: usize) {
        let users = users.max(self.components.len());
        self.bank.grow(users);
        self.components.resize(users, 0);
        self.noises.resize(users, 1.0);
        self.undecided.resize_with(users.div_ceil(LANES), || None);
    }

    /// Puts eight users that have one probable component each where their posteriors are these.
    fn set_certain(&mut self, first: usize, certain: &CertainBeliefs, rewards: &F64x8) {
        let CertainBeliefs { components, mean, covariance, noise } = certain;
        let scale = F64x8(std::array::from_fn(|lane| 1.0 / noise[lane]));
        self.bank.set_eight(first, mean, covariance, &scale, rewards);
        let last = self.components.len().min(first + LANES);
        self.components[first..last].copy_from_slice(&components[..last - first]);
        self.noises[first..last].copy_from_slice(&noise[..last - first]);
        self.undecided[first / LANES] = None;
    }

    /// Puts eight users where their posteriors are these.
    fn set_mixed(&mut self, first: usize, beliefs: Box<LaneBeliefs>, rewards: &F64x8) {
        let last = self.components.len().min(first + LANES);
        self.noises[first..last].copy_from_slice(&beliefs.noise()[..last - first]);
        show(&beliefs, first, &mut self.bank, rewards);
        self.undecided[first / LANES] = Some(beliefs);
    }

    /// Puts a user where its posterior is this.
    pub fn set_belief(&mut self, user: usize, belief: Belief, rewards: f64) {
        let (first, lane) = (user - user % LANES, user % LANES);
        let only = belief.only().filter(|_| self.undecided[first / LANES].is_none());
        if let Some((only, covariance)) = only {
            let mut inverse = covariance.clone();
            for value in inverse.packed_mut() {
                *value /= belief.noise;
            }
            self.bank.set_state(user, &only.mean, &inverse, rewards);
            self.components[user] = only.component;
            self.noises[user] = belief.noise;
            return;
        }
        let mut updates = self.bank.updates_of_eight(first);
        updates[lane] = rewards;
        let mut belief = Some(belief);
        self.set_beliefs(first, &updates, |at| if at == lane { belief.take() } else { None });
    }

    /// Puts eight users where their posteriors are these; those of whom nothing is said stay where they are.
    fn set_beliefs(
        &mut self,
        first: usize,
        updates: &F64x8,
        mut said: impl FnMut(usize) -> Option<Belief>,
    ) {
        let known = self.components.len();
        let beliefs: [Belief; LANES] = std::array::from_fn(|lane| match said(lane) {
            Some(belief) => belief,
            None => self.belief((first + lane).min(known - 1)),
        });
        let lanes = LaneBeliefs::from_beliefs(self.bank.dim(), &beliefs);
        self.set_mixed(first, Box::new(lanes), updates);
    }

    /// The belief about one user.
    pub fn belief(&self, user: usize) -> Belief {
        if let Some(beliefs) = &self.undecided[user / LANES] {
            return beliefs.belief(user % LANES);
        }
        let mut covariance: Symmetric = self.bank.inverse(user);
        for value in covariance.packed_mut() {
            *value *= self.noises[user];
        }
        let (component, mean) = (self.components[user], self.bank.estimate(user));
        Belief::certain(component, mean, covariance, self.noises[user])
    }

    /// The stored belief about a user whose block has users with several probable components.
    pub(super) fn undecided(&self, user: usize) -> Option<Belief> {
        self.undecided[user / LANES].as_ref().map(|beliefs| beliefs.belief(user % LANES))
    }

    /// The most probable component of one user.
    pub fn component(&self, user: usize) -> usize {
        (self.undecided[user / LANES].as_ref())
            .map_or(self.components[user], |beliefs| beliefs.likeliest(user % LANES))
    }

    /// How many rewards its posterior rests on.
    pub fn rewards(&self, user: usize) -> f64 {
        self.bank.progress(user).updates
    }

    /// An arm for every user, by the upper confidence bound.
    pub fn choose(&mut self, contexts: &Contexts, widths: &Widths, arms: &mut [Arm]) {
        let noises = &self.noises;
        let radius =
            |user: usize, progress: Progress| widths.of(progress.updates) * noises[user].sqrt();
        self.bank.choose(contexts, Shape::Ellipsoid, radius, None, arms);
    }

    /// An arm for one user, by so much optimism.
    pub fn choose_one(&mut self, user: usize, contexts: &Contexts, width: f64) -> Arm {
        let radius = width * self.noises[user].sqrt();
        pad(contexts, 0.0, &mut self.padded);
        let padded = padded(&self.padded, contexts);
        self.bank.choose_one(user, &padded, Shape::Ellipsoid, radius)
    }

    /// The scores of every arm for one user, rewards counted from the origin.
    pub fn score(&mut self, user: usize, contexts: &Contexts, width: f64, scores: &mut [Score]) {
        let radius = width * self.noises[user].sqrt();
        pad(contexts, 0.0, &mut self.padded);
        let padded = padded(&self.padded, contexts);
        self.bank.score_one(user, &padded, Shape::Ellipsoid, radius, scores);
        let level = self.bank.estimate(user)[contexts.dim()];
        scores.iter_mut().for_each(|one| one.expected += level);
    }

    /// One reward for every user.
    pub fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        let origin = self.origin;
        let counted: Vec<f64> = rewards.iter().map(|reward| reward - origin).collect();
        pad(contexts, 1.0, &mut self.padded);
        let padded = padded(&self.padded, contexts);
        let lessons = self.undecided.par_iter_mut().enumerate();
        let learn = |(block, beliefs): (usize, &mut Option<Box<LaneBeliefs>>)| {
            let players = block * LANES..arms.len().min((block + 1) * LANES);
            if let Some(beliefs) = beliefs.as_mut().filter(|_| !players.is_empty()) {
                let x: Vec<&[f64]> =
                    arms[players.clone()].iter().map(|arm| padded.arm(*arm)).collect();
                let of = |lane: usize, j: usize| x.get(lane).map_or(0.0, |x| x[j]);
                let lanes = |of: &dyn Fn(usize) -> f64| F64x8(std::array::from_fn(of));
                let row: Vec<F64x8> =
                    (0..padded.dim()).map(|j| lanes(&|lane| of(lane, j))).collect();
                let y = lanes(&|lane| counted.get(block * LANES + lane).copied().unwrap_or(0.0));
                beliefs.learn(&row, &y, &lanes(&|lane| f64::from(lane < x.len())));
            }
        };
        lessons.with_min_len(16).for_each(learn);
        let Self { bank, undecided, .. } = self;
        for (block, beliefs) in undecided.iter().enumerate() {
            if let Some(beliefs) = beliefs {
                let played = |user: usize| f64::from(user < arms.len());
                let updates = bank.updates_of_eight(block * LANES);
                let updates =
                    F64x8(std::array::from_fn(|lane| updates[lane] + played(block * LANES + lane)));
                show(beliefs, block * LANES, bank, &updates);
            }
        }
        bank.learn_some(&padded, arms, &counted, |user| undecided[user / LANES].is_none());
    }

    /// One reward for one user.
    pub fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        let mut x = context.to_vec();
        x.push(1.0);
        let (first, lane, y) = (user - user % LANES, user % LANES, reward - self.origin);
        let Some(beliefs) = &mut self.undecided[first / LANES] else {
            return self.bank.learn_one(user, &x, y);
        };
        let only =
            |value: f64| F64x8(std::array::from_fn(|at| if at == lane { value } else { 0.0 }));
        let row: Vec<F64x8> = x.iter().map(|x| only(*x)).collect();
        let mut updates = self.bank.updates_of_eight(first);
        updates[lane] += 1.0;
        beliefs.learn(&row, &only(y), &only(1.0));
        show(beliefs, first, &mut self.bank, &updates);
    }
}

/// Writes the moments of eight users' beliefs into the bank.
fn show(beliefs: &LaneBeliefs, first: usize, bank: &mut Bank, updates: &F64x8) {
    let dim = bank.dim();
    let mut numbers = vec![F64x8::splat(0.0); dim + packed_len(dim)];
    let (mean, covariance) = numbers.split_at_mut(dim);
    beliefs.moments(mean, covariance);
    let scale = F64x8(beliefs.noise().map(|noise| 1.0 / noise));
    bank.set_eight(first, mean, covariance, &scale, updates);
}

/// What was seen of users from `first` on; nothing of those who never answered.
fn moments_of_users(ledger: &Ledger, first: usize, count: usize) -> Moments {
    let known = (0..count).filter_map(|lane| Some((lane, ledger.slot_of(first + lane)?)));
    let (lanes, slots): (Vec<usize>, Vec<usize>) = known.unzip();
    let moments = ledger.moments(&slots);
    if slots.len() == count { moments } else { moments.placed(&lanes) }
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
