//! What is known of a user: sufficient statistics, estimate and confidence set, for one learner or
//! many at once.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`symmetric`] | how is a symmetric matrix kept, factored, inverted, diagonalised? |
//! | [`Statistics`] | what has been seen? (Σxxᵀ, Σxy, Σy², n) |
//! | [`Confidence`] | how sure is one of it? |
//! | [`Ridge`] | what does a learner for sampling policies keep? |
//! | [`Oful`] | what does one learner keep, and how is it updated? |
//! | [`Oful::best_arm`] | which arm of one request is best for one learner? |
//! | `arm_groups` | what do many learners say of the same few arms? |
//! | [`Bank`] | the same for many learners at once |
//! | [`largest_norm`] | how long can θ be within an ellipsoid? |

mod arm_groups;
mod bank;
mod best_arm;
mod confidence;
mod largest_norm;
mod oful;
mod ridge;
mod statistics;

pub use crate::algebra::{Symmetric, symmetric};
pub(crate) use arm_groups::{ArmGroup, ArmValues, groups, score_group};
pub use bank::{Bank, InstructionSet};
pub use best_arm::Bonus;
pub use confidence::{Confidence, OFUL_PARAMS, Progress, Shape, default_rho_min, tau_min};
pub use largest_norm::largest_norm;
pub use oful::Oful;
pub use ridge::Ridge;
pub(crate) use ridge::read_factor;
pub use statistics::Statistics;

/// ⟨a, b⟩
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Σ term(a_k, b_k) as four independent partial sums, so that no addition waits for the previous
/// one.
#[inline(always)]
pub(crate) fn sum_in_parts(a: &[f64], b: &[f64], term: impl Fn(f64, f64) -> f64) -> f64 {
    const SUMS: usize = 4;
    let mut sums = [0.0; SUMS];
    let (a, b) = (a.chunks_exact(SUMS), b.chunks_exact(SUMS));
    for (sum, (a, b)) in sums.iter_mut().zip(a.remainder().iter().zip(b.remainder())) {
        *sum = term(*a, *b);
    }
    for (a, b) in a.zip(b) {
        for at in 0..SUMS {
            sums[at] += term(a[at], b[at]);
        }
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3])
}

/// The index of the largest score; ties go to the lowest index.
pub fn argmax(scores: impl IntoIterator<Item = f64>) -> usize {
    let mut best = (0, f64::NEG_INFINITY);
    for (at, score) in scores.into_iter().enumerate() {
        if score > best.1 {
            best = (at, score);
        }
    }
    best.0
}
