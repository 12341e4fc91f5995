//! The Gaussian hierarchy behind `hier-ts` and `hier-ucb`: users' vectors are drawn around one
//! unknown mean.
//!
//! ```text
//! μ ~ N(0, σ_q²I),  θ_i | μ ~ N(μ, σ₀²I),  y ~ N(⟨x, θ_i⟩, σ²);   λ = σ²/σ₀²,  M_i = λI + Σxxᵀ
//! w_i = M_i⁻¹Σxy
//! mean's posterior      Σ̄⁻¹ = σ_q⁻²I + σ₀⁻² Σ_i (I − λM_i⁻¹),   Σ̄⁻¹μ̄ = σ₀⁻² Σ_i w_i
//! user's, given μ       N(w_i + λM_i⁻¹μ, σ²M_i⁻¹)
//! ```
//!
//! One reward changes M_i⁻¹ by −ggᵀ/(1 + ⟨x, g⟩), g = M_i⁻¹x, and so Σ̄⁻¹ by a rank-one term: the
//! factors of both follow it in O(d²), whatever the number of users.

use std::io::{self, Read, Write};

use super::served::{read_ridges, write_ridges};
use crate::algebra::Cholesky;
use crate::intercept::INTERCEPT;
use crate::linear::{Ridge, dot};
use crate::params::{NOT_NEGATIVE, POSITIVE, Param, Settings};
use crate::saved::{check_equal, read_numbers, write_numbers};
use crate::shared_list::SharedList;
use crate::{Error, Problem};

/// The parameters of the hierarchy.
pub(crate) const HIERARCHY_PARAMS: &[Param] = &[
    Param::real("sigma_q", POSITIVE, 1.0, "σ_q: the mean of users is N(0, σ_q²I)"),
    Param::real("sigma_0", POSITIVE, 0.5, "σ₀: users are N(mean, σ₀²I)"),
    Param::derived(
        "sigma",
        NOT_NEGATIVE,
        "the environment's noise",
        "σ, the noise scale of one reward",
    ),
    INTERCEPT,
];

/// λ = σ²/σ₀² is clamped to this: beyond, one of the two is lost in rounding.
const LAMBDAS: (f64, f64) = (1e-8, 1e8);

/// The posteriors of all users and of their mean.
#[derive(Clone)]
pub(crate) struct Hierarchy {
    pub(crate) dim: usize,
    pub(crate) lambda: f64,
    /// σ as implied by λ and σ₀.
    pub(crate) sigma: f64,
    sigma_0: f64,
    /// Shared with copies until one of them learns.
    users: SharedList<Ridge>,
    fresh: Ridge,
    /// Σ̄⁻¹.
    pub(crate) precision: Cholesky,
    moment: Vec<f64>,
    /// μ̄.
    pub(crate) mean: Vec<f64>,
}

impl Hierarchy {
    pub(crate) fn new(problem: &Problem, settings: &Settings) -> Self {
        let (dim, sigma_0) = (problem.dim, settings.real("sigma_0"));
        let sigma = settings.derived("sigma", || problem.sigma);
        let lambda = (sigma / sigma_0).powi(2).clamp(LAMBDAS.0, LAMBDAS.1);
        Self {
            dim,
            lambda,
            sigma: sigma_0 * lambda.sqrt(),
            sigma_0,
            users: SharedList::default(),
            fresh: Ridge::new(dim, lambda),
            precision: Cholesky::identity(dim, settings.real("sigma_q").powi(-2)),
            moment: vec![0.0; dim],
            mean: vec![0.0; dim],
        }
    }

    /// The regression of a user.
    pub(crate) fn user(&self, user: usize) -> &Ridge {
        self.users.get(user).unwrap_or(&self.fresh)
    }

    /// w_i + λM_i⁻¹μ, in place of μ: the expectation of a user whose prior mean is μ.
    pub(crate) fn around(&self, user: usize, mean: &mut [f64]) {
        let known = self.user(user);
        known.factor().solve(mean);
        mean.iter_mut().zip(known.estimate()).for_each(|(m, w)| *m = w + self.lambda * *m);
    }

    pub(crate) fn learn(&mut self, user: usize, x: &[f64], y: f64) {
        let known = self.users.get_or_grow(user, &self.fresh);
        let mut gain = x.to_vec();
        known.factor().solve(&mut gain);
        let scale = (self.lambda / (1.0 + dot(x, &gain).max(0.0))).sqrt() / self.sigma_0;
        gain.iter_mut().for_each(|gain| *gain *= scale);
        let before = known.estimate().to_vec();
        known.learn(x, y);

        self.precision.add_outer(&mut gain);
        let weight = self.sigma_0.powi(-2);
        let step = known.estimate().iter().zip(&before).map(|(new, old)| weight * (new - old));
        self.moment.iter_mut().zip(step).for_each(|(moment, step)| *moment += step);
        self.mean.copy_from_slice(&self.moment);
        self.precision.solve(&mut self.mean);
    }

    pub(crate) fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        write_ridges(out, self.dim, &self.users)?;
        write_numbers(out, self.precision.packed())?;
        write_numbers(out, &self.moment)?;
        write_numbers(out, &self.mean)
    }

    pub(crate) fn load(&mut self, from: &mut dyn Read, what: &'static str) -> Result<(), Error> {
        let users = read_ridges(from, what, self.dim)?;
        let precision = crate::linear::read_factor(from, what, self.dim)?;
        let (mut moment, mut mean) = (self.moment.clone(), self.mean.clone());
        read_numbers(from, what, &mut moment)?;
        read_numbers(from, what, &mut mean)?;
        (self.users, self.precision) = (users, precision);
        (self.moment, self.mean) = (moment, mean);
        Ok(())
    }

    pub(crate) fn adopt(&mut self, other: Self, what: &'static str) -> Result<(), Error> {
        check_equal(what, "dimension", other.dim, self.dim)?;
        (self.users, self.precision) = (other.users, other.precision);
        (self.moment, self.mean) = (other.moment, other.mean);
        Ok(())
    }
}
