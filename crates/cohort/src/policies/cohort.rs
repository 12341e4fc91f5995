//! `cohort`: clustering and personalization in one, told nothing.
//!
//! ```text
//! θ_i ~ Σ_c π_c N(μ_c, τ_c²I)          all of it, and the noise, learned (`population`)
//! every user:      play argmax_x  E⟨x, θ_i⟩ + w·sd⟨x, θ_i⟩   over its mixture posterior
//! every reward:    its user's posterior moves, and its statistics, which are kept for ever
//! at rewards 1, r, r², …:  refit the population from all statistics, and everybody's posterior
//! ```
//!
//! A user with one probable component is one OFUL learner with that component as its prior, so
//! nearly all users live in a [`Bank`]; those that may belong to several have a [`Belief`].
//! Nothing depends on the horizon, and nothing need be set. `mixture`, `labels`, `doubt` and
//! `sigma` take parts away, for comparison.

mod insight;
mod saved;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

use crate::cluster::partition::number_by_smallest_member;
use crate::insight::Insight;
use crate::linear::{Bank, Progress, Shape, Symmetric, argmax, dot};
use crate::params::{Kind, NOT_NEGATIVE, POSITIVE, Param, Settings};
use crate::population::{
    ArmReport, Belief, Believer, Explanation, Fit, Given, Inherited, Ledger, Membership, Outlook,
    Population, Spectrum,
};
use crate::registry::PolicyInfo;
use crate::{Arm, Contexts, Error, Judgement, Policy, Problem, Saved, Turns};

/// What is known of it before it is made.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "cohort",
    summary: "learns cohorts, spreads and noise, and every user within them; told nothing",
    reference: "the open problem of Ghosh et al., Section 8: both frameworks in one",
    params: &[PARAMS],
    build: |problem, settings| Ok(Box::new(Cohort::new(problem, settings)?)),
};

const RATIO: Kind = Kind::Real(std::ops::Bound::Excluded(1.0), std::ops::Bound::Included(10.0));

const PARAMS: &[Param] = &[
    Param::real("exploration", NOT_NEGATIVE, 1.0, "multiplies the width; 1 = as it should be"),
    Param::choice(
        "exploration_rule",
        &["ucb", "thompson"],
        "optimism on the posterior, or an arm drawn from it",
    ),
    Param::real("refit_ratio", RATIO, 1.25, "rewards seen from one refit to the next, as a ratio"),
    Param::derived(
        "half_life",
        POSITIVE,
        "for ever",
        "rewards of a user after which an earlier one counts half",
    ),
    Param::choice("mixture", &["learned", "none"], "ablation: one component for everybody"),
    Param::choice("labels", &["soft", "hard"], "ablation: everybody is of its likeliest component"),
    Param::choice("doubt", &["kept", "none"], "ablation: centres count as known"),
    Param::derived("sigma", POSITIVE, "learned", "ablation: σ, told instead of learned"),
];

/// Users from which on refits are spaced more widely.
const CROWD: f64 = 1024.0;

/// The policy.
pub struct Cohort {
    settings: Chosen,
    ledger: Ledger,
    population: Option<Population>,
    /// How many rewards there were at the last refit.
    fitted_rewards: f64,
    /// Users with one probable component: V⁻¹ is the posterior covariance over σ².
    bank: Bank,
    /// The component of each of those.
    components: Vec<usize>,
    /// Users that may belong to several.
    undecided: Vec<Option<Box<Belief>>>,
    /// What is believed of users of whom nothing was seen.
    newcomer: Option<Belief>,
    /// How many decisions each user had, where they are drawn.
    draws: Vec<u64>,
    seed: u64,
}

/// The parameters.
struct Chosen {
    exploration: f64,
    thompson: bool,
    refit_ratio: f64,
    given: Given,
    outlook: Outlook,
}

impl Cohort {
    /// For a problem, of which only the size and the seed are looked at.
    pub fn new(problem: &Problem, settings: &Settings) -> Result<Self, Error> {
        let set = |name: &str| Some(settings.derived(name, || f64::NAN)).filter(|v| !v.is_nan());
        let mut cohort = Self {
            settings: Chosen {
                exploration: settings.real("exploration"),
                thompson: settings.choice("exploration_rule") == "thompson",
                refit_ratio: settings.real("refit_ratio"),
                given: Given {
                    cohorts: settings.choice("mixture") == "learned",
                    sigma: set("sigma"),
                },
                outlook: Outlook {
                    soft: settings.choice("labels") == "soft",
                    doubt: settings.choice("doubt") == "kept",
                },
            },
            ledger: Ledger::new(0, problem.dim, set("half_life")),
            population: None,
            fitted_rewards: 0.0,
            bank: Bank::new(0, problem.dim, 1.0),
            components: Vec::new(),
            undecided: Vec::new(),
            newcomer: None,
            draws: Vec::new(),
            seed: problem.seed,
        };
        cohort.grow(problem.users);
        Ok(cohort)
    }

