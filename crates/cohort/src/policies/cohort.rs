//! `cohort`: clustering and personalization in one model, without tuning parameters.
//!
//! ```text
//! θ_i ~ π_0 N(μ_0, S_0) + Σ_c π_c N(μ_c, S_1)   all of it, and the noise, learned (`population`)
//! every user:      play argmax_x  E⟨x, θ_i⟩ + w·sd⟨x, θ_i⟩   over its mixture posterior (`width`)
//!                  before its first reward in part drawn, for every user anew (`Prior`)
//! every reward:    its user's posterior moves, and its statistics, which are kept for ever
//! when rewards have grown by `refit_ratio`:  refit the population, and with it all posteriors (`online::due_at`)
//! ```
//!
//! A population with cohorts is fitted beside one without, and used as long as it predicts the
//! rewards of some users ([`Panel`]) better ([`Fitted`]).
//!
//! Users that are served in rounds have stored posteriors, which every reward updates
//! (`posteriors`). Of users that come one at a time (`online`) only sufficient statistics are
//! stored; their posterior is computed on demand (`Prior`), and stored only for users with
//! recent rewards, as many as fit into 32 MiB (`store`). So a million users take the memory of their statistics, and
//! a refit, which can run in parallel with decisions, changes all posteriors at once. Users without
//! rewards take no memory.
//!
//! The same panel detects drift (`drift`): if users' histories mislead, everything is learned anew.
//!
//! Nothing depends on the horizon, and no parameter has to be set. `mixture`, `labels`, `doubt` and
//! `sigma` remove parts of the model, for ablations.

mod belief_cache;
mod codec;
mod drift;
mod insight;
mod old_layouts;
mod online;
mod pacing;
mod posteriors;
mod saved;
mod settings;
mod shared;
mod store;
mod width;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

use crate::builder::builder;
use crate::cluster::partition::number_by_smallest_member;
use crate::insight::Insight;
use crate::linear::{argmax, dot};
use crate::params::Settings;
use crate::population::{
    Belief, Fitted, Ledger, Panel, Population, Prior, mean_rewards, memory_of, unexplored,
};
use crate::registry::PolicyInfo;
use crate::{Arm, Contexts, Error, OnlinePolicy, Policy, Problem, Refits, Saved};
use drift::Watch;
use posteriors::Posteriors;
use settings::CohortSettings;
use store::Store;
use width::Widths;

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "cohort",
    summary: "learns cohorts, spreads and noise, and every user within them; told nothing",
    reference: "the open problem of Ghosh et al., Section 8: both frameworks in one",
    params: &[settings::PARAMS],
    build: |problem, settings| Ok(Box::new(Cohort::new(problem, settings)?)),
};

builder! {
    exploration: real, exploration_rule: choice, refit_ratio: real, half_life: real_or,
    mixture: choice, directions: choice, labels: choice, doubt: choice, sigma: real,
}

/// The number of draws by which propensities are estimated for Thompson sampling.
const DRAWS: usize = 128;

/// Memory for the statistics of retired users, and the first of the anonymous ids they get: they
/// still inform the population model.
const RETIRED_BYTES: usize = 8 << 20;
const FIRST_RETIRED: usize = usize::MAX - (1 << 16);

/// The most unused user numbers per user with rewards in a list of all users.
const GAPS: usize = 1024;

/// The policy.
pub struct Cohort {
    settings: CohortSettings,
    ledger: Ledger,
    /// The result of the last refit …
    fitted: Option<Fitted>,
    /// … and the prior of users that follows from it.
    prior: Option<Prior>,
    /// The widths of the exploration bonus.
    widths: Widths,
    /// The users on whose rewards the population is validated.
    panel: Option<Panel>,
    /// The number of rewards at the last refit over all users.
    fitted_rewards: f64,
    /// The mean number of rewards of frequent users at the last refit.
    fitted_each: f64,
    /// A refit in progress, for users that come one at a time.
    refit: Option<pacing::Refit>,
    /// The posteriors of users.
    store: Store,
    /// Drift detection.
    watch: Watch,
    /// The number of Thompson draws so far, for one user or for all in a round.
    draws: u64,
    seed: u64,
}

