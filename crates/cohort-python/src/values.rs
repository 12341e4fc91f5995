//! Conversion of parameter values.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cohort::params::Value;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString};

use crate::errors::unexpected;

/// Parameters by name, as given.
pub type Values = BTreeMap<String, Value>;

/// The entries of a dictionary as parameters; `None` is not set.
pub fn values(given: &Bound<'_, PyDict>) -> PyResult<Values> {
    let mut values = Values::new();
    for (name, value) in given {
        let name: String = name.extract()?;
        if !value.is_none() {
            let value = value_of(&name, &value)?;
            values.insert(name, value);
        }
    }
    Ok(values)
}

fn value_of(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(Value::Text(flag.is_true().to_string()));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Value::Text(text.to_string()));
    }
    if let Ok(number) = value.extract::<f64>() {
        return Ok(Value::Real(number));
    }
    if let Ok(path) = value.extract::<PathBuf>() {
        return Ok(Value::Text(path.display().to_string()));
    }
    let found = value.get_type().name()?.to_string();
    Err(unexpected(name, found, "a number, a word, True or False"))
}