    /// What users have in common, as of the last refit.
    pub fn population(&self) -> Option<&Population> {
        self.population.as_ref()
    }

    /// All that was seen: a copy of it and [`Population::fit`] are a refit beside decisions.
    pub fn ledger(&mut self) -> &Ledger {
        self.ledger.settle();
        &self.ledger
    }

    /// Takes on a population that was fitted elsewhere, for what has been seen by now.
    pub fn adopt(&mut self, population: Population) {
        self.ledger.settle();
        let spectra = self.ledger.spectra(population.level);
        self.take_on(Fit { population, spectra });
    }

    /// Makes room for more users.
    fn grow(&mut self, users: usize) {
        let known = self.ledger.users();
        if users <= known {
            return;
        }
        self.ledger.grow(users);
        self.bank.grow(users);
        self.components.resize(users, 0);
        self.undecided.resize_with(users, || None);
        self.draws.resize(users, 0);
        if let Some(newcomer) = self.newcomer.clone() {
            for user in known..users {
                self.believe(user, newcomer.clone(), 0.0);
            }
        }
    }

    /// From one refit to the next. With very many users a refit costs more and tells less that is
    /// new, so they are spaced more widely.
    fn ratio(&self) -> f64 {
        let crowd = (self.ledger.users() as f64 / CROWD).max(1.0);
        1.0 + (self.settings.refit_ratio - 1.0) * crowd.sqrt()
    }

    /// Refits once the rewards seen have grown by the ratio since the last time.
    fn refit_if_due(&mut self) {
        if !self.is_due() {
            return;
        }
        self.ledger.settle();
        let warm = self.population.as_ref();
        if let Some(fit) = Population::fit(&self.ledger, warm, &self.settings.given) {
            self.take_on(fit);
        }
    }

    /// Everybody's posterior afresh.
    fn take_on(&mut self, fit: Fit) {
        self.fitted_rewards = self.ledger.rewards();
        let believer = Believer::new(&fit.population, self.settings.outlook);
        let beliefs: Vec<Belief> =
            fit.spectra.par_iter().flat_map_iter(|users| believer.believe(users)).collect();
        let [newcomer, ..] = believer.believe(&Spectrum::unseen(self.ledger.dim()));
        self.newcomer = Some(newcomer);
        self.population = Some(fit.population);
        for (user, belief) in beliefs.into_iter().take(self.ledger.users()).enumerate() {
            let rewards = self.ledger.rewards_of(user);
            self.believe(user, belief, rewards);
        }
    }

    /// Puts a user where its posterior is this.
    fn believe(&mut self, user: usize, belief: Belief, rewards: f64) {
        let Some(population) = &self.population else { return };
        if let [only] = belief.guesses.as_slice() {
            let mut inverse = only.covariance.clone();
            for value in inverse.packed_mut() {
                *value /= population.noise;
            }
            self.bank.set_state(user, &only.mean, &inverse, rewards);
            self.components[user] = only.component;
            self.undecided[user] = None;
        } else {
            self.undecided[user] = Some(Box::new(belief));
        }
    }

    /// What is believed of one user.
    fn belief(&self, user: usize) -> Option<Belief> {
        let population = self.population.as_ref()?;
        if let Some(belief) = &self.undecided[user] {
            return Some(Belief::clone(belief));
        }
        let mut covariance: Symmetric = self.bank.inverse(user);
        for value in covariance.packed_mut() {
            *value *= population.noise;
        }
        Some(Belief::certain(self.components[user], self.bank.estimate(user), covariance))
    }

