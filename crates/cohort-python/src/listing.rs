//! Lists of policies and environments with their parameters.

use cohort::params::{DefaultValue, Param};
use cohort::registry::POLICIES;
use cohort_lab::environments::ENVIRONMENTS;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// All policies with their parameters.
#[pyfunction]
pub fn policies(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for info in POLICIES {
        let entry = PyDict::new(py);
        entry.set_item("name", info.name)?;
        entry.set_item("summary", info.summary)?;
        entry.set_item("reference", info.reference)?;
        entry.set_item("parameters", params(py, info.params)?)?;
        list.append(entry)?;
    }
    Ok(list)
}

/// All environments with their options.
#[pyfunction]
pub fn environments(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for info in ENVIRONMENTS {
        let entry = PyDict::new(py);
        entry.set_item("name", info.name)?;
        entry.set_item("summary", info.summary)?;
        entry.set_item("options", params(py, info.params)?)?;
        list.append(entry)?;
    }
    Ok(list)
}

fn params<'py>(py: Python<'py>, groups: &[&[Param]]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for param in groups.iter().copied().flatten() {
        let entry = PyDict::new(py);
        entry.set_item("name", param.name)?;
        match param.default {
            DefaultValue::Real(number) => entry.set_item("default", number)?,
            DefaultValue::Choice(text) | DefaultValue::Derived(text) => {
                entry.set_item("default", text)?
            }
        }
        entry.set_item("range", param.kind.to_string())?;
        entry.set_item("meaning", param.meaning)?;
        list.append(entry)?;
    }
    Ok(list)
}