impl Cohort {
    /// For a problem, of which only the size and the seed are used.
    pub fn new(problem: &Problem, settings: &Settings) -> Result<Self, Error> {
        let settings = CohortSettings::new(settings);
        Ok(Self {
            ledger: Ledger::new(problem.dim, memory_of(settings.half_life)),
            widths: Widths::new(settings.exploration, None, problem.dim, 0.0),
            settings,
            fitted: None,
            prior: None,
            panel: None,
            fitted_rewards: 0.0,
            fitted_each: 0.0,
            refit: None,
            store: Store::new(problem.dim),
            watch: Watch::default(),
            draws: 0,
            seed: problem.seed,
        })
    }

    /// The population model of the last refit.
    pub fn population(&self) -> Option<&Population> {
        self.prior.as_ref().map(Prior::population)
    }

    /// The statistics of all users: a copy of it and [`Population::fit`] make a refit that runs in
    /// parallel with decisions.
    pub fn ledger(&mut self) -> &Ledger {
        self.ledger.settle();
        &self.ledger
    }

    /// Installs a population that was fitted elsewhere to the present statistics.
    pub fn adopt(&mut self, population: Population) {
        self.ledger.settle();
        (self.fitted_rewards, self.fitted_each) =
            (self.ledger.rewards(), mean_rewards(&self.ledger));
        self.install_fit(Fitted::only(population));
    }

    /// Adds users that are served in rounds.
    fn grow(&mut self, users: usize) {
        let Some(posteriors) = &mut self.store.rounds else { return };
        let known = posteriors.users();
        if users <= known {
            return;
        }
        posteriors.grow(users);
        let Some(prior) = &self.prior else { return };
        // Some of them may have come one at a time before.
        self.ledger.settle();
        for user in known..users {
            let Some(slot) = self.ledger.slot_of(user) else { continue };
            let belief = self.store.updated.take(slot);
            let belief = belief.unwrap_or_else(|| prior.infer(&self.ledger, slot));
            posteriors.set_belief(user, belief, self.ledger.count(slot));
        }
    }

    /// Refits once the rewards seen have grown by the ratio since the last time.
    fn refit_if_due(&mut self) {
        self.finish_refit();
        let Some(extent) = self.due() else { return };
        self.ledger.settle();
        let (before, panel) = (self.fitted.as_ref(), self.panel.as_ref());
        let (given, scoring_mode) = (&self.settings.given, self.settings.scoring_mode);
        let found = Fitted::fit(&self.ledger, before, panel, given, scoring_mode, extent);
        let (rewards, each) = (self.rewards_at_refit(extent), mean_rewards(&self.ledger));
        self.take_result(found, rewards, each);
    }

    /// Installs the result of a fit and recomputes all posteriors.
    fn install_fit(&mut self, fitted: Fitted) {
        self.refit = None;
        self.ledger.settle();
        self.store.clear_online();
        let population = fitted.used().clone();
        if let Some(posteriors) = &mut self.store.rounds {
            posteriors.install_fit(&population, &self.ledger, self.settings.scoring_mode);
        }
        self.prior = Some(self.prior_of(&fitted));
        self.widths = self.widths_of(Some(&fitted));
        self.panel = Some(Panel::new(&self.ledger));
        self.fitted = Some(fitted);
    }

    /// The prior of users that come one at a time, after a fit.
    fn prior_of(&self, fitted: &Fitted) -> Prior {
        let unexplored = if fitted.found.searched > 0.0 {
            0.0
        } else {
            unexplored(self.fitted_rewards, fitted.found.used_features())
        };
        Prior::new(fitted.used().clone(), self.settings.scoring_mode, unexplored)
    }

    /// The widths of the bonus after a fit.
    fn widths_of(&self, fitted: Option<&Fitted>) -> Widths {
        let recurrence = fitted.map(|fitted| fitted.recurrence);
        let rewards = mean_rewards(&self.ledger);
        let dim = fitted.map_or(self.ledger.dim(), |fitted| fitted.found.used_features());
        Widths::new(self.settings.exploration, recurrence, dim, rewards)
    }

    /// Stores posteriors from now on: users are served in rounds.
    fn serve_in_rounds(&mut self, users: usize) {
        if self.store.rounds.is_some() {
            return;
        }
        let mut posteriors = Posteriors::new(self.ledger.dim());
        posteriors.grow(users);
        if let Some(prior) = &self.prior {
            self.ledger.settle();
            posteriors.install_fit(prior.population(), &self.ledger, self.settings.scoring_mode);
            self.store.clear_online();
        }
        self.store.rounds = Some(posteriors);
    }

