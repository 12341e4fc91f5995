//! Why an arm is played for a user, in numbers that add up.

use super::lanes::LANES;
use super::model::{Component, Population};
use super::spectrum::Spectrum;
use crate::Arm;
use crate::linear::dot;

/// Why an arm is played for a user.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Where the user may belong, most probable first.
    pub memberships: Vec<Membership>,
    /// What is thought of every arm.
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

/// What is thought of one arm.
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
    /// How much is added for exploration.
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

/// What a user's prediction would be had it no rewards of its own to go by: `A μ`, in the part
/// that comes from its cohort and the part that comes from the population at large.
pub(crate) struct Inherited {
    cohort: Vec<f64>,
    population: Vec<f64>,
}

impl Inherited {
    /// Of the user in one lane of a block, with its memberships.
    pub fn new(
        users: &Spectrum,
        lane: usize,
        memberships: &[Membership],
        population: &Population,
    ) -> Self {
        let dim = users.dim();
        let at_large = &population.components[0];
        let mut inherited = Self { cohort: vec![0.0; dim], population: vec![0.0; dim] };
        for membership in memberships {
            let component = &population.components[membership.component];
            // A cohort's centre is in part the population's: μ_c = C (Σpull + μ_0/τ_0²).
            let mut from_population = component.centre.clone();
            if membership.component > 0 {
                component.doubt.times(&at_large.centre, &mut from_population);
                from_population.iter_mut().for_each(|v| *v /= at_large.spread.max(1e-12));
            }
            let from_cohort: Vec<f64> =
                component.centre.iter().zip(&from_population).map(|(all, p)| all - p).collect();
            let shrink = |from: &[f64], to: &mut [f64]| {
                shrunken(users, lane, component, population.noise, membership.share, from, to);
            };
            shrink(&from_cohort, &mut inherited.cohort);
            shrink(&from_population, &mut inherited.population);
        }
        inherited
    }

    /// The parts of a prediction for one context: own rewards, cohort, population.
    pub fn parts(&self, x: &[f64], mean: f64) -> (f64, f64, f64) {
        let (cohort, population) = (dot(x, &self.cohort), dot(x, &self.population));
        (mean - cohort - population, cohort, population)
    }
}

/// to += share·A·from
fn shrunken(
    users: &Spectrum,
    lane: usize,
    component: &Component,
    noise: f64,
    share: f64,
    from: &[f64],
    to: &mut [f64],
) {
    debug_assert!(lane < LANES);
    let d = users.dim();
    for j in 0..d {
        let q: Vec<f64> = (0..d).map(|k| users.vectors()[j * d + k][lane]).collect();
        let shrink = noise / (noise + component.spread * users.values()[j][lane]);
        let along = share * shrink * dot(&q, from);
        for k in 0..d {
            to[k] += along * q[k];
        }
    }
}
