//! Explanations: why an arm is played for a user, as terms that sum to its score.

use super::inference::Posterior;
use super::lanes::F64x8;
use super::message::MessagePrior;
use super::model::{LEAST_VARIANCE, Population};
use super::moments::{Moments, all};
use crate::Arm;
use crate::linear::dot;

/// Why an arm is played for a user.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The components the user may belong to, most probable first.
    pub memberships: Vec<Membership>,
    /// The prediction and score of every arm.
    pub arms: Vec<ArmReport>,
    /// The arm with the highest score.
    pub best: Arm,
    /// The second best, if there is one.
    pub runner_up: Option<Arm>,
    /// By how much the best score is better than the second.
    pub margin: f64,
}

/// How probable it is that a user belongs to a component.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Membership {
    /// 0 is the population at large, the others are cohorts.
    pub component: usize,
    /// The probability.
    pub share: f64,
}

/// The prediction and score of one arm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArmReport {
    /// The predicted reward: what the next three add up to.
    pub mean: f64,
    /// The part of it that comes from the user's own rewards.
    pub own: f64,
    /// The part that comes from its cohort's other users.
    pub cohort: f64,
    /// The part that comes from the population at large.
    pub population: f64,
    /// One standard deviation of the prediction, the component's uncertainty included.
    pub deviation: f64,
    /// The exploration bonus.
    pub width: f64,
    /// mean + width, by which arms are compared.
    pub score: f64,
}

impl Explanation {
    /// From memberships and reports.
    pub(crate) fn new(mut memberships: Vec<Membership>, arms: Vec<ArmReport>) -> Self {
        memberships.sort_by(|a, b| b.share.total_cmp(&a.share));
        let best = crate::linear::argmax(arms.iter().map(|arm| arm.score));
        let others = arms.iter().enumerate();
        let runner_up = others.filter(|(arm, _)| *arm != best).fold(
            None,
            |second: Option<Arm>, (arm, report)| match second {
                Some(second) if arms[second].score >= report.score => Some(second),
                _ => Some(arm),
            },
        );
        let margin = runner_up.map_or(0.0, |second| arms[best].score - arms[second].score);
        Self { memberships, arms, best, runner_up, margin }
    }
}

/// The prior part of a user's prediction, `A μ`: what comes from its cohort, and what comes from
/// the population at large.
pub(crate) struct Inherited {
    cohort: Vec<f64>,
    population: Vec<f64>,
}

impl Inherited {
    /// Of the first of eight users, with its memberships.
    pub fn new(mut users: Moments, memberships: &[Membership], population: &Population) -> Self {
        population.prepare(&mut users, true);
        let dim = users.dim();
        let at_large = &population.components[0];
        let mut cohort = vec![0.0; dim];
        let mut large = vec![0.0; dim];
        // A μ is the posterior mean of a user whose rewards are all zero.
        let silent = users.without_rewards();
        for membership in memberships {
            let c = membership.component;
            let component = &population.components[c];
            let posterior = Posterior::new(
                &silent,
                &MessagePrior::new(population.variances_of(c), population.noise),
            );
            // A cohort's centre is in part the population's: μ_c = C (Σpull + μ_0/Δ_0).
            let mut from_population = component.mean.clone();
            if c > 0 {
                let pulled: Vec<f64> = (at_large.mean.iter().zip(&population.variances[0]))
                    .map(|(m, v)| m / v.max(LEAST_VARIANCE))
                    .collect();
                component.doubt.times(&pulled, &mut from_population);
            }
            let shrink = |from: &mut dyn Iterator<Item = f64>, to: &mut [f64]| {
                let centre: Vec<F64x8> = from.map(all).collect();
                for (to, mean) in to.iter_mut().zip(posterior.mean(&centre)) {
                    *to += membership.share * mean[0];
                }
            };
            let mut rest = component.mean.iter().zip(&from_population).map(|(all, p)| all - p);
            shrink(&mut rest, &mut cohort);
            shrink(&mut from_population.iter().copied(), &mut large);
        }
        match &population.basis {
            Some(basis) => Self { cohort: basis.from(&cohort), population: basis.from(&large) },
            None => Self { cohort, population: large },
        }
    }

    /// The parts of a prediction for one context: own rewards, cohort, population. The level is part of each.
    pub fn parts(&self, x: &[f64], mean: f64) -> (f64, f64, f64) {
        let along = |of: &[f64]| dot(x, &of[..x.len()]) + of[x.len()];
        let (cohort, population) = (along(&self.cohort), along(&self.population));
        (mean - cohort - population, cohort, population)
    }
}
