//! Off-policy evaluation, called from Python.

use std::path::PathBuf;

use cohort_lab::evaluate::estimators::Estimator;
use cohort_lab::evaluate::target::TargetSpec;
use cohort_lab::evaluate::{evaluate as judge, reading};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::json;

use crate::errors::{Failed, of_lab, unexpected};
use crate::values::values;

/// Evaluates policies by the log in a file: each as it is written on the command line, with its
/// parameters. The result is the JSON of the command.
#[pyfunction]
pub fn evaluate(
    py: Python<'_>,
    path: PathBuf,
    policies: Vec<(String, Bound<'_, PyDict>)>,
    estimators: Vec<String>,
    seed: u64,
) -> PyResult<String> {
    let find = |name: String| {
        let found = Estimator::ALL.into_iter().find(|estimator| estimator.name() == name);
        let expected = || format!("some of {}", Estimator::ALL.map(Estimator::name).join(", "));
        found.ok_or_else(|| unexpected("estimators", format!("`{name}`"), expected()))
    };
    let estimators = estimators.into_iter().map(find).collect::<PyResult<Vec<_>>>()?;
    let mut wanted = Vec::new();
    for (name, params) in policies {
        let mut one = TargetSpec::parse(&name).map_err(of_lab)?;
        if let TargetSpec::Learner(info, settings) = &mut one {
            let params = values(&params)?;
            info.check(params.clone()).map_err(crate::errors::refused)?;
            settings.extend(params);
        }
        wanted.push(one);
    }
    let work = || {
        let log = reading::read(&path)?;
        let targets = wanted.into_iter().map(|wanted| wanted.build(&log));
        let mut targets = targets.collect::<Result<Vec<_>, _>>()?;
        let policies = judge(&log, &mut targets, &estimators, seed)?;
        Ok(json!({
            "rows": log.rows.len(),
            "unrewarded": log.unrewarded,
            "unknown_choices": log.unknown_choices,
            "items": log.items.len(),
            "users": log.users.len(),
            "policies": policies,
        }))
    };
    let judged: Result<_, cohort_lab::Error> = py.detach(work);
    serde_json::to_string(&judged.map_err(of_lab)?).map_err(|why| Failed::new_err(why.to_string()))
}
