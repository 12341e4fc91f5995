//! `gaussian`: users are similar but not the same. The personalization framework of the paper.
//!
//! θ_i ~ N(μ, s·I) with μ standard normal. No two users are the same, so every user is a true
//! cluster of its own.
//!
//! Reference: the paper, Section 7.

use cohort::linear::dot;
use cohort::params::{Param, Settings};

use super::parts::laws::{LAW_OPTIONS, Laws, SPREAD, normal};
use super::parts::linear::{UserLaw, Users};
use super::parts::user_options::{USER_OPTIONS, UserOptions};
use crate::Error;
use crate::environment::{Environment, EnvironmentInfo, Size, World};
use crate::seed::{Purpose, Seed};

/// Static metadata of the environment: name, summary, parameters.
pub(super) const INFO: EnvironmentInfo = EnvironmentInfo {
    name: "gaussian",
    summary: "users are alike, not the same (the paper's personalization framework)",
    params: &[LAW_OPTIONS, USER_OPTIONS, SPREAD, GAUSSIAN_OPTIONS],
    build,
};

const GAUSSIAN_OPTIONS: &[Param] =
    &[Param::flag("unit_ball", "scale all users by one factor so that the longest has length 1")];

struct Gaussian {
    laws: Laws,
    user_options: UserOptions,
    spread: f64,
    unit_ball: bool,
}

fn build(settings: &Settings) -> Result<Box<dyn Environment>, Error> {
    let laws = Laws::from_settings(settings)?;
    Ok(Box::new(Gaussian {
        user_options: UserOptions::from_settings(settings, &laws)?,
        laws,
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
        let all = users + self.user_options.visitors();
        let subspace = self.user_options.subspace(dim, seed);
        let mut rng = seed.stream(Purpose::Users, 0);
        let mut draw = |scale: f64| {
            let inner = normal(subspace.rank(), &mut rng);
            subspace.lift(inner.into_iter().map(|z| z * scale * subspace.stretch()).collect())
        };
        let mean = draw(1.0);
        let deviation = self.spread.sqrt();
        let mut thetas = Vec::with_capacity(all * dim);
        for _ in 0..all {
            let own = draw(deviation);
            thetas.extend(mean.iter().zip(own).map(|(mean, own)| mean + own));
        }
        // Visitors do not change the scale of the others.
        let longest = if self.unit_ball { longest(&thetas[..users * dim], dim) } else { 1.0 };
        thetas.iter_mut().for_each(|value| *value /= longest);
        let law = UserLaw {
            centres: mean.iter().map(|mean| mean / longest).collect(),
            weights: vec![1.0],
            scatter: subspace.scatter(self.spread / (longest * longest)),
            ..UserLaw::default()
        };
        let (clusters, law) = ((0..all).collect(), Some(law));
        let users = Users { thetas, clusters, law, ..Users::default() };
        Ok(self.user_options.world(users, &self.laws, seed))
    }
}

fn longest(thetas: &[f64], dim: usize) -> f64 {
    thetas.chunks_exact(dim).map(|theta| dot(theta, theta).sqrt()).fold(0.0, f64::max)
}
