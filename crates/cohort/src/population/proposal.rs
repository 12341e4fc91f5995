//! Many cohorts at once. Where every user has told little, no single cohort is worth its cost beside a
//! population that explains all users by its covariance, and yet a mixture may predict users better. It
//! is fitted to half of the sample and stays if it predicts the other half better.

use super::constants;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::fit::Fitting;
use super::lens::Lens;
use super::model::{Component, Population};
use super::moments::Moments;
use super::pass::Pass;
use super::structure::merge_and_remove;
use crate::linear::Symmetric;

/// Cohorts that a mixture begins with; one number after the other is tried.
const COHORTS: [usize; 2] = [8, 32];

/// Takes on a mixture where that predicts users better, or where it explains them better than the one that is there.
pub(super) fn propose_mixture(fitting: &mut Fitting) {
    let (population, scales) = (&fitting.population, &fitting.scales);
    if (population.components[0].weight < constants::mixture_unassigned()
        && population.certainty > constants::mixture_certain())
        || scales.users < constants::mixture_least_users()
        || scales.rewards
            < constants::mixture_least_rewards() * population.features() as f64 * scales.users
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
        fitting.stays.at_large = true;
        fitting.iterate(constants::mixture_more_passes());
        fitting.stays.at_large = false;
        merge_and_remove(fitting);
    }
}

/// A mixture that begins afresh, if it would predict users better than the one that is there.
fn explain_better(fitting: &mut Fitting) {
    let mut best = promise(fitting) + constants::mixture_margin();
    for count in COHORTS {
        let mut trial = grown(fitting, fitting.users.clone(), count);
        merge_and_remove(&mut trial);
        let found = promise(&trial);
        if found > best {
            best = found;
            fitting.population = trial.population.clone();
        }
    }
}

/// How well a population explains its users, less one nat for each parameter, as in AIC: what it would predict of others.
fn promise(fitting: &Fitting) -> f64 {
    let parameters = (fitting.population.features() + 2) * fitting.population.cohorts().len();
    predicted(&fitting.users, &fitting.population) - parameters as f64
}

/// So many cohorts, drawn from the population and fitted to some users.
fn grown(fitting: &Fitting, users: Vec<Moments>, cohorts: usize) -> Fitting {
    let start = begin(&fitting.population, cohorts, fitting.scales.rewards as u64);
    let mut trial = Fitting::new(users, start, fitting.scales.clone(), fitting.given);
    // Centres that have not yet moved apart say nothing about how far apart they are.
    trial.stays.at_large = true;
    trial.iterate(constants::mixture_passes());
    trial
}

/// Σ ln p(y_i) of users under a population whose centres are taken as known.
fn predicted(users: &[Moments], population: &Population) -> f64 {
    let mut plain = population.clone();
    for component in &mut plain.components {
        component.doubt = Symmetric::zero(component.mean.len());
    }
    let mut fitting = Pass::evidence_of(users, &Lens::new(&plain));
    if !fitting.is_finite() {
        fitting = f64::NEG_INFINITY;
    }
    fitting
}

/// A population with so many cohorts, drawn from it.
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
