//! A Python object with `choose(contexts)` and `learn(contexts, arms, rewards)` as a policy of the
//! lab.

use std::sync::Arc;

use cohort::cluster::partition::number_by_smallest_member;
use cohort::{Arm, Contexts, Policy, Problem};
use cohort_lab::Error;
use cohort_lab::runner::Player;
use numpy::{IntoPyArray, PyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::environment::whole;
use crate::arrays::{arms as on_offer, expect_shape, shaped, slice};
use crate::errors::unexpected;
use crate::watch::Halt;

/// An object that is copied for every repetition, or a callable that makes one.
pub struct GuestPlayer {
    /// Its name in results.
    pub label: String,
    /// The object.
    pub object: Py<PyAny>,
    /// Stops the run.
    pub halt: Arc<Halt>,
}

impl Player for GuestPlayer {
    fn label(&self) -> &str {
        &self.label
    }

    fn kind(&self) -> &'static str {
        "python"
    }

    fn make(&self, problem: &Problem) -> Result<Box<dyn Policy>, Error> {
        match Python::attach(|py| self.fresh(py, problem)) {
            Ok(object) => Ok(Box::new(GuestPolicy { object, halt: Arc::clone(&self.halt) })),
            Err(error) => {
                let what = format!("policy `{}` in Python: {error}", self.label);
                self.halt.because_of(error);
                let (found, expected) = ("an exception".to_owned(), "a policy".to_owned());
                Err(Error::Unexpected { what, found, expected })
            }
        }
    }
}

impl GuestPlayer {
    /// Makes a policy that has learned nothing.
    fn fresh(&self, py: Python<'_>, problem: &Problem) -> PyResult<Py<PyAny>> {
        let object = self.object.bind(py);
        let is_policy = object.hasattr("choose")? && object.hasattr("learn")?;
        if is_policy && !object.is_instance_of::<pyo3::types::PyType>() {
            return Ok(py.import("copy")?.call_method1("deepcopy", (object,))?.unbind());
        }
        let told = py.import("cohort.guests")?.getattr("Problem")?;
        let Problem { users, dim, rounds, sigma, seed, .. } = *problem;
        let made = object.call1((told.call1((users, dim, rounds, sigma, seed))?,))?;
        if made.hasattr("choose")? && made.hasattr("learn")? {
            return Ok(made.unbind());
        }
        let found = made.get_type().name()?.to_string();
        Err(unexpected(&self.label, found, "an object with `choose` and `learn`"))
    }
}

struct GuestPolicy {
    object: Py<PyAny>,
    halt: Arc<Halt>,
}

impl GuestPolicy {
    fn ask(&self, contexts: &Contexts, users: usize) -> PyResult<Vec<Arm>> {
        Python::attach(|py| {
            let arms = self.object.bind(py).call_method1("choose", (as_array(py, contexts)?,))?;
            let arms = whole(&arms)?;
            expect_shape("arms", arms.shape(), &[("users", Some(users))])?;
            on_offer(slice("arms", &arms)?, contexts.arms())
        })
    }

    fn tell(&self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) -> PyResult<()> {
        Python::attach(|py| {
            let arms: Vec<i64> = arms.iter().map(|arm| *arm as i64).collect();
            let (arms, rewards) = (arms.into_pyarray(py), rewards.to_vec().into_pyarray(py));
            self.object.bind(py).call_method1("learn", (as_array(py, contexts)?, arms, rewards))?;
            Ok(())
        })
    }

    fn found(&self) -> PyResult<Option<Vec<usize>>> {
        Python::attach(|py| {
            let Some(clusters) = self.object.bind(py).getattr_opt("clusters")? else {
                return Ok(None);
            };
            let found = clusters.call0()?;
            if found.is_none() {
                return Ok(None);
            }
            let mut found = labels("clusters", &found, found.len()?)?;
            number_by_smallest_member(&mut found);
            Ok(Some(found))
        })
    }
}

impl Policy for GuestPolicy {
    fn choose(&mut self, contexts: &Contexts, arms: &mut [Arm]) {
        match self.ask(contexts, arms.len()) {
            Ok(chosen) => arms.copy_from_slice(&chosen),
            Err(error) => {
                self.halt.because_of(error);
                arms.fill(0);
            }
        }
    }

    fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        if let Err(error) = self.tell(contexts, arms, rewards) {
            self.halt.because_of(error);
        }
    }

    fn clusters(&self) -> Option<Vec<usize>> {
        self.found().unwrap_or_else(|error| {
            self.halt.because_of(error);
            None
        })
    }
}

/// Contexts for Python, (arms, dim).
fn as_array<'py>(py: Python<'py>, contexts: &Contexts) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
    let values = contexts.iter().flatten().copied().collect();
    shaped(py, values, &[contexts.arms(), contexts.dim()])
}

/// The cluster of every user.
pub fn labels(what: &str, object: &Bound<'_, PyAny>, users: usize) -> PyResult<Vec<usize>> {
    let labels = whole(object)?;
    expect_shape(what, labels.shape(), &[("users", Some(users))])?;
    let label = |label: &i64| {
        // Labels are renumbered: they need only be small enough to count with.
        let fits = usize::try_from(*label).ok().filter(|label| *label < 1 << 24);
        fits.ok_or_else(|| unexpected(what, label.to_string(), "labels from 0 on"))
    };
    slice(what, &labels)?.iter().map(label).collect()
}
