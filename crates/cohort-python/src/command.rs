//! The command `cohort`, in the package.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Does what these words say and returns how the process is to end.
#[pyfunction]
pub fn run_command(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| cohort_cli::run(words))
}
