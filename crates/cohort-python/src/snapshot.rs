//! Learned state in a file of the service's snapshot format: a service with one app.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use cohort::params::Value;
use cohort_server::settings::AppSettings;
use cohort_server::snapshot::single;
use cohort_server::state::State;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::errors::{BadInput, Failed};
use crate::learner::Learner;
use crate::values::values;

/// Writes a snapshot with one app that has the learner's state.
#[pyfunction]
pub fn write_snapshot(
    py: Python<'_>,
    path: PathBuf,
    app: &str,
    learner: &Learner,
    params: &Bound<'_, PyDict>,
    users: Vec<String>,
) -> PyResult<()> {
    let params = values(params)?;
    let policy = learner.name.to_owned();
    let settings = AppSettings { policy, params, ..AppSettings::new(learner.dim) };
    let learned = learner.learned(py)?;
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis());
    py.detach(|| {
        let users = users.iter().map(String::as_str);
        let mut state = State::with_app(app, settings, now_ms as u64, users, &learned)
            .map_err(|error| BadInput::new_err(error.to_string()))?;
        single::write(&path, 0, &mut |out| state.save(out))
            .map_err(|error| Failed::new_err(error.to_string()))
    })
}

/// Every app of a snapshot: its policy and its learned state.
#[pyfunction]
pub fn read_snapshot(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyList>> {
    let read = py.detach(|| single::read(&path, State::load));
    let mut state = read.map_err(|error| BadInput::new_err(error.to_string()))?;
    let names: Vec<String> = state.apps().keys().cloned().collect();
    let list = PyList::empty(py);
    for name in names {
        let Some(app) = state.app_mut(&name) else { continue };
        let entry = PyDict::new(py);
        let params = PyDict::new(py);
        for (name, value) in &app.settings().params {
            match value {
                Value::Real(number) => params.set_item(name, number)?,
                Value::Text(word) => params.set_item(name, word)?,
            }
        }
        entry.set_item("app", &name)?;
        entry.set_item("policy", &app.settings().policy)?;
        entry.set_item("dim", app.settings().dim)?;
        entry.set_item("params", params)?;
        entry.set_item("users", app.users().iter().collect::<Vec<_>>())?;
        let learned = app.learned();
        entry.set_item("learned", learned.map(|bytes| PyBytes::new(py, &bytes)))?;
        list.append(entry)?;
    }
    Ok(list)
}
