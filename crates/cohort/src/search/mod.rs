//! Which of very many items have the largest scores for a user, without scoring each?
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`ScoreForm`] | what is a policy's score, as a function of an item's features? |
//! | `prepared` | which bounds on that function are cheap? |
//! | [`ItemMatrix`] | where are the items, and which may be among the best? |
//! | `screen` | how are sixteen items looked at together? |
//!
//! ```text
//! score(x) = offset + ⟨m, x⟩ + √(xᵀQx) + max(0, ⟨z, x⟩)
//! Q = LLᵀ (pivoted), yᵣ = (Lᵀx)ᵣ;  for every r:  xᵀQx ≤ Σ_{i<r} yᵢ² + λ(Sᵣ)·‖x beyond the first r pivots‖²
//! ```
//!
//! With a z the score is the larger one of two without: of m, and of m + z. Whatever is among the best by the larger one is so
//! by one of them, so both are searched. Sᵣ is what is left of Q after r pivots, λ(Sᵣ) a bound on its largest eigenvalue that is proved by a
//! Cholesky factorisation. An item is dropped as soon as its bound is below the k-th best score that is
//! certain so far; r = 0 costs d multiplications an item. The numbers are f32, and every bound allows for
//! their rounding: what comes back holds all of the best k, and all that equal the k-th. Whoever
//! wants the answer scores those by the policy itself.
//!
//! ```
//! use cohort::search::{ItemMatrix, ScoreForm};
//! use cohort::linear::Symmetric;
//!
//! let mut items = ItemMatrix::new(2);
//! for slot in 0..1000 {
//!     let angle = slot as f64;
//!     items.set(slot, &[angle.cos(), angle.sin()]);
//! }
//! let form = ScoreForm::new(vec![1.0, 0.0], Symmetric::identity(2, 0.01));
//! let best = items.best(&form, 1, None, None);
//! assert!(best.len() < 20 && best.contains(&0), "cos 0 = 1 is the largest");
//! ```

mod matrix;
mod prepared;
mod screen;
#[cfg(test)]
mod tests;

pub use matrix::ItemMatrix;

use crate::linear::Symmetric;

/// A score as a function of an item's features x: `offset + ⟨mean, x⟩ + √(xᵀ spread x)`, and `max(0, ⟨drawn, x⟩)`
/// where something was drawn.
#[derive(Clone, Debug)]
pub struct ScoreForm {
    /// What all items have in common.
    pub offset: f64,
    /// The coefficients of the reward that is expected.
    pub mean: Vec<f64>,
    /// What the exploration bonus is the root of; positive semidefinite.
    pub spread: Symmetric,
    /// Coefficients of a term that is added where it is positive.
    pub drawn: Option<Vec<f64>>,
    /// How much a policy's own arithmetic may differ from this form, for an item of length 1, beyond
    /// the usual rounding of sums.
    pub rounding: f64,
}

impl ScoreForm {
    /// Without an offset, as exact as sums are.
    pub fn new(mean: Vec<f64>, spread: Symmetric) -> Self {
        Self { offset: 0.0, mean, spread, drawn: None, rounding: 0.0 }
    }

    /// Of a policy to which all items are alike.
    pub fn flat(dim: usize) -> Self {
        Self::new(vec![0.0; dim], Symmetric::zero(dim))
    }

    /// Whether all items are alike.
    pub fn is_flat(&self) -> bool {
        let numbers = self.mean.iter().chain(self.drawn.iter().flatten());
        numbers.chain(self.spread.packed()).all(|value| *value == 0.0)
    }

    /// Whether an item's length alone decides: nothing is expected of any direction, and all are as uncertain.
    pub fn is_radial(&self) -> bool {
        let first = self.spread.at(0, 0);
        let dim = self.spread.dim();
        let is_scaled =
            |i: usize| self.spread.at(i, i) == first && (0..i).all(|j| self.spread.at(i, j) == 0.0);
        let mut numbers = self.mean.iter().chain(self.drawn.iter().flatten());
        numbers.all(|value| *value == 0.0) && (0..dim).all(is_scaled)
    }

    /// The score of one item.
    pub fn at(&self, x: &[f64]) -> f64 {
        let bonus = self.spread.quadratic(x).max(0.0).sqrt();
        let drawn = self.drawn.as_ref().map_or(0.0, |drawn| crate::linear::dot(drawn, x).max(0.0));
        self.offset + crate::linear::dot(&self.mean, x) + bonus + drawn
    }

    /// The same as one or two without anything drawn: the score is the larger one of theirs.
    fn parts(&self) -> Vec<Self> {
        let without = Self { drawn: None, ..self.clone() };
        let Some(drawn) = &self.drawn else { return vec![without] };
        let mean = self.mean.iter().zip(drawn).map(|(a, b)| a + b).collect();
        // A sum of two numbers is not exact.
        let length = |numbers: &[f64]| crate::linear::dot(numbers, numbers).sqrt();
        let rounding = self.rounding + 4.0 * f64::EPSILON * (length(&self.mean) + length(drawn));
        vec![without.clone(), Self { mean, rounding, ..without }]
    }
}
