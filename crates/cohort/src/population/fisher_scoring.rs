//! Variances by Fisher scoring on the evidence: unlike EM it gets to a variance of zero, and unlike
//! Newton's method it needs no second derivatives of the data.
//!
//! Contexts were chosen by what was learned before, so that the curvature that is expected is not
//! the one that is met, and full steps can overshoot for ever. Steps down are therefore taken in
//! the logarithm and steps up are bounded.

use crate::linear::Symmetric;

/// Slopes and expected curvature of the evidence in some variances.
#[derive(Clone, Debug)]
pub struct FisherScore {
    /// ∂/∂v.
    pub slope: Vec<f64>,
    /// −E ∂²/∂v∂v'.
    pub curve: Symmetric,
}

impl FisherScore {
    /// Of nothing.
    pub fn new(count: usize) -> Self {
        Self { slope: vec![0.0; count], curve: Symmetric::zero(count) }
    }

    /// Adds to the curvature of two variances.
    pub fn bend(&mut self, a: usize, b: usize, by: f64) {
        let (low, high) = if a < b { (a, b) } else { (b, a) };
        self.curve.packed_mut()[high * (high + 1) / 2 + low] += by;
    }

    /// A prior that keeps a variance from being zero while little is known of it, p(v) ∝ v exp(−v/largest): a
    /// population of which little was seen is not yet one where all are the same. Where rewards say nothing of
    /// it at all, as of one user alone, or of a feature that is always the same, it goes to `largest` and no further.
    pub fn keep_from_zero(&mut self, at: usize, variance: f64, largest: f64) {
        let variance = variance.max(1e-150);
        self.slope[at] += 1.0 / variance - 1.0 / largest.max(1e-150);
        self.bend(at, at, 1.0 / (variance * variance));
    }

    /// One step of scoring from `now`, all variances together. A variance that reaches zero stays
    /// there and the others are solved again without it; those not `free` stay as they are. `scales` are the sizes that the
    /// rewards suggest.
    pub fn step(&self, now: &[f64], scales: &[f64], free: &[bool]) -> Vec<f64> {
        let count = now.len();
        let mut fixed: Vec<bool> =
            (0..count).map(|at| !free[at] || self.curve.at(at, at) <= 0.0).collect();
        let mut steps = vec![0.0; count];
        for _ in 0..count {
            let open: Vec<usize> = (0..count).filter(|at| !fixed[*at]).collect();
            if open.is_empty() {
                break;
            }
            let solved = self.solve(&open, &steps, &fixed);
            let mut met_zero = false;
            for (&at, step) in open.iter().zip(solved) {
                steps[at] = step;
                if now[at] + step < 0.0 {
                    steps[at] = bounded(now[at], step, 0.0) - now[at];
                    fixed[at] = true;
                    met_zero = true;
                }
            }
            if !met_zero {
                break;
            }
        }
        (0..count).map(|at| bounded(now[at], steps[at], scales[at])).collect()
    }

    fn solve(&self, open: &[usize], steps: &[f64], fixed: &[bool]) -> Vec<f64> {
        let mut right: Vec<f64> = (open.iter())
            .map(|&a| {
                let moved = (0..steps.len()).filter(|b| fixed[*b] && steps[*b] != 0.0);
                self.slope[a] - moved.map(|b| self.curve.at(a, b) * steps[b]).sum::<f64>()
            })
            .collect();
        // Scaled to a unit diagonal, with a little more than that so that it can be solved.
        let root: Vec<f64> = open.iter().map(|&a| self.curve.at(a, a).sqrt()).collect();
        let packed = (0..open.len()).flat_map(|i| {
            let root = &root;
            (0..=i).map(move |j| {
                let entry = self.curve.at(open[i], open[j]) / (root[i] * root[j]);
                if i == j { 1.0 + 1e-9 } else { entry }
            })
        });
        let matrix = Symmetric::from_packed(open.len(), packed.collect());
        right.iter_mut().zip(&root).for_each(|(value, root)| *value /= root);
        if let Some(factor) = matrix.cholesky() {
            factor.solve(&mut right);
        }
        right.iter().zip(&root).map(|(value, root)| value / root).collect()
    }
}

/// A step that cannot overshoot: down in the logarithm, up by a factor (or, near zero, by a part
/// of the scale) at most.
pub fn bounded(now: f64, step: f64, scale: f64) -> f64 {
    if step.is_nan() {
        now
    } else if step < 0.0 {
        if now > 0.0 { now * (step / now).max(-20.0).exp() } else { 0.0 }
    } else {
        (now + step).min(3.0 * now + 0.03 * scale)
    }
}
