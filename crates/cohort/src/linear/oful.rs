//! OFUL: optimism in the face of uncertainty for one linear learner, the block everything is
//! made of.
//!
//! ```text
//! V = λI + Σxxᵀ,  θ̂ = V⁻¹Σxy,  play argmax_x ⟨x, θ̂⟩ + β‖x‖_{V⁻¹}      (ties: lowest index)
//! ```
//!
//! V⁻¹ and θ̂ follow each reward by Sherman–Morrison in O(d²), ln det V grows by ln(1 + xᵀV⁻¹x).
//! V itself is kept beside, and V⁻¹, θ̂ and ln det V are solved afresh from it every
//! [`REFRESH_UPDATES`] updates and whenever one update is so large that it would cancel more than
//! half of the digits.
//!
//! Reference: Abbasi-Yadkori, Pál, Szepesvári, *Improved Algorithms for Linear Stochastic
//! Bandits*, NeurIPS 2011.

use super::{Confidence, Progress, Shape, Statistics, Symmetric, argmax, dot};
use crate::{Arm, Contexts};

/// How many updates V⁻¹ is carried along before it is solved afresh: the refresh costs O(d³), so
/// spread over this many updates it costs nothing, and the drift in between stays near 10⁻¹³.
pub const REFRESH_UPDATES: usize = 1024;

/// xᵀV⁻¹x beyond which a rank-one update cancels too many digits (V⁻¹ loses a factor 1 + xᵀV⁻¹x).
pub const LARGEST_STEP: f64 = 1e7;

/// One linear learner.
#[derive(Clone, Debug)]
pub struct Oful {
    precision: Symmetric,
    inverse: Symmetric,
    moment: Vec<f64>,
    estimate: Vec<f64>,
    log_det: f64,
    updates: usize,
    gain: Vec<f64>,
    lambda: f64,
}

impl Oful {
    /// A learner that has seen nothing.
    pub fn new(dim: usize, lambda: f64) -> Self {
        Self {
            precision: Symmetric::identity(dim, lambda),
            inverse: Symmetric::identity(dim, 1.0 / lambda),
            moment: vec![0.0; dim],
            estimate: vec![0.0; dim],
            log_det: 0.0,
            updates: 0,
            gain: vec![0.0; dim],
            lambda,
        }
    }

    /// A learner that has seen all that the statistics have.
    pub fn from_statistics(statistics: &Statistics, lambda: f64) -> Self {
        let dim = statistics.moment.len();
        let mut oful = Self::new(dim, lambda);
        oful.precision.add(1.0, &statistics.gram);
        oful.moment.copy_from_slice(&statistics.moment);
        oful.updates = statistics.rewards as usize;
        oful.refresh();
        oful
    }

    /// Plays `argmax_x max_{θ ∈ C} ⟨x, θ⟩` over the confidence set C.
    pub fn choose(&self, contexts: &Contexts, confidence: &Confidence) -> Arm {
        let radius = confidence.radius(self.progress());
        argmax(contexts.iter().map(|x| self.optimistic(x, radius, confidence.shape)))
    }

    /// ⟨x, θ̂⟩ + radius·‖x‖, in the norm of the set.
    pub fn optimistic(&self, x: &[f64], radius: f64, shape: Shape) -> f64 {
        let length = match shape {
            Shape::Ellipsoid => self.inverse.quadratic(x),
            Shape::Ball { .. } => dot(x, x),
        };
        dot(x, &self.estimate) + radius * length.max(0.0).sqrt()
    }

    /// One reward for one context.
    pub fn learn(&mut self, x: &[f64], y: f64) {
        self.learn_weighted(x, 1.0, y);
    }

    /// Several rewards for the same context at once: how many, and their sum.
    pub fn learn_weighted(&mut self, x: &[f64], rewards: f64, sum: f64) {
        self.precision.add_outer(rewards, x);
        for (b, x) in self.moment.iter_mut().zip(x) {
            *b += x * sum;
        }
        self.updates += rewards as usize;

        self.inverse.times(x, &mut self.gain);
        let step = rewards * dot(x, &self.gain);
        if step > LARGEST_STEP || self.updates.is_multiple_of(REFRESH_UPDATES) {
            return self.refresh();
        }
        let surprise = (sum - rewards * dot(x, &self.estimate)) / (1.0 + step);
        for (estimate, gain) in self.estimate.iter_mut().zip(&self.gain) {
            *estimate += gain * surprise;
        }
        self.inverse.add_outer(-rewards / (1.0 + step), &self.gain);
        self.log_det += step.ln_1p();
    }

    /// Takes in all that other learners with the same λ have seen: V ← V + Σ(V_l − λI).
    pub fn absorb<'a>(&mut self, others: impl IntoIterator<Item = &'a Self>) {
        for other in others {
            self.add(1.0, other);
            self.updates += other.updates;
        }
        self.refresh();
    }

    /// Gives up all that another learner, absorbed before, has seen: V ← V − (V_l − λI).
    pub fn release(&mut self, other: &Self) {
        self.add(-1.0, other);
        self.updates -= other.updates;
        self.refresh();
    }

    fn add(&mut self, sign: f64, other: &Self) {
        self.precision.add(sign, &other.precision);
        self.precision.add_diagonal(-sign * self.lambda);
        for (a, b) in self.moment.iter_mut().zip(&other.moment) {
            *a += sign * b;
        }
    }

    /// V⁻¹, θ̂ and ln det V afresh from V and Σxy.
    fn refresh(&mut self) {
        // V = λI + Σxxᵀ is positive definite; if rounding at extreme scales says otherwise, what
        // was carried along is still the best there is.
        let Some(factor) = self.precision.cholesky() else { return };
        self.inverse = factor.inverse();
        self.log_det = factor.log_det() - self.moment.len() as f64 * self.lambda.ln();
        self.estimate.copy_from_slice(&self.moment);
        factor.solve(&mut self.estimate);
    }

    /// θ̂.
    pub fn estimate(&self) -> &[f64] {
        &self.estimate
    }

    /// V⁻¹.
    pub fn inverse(&self) -> &Symmetric {
        &self.inverse
    }

    /// How far it has come.
    pub fn progress(&self) -> Progress {
        Progress { log_det: self.log_det, updates: self.updates as f64 }
    }
}
