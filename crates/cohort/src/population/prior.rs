//! The prior of a user that comes alone: its belief from its statistics, and the scores of a new
//! user.
//!
//! All new users have the same belief. If they were all offered the same arm, their rewards would
//! be redundant until the next refit. So the uncertainty about the population is sampled for every
//! user, and the optimistic bonus covers only what is the user's own:
//!
//! ```text
//! bonus(x) = max(0, ⟨x, z_i⟩) + w·sd⟨x, ψ⟩,   z_i ~ N(0, C + κS),   ψ ~ N(·, (1 − κ)S)
//! ```
//!
//! S is the covariance of users, C the posterior covariance of their mean, and κ the fraction of S
//! that is sampled too. κ is 1 at first: until cohorts have been searched for, users may differ in
//! any way. The bonus is never negative (optimistic Bayesian sampling, May, Korda, Lee and Leslie
//! 2012).

use super::constants;
use super::inference::{Inference, ScoringMode};
use super::ledger::Ledger;
use super::model::Population;
use super::moments::Moments;
use super::posterior::Belief;
use crate::algebra::{Cholesky, packed_len};
use crate::linear::{Symmetric, dot};
use crate::search::ScoreForm;
use crate::{Contexts, Score};

/// A population prepared for users that come alone.
///
/// A user's belief is a function of its statistics and the population alone, so it need not be
/// stored.
#[derive(Clone, Debug)]
pub struct Prior {
    population: Population,
    scoring_mode: ScoringMode,
    newcomer: Belief,
    /// The belief of new users about what is not sampled.
    own: Belief,
    /// The Cholesky factor of the sampled covariance; `None` where nothing is sampled.
    drawn: Option<Cholesky>,
}

/// κ after `rewards` rewards in R^d, as long as cohorts were not searched for.
pub fn unexplored(rewards: f64, dim: usize) -> f64 {
    (constants::newcomers_unexplored() * (dim + 1) as f64 / rewards).min(1.0)
}

impl Prior {
    /// For a population; the fraction κ = `unexplored` of its variances is sampled.
    pub fn new(population: Population, scoring_mode: ScoringMode, unexplored: f64) -> Self {
        let unseen = |population: &Population, scoring_mode| {
            let users = Moments::unseen(population.features());
            let [belief, ..] = Inference::new(population, scoring_mode).infer(users);
            belief
        };
        let newcomer = unseen(&population, scoring_mode);
        let mut own = population.clone();
        own.variances.iter_mut().flatten().for_each(|variance| *variance *= 1.0 - unexplored);
        let own = unseen(&own, ScoringMode { doubt: false, ..scoring_mode });
        let drawn = drawn(&population, scoring_mode, unexplored).cholesky();
        Self { newcomer, own, drawn, population, scoring_mode }
    }

    /// The population.
    pub fn population(&self) -> &Population {
        &self.population
    }

    /// The belief about new users.
    pub fn newcomer(&self) -> &Belief {
        &self.newcomer
    }

    /// Scores every arm for a new user, rewards counted from the origin. `width` is that of its own
    /// uncertainty, `spread` that of what is drawn, by which new users differ. `normal` draws
    /// standard normal numbers, the same ones for the same user.
    pub fn score_newcomer(
        &self,
        contexts: &Contexts,
        [width, spread]: [f64; 2],
        normal: impl FnMut() -> f64,
        scores: &mut [Score],
    ) {
        let Some(root) = &self.drawn else {
            return self.newcomer.score(contexts, width, scores);
        };
        self.own.score(contexts, width, scores);
        let numbers = std::iter::repeat_with(normal).take(self.population.features() + 1);
        let drawn = root.times(&numbers.collect::<Vec<f64>>());
        for (x, score) in contexts.iter().zip(scores) {
            score.bonus += spread * dot(x, &drawn[..x.len()]).max(0.0);
        }
    }

    /// [`Prior::score_newcomer`] as a function of an arm's features.
    pub fn newcomer_form(
        &self,
        [width, spread]: [f64; 2],
        normal: impl FnMut() -> f64,
    ) -> ScoreForm {
        let Some(root) = &self.drawn else { return self.newcomer.form(width) };
        let numbers = std::iter::repeat_with(normal).take(self.population.features() + 1);
        let drawn = root.times(&numbers.collect::<Vec<f64>>());
        let mut form = self.own.form(width);
        form.drawn = Some(drawn[..form.mean.len()].iter().map(|value| spread * value).collect());
        form
    }

    /// The belief about a user, from its statistics.
    pub fn infer(&self, ledger: &Ledger, slot: usize) -> Belief {
        let [belief, ..] =
            Inference::new(&self.population, self.scoring_mode).infer(ledger.moments(&[slot]));
        belief
    }
}

/// C + κS, for features.
fn drawn(population: &Population, scoring_mode: ScoringMode, unexplored: f64) -> Symmetric {
    let mut drawn = Symmetric::zero(population.features() + 1);
    for (c, component) in population.components.iter().enumerate() {
        if scoring_mode.doubt {
            drawn.add(component.weight, &component.doubt);
        }
        for (j, variance) in population.variances_of(c).iter().enumerate() {
            drawn.packed_mut()[packed_len(j) + j] += component.weight * unexplored * variance;
        }
    }
    population.basis.as_ref().map_or_else(|| drawn.clone(), |basis| basis.matrix_from(&drawn))
}
