//! `cohort`: clustering and personalization in one, told nothing.
//!
//! ```text
//! θ_i ~ Σ_c π_c N(μ_c, τ_c²I)          all of it, and the noise, learned (`population`)
//! every user:      play argmax_x  E⟨x, θ_i⟩ + w·sd⟨x, θ_i⟩   over its mixture posterior
//! every reward:    its user's posterior moves, and its statistics, which are kept for ever
//! at rewards 1, r, r², …:  refit the population from all statistics, and everybody's posterior
//! ```
//!
//! Users that are served in rounds all have their posteriors carried along (`everybody`). Of users
//! that come one at a time nothing is kept but statistics, from which a posterior is worked out when
//! it is asked for (`Prior`); it is carried along only for those, some ten thousand, that had rewards
//! of late (`beliefs`). So a million users take the memory of their statistics, and a refit, which
//! can be done beside decisions, changes everybody at once.
//!
//! Nothing depends on the horizon, and nothing need be set. `mixture`, `labels`, `doubt` and
//! `sigma` take parts away, for comparison.

mod beliefs;
mod chosen;
mod everybody;
mod insight;

use std::sync::LazyLock;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

use crate::cluster::partition::number_by_smallest_member;
use crate::insight::Insight;
use crate::linear::{argmax, dot};
use crate::params::Settings;
use crate::population::{
    ArmReport, Belief, Explanation, Inherited, Ledger, Membership, Moments, Population, Prior,
    memory_of,
};
use crate::registry::PolicyInfo;
use crate::{Arm, Contexts, Error, Job, Judgement, Policy, Problem, Saved, Turns};
use beliefs::Beliefs;
use chosen::Chosen;
use everybody::Everybody;

/// What is known of it before it is made.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "cohort",
    summary: "learns cohorts, spreads and noise, and every user within them; told nothing",
    reference: "the open problem of Ghosh et al., Section 8: both frameworks in one",
    params: &[chosen::PARAMS],
    build: |problem, settings| Ok(Box::new(Cohort::new(problem, settings)?)),
};

/// Draws from which the chances of arms are told, where they are drawn.
const DRAWS: usize = 128;

/// Memory for posteriors that are carried along, and for those that were asked for.
const CARRIED_BYTES: usize = 32 << 20;
const ASKED_BYTES: usize = 8 << 20;

/// The policy.
pub struct Cohort {
    settings: Chosen,
    ledger: Ledger,
    /// What users have in common, as of the last refit.
    prior: Option<Prior>,
    /// How many rewards there were at the last refit.
    fitted_rewards: f64,
    /// Posteriors that are carried along, once users have been served in rounds.
    everybody: Option<Everybody>,
    /// Where users come one at a time: posteriors that were carried along since the last refit …
    carried: Beliefs,
    /// … and some that were asked for, and follow from statistics and population alone.
    asked: Beliefs,
    /// How many decisions each user had, where they are drawn.
    draws: Vec<u64>,
    seed: u64,
}

impl Cohort {
    /// For a problem, of which only the size and the seed are looked at.
    pub fn new(problem: &Problem, settings: &Settings) -> Result<Self, Error> {
        let chosen = Chosen::new(settings);
        let mut cohort = Self {
            ledger: Ledger::new(problem.dim, memory_of(chosen.half_life)),
            settings: chosen,
            prior: None,
            fitted_rewards: 0.0,
            everybody: None,
            carried: Beliefs::new(problem.dim, CARRIED_BYTES),
            asked: Beliefs::new(problem.dim, ASKED_BYTES),
            draws: Vec::new(),
            seed: problem.seed,
        };
        cohort.grow(problem.users);
        Ok(cohort)
    }

    /// What users have in common, as of the last refit.
    pub fn population(&self) -> Option<&Population> {
        self.prior.as_ref().map(Prior::population)
    }

    /// All that was seen: a copy of it and [`Population::fit`] are a refit beside decisions.
    pub fn ledger(&mut self) -> &Ledger {
        self.ledger.settle();
        &self.ledger
    }

    /// Takes on a population that was fitted elsewhere, for what has been seen by now.
    pub fn adopt(&mut self, population: Population) {
        self.ledger.settle();
        self.fitted_rewards = self.ledger.rewards();
        self.take_on(population);
    }

    /// Makes room for more users.
    fn grow(&mut self, users: usize) {
        if let Some(everybody) = &mut self.everybody
            && users > everybody.users()
        {
            everybody.grow(users);
        }
        if self.settings.thompson && users > self.draws.len() {
            self.draws.resize(users, 0);
        }
    }

    /// Refits once the rewards seen have grown by the ratio since the last time.
    fn refit_if_due(&mut self) {
        if !self.is_due() {
            return;
        }
        self.ledger.settle();
        let (warm, given) = (self.prior.as_ref().map(Prior::population), &self.settings.given);
        if let Some(population) = Population::fit(&self.ledger, warm, given) {
            self.fitted_rewards = self.ledger.rewards();
            self.take_on(population);
        }
    }

