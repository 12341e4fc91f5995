//! What users have in common: the mixture itself.

use crate::linear::Symmetric;

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

/// θ_i ~ Σ_c π_c N(μ_c, τ_c²I), rewards with variance σ². Component 0 is the population at large:
/// users that are like nobody in particular, and from which the centres of all other components,
/// the cohorts, are drawn.
#[derive(Clone, Debug)]
pub struct Population {
    /// The population at large, then the cohorts.
    pub components: Vec<Component>,
    /// σ², the variance of the noise on one reward.
    pub noise: f64,
    /// ν², how far from zero the population's centre is, in each coordinate.
    pub reach: f64,
    /// How well this explains all that was seen: the lower bound of the log evidence.
    pub evidence: f64,
}
