//! `gaussian`: users are alike but not the same. The personalization framework of the paper.
//!
//! θ_i ~ N(μ, s·I) with μ standard normal. No two users are the same, so every user is a true
//! cluster of its own.
//!
//! Reference: the paper, Section 7.

use cohort::linear::dot;
use cohort::params::{Param, Settings};

use super::parts::laws::{LAW_OPTIONS, Laws, SPREAD, normal};
use super::parts::linear::{LinearWorld, UserLaw, Users, isotropic};
use crate::Error;
use crate::environment::{Environment, EnvironmentInfo, Size, World};
use crate::seed::{Purpose, Seed};

/// What is known of it before it is made.
pub(super) const INFO: EnvironmentInfo = EnvironmentInfo {
    name: "gaussian",
    summary: "users are alike, not the same (the paper's personalization framework)",
    params: &[LAW_OPTIONS, SPREAD, GAUSSIAN_OPTIONS],
    build,
};

const GAUSSIAN_OPTIONS: &[Param] =
    &[Param::flag("unit_ball", "scale all users by one factor so that the longest has length 1")];

struct Gaussian {
    laws: Laws,
    spread: f64,
    unit_ball: bool,
}

fn build(settings: &Settings) -> Result<Box<dyn Environment>, Error> {
    Ok(Box::new(Gaussian {
        laws: Laws::from_settings(settings)?,
        spread: settings.real("spread"),
        unit_ball: settings.flag("unit_ball"),
    }))
}

impl Environment for Gaussian {
    fn size(&self) -> Size {
        self.laws.size()
    }

    fn world(&self, seed: Seed) -> Result<Box<dyn World>, Error> {
        let Laws { users, dim, .. } = self.laws;
        let mut rng = seed.stream(Purpose::Users, 0);
        let mean = normal(dim, &mut rng);
        let deviation = self.spread.sqrt();
        let mut thetas = Vec::with_capacity(users * dim);
        for _ in 0..users {
            let own = normal(dim, &mut rng);
            thetas.extend(mean.iter().zip(own).map(|(mean, own)| mean + deviation * own));
        }
        let factor = if self.unit_ball { scale_into_unit_ball(&mut thetas, dim) } else { 1.0 };
        let law = UserLaw {
            centres: mean.iter().map(|mean| mean * factor).collect(),
            weights: vec![1.0],
            scatter: isotropic(dim, self.spread * factor * factor),
        };
        let users = Users { thetas, clusters: (0..users).collect(), law: Some(law) };
        Ok(Box::new(LinearWorld::new(users, dim, self.laws.sigma(), self.laws.rounds(seed))))
    }
}

/// Returns the factor.
fn scale_into_unit_ball(thetas: &mut [f64], dim: usize) -> f64 {
    let longest =
        thetas.chunks_exact(dim).map(|theta| dot(theta, theta).sqrt()).fold(0.0, f64::max);
    for value in thetas {
        *value /= longest;
    }
    1.0 / longest
}
