//! The command `cohort`, in the package.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs a command line; returns the exit code.
#[pyfunction]
pub fn run_command(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| cohort_cli::run(words))
}