    /// How many standard deviations of optimism a user gets.
    fn width(&self, user: usize) -> f64 {
        let rewards = match self.undecided[user] {
            Some(_) => self.ledger.rewards_of(user),
            None => self.bank.progress(user).updates,
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
        let population = self.population.as_ref()?;
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

/// How many standard deviations of optimism a user with so many rewards gets.
fn widening(rewards: f64) -> f64 {
    (1.0 + 0.5 * rewards.ln_1p()).sqrt()
}

impl Policy for Cohort {
    fn choose(&mut self, contexts: &Contexts, arms: &mut [Arm]) {
        self.grow(arms.len());
        self.refit_if_due();
        let Some(population) = &self.population else {
            for (user, arm) in arms.iter_mut().enumerate() {
                *arm = self.blind(user, contexts);
            }
            return;
        };
        if self.settings.thompson {
            arms.par_iter_mut().enumerate().for_each(|(user, arm)| {
                if let Some(belief) = self.belief(user) {
                    *arm = self.draw(user, &belief, contexts);
                }
            });
            for draws in &mut self.draws {
                *draws += 1;
            }
            return;
        }
        let exploration = self.settings.exploration;
        let sigma = population.noise.sqrt();
        let radius = |_, progress: Progress| exploration * widening(progress.updates) * sigma;
        self.bank.choose(contexts, Shape::Ellipsoid, radius, None, arms);
        let (undecided, ledger) = (&self.undecided, &self.ledger);
        arms.par_iter_mut().zip(undecided).enumerate().with_min_len(64).for_each(
            |(user, (arm, belief))| {
                if let Some(belief) = belief {
                    let width = exploration * widening(ledger.rewards_of(user));
                    *arm = belief.choose(contexts, width);
                }
            },
        );
    }

    fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        self.grow(arms.len());
        self.ledger.learn(contexts, arms, rewards);
        let Some(population) = &self.population else { return };
        let (noise, level) = (population.noise, population.level);
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

    /// The most probable component of every user. Once there are cohorts, a user of none of them
    /// is a cluster by itself; until then all are one.
    fn clusters(&self) -> Option<Vec<usize>> {
        let population = self.population.as_ref()?;
        let count = population.components.len();
        let mut labels: Vec<usize> = (0..self.ledger.users())
            .map(|user| {
                let component = (self.undecided[user].as_ref())
                    .map_or(self.components[user], |belief| belief.likeliest().component);
                if component == 0 && count > 1 { count + user } else { component }
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
        let Some(population) = &self.population else { return self.blind(user, contexts) };
        if self.settings.thompson {
            let arm = self.belief(user).map_or(0, |belief| self.draw(user, &belief, contexts));
            self.draws[user] += 1;
            return arm;
        }
        let width = self.width(user);
        match &self.undecided[user] {
            Some(belief) => belief.choose(contexts, width),
            None => {
                let radius = width * population.noise.sqrt();
                self.bank.choose_one(user, contexts, Shape::Ellipsoid, radius)
            }
        }
    }

    /// As `decide` with the rule `ucb`, after what is due was done. Before the first refit nothing is
    /// known, and all arms are alike.
    fn judge(&mut self, user: usize, contexts: &Contexts, judgements: &mut [Judgement]) {
        judgements.fill(Judgement::default());
        let Some(population) = &self.population else { return };
        let stranger = user >= self.ledger.users();
        let belief =
            if stranger { self.newcomer.as_ref() } else { self.undecided[user].as_deref() };
        let width = match stranger {
            true => self.settings.exploration * widening(0.0),
            false => self.width(user),
        };
        match belief {
            Some(belief) => {
                for (x, judgement) in contexts.iter().zip(&mut *judgements) {
                    let (mean, deviation) = belief.predict(x);
                    *judgement = Judgement { expected: mean, bonus: width * deviation };
                }
            }
            None => {
                let radius = width * population.noise.sqrt();
                self.bank.judge_one(user, contexts, Shape::Ellipsoid, radius, judgements);
            }
        }
        for judgement in judgements {
            judgement.expected += population.level;
        }
    }

    fn is_due(&self) -> bool {
        let rewards = self.ledger.rewards();
        rewards > 0.0 && rewards >= self.fitted_rewards * self.ratio()
    }

    fn catch_up(&mut self) {
        self.refit_if_due();
    }

    fn insight(&self) -> Option<&dyn Insight> {
        Some(self)
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        Some(self)
    }

    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        self.grow(user + 1);
        self.ledger.learn_one(user, context, reward);
        let Some(population) = &self.population else { return };
        match &mut self.undecided[user] {
            Some(belief) => belief.learn(context, reward - population.level, population.noise),
            None => self.bank.learn_one(user, context, reward - population.level),
        }
    }
}
