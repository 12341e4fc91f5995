//! OFUL: optimism in the face of uncertainty for one linear learner, the building block of most
//! policies.
//!
//! ```text
//! V = λI + Σxxᵀ,  θ̂ = V⁻¹Σxy,  play argmax_x ⟨x, θ̂⟩ + β‖x‖_{V⁻¹}      (ties: lowest index)
//! ```
//!
//! V⁻¹ and θ̂ follow each reward by Sherman–Morrison in O(d²), and ln det V grows by ln(1 +
//! xᵀV⁻¹x). V itself is stored too, and V⁻¹, θ̂ and ln det V are recomputed from it when the number
//! of rewards is a multiple of [`REFRESH_UPDATES`], and whenever one update would cancel more than
//! half of the digits. An update of several rewards at once may step over a multiple: then the next
//! refresh is at a later one.
//!
//! Reference: Abbasi-Yadkori, Pál, Szepesvári, *Improved Algorithms for Linear Stochastic
//! Bandits*, NeurIPS 2011.

mod saved;

use std::sync::Arc;

use super::{Bonus, Confidence, Progress, Shape, Statistics, Symmetric, argmax, dot};
use crate::{Arm, Contexts};

/// V⁻¹ is recomputed when the number of rewards is a multiple of this. The refresh costs O(d³), so
/// spread over the updates it is negligible, and the drift in between stays near 10⁻¹³. With
/// several rewards per update the intervals vary around it.
pub const REFRESH_UPDATES: usize = 1024;

/// The largest xᵀV⁻¹x of a rank-one update: beyond it too many digits cancel (V⁻¹ loses a factor 1
/// + xᵀV⁻¹x).
pub const LARGEST_STEP: f64 = 1e7;

/// One linear learner. Copies share its numbers until one of them learns, so that a copy of many
/// learners is cheap.
#[derive(Clone, Debug)]
pub struct Oful {
    numbers: Arc<Numbers>,
}

#[derive(Clone, Debug)]
struct Numbers {
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
    /// A fresh learner.
    pub fn new(dim: usize, lambda: f64) -> Self {
        let numbers = Numbers {
            precision: Symmetric::identity(dim, lambda),
            inverse: Symmetric::identity(dim, 1.0 / lambda),
            moment: vec![0.0; dim],
            estimate: vec![0.0; dim],
            log_det: 0.0,
            updates: 0,
            gain: vec![0.0; dim],
            lambda,
        };
        Self { numbers: Arc::new(numbers) }
    }

    /// The numbers, for writing: copied first where they are shared.
    fn own(&mut self) -> &mut Numbers {
        Arc::make_mut(&mut self.numbers)
    }

    /// A learner with these sufficient statistics.
    pub fn from_statistics(statistics: &Statistics, lambda: f64) -> Self {
        let dim = statistics.moment.len();
        let mut oful = Self::new(dim, lambda);
        let own = oful.own();
        own.precision.add(1.0, &statistics.gram);
        own.moment.copy_from_slice(&statistics.moment);
        own.updates = statistics.rewards as usize;
        own.refresh();
        oful
    }

    /// Plays `argmax_x max_{θ ∈ C} ⟨x, θ⟩` over the confidence set C.
    pub fn choose(&self, contexts: &Contexts, confidence: &Confidence) -> Arm {
        let radius = confidence.radius(self.progress());
        match confidence.shape {
            Shape::Ellipsoid => self.best_arm(contexts, radius),
            Shape::Squared => self.best_arm_by(contexts, radius, Bonus::Squared),
            ball @ Shape::Ball { .. } => {
                argmax(contexts.iter().map(|x| self.optimistic(x, radius, ball)))
            }
        }
    }

    /// ⟨x, θ̂⟩ + radius·‖x‖ in the norm of the set, or with its square.
    pub fn optimistic(&self, x: &[f64], radius: f64, shape: Shape) -> f64 {
        dot(x, self.estimate()) + radius * shape.length(x, self.inverse())
    }

    /// Learns one reward for one context.
    pub fn learn(&mut self, x: &[f64], y: f64) {
        self.learn_weighted(x, 1.0, y);
    }

    /// Learns several rewards of the same context at once: their number and their sum.
    pub fn learn_weighted(&mut self, x: &[f64], rewards: f64, sum: f64) {
        self.own().learn(x, rewards, sum);
    }

    /// Adds the data of other learners with the same λ: V ← V + Σ(V_l − λI).
    pub fn absorb<'a>(&mut self, others: impl IntoIterator<Item = &'a Self>) {
        let own = self.own();
        for other in others {
            own.add(1.0, &other.numbers);
            own.updates += other.numbers.updates;
        }
        own.refresh();
    }

    /// Removes the data of a learner that was absorbed before: V ← V − (V_l − λI).
    pub fn release(&mut self, other: &Self) {
        let own = self.own();
        own.add(-1.0, &other.numbers);
        own.updates -= other.numbers.updates;
        own.refresh();
    }

    /// V.
    pub fn precision(&self) -> &Symmetric {
        &self.numbers.precision
    }

    /// Σxy.
    pub fn moment(&self) -> &[f64] {
        &self.numbers.moment
    }

    /// θ̂.
    pub fn estimate(&self) -> &[f64] {
        &self.numbers.estimate
    }

    /// V⁻¹.
    pub fn inverse(&self) -> &Symmetric {
        &self.numbers.inverse
    }

    /// The progress, on which the radius depends.
    pub fn progress(&self) -> Progress {
        Progress { log_det: self.numbers.log_det, updates: self.numbers.updates as f64 }
    }
}

