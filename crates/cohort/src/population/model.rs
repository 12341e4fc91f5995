//! What users have in common: the mixture itself.

use crate::linear::{Symmetric, dot};

use super::evidence::Sums;

/// One kind of user: θ ~ N(centre, spread·I), the centre itself known up to `doubt`.
#[derive(Clone, Debug)]
pub struct Component {
    /// π, the share of users.
    pub weight: f64,
    /// μ, where its users are.
    pub centre: Vec<f64>,
    /// The covariance of what is known of μ.
    pub doubt: Symmetric,
    /// τ², how much its users differ, in each coordinate.
    pub spread: f64,
}

/// θ_i ~ Σ_c π_c N(μ_c, τ_c²I), rewards with variance σ².
///
/// Component 0 is the population at large: users that are like nobody in particular, and from
/// which the centres of all other components, the cohorts, are drawn: μ_c ~ N(μ_0, τ_0²I). Cohorts
/// have one spread in common, which is smaller. So each level is the prior of the next: a user
/// has its cohort's, a cohort the population's, and the population is drawn around zero.
#[derive(Clone, Debug)]
pub struct Population {
    /// The population at large, then the cohorts.
    pub components: Vec<Component>,
    /// σ², the variance of the noise on one reward.
    pub noise: f64,
    /// α, the level that rewards are counted from: what they are where θ says nothing.
    pub level: f64,
    /// ν², how far from zero the population's centre is, in each coordinate.
    pub reach: f64,
    /// Σ_i ln Σ_c π_c E p(y_i | c): how well this explains what was seen of the users.
    pub evidence: f64,
}

/// Spreads below this are taken for this where one divides by them.
const LEAST_SPREAD: f64 = 1e-12;

impl Population {
    /// The cohorts, without the population at large.
    pub fn cohorts(&self) -> &[Component] {
        &self.components[1..]
    }

    /// τ² of the population at large and of cohorts.
    pub(super) fn spreads(&self) -> [f64; 2] {
        [self.components[0].spread, self.components.get(1).map_or(0.0, |cohort| cohort.spread)]
    }
}

impl Component {
    /// The centre from what its users say and where centres come from.
    pub(super) fn settle(&mut self, sums: &Sums, from: &Component) {
        let precision = 1.0 / from.spread.max(LEAST_SPREAD);
        let mut information = sums.information();
        information.add_diagonal(precision);
        let mut pull = sums.pull().to_vec();
        for (pull, centre) in pull.iter_mut().zip(&from.centre) {
            *pull += precision * centre;
        }
        if let Some(factor) = information.cholesky() {
            factor.solve(&mut pull);
            self.centre = pull;
            self.doubt = factor.inverse();
        }
    }

    /// KL(what is known of the centre ‖ where centres come from): what a cohort costs.
    pub(super) fn cost(&self, from: &Component) -> f64 {
        let d = self.centre.len();
        let spread = from.spread.max(LEAST_SPREAD);
        let trace: f64 = (0..d).map(|i| self.doubt.at(i, i)).sum();
        let far: Vec<f64> = self.centre.iter().zip(&from.centre).map(|(a, b)| a - b).collect();
        let log_det = self.doubt.cholesky().map_or(0.0, |factor| factor.log_det());
        let d = d as f64;
        0.5 * ((trace + dot(&far, &far)) / spread - d + d * spread.ln() - log_det)
    }

    /// ln ∫ exp(⟨pull, μ⟩ − ½ μᵀ information μ) N(μ; centre, spread·I) dμ: the evidence of users
    /// whose centre is drawn from this component.
    pub(super) fn log_integral(&self, sums: &Sums) -> f64 {
        let d = self.centre.len() as f64;
        let spread = self.spread.max(LEAST_SPREAD);
        let mut information = sums.information();
        information.add_diagonal(1.0 / spread);
        let pull: Vec<f64> =
            sums.pull().iter().zip(&self.centre).map(|(p, m)| p + m / spread).collect();
        let Some(factor) = information.cholesky() else { return f64::NEG_INFINITY };
        let mut solved = pull.clone();
        factor.solve(&mut solved);
        0.5 * (dot(&pull, &solved)
            - factor.log_det()
            - dot(&self.centre, &self.centre) / spread
            - d * spread.ln())
    }
}
