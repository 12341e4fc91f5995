//! Off-policy evaluation: estimates from a log what another policy would have earned.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`log`] | what was offered, chosen, with what probability, and what was the reward? |
//! | [`reading`] | how is that read from a file? |
//! | [`target`] | which policy is evaluated, and with what probability does it choose each item? |
//! | [`reward_model`] | what reward does an item get, as far as the log tells? |
//! | [`estimators`] | what is the policy worth, with what interval? One file each. |
//! | [`weights`] | can the weights be trusted? |
//!
//! A log has rewards of the chosen items only. Each estimator corrects for that in its own way; all
//! are means of one number per row, so that each has an interval.

pub mod estimators;
pub mod log;
pub mod reading;
pub mod reward_model;
pub mod target;
pub mod weights;

use serde::Serialize;

use crate::Error;
use estimators::{Estimate, Estimator, WeightedRow};
use log::Log;
use reward_model::RewardModel;
use target::Target;
use weights::Weights;

/// The evaluation of one policy by a log.
#[derive(Clone, Debug, Serialize)]
pub struct Evaluation {
    /// The policy, as it was named.
    pub policy: String,
    /// One estimate per estimator, in the order asked for.
    pub estimates: Vec<Estimate>,
    /// Diagnostics of the weights, where there are any.
    pub weights: Option<Weights>,
    /// Reasons for caution, as sentences.
    pub warnings: Vec<String>,
}

/// Evaluates policies by a log.
pub fn evaluate(
    log: &Log,
    targets: &mut [Box<dyn Target>],
    wanted: &[Estimator],
    seed: u64,
) -> Result<Vec<Evaluation>, Error> {
    if log.rows.is_empty() {
        return Err(Error::unexpected("the log", "no row with a reward", "one or more"));
    }
    if let Some(needy) = wanted.iter().find(|estimator| estimator.needs_propensities()) {
        refuse_without_propensities(log, *needy)?;
    }
    let model = wanted.contains(&Estimator::Dr).then(|| RewardModel::cross_fitted(log));
    targets
        .iter_mut()
        .map(|target| evaluate_one(log, &mut **target, wanted, model.as_ref(), seed))
        .collect()
}

fn evaluate_one(
    log: &Log,
    target: &mut dyn Target,
    wanted: &[Estimator],
    model: Option<&RewardModel>,
    seed: u64,
) -> Result<Evaluation, Error> {
    let weighs = wanted.iter().any(|estimator| estimator.needs_propensities());
    let weighted = if weighs { target::follow(log, target, model)? } else { Vec::new() };
    let mut estimates = Vec::new();
    for estimator in wanted {
        estimates.push(match estimator {
            Estimator::Replay => estimators::replay::estimate(log, target, seed)?,
            Estimator::Ips => estimators::ips::estimate(&weighted),
            Estimator::Snips => estimators::snips::estimate(&weighted),
            Estimator::Dr => estimators::doubly_robust::estimate(&weighted),
        });
    }
    let weights = weighs.then(|| Weights::of(&weighted));
    let mut warnings = weights.as_ref().map(Weights::warnings).unwrap_or_default();
    warnings.extend(estimates.iter().filter_map(Estimate::warning));
    if wanted.contains(&Estimator::Replay) {
        warnings.extend(estimators::replay::warning(log));
    }
    Ok(Evaluation { policy: target.name().to_owned(), estimates, weights, warnings })
}

fn refuse_without_propensities(log: &Log, estimator: Estimator) -> Result<(), Error> {
    let Some(row) = log.rows.iter().find(|row| row.propensity.is_none()) else { return Ok(()) };
    Err(Error::unexpected(
        format!("line {}", row.line),
        "no propensity",
        format!(
            "the probability with which the item was chosen: {estimator} weighs every row by it. If \
             items were chosen uniformly at random, `--estimator replay` does without"
        ),
    ))
}