impl Numbers {
    /// [`Oful::learn_weighted`].
    fn learn(&mut self, x: &[f64], rewards: f64, sum: f64) {
        self.precision.add_outer(rewards, x);
        for (b, x) in self.moment.iter_mut().zip(x) {
            *b += x * sum;
        }
        self.updates += rewards as usize;

        self.inverse.times(x, &mut self.gain);
        let step = rewards * dot(x, &self.gain);
        // Where contexts are large and nearly collinear, rounding can make the square negative:
        // such an update is not applied.
        let sound = (0.0..=LARGEST_STEP).contains(&step);
        if !sound || self.updates.is_multiple_of(REFRESH_UPDATES) {
            return self.refresh();
        }
        let surprise = (sum - rewards * dot(x, &self.estimate)) / (1.0 + step);
        for (estimate, gain) in self.estimate.iter_mut().zip(&self.gain) {
            *estimate += gain * surprise;
        }
        self.inverse.add_outer(-rewards / (1.0 + step), &self.gain);
        self.log_det += step.ln_1p();
    }

    fn add(&mut self, sign: f64, other: &Self) {
        self.precision.add(sign, &other.precision);
        self.precision.add_diagonal(-sign * self.lambda);
        for (a, b) in self.moment.iter_mut().zip(&other.moment) {
            *a += sign * b;
        }
    }

    /// Recomputes V⁻¹, θ̂ and ln det V from V and Σxy.
    fn refresh(&mut self) {
        // V = λI + Σxxᵀ is positive definite; if rounding at extreme scales says otherwise, the
        // updated values are still the best there are.
        let Some(factor) = self.precision.cholesky() else { return };
        let inverse = factor.inverse();
        if !inverse.packed().iter().all(|number| number.is_finite()) {
            return;
        }
        self.inverse = inverse;
        self.log_det = factor.log_det() - self.moment.len() as f64 * self.lambda.ln();
        self.estimate.copy_from_slice(&self.moment);
        factor.solve(&mut self.estimate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// The largest relative difference between the updated state and a fresh Cholesky solve of V:
    /// of V⁻¹, of θ̂, of ln det V.
    fn drift(oful: &Oful) -> f64 {
        let oful = &oful.numbers;
        let mut fresh = Numbers::clone(oful);
        fresh.refresh();
        let apart = |a: &[f64], b: &[f64]| {
            let largest = b.iter().fold(f64::MIN_POSITIVE, |most, b| most.max(b.abs()));
            a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) / largest
        };
        apart(oful.inverse.packed(), fresh.inverse.packed())
            .max(apart(&oful.estimate, &fresh.estimate))
            .max(apart(&[oful.log_det], &[fresh.log_det]))
    }

    #[test]
    fn a_million_updates_leave_it_where_a_fresh_solve_would() {
        // Not a multiple of the refresh interval: the drift shown is that of 576 updates since.
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut oful = Oful::new(15, 1.0);
        for _ in 0..1_000_000 {
            let x: Vec<f64> = (0..15).map(|_| rng.random_range(-0.258..0.258)).collect();
            let y = x[0] - x[1] + rng.random_range(-0.1..0.1);
            oful.learn(&x, y);
        }
        assert!(drift(&oful) < 1e-10, "{:e}", drift(&oful));
    }

    #[test]
    fn ill_conditioned_streams_too() {
        // Nearly all contexts along one line, of lengths from 10⁻³ to 10⁴.
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let mut oful = Oful::new(6, 1.0);
        for t in 0..200_000 {
            let scale = 10f64.powf(rng.random_range(-3.0..4.0));
            let x: Vec<f64> =
                (0..6).map(|k| scale * (1.0 + 1e-4 * f64::from(k == t % 6))).collect();
            oful.learn(&x, rng.random_range(-1.0..1.0));
        }
        assert!(drift(&oful) < 1e-6, "{:e}", drift(&oful));
    }

    proptest! {
        #[test]
        fn any_updates_leave_the_inverse_symmetric_positive_definite_and_exact(
            xs in prop::collection::vec(prop::collection::vec(-3.0..3.0f64, 5), 1..60),
            lambda in 0.01..10.0f64,
        ) {
            let mut oful = Oful::new(5, lambda);
            for x in &xs {
                oful.learn(x, x[0]);
            }
            // Symmetric by construction (packed); positive definite where it has a factor.
            prop_assert!(oful.inverse().cholesky().is_some());
            prop_assert!(drift(&oful) < 1e-9, "{:e}", drift(&oful));
        }

        #[test]
        fn rewards_at_once_are_rewards_one_after_the_other(
            x in prop::collection::vec(-1.0..1.0f64, 4),
            ys in prop::collection::vec(-1.0..1.0f64, 1..20),
        ) {
            let (mut one_by_one, mut at_once) = (Oful::new(4, 1.0), Oful::new(4, 1.0));
            for y in &ys {
                one_by_one.learn(&x, *y);
            }
            at_once.learn_weighted(&x, ys.len() as f64, ys.iter().sum());
            for (a, b) in one_by_one.estimate().iter().zip(at_once.estimate()) {
                prop_assert!((a - b).abs() < 1e-12);
            }
            let gap = one_by_one.progress().log_det - at_once.progress().log_det;
            prop_assert!(gap.abs() < 1e-12);
        }
    }
}