    /// The belief about one user; that about new users if it has no rewards.
    fn belief(&self, user: usize) -> Option<Belief> {
        let prior = self.prior.as_ref()?;
        if let Some(posteriors) = self.store.in_rounds(user) {
            return Some(posteriors.belief(user));
        }
        let Some(slot) = self.ledger.slot_of(user) else { return Some(prior.newcomer().clone()) };
        let updated = self.store.updated.get(slot).cloned();
        Some(updated.unwrap_or_else(|| prior.infer(&self.ledger.settled(), slot)))
    }

    /// The width of a user's bonus, in standard deviations.
    fn width(&self, user: usize) -> f64 {
        match (self.store.in_rounds(user), self.ledger.rewards_of(user)) {
            (Some(posteriors), _) => self.widths.of(posteriors.rewards(user)),
            (None, rewards) => self.widths.of(rewards),
        }
    }

    /// Before the first fit, every user plays arms in turn, from a start that is a hash of its number: users whose
    /// numbers follow a pattern (every tenth one is of a kind) must not begin with a pattern of arms.
    fn round_robin_arm(&self, user: usize, contexts: &Contexts) -> Arm {
        let start = (user as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let start = ((start ^ (start >> 32)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as usize;
        (start + self.ledger.rewards_of(user) as usize) % contexts.arms()
    }

    /// An arm drawn with the probability that it is the best.
    fn draw(&self, user: usize, belief: &Belief, contexts: &Contexts) -> Arm {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(user as u64);
        rng.set_word_pos(u128::from(self.draws) << 20);
        let theta = belief
            .draw(self.settings.exploration, rng.random(), || StandardNormal.sample(&mut rng));
        argmax(contexts.iter().map(|x| dot(x, &theta[..x.len()])))
    }

    /// The length of a list of all users; `None` where most of it would be unused numbers.
    fn numbered(&self) -> Option<usize> {
        let slots = self.ledger.slots();
        let known = (0..slots).map(|slot| self.ledger.user_of(slot));
        let last = known.filter(|user| *user < FIRST_RETIRED).max();
        let in_rounds = self.store.users_in_rounds();
        let users = last.map_or(0, |last| last + 1).max(in_rounds);
        (users <= GAPS * (slots + in_rounds)).then_some(users)
    }

    /// Whether a user has rewards or is served in rounds.
    fn knows(&self, user: usize) -> bool {
        self.store.in_rounds(user).is_some() || self.ledger.rewards_of(user) > 0.0
    }
}

impl Policy for Cohort {
    fn choose(&mut self, contexts: &Contexts, arms: &mut [Arm]) {
        self.grow(arms.len());
        self.serve_in_rounds(arms.len());
        self.refit_if_due();
        if self.prior.is_none() {
            for (user, arm) in arms.iter_mut().enumerate() {
                *arm = self.round_robin_arm(user, contexts);
            }
            return;
        }
        if self.settings.thompson {
            arms.par_iter_mut().enumerate().for_each(|(user, arm)| {
                if let Some(belief) = self.belief(user) {
                    *arm = self.draw(user, &belief, contexts);
                }
            });
            self.draws += 1;
        } else if let Some(posteriors) = &mut self.store.rounds {
            posteriors.choose(contexts, &self.widths, arms);
        }
    }

    fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        self.grow(arms.len());
        if let Some(panel) = &mut self.panel {
            panel.see_round(contexts, arms, rewards, &self.ledger);
        }
        self.ledger.learn(contexts, arms, rewards);
        match &mut self.store.rounds {
            Some(posteriors) if self.prior.is_some() => posteriors.learn(contexts, arms, rewards),
            Some(_) => {}
            None => {
                self.ledger.settle();
                self.store.clear_online();
            }
        }
        self.look_for_drift();
    }

    /// The most probable component of every user. Once there are cohorts, a user of no cohort is a
    /// cluster by itself; until then all users are one cluster. `None` where user numbers are
    /// sparse ids.
    fn clusters(&self) -> Option<Vec<usize>> {
        let count = self.population()?.components.len();
        let component = |user: usize| match self.store.in_rounds(user) {
            Some(posteriors) => posteriors.component(user),
            None => self.belief(user).map_or(0, |belief| belief.likeliest().component),
        };
        let users = self.numbered()?;
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

    fn online(&mut self) -> Option<&mut dyn OnlinePolicy> {
        Some(self)
    }

    fn refits(&mut self) -> Option<&mut dyn Refits> {
        Some(self)
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        // State is saved between two refits, never within one.
        self.finish_refit();
        Some(self)
    }

    fn insight(&self) -> Option<&dyn Insight> {
        Some(self)
    }
}
