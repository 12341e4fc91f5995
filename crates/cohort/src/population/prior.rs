//! What is believed of one user that comes alone, and what a user of whom nothing was seen is offered first.
//!
//! Users of whom nothing was seen are all believed to be the same. If they were all offered the same arm, they would teach
//! the same, again and again until the next refit. So what is not known of all users together is
//! drawn, for every user anew, and optimism is left for what is the user's own:
//!
//! ```text
//! bonus(x) = max(0, ⟨x, z_i⟩) + w·sd⟨x, ψ⟩,   z_i ~ N(0, C + κS),   ψ ~ N(·, (1 − κ)S)
//! ```
//!
//! S is how much users differ, C what is not known of where they are on average, and κ, the part of S that counts as
//! not known either, is 1 at first: as long as nobody looked for cohorts, users may differ in any way. An arm is never worth less
//! than is expected of it (optimistic Bayesian sampling, May, Korda, Lee and Leslie 2012).

use super::constants;
use super::inference::{Inference, ScoringMode};
use super::ledger::Ledger;
use super::model::Population;
use super::moments::Moments;
use super::posterior::Belief;
use crate::linear::symmetric::{Cholesky, packed_len};
use crate::linear::{Symmetric, dot};
use crate::search::ScoreForm;
use crate::{Contexts, Score};

/// A population prepared for users that come alone.
///
/// What is believed of a user is a function of its statistics and the population, and of nothing else: it
/// need not be kept.
#[derive(Clone, Debug)]
pub struct Prior {
    population: Population,
    scoring_mode: ScoringMode,
    newcomer: Belief,
    /// What newcomers do not have drawn.
    own: Belief,
    /// A root of the covariance of what they have; `None` where that is nothing.
    drawn: Option<Cholesky>,
}

/// κ, where so many rewards were seen of users in R^d and nobody looked for cohorts among them.
pub fn unexplored(rewards: f64, dim: usize) -> f64 {
    (constants::newcomers_unexplored() * (dim + 1) as f64 / rewards).min(1.0)
}

impl Prior {
    /// For a population, of whose variances a part, κ, counts as not known.
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

    /// What is believed of users of whom nothing was seen.
    pub fn newcomer(&self) -> &Belief {
        &self.newcomer
    }

    /// What is thought of every arm for a user of whom nothing was seen, rewards counted from the origin, with so much
    /// optimism: `normal` draws standard normal numbers, the same for a user whenever it comes.
    pub fn score_newcomer(
        &self,
        contexts: &Contexts,
        width: f64,
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
            score.bonus += width * dot(x, &drawn[..x.len()]).max(0.0);
        }
    }

    /// [`Prior::score_newcomer`] as a function of an arm's features.
    pub fn newcomer_form(&self, width: f64, normal: impl FnMut() -> f64) -> ScoreForm {
        let Some(root) = &self.drawn else { return self.newcomer.form(width) };
        let numbers = std::iter::repeat_with(normal).take(self.population.features() + 1);
        let drawn = root.times(&numbers.collect::<Vec<f64>>());
        let mut form = self.own.form(width);
        form.drawn = Some(drawn[..form.mean.len()].iter().map(|value| width * value).collect());
        form
    }

    /// What is believed of a user, from all that was seen of it.
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
