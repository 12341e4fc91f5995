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
mod saved;

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
    ArmReport, Belief, Explanation, Fit, Inherited, Ledger, Membership, Population, Prior,
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

/// Users from which on refits are spaced more widely, and how fast: a refit costs as much as its users,
/// and what it learns of the population shrinks with them.
const CROWD: f64 = 1024.0;
const CROWD_POWER: f64 = 0.75;

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
            ledger: Ledger::new(0, problem.dim, chosen.half_life),
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
        let level = population.level;
        self.take_on(population, level);
    }

    /// Makes room for more users.
    fn grow(&mut self, users: usize) {
        if users <= self.ledger.users() {
            return;
        }
        self.ledger.grow(users);
        if let Some(everybody) = &mut self.everybody {
            everybody.grow(users);
        }
        if self.settings.thompson {
            self.draws.resize(users, 0);
        }
    }

    /// From one refit to the next. With very many users a refit costs more and tells less that is
    /// new, so they are spaced more widely.
    fn ratio(&self) -> f64 {
        let crowd = (self.ledger.users() as f64 / CROWD).max(1.0);
        1.0 + (self.settings.refit_ratio - 1.0) * crowd.powf(CROWD_POWER)
    }

    /// Refits once the rewards seen have grown by the ratio since the last time.
    fn refit_if_due(&mut self) {
        if !self.is_due() {
            return;
        }
        self.ledger.settle();
        let (warm, given) = (self.prior.as_ref().map(Prior::population), &self.settings.given);
        let level = warm.map_or(0.0, |warm| warm.level);
        if self.everybody.is_none() {
            if let Some(population) = Population::fit_lightly(&self.ledger, warm, given) {
                self.fitted_rewards = self.ledger.rewards();
                self.take_on(population, level);
            }
        } else if let Some(fit) = Population::fit(&self.ledger, warm, given) {
            self.fitted_rewards = self.ledger.rewards();
            self.take_on_fit(fit, level);
        }
    }

    /// Takes on a population that was fitted to rewards counted from a level.
    fn take_on(&mut self, population: Population, level: f64) {
        if self.everybody.is_some() {
            self.ledger.settle();
            let spectra = self.ledger.spectra(level);
            return self.take_on_fit(Fit { population, spectra }, level);
        }
        self.forget_beliefs();
        self.prior = Some(Prior::new(population, level, self.settings.outlook));
    }

    fn forget_beliefs(&mut self) {
        self.carried.clear();
        self.asked.clear();
    }

    /// Everybody's posterior afresh.
    fn take_on_fit(&mut self, fit: Fit, level: f64) {
        self.forget_beliefs();
        if let Some(everybody) = &mut self.everybody {
            everybody.take_on(&fit, &self.ledger, self.settings.outlook);
        }
        self.prior = Some(Prior::new(fit.population, level, self.settings.outlook));
    }

    /// From now on posteriors are carried along: users are served in rounds.
    fn serve_in_rounds(&mut self) {
        if self.everybody.is_some() {
            return;
        }
        self.everybody = Some(Everybody::new(self.ledger.dim()));
        match self.prior.as_ref().map(|prior| (prior.population().clone(), prior.counted_from())) {
            Some((population, level)) => self.take_on(population, level),
            None => self.grow_everybody(),
        }
    }

    fn grow_everybody(&mut self) {
        let users = self.ledger.users();
        if let Some(everybody) = &mut self.everybody {
            everybody.grow(users);
        }
    }

    /// What is believed of one user; of one that is not known what is believed of newcomers.
    fn belief(&self, user: usize) -> Option<Belief> {
        let prior = self.prior.as_ref()?;
        if user >= self.ledger.users() {
            return Some(prior.newcomer().clone());
        }
        Some(match (&self.everybody, self.carried.get(user)) {
            (Some(everybody), _) => everybody.belief(user),
            (None, Some(carried)) => carried.clone(),
            (None, None) => afresh(prior, &self.ledger, user),
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
            _ if user >= self.ledger.users() => 0.0,
            Some(everybody) => everybody.rewards(user, &self.ledger),
            None => self.ledger.rewards_of(user),
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
        argmax(contexts.iter().map(|x| dot(x, &theta)))
    }

    /// Why an arm is played for a user; `None` while there is nothing to explain, or for a user
    /// who is not known.
    pub fn explain(&self, user: usize, contexts: &Contexts) -> Option<Explanation> {
        let population = self.population()?;
        if user >= self.ledger.users() {
            return None;
        }
        let belief = self.belief(user)?;
        let memberships: Vec<Membership> = (belief.guesses.iter())
            .map(|guess| Membership { component: guess.component, share: guess.share })
            .collect();
        let (users, lane) = self.ledger.spectrum_of(user, population.level);
        let inherited = Inherited::new(&users, lane, &memberships, population);
        let width = self.width(user);
        let reports = contexts.iter().map(|x| {
            let (mean, deviation) = belief.predict(x);
            let (own, cohort, at_large) = inherited.parts(x, mean);
            let (mean, population) = (mean + population.level, at_large + population.level);
            let width = width * deviation;
            ArmReport { mean, own, cohort, population, deviation, width, score: mean + width }
        });
        Some(Explanation::new(memberships, reports.collect()))
    }
}

/// What is believed of a user, from its statistics and the population alone.
fn afresh(prior: &Prior, ledger: &Ledger, user: usize) -> Belief {
    prior.believe(&ledger.statistics_from(user, prior.counted_from()))
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
        self.serve_in_rounds();
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
                self.forget_beliefs();
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
        let mut labels: Vec<usize> = (0..self.ledger.users())
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
        let level = prior.population().level;
        match &mut self.everybody {
            _ if user >= self.ledger.users() => {
                prior.newcomer().judge(contexts, width, judgements);
            }
            Some(everybody) => everybody.judge(user, contexts, width, judgements),
            None => {
                if let Some(belief) = self.ask(user) {
                    belief.judge(contexts, width, judgements);
                }
            }
        }
        for judgement in judgements {
            judgement.expected += level;
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
        rewards > 0.0 && rewards >= self.fitted_rewards * self.ratio()
    }

    fn catch_up(&mut self) {
        self.refit_if_due();
    }

    fn job(&mut self) -> Option<Job> {
        if !self.is_due() {
            return None;
        }
        let (ledger, warm) = (self.ledger().clone(), self.population().cloned());
        let given = self.settings.given;
        Some(Box::new(move || {
            let population = Population::fit_lightly(&ledger, warm.as_ref(), &given);
            let level = warm.map_or(0.0, |warm| warm.level);
            saved::write_fitted(ledger.rewards(), level, population.as_ref())
        }))
    }

    fn install(&mut self, found: &[u8]) -> Result<(), Error> {
        let ([rewards, level], population) = saved::read_fitted(found, self.ledger.dim())?;
        self.fitted_rewards = rewards;
        if let Some(population) = population {
            self.take_on(population, level);
        }
        Ok(())
    }

    fn insight(&self) -> Option<&dyn Insight> {
        Some(self)
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }

    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        self.grow(user + 1);
        if let Some(prior) = &self.prior {
            let Population { level, noise, .. } = prior.population();
            match &mut self.everybody {
                Some(everybody) => everybody.learn_one(user, context, reward),
                None => {
                    let (asked, ledger) = (self.asked.take(user), &self.ledger);
                    let believe = || asked.unwrap_or_else(|| afresh(prior, ledger, user));
                    let belief = self.carried.get_or(user, believe);
                    belief.learn(context, reward - level, *noise);
                    if !belief.is_finite() {
                        self.carried.take(user);
                    }
                }
            }
        }
        self.ledger.learn_one(user, context, reward);
    }
}
