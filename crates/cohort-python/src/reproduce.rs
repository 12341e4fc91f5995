//! The paper's evaluation, called from Python.

use std::path::PathBuf;

use cohort_lab::datasets;
use cohort_lab::reproduce::{Halt as NoReport, Request, reproduce as run};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors::of_lab;
use crate::simulate::cores;
use crate::watch::{Halt, ProgressCounter, watched};

/// Runs or continues studies of the paper, and writes the report.
#[pyfunction]
#[pyo3(signature = (quick, only, out, data, seed, reps, threads, progress))]
#[expect(clippy::too_many_arguments, reason = "one for each option of the command")]
pub fn reproduce<'py>(
    py: Python<'py>,
    quick: bool,
    only: Vec<String>,
    out: PathBuf,
    data: Option<PathBuf>,
    seed: Option<u64>,
    reps: Option<usize>,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let data = datasets::folder(data.as_deref());
    let threads = threads.unwrap_or_else(cores);
    let request = Request {
        quick,
        quick_for: Vec::new(),
        so_far: false,
        only,
        without: Vec::new(),
        out,
        data,
        seed,
        reps,
        threads,
        docs: None,
    };
    let (halt, progress_counter) = (Halt::default(), ProgressCounter::default());
    let work = || run(&request, &progress_counter, &halt.stop);
    let report = match watched(py, &halt, &progress_counter, progress.as_ref(), work)? {
        Ok(report) => report,
        Err(NoReport::Stopped) => return Err(PyKeyboardInterrupt::new_err(())),
        Err(NoReport::Failed(error)) => return Err(of_lab(error)),
    };

    let claims = PyList::empty(py);
    for judged in &report.claims {
        let claim = PyDict::new(py);
        claim.set_item("id", judged.claim.id)?;
        claim.set_item("study", judged.claim.study)?;
        claim.set_item("statement", judged.claim.statement)?;
        claim.set_item("place", judged.claim.place)?;
        claim.set_item("rule", judged.claim.rule)?;
        claim.set_item("verdict", judged.finding.verdict.to_string())?;
        claim.set_item("why", &judged.finding.why)?;
        claim.set_item("numbers", &judged.finding.numbers)?;
        claims.append(claim)?;
    }
    let result = PyDict::new(py);
    result.set_item("claims", claims)?;
    result.set_item("page", report.page)?;
    result.set_item("folder", &request.out)?;
    result.set_item("left_out", report.left_out)?;
    Ok(result)
}