    /// Takes on a population: everybody's posterior afresh.
    fn take_on(&mut self, population: Population) {
        self.carried.clear();
        self.asked.clear();
        if let Some(everybody) = &mut self.everybody {
            self.ledger.settle();
            everybody.take_on(&population, &self.ledger, self.settings.outlook);
        }
        self.prior = Some(Prior::new(population, self.settings.outlook));
    }

    /// From now on posteriors are carried along: users are served in rounds.
    fn serve_in_rounds(&mut self, users: usize) {
        if self.everybody.is_some() {
            return;
        }
        let mut everybody = Everybody::new(self.ledger.dim());
        everybody.grow(users);
        self.everybody = Some(everybody);
        if let Some(population) = self.prior.as_ref().map(|prior| prior.population().clone()) {
            self.take_on(population);
        }
    }

    /// What is believed of one user; of one that is not known what is believed of newcomers.
    fn belief(&self, user: usize) -> Option<Belief> {
        let prior = self.prior.as_ref()?;
        Some(match (&self.everybody, self.carried.get(user)) {
            (Some(everybody), _) if user < everybody.users() => everybody.belief(user),
            (None, Some(carried)) => carried.clone(),
            _ => afresh(prior, &self.ledger, user),
        })
    }

    /// What is believed of a user that comes alone, worked out where it is not at hand.
    fn ask(&mut self, user: usize) -> Option<&Belief> {
        let prior = self.prior.as_ref()?;
        if self.carried.get(user).is_some() {
            return self.carried.get(user);
        }
        Some(self.asked.get_or(user, || afresh(prior, &self.ledger, user)))
    }

    /// How many standard deviations of optimism a user gets.
    fn width(&self, user: usize) -> f64 {
        let rewards = match &self.everybody {
            Some(everybody) if user < everybody.users() => everybody.rewards(user, &self.ledger),
            _ => self.ledger.rewards_of(user),
        };
        self.settings.exploration * widening(rewards)
    }

    /// Arms before anything is known: everybody another one.
    fn blind(&self, user: usize, contexts: &Contexts) -> Arm {
        (user + self.ledger.rewards_of(user) as usize) % contexts.arms()
    }

    /// An arm drawn with the probability that it is the best.
    fn draw(&self, user: usize, belief: &Belief, contexts: &Contexts) -> Arm {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(user as u64);
        rng.set_word_pos(u128::from(self.draws[user]) << 20);
        let theta = belief
            .draw(self.settings.exploration, rng.random(), || StandardNormal.sample(&mut rng));
        argmax(contexts.iter().map(|x| dot(x, &theta[..x.len()])))
    }

    fn last_user(&self) -> usize {
        let users = (0..self.ledger.slots()).map(|slot| self.ledger.user_of(slot));
        users.filter(|user| *user != usize::MAX).max().unwrap_or(0)
    }

    /// Why an arm is played for a user; `None` while there is nothing to explain, or for a user
    /// who is not known.
    pub fn explain(&self, user: usize, contexts: &Contexts) -> Option<Explanation> {
        let population = self.population()?;
        if !self.knows(user) {
            return None;
        }
        let belief = self.belief(user)?;
        let memberships: Vec<Membership> = (belief.guesses())
            .map(|guess| Membership { component: guess.component, share: guess.share })
            .collect();
        let users = match self.ledger.slot_of(user) {
            Some(slot) => self.ledger.moments(&[slot]),
            None => Moments::unseen(self.ledger.dim()),
        };
        let inherited = Inherited::new(users, &memberships, population);
        let (width, level) = (self.width(user), belief.level());
        let reports = contexts.iter().map(|x| {
            let (mean, deviation) = belief.predict(x);
            let (own, cohort, at_large) = inherited.parts(x, mean + level);
            let (mean, population) =
                (mean + level + population.origin, at_large + population.origin);
            let width = width * deviation;
            ArmReport { mean, own, cohort, population, deviation, width, score: mean + width }
        });
        Some(Explanation::new(memberships, reports.collect()))
    }

    /// Whether a user has answered, or is served in rounds.
    fn knows(&self, user: usize) -> bool {
        let in_rounds = self.everybody.as_ref().is_some_and(|all| user < all.users());
        in_rounds || self.ledger.rewards_of(user) > 0.0
    }
}

/// What is believed of a user, from its statistics and the population alone.
fn afresh(prior: &Prior, ledger: &Ledger, user: usize) -> Belief {
    match ledger.slot_of(user) {
        Some(slot) => prior.believe(ledger, slot),
        None => prior.newcomer().clone(),
    }
}

/// How many standard deviations of optimism a user with so many rewards gets.
fn widening(rewards: f64) -> f64 {
    let whole = rewards as usize;
    match FIRST_WIDENINGS.get(whole) {
        Some(known) if whole as f64 == rewards => *known,
        _ => (1.0 + 0.5 * rewards.ln_1p()).sqrt(),
    }
}

/// Every user needs one in every round, and logarithms are slow.
static FIRST_WIDENINGS: LazyLock<Vec<f64>> = LazyLock::new(|| {
    (0..4096).map(|rewards| (1.0 + 0.5 * f64::from(rewards).ln_1p()).sqrt()).collect()
});

