//! What is known of a user: statistics, estimate, confidence — for one, for many at once.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`symmetric`] | how is a symmetric matrix kept, factored, inverted, diagonalised? |
//! | [`Statistics`] | what has been seen? (Σxxᵀ, Σxy, Σy², n) |
//! | [`Confidence`] | how sure is one of it? |
//! | [`Oful`] | what follows for one learner? |
//! | [`Oful::best_arm`] | which arm of one request is best for one learner? |
//! | [`Bank`] | what follows for many learners at once? |
//! | [`largest_norm`] | how long can θ be within an ellipsoid? |

mod bank;
mod best_arm;
mod confidence;
mod largest_norm;
mod oful;
mod statistics;
pub mod symmetric;

pub use bank::{Bank, InstructionSet};
pub use confidence::{Confidence, OFUL_PARAMS, Progress, Shape, default_rho_min, tau_min};
pub use largest_norm::largest_norm;
pub use oful::Oful;
pub use statistics::Statistics;
pub use symmetric::Symmetric;

/// ⟨a, b⟩
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The place of the largest score, the lowest where several are equal.
pub fn argmax(scores: impl IntoIterator<Item = f64>) -> usize {
    let mut best = (0, f64::NEG_INFINITY);
    for (at, score) in scores.into_iter().enumerate() {
        if score > best.1 {
            best = (at, score);
        }
    }
    best.0
}
