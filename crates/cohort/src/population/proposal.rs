//! Proposing many cohorts at once. With few rewards per user, no single cohort is worth its cost
//! against a population that explains all users by its covariance, although a whole mixture may
//! predict better. A mixture is fitted to half of the sample and kept if it predicts the other half
//! better.

use super::constants;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::e_step::EStep;
use super::fit::Fitting;
use super::model::{Component, Population};
use super::moments::Moments;
use super::pass::Pass;
use super::structure::merge_and_remove;
use crate::linear::Symmetric;

/// Initial numbers of cohorts of a mixture, tried in this order.
const COHORTS: [usize; 2] = [8, 32];

/// Adopts a mixture if it predicts held-out users better, or explains all users better than the
/// present one.
pub(super) fn propose_mixture(fitting: &mut Fitting) {
    let (population, scales) = (&fitting.population, &fitting.scales);
    if (population.components[0].weight < constants::mixture_unassigned()
        && population.certainty > constants::mixture_certain())
        || scales.users < constants::mixture_least_users()
        || scales.rewards
            < constants::mixture_least_rewards() * population.used_features() as f64 * scales.users
        || scales.rewards < constants::mixture_growth() * population.tried
    {
        return;
    }
    fitting.population.tried = scales.rewards;
    if fitting.population.components.len() == 1 {
        predict_better(fitting);
    } else {
        explain_better(fitting);
    }
}

/// A mixture fitted to half of the users, if it predicts the others better than a population without cohorts.
fn predict_better(fitting: &mut Fitting) {
    let half = |first: usize| fitting.users.iter().skip(first).step_by(2).cloned();
    let (learn, held_out): (Vec<Moments>, Vec<Moments>) = (half(0).collect(), half(1).collect());
    let now = predicted(&held_out, &fitting.population);
    let mut best: Option<(f64, Population)> = None;
    for count in COHORTS {
        let found = grown(fitting, learn.clone(), count).population.clone();
        let gain = predicted(&held_out, &found) - now;
        if gain > best.as_ref().map_or(constants::mixture_margin(), |(most, _)| *most) {
            best = Some((gain, found));
        }
    }
    if let Some((_, found)) = best {
        fitting.population = found;
        fitting.fixed.at_large = true;
        fitting.iterate(constants::mixture_more_passes());
        fitting.fixed.at_large = false;
        merge_and_remove(fitting);
    }
}

/// Adopts a mixture that is fitted from scratch if it predicts users better than the present one.
fn explain_better(fitting: &mut Fitting) {
    let mut best = aic_score(fitting) + constants::mixture_margin();
    for count in COHORTS {
        let mut trial = grown(fitting, fitting.users.clone(), count);
        merge_and_remove(&mut trial);
        let found = aic_score(&trial);
        if found > best {
            best = found;
            fitting.population = trial.population.clone();
        }
    }
}

/// The evidence less one nat per parameter, as in AIC: an estimate of how well the population
/// predicts other users.
fn aic_score(fitting: &Fitting) -> f64 {
    let parameters = (fitting.population.used_features() + 2) * fitting.population.cohorts().len();
    predicted(&fitting.users, &fitting.population) - parameters as f64
}

/// A mixture of the given number of cohorts, initialised by draws from the population and fitted to
/// some users.
fn grown(fitting: &Fitting, users: Vec<Moments>, cohorts: usize) -> Fitting {
    let start = begin(&fitting.population, cohorts, fitting.scales.rewards as u64);
    let mut trial = Fitting::new(users, start, fitting.scales.clone(), fitting.given);
    // Centres that have not yet moved apart do not inform the variances.
    trial.fixed.at_large = true;
    trial.iterate(constants::mixture_passes());
    trial
}

/// Σ ln p(y_i) of users under a population whose centres are taken as known.
fn predicted(users: &[Moments], population: &Population) -> f64 {
    let mut plain = population.clone();
    for component in &mut plain.components {
        component.doubt = Symmetric::zero(component.mean.len());
    }
    let mut evidence = Pass::evidence_of(users, &EStep::new(&plain));
    if !evidence.is_finite() {
        evidence = f64::NEG_INFINITY;
    }
    evidence
}

/// The population with cohorts whose centres are drawn from it.
fn begin(population: &Population, cohorts: usize, seed: u64) -> Population {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut start = population.clone();
    let (features, at_large) = (population.features(), population.components[0].clone());
    start.components.truncate(1);
    start.components[0].weight = 0.1;
    start.variances[1] = start.variances[0].clone();
    start.variances[1][..features].iter_mut().for_each(|v| *v *= constants::mixture_first_spread());
    for _ in 0..cohorts {
        let mut mean = at_large.mean.clone();
        for (mean, variance) in mean[..features].iter_mut().zip(&start.variances[0]) {
            let z: f64 = StandardNormal.sample(&mut rng);
            *mean += (variance * (1.0 - constants::mixture_first_spread())).sqrt() * z;
        }
        let doubt = Symmetric::zero(features + 1);
        start.components.push(Component { weight: 0.9 / cohorts as f64, mean, doubt });
    }
    start
}
