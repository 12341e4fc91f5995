//! Replay: let the policy choose again, and count the rows where it chooses as the log did.
//!
//! ```text
//! V̂ = mean of r_i over { i : the policy chooses a_i }
//! ```
//!
//! Right where the log was made uniformly at random: the rows kept are then those that the policy
//! would have met. A policy that learns learns from the rows kept, and from nothing else, so this is
//! what it would have earned while learning. Needs no propensities, and most rows are lost.
//!
//! Reference: Li, Chu, Langford and Wang, *Unbiased Offline Evaluation of Contextual-bandit-based
//! News Article Recommendation Algorithms*, WSDM 2011, Algorithm 2.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Estimate, Estimator, WeightedRow};
use crate::Error;
use crate::evaluate::log::Log;
use crate::evaluate::target::Target;

/// The estimate. What the policy leaves to chance is drawn from the seed.
pub fn estimate(log: &Log, target: &mut dyn Target, seed: u64) -> Result<Estimate, Error> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut kept = Vec::new();
    let mut probabilities = Vec::new();
    target.forget(log)?;
    for (at, row) in log.rows.iter().enumerate() {
        target.probabilities(log, at, &mut probabilities)?;
        if draw(&probabilities, &mut rng) == row.chosen {
            kept.push(WeightedRow { weight: 1.0, reward: row.reward, ..WeightedRow::default() });
            target.learn(log, at);
        }
    }
    let rewards: Vec<f64> = kept.iter().map(|row| row.reward).collect();
    Ok(Estimate::mean(Estimator::Replay, &rewards, &kept))
}

/// What makes replay wrong for this log, if anything does.
pub fn warning(log: &Log) -> Option<String> {
    let uniform = |row: &crate::evaluate::log::Row| {
        let even = 1.0 / row.candidates.len() as f64;
        row.propensity.is_some_and(|p| (p - even).abs() <= 1e-3 * even)
    };
    if log.rows.iter().any(|row| row.propensity.is_none()) {
        return Some(
            "replay: the log has no propensities; the estimate is right only if items were chosen \
             uniformly at random"
                .to_owned(),
        );
    }
    let others = log.rows.iter().filter(|row| !uniform(row)).count();
    (others > 0).then(|| {
        format!(
            "replay: {others} of {} rows were not chosen uniformly at random: the estimate is of \
             the items that were chosen often, not of all",
            log.rows.len()
        )
    })
}

/// A place with these probabilities; one that is certain takes no random number.
fn draw(probabilities: &[f64], rng: &mut ChaCha8Rng) -> usize {
    if let Some(certain) = probabilities.iter().position(|p| *p == 1.0) {
        return certain;
    }
    let mut left = rng.random::<f64>();
    for (at, probability) in probabilities.iter().enumerate() {
        left -= probability;
        if left < 0.0 {
            return at;
        }
    }
    probabilities.iter().rposition(|p| *p > 0.0).unwrap_or(0)
}
