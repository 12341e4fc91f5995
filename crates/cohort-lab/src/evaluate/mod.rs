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
        let expected = match log.unknown_choices {
            0 => "one or more".to_owned(),
            left_out => format!(
                "one or more ({left_out} were left out: it is not known among how many items they were chosen)"
            ),
        };
        return Err(Error::unexpected("the log", "no row with a reward", expected));
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
    warnings.extend(warning_of_cut_rows(log, target.name(), wanted));
    Ok(Evaluation { policy: target.name().to_owned(), estimates, weights, warnings })
}

/// Of decisions from a catalogue the log has the best items alone. What that does to a policy's estimates, if anything.
fn warning_of_cut_rows(log: &Log, policy: &str, wanted: &[Estimator]) -> Option<String> {
    let cut = log.rows.iter().filter(|row| row.is_cut()).count();
    let knows_all = matches!(policy, "logged" | "random");
    let only_weighs = wanted.iter().all(|one| matches!(one, Estimator::Ips | Estimator::Snips));
    (cut > 0 && policy != "logged" && !(knows_all && only_weighs)).then(|| {
        let rows = log.rows.len();
        let what = match knows_all {
            true => "dr and replay leave out the other items; ips and snips do not need them",
            false => "the policy is evaluated as if it could choose among those alone",
        };
        format!("{cut} of {rows} rows list only the best items of a catalogue (`among`): {what}")
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use log::Row;

    /// Of a catalogue of 40 items the log has the best two; all were shown equally often, so `random` earned what was logged.
    #[test]
    fn random_is_uniform_over_the_catalogue_and_not_over_what_the_log_lists_of_it() {
        let mut log = Log::default();
        log.items.number("a");
        log.items.number("b");
        for line in 0..400usize {
            let reward = f64::from(u8::from(line.is_multiple_of(4)));
            let candidates = [0, 1].into();
            let (among, propensity) = (Some(40), Some(1.0 / 40.0));
            log.rows.push(Row { line, candidates, among, propensity, reward, ..Row::default() });
        }
        let estimates = [Estimator::Ips, Estimator::Snips];
        let mut targets = vec![target::TargetSpec::parse("random").unwrap().build(&log).unwrap()];
        let found = evaluate(&log, &mut targets, &estimates, 1).unwrap();
        for estimate in &found[0].estimates {
            assert!(
                estimate.value.is_some_and(|value| (value - 0.25).abs() < 1e-12),
                "{estimate:?}"
            );
        }
        assert!(!found[0].warnings.join("\n").contains("catalogue"), "{:?}", found[0].warnings);
        let mut targets = vec![target::TargetSpec::parse("item=b").unwrap().build(&log).unwrap()];
        let found = evaluate(&log, &mut targets, &estimates, 1).unwrap();
        assert!(found[0].warnings.join("\n").contains("400 of 400 rows list only the best items"));
    }
}
