//! Replay (rejection sampling): the mean over rows where the policy chooses what the log did.
//!
//! ```text
//! V̂ = mean of r_i over { i : the policy chooses a_i }
//! ```
//!
//! Unbiased where the log was made uniformly at random: the kept rows are then distributed as the
//! policy would have seen them. A learning policy learns from the kept rows alone, so this is its
//! reward while learning. Needs no propensities; most rows are lost.
//!
//! Reference: Li, Chu, Langford and Wang, *Unbiased Offline Evaluation of Contextual-bandit-based
//! News Article Recommendation Algorithms*, WSDM 2011, Algorithm 2.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Estimate, Estimator, WeightedRow};
use crate::Error;
use crate::evaluate::log::Log;
use crate::evaluate::target::Target;

/// Computes the estimate. Random choices of the policy are drawn from the seed.
pub fn estimate(log: &Log, target: &mut dyn Target, seed: u64) -> Result<Estimate, Error> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut kept = Vec::new();
    let mut probabilities = Vec::new();
    target.forget(log)?;
    for (at, row) in log.rows.iter().enumerate() {
        target.probabilities(log, at, &mut probabilities)?;
        if draw(&probabilities, row.is_cut(), &mut rng) == Some(row.chosen) {
            kept.push(WeightedRow { weight: 1.0, reward: row.reward, ..WeightedRow::default() });
            target.learn(log, at);
        }
    }
    let rewards: Vec<f64> = kept.iter().map(|row| row.reward).collect();
    Ok(Estimate::mean(Estimator::Replay, &rewards, &kept))
}

/// The reason why replay is biased on this log, if there is one.
pub fn warning(log: &Log) -> Option<String> {
    let uniform = |row: &crate::evaluate::log::Row| {
        let even = 1.0 / row.choices() as f64;
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

/// An index drawn with these probabilities; a certain one takes no random number. `None` is an item that is not in the log.
fn draw(probabilities: &[f64], is_cut: bool, rng: &mut ChaCha8Rng) -> Option<usize> {
    if let Some(certain) = probabilities.iter().position(|p| *p == 1.0) {
        return Some(certain);
    }
    let mut left = rng.random::<f64>();
    for (at, probability) in probabilities.iter().enumerate() {
        left -= probability;
        if left < 0.0 {
            return Some(at);
        }
    }
    // What rounding leaves is the last one's.
    if is_cut { None } else { probabilities.iter().rposition(|p| *p > 0.0) }
}
