//! What would another policy have earned? Answered from a log, without trying it on anybody.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`log`] | what was offered, chosen, with what probability, and what came of it? |
//! | [`reading`] | how is that read from a file? |
//! | [`target`] | which policy is judged, and how likely would it have chosen each item? |
//! | [`reward_model`] | what reward does an item get, as far as the log tells? |
//! | [`estimators`] | what follows for the policy, and how sure is that? One file each. |
//! | [`weights`] | can the weights be trusted? |
//!
//! A log tells what came of the items that were chosen, never of the others. Each estimator makes
//! up for that in its own way; all of them are means of one number a row, so that each comes with
//! an interval.

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

/// What is known of one policy after a log was read.
#[derive(Clone, Debug, Serialize)]
pub struct Evaluation {
    /// The policy as it was named.
    pub policy: String,
    /// One estimate each, in the order in which they were asked for.
    pub estimates: Vec<Estimate>,
    /// How the weights are, where there are any.
    pub weights: Option<Weights>,
    /// What should make one careful, in sentences.
    pub warnings: Vec<String>,
}

/// Judges policies by a log.
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
