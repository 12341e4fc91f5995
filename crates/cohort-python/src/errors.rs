//! The mapping from errors to exceptions. The messages are those of the command line.

use pyo3::PyErr;

pyo3::import_exception!(cohort.errors, BadInput);
pyo3::import_exception!(cohort.errors, Failed);

/// Errors of the learning library are bad input.
pub fn refused(error: cohort::Error) -> PyErr {
    BadInput::new_err(error.to_string())
}

/// Errors of the lab.
pub fn of_lab(error: cohort_lab::Error) -> PyErr {
    let message = error.to_string();
    if error.is_bad_input() { BadInput::new_err(message) } else { Failed::new_err(message) }
}

/// The lab's error "what: found this, expected that".
pub fn unexpected(what: &str, found: impl Into<String>, expected: impl Into<String>) -> PyErr {
    let (found, expected) = (found.into(), expected.into());
    BadInput::new_err(format!("{what}: found {found}, expected {expected}"))
}
