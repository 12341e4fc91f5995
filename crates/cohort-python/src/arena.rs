//! The arena, called from Python: policies of the registry beside policies written in Python.

use std::path::PathBuf;
use std::sync::Arc;

use cohort_lab::arena::{Request, arena as play, numbers};
use cohort_lab::datasets;
use cohort_lab::runner::Player;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::of_lab;
use crate::guests::GuestPlayer;
use crate::simulate::cores;
use crate::watch::{Halt, ProgressCounter, watched};

/// Runs policies × protocols and writes the page.
#[pyfunction]
#[pyo3(signature = (quick, only, policies, guests, out, data, reps, threads, seconds, tune, progress))]
#[expect(clippy::too_many_arguments, reason = "one for each option of the command")]
pub fn arena<'py>(
    py: Python<'py>,
    quick: bool,
    only: Vec<String>,
    policies: Vec<String>,
    guests: Vec<(String, Py<PyAny>)>,
    out: PathBuf,
    data: Option<PathBuf>,
    reps: Option<usize>,
    threads: Option<usize>,
    seconds: f64,
    tune: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let (halt, progress_counter) = (Arc::new(Halt::default()), ProgressCounter::default());
    // Policies in Python would only wait for each other's interpreter lock.
    let threads = threads.unwrap_or_else(|| if guests.is_empty() { cores() } else { 1 });
    let guests = (guests.into_iter())
        .map(|(label, object)| {
            let halt = Arc::clone(&halt);
            Arc::new(GuestPlayer { label, object, halt }) as Arc<dyn Player>
        })
        .collect();
    let request = Request {
        quick,
        only,
        policies,
        out,
        data: datasets::folder(data.as_deref()),
        reps,
        threads,
        seconds,
        tuned_values: tune,
        keep: false,
        guests,
    };
    let work = || play(&request, &progress_counter, &halt.stop);
    let report = watched(py, &halt, &progress_counter, progress.as_ref(), work)?.map_err(of_lab)?;
    if report.interrupted {
        return Err(PyKeyboardInterrupt::new_err(()));
    }
    let result = PyDict::new(py);
    result.set_item("leaderboard", numbers::leaderboard(&request, &report))?;
    result.set_item("page", &report.page)?;
    result.set_item("folder", &request.out)?;
    Ok(result)
}