impl Policy for Cohort {
    fn choose(&mut self, contexts: &Contexts, arms: &mut [Arm]) {
        self.grow(arms.len());
        self.serve_in_rounds(arms.len());
        self.refit_if_due();
        if self.prior.is_none() {
            for (user, arm) in arms.iter_mut().enumerate() {
                *arm = self.blind(user, contexts);
            }
            return;
        }
        if self.settings.thompson {
            arms.par_iter_mut().enumerate().for_each(|(user, arm)| {
                if let Some(belief) = self.belief(user) {
                    *arm = self.draw(user, &belief, contexts);
                }
            });
            for draws in &mut self.draws {
                *draws += 1;
            }
        } else if let Some(everybody) = &mut self.everybody {
            everybody.choose(contexts, self.settings.exploration, &self.ledger, arms);
        }
    }

    fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        self.grow(arms.len());
        self.ledger.learn(contexts, arms, rewards);
        match &mut self.everybody {
            Some(everybody) if self.prior.is_some() => everybody.learn(contexts, arms, rewards),
            Some(_) => {}
            None => {
                self.ledger.settle();
                self.carried.clear();
                self.asked.clear();
            }
        }
    }

    /// The most probable component of every user. Once there are cohorts, a user of none of them
    /// is a cluster by itself; until then all are one.
    fn clusters(&self) -> Option<Vec<usize>> {
        let count = self.population()?.components.len();
        let component = |user: usize| match &self.everybody {
            Some(everybody) => everybody.component(user),
            None => self.belief(user).map_or(0, |belief| belief.likeliest().component),
        };
        let users = self.everybody.as_ref().map_or_else(|| self.last_user() + 1, Everybody::users);
        let mut labels: Vec<usize> = (0..users)
            .into_par_iter()
            .with_min_len(64)
            .map(|user| match component(user) {
                0 if count > 1 => count + user,
                component => component,
            })
            .collect();
        number_by_smallest_member(&mut labels);
        Some(labels)
    }

    fn turns(&mut self) -> Option<&mut dyn Turns> {
        Some(self)
    }
}

impl Turns for Cohort {
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm {
        self.grow(user + 1);
        self.refit_if_due();
        let width = self.width(user);
        if self.prior.is_none() {
            return self.blind(user, contexts);
        }
        if self.settings.thompson {
            let arm = self.belief(user).map_or(0, |belief| self.draw(user, &belief, contexts));
            self.draws[user] += 1;
            return arm;
        }
        match &mut self.everybody {
            Some(everybody) => everybody.choose_one(user, contexts, width),
            None => self.ask(user).map_or(0, |belief| belief.choose(contexts, width)),
        }
    }

    /// As `decide` with the rule `ucb`, on what was fitted last. Before the first refit nothing is
    /// known, and all arms are alike.
    fn judge(&mut self, user: usize, contexts: &Contexts, judgements: &mut [Judgement]) {
        judgements.fill(Judgement::default());
        let width = self.width(user);
        let Some(prior) = &self.prior else { return };
        let origin = prior.population().origin;
        match &mut self.everybody {
            Some(everybody) if user < everybody.users() => {
                everybody.judge(user, contexts, width, judgements);
            }
            _ if self.ledger.slot_of(user).is_none() => {
                prior.newcomer().judge(contexts, width, judgements);
            }
            _ => {
                if let Some(belief) = self.ask(user) {
                    belief.judge(contexts, width, judgements);
                }
            }
        }
        for judgement in judgements {
            judgement.expected += origin;
        }
    }

    fn chances(
        &mut self,
        user: usize,
        contexts: &Contexts,
        seed: u64,
        chances: &mut [f64],
    ) -> bool {
        if !self.settings.thompson {
            return false;
        }
        match self.belief(user) {
            None => chances.fill(1.0 / contexts.arms() as f64),
            Some(belief) => {
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                let scale = self.settings.exploration;
                let best = belief.draw_many(contexts, scale, DRAWS, &mut rng);
                for (chance, best) in chances.iter_mut().zip(best) {
                    *chance = best as f64 / DRAWS as f64;
                }
            }
        }
        true
    }

    fn is_due(&self) -> bool {
        let rewards = self.ledger.rewards();
        rewards > 0.0 && rewards >= self.fitted_rewards * self.settings.refit_ratio
    }

    fn catch_up(&mut self) {
        self.refit_if_due();
    }

    fn insight(&self) -> Option<&dyn Insight> {
        Some(self)
    }

    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        self.grow(user + 1);
        if let Some(prior) = &self.prior {
            let origin = prior.population().origin;
            match &mut self.everybody {
                Some(everybody) => everybody.learn_one(user, context, reward),
                None => {
                    let (asked, ledger) = (self.asked.take(user), &self.ledger);
                    let believe = || asked.unwrap_or_else(|| afresh(prior, ledger, user));
                    let belief = self.carried.get_or(user, believe);
                    let mut x = context.to_vec();
                    x.push(1.0);
                    belief.learn(&x, reward - origin);
                    if !belief.is_finite() {
                        self.carried.take(user);
                    }
                }
            }
        }
        self.ledger.learn_one(user, context, reward);
    }
}
