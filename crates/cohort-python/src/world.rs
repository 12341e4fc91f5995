//! A world of an environment, driven from a Python loop.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cohort_lab::environment::{self, Size};
use cohort_lab::environments;
use cohort_lab::seed::Seed;
use numpy::{IntoPyArray, PyArray1, PyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{Counts, arms as on_offer, counts, expect_shape, shaped, slice};
use crate::errors::{of_lab, unexpected};
use crate::simulate::EnvironmentSpec;
use crate::values::values;

/// One world of an environment: the one that a repetition of `simulate` sees.
#[pyclass(frozen, module = "cohort._engine")]
pub struct World {
    size: Size,
    state: Mutex<State>,
}

struct State {
    world: Box<dyn environment::World>,
    round: Option<usize>,
}

impl World {
    /// Locks the world, in one round.
    fn at(&self, round: usize) -> PyResult<MutexGuard<'_, State>> {
        if let Some(rounds) = self.size.rounds.filter(|rounds| round >= *rounds) {
            let expected = format!("0 to {}", rounds - 1);
            return Err(unexpected("t", round.to_string(), expected));
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.round != Some(round) {
            state.world.start_round(round);
            state.round = Some(round);
        }
        Ok(state)
    }
}

#[pymethods]
impl World {
    #[new]
    fn new(
        place: EnvironmentSpec<'_>,
        options: &Bound<'_, PyDict>,
        seed: u64,
        repetition: usize,
    ) -> PyResult<Self> {
        let options: BTreeMap<_, _> = values(options)?;
        let environment = match place {
            EnvironmentSpec::Named(name) => {
                let info = environments::info(&name).map_err(of_lab)?;
                (info.build)(&info.check(options).map_err(of_lab)?).map_err(of_lab)?
            }
            EnvironmentSpec::Tables(tables) => {
                let info = environments::info("table").map_err(of_lab)?;
                tables.environment(&info.check(options).map_err(of_lab)?)?
            }
            EnvironmentSpec::Guest(..) => {
                return Err(unexpected("environment", "a Python object", "a name or tables"));
            }
        };
        let world = environment.world(Seed { seed, repetition }).map_err(of_lab)?;
        if world.own_offers() {
            let expected = "an environment in which all users see the same arms";
            return Err(unexpected("environment", "one with an offer for each user", expected));
        }
        if world.visitors().is_some() {
            return Err(unexpected("visitors", "some", "none: visitors come in simulations alone"));
        }
        let state = Mutex::new(State { world, round: None });
        Ok(Self { size: environment.size(), state })
    }

    #[getter]
    fn users(&self) -> usize {
        self.size.users
    }

    #[getter]
    fn dim(&self) -> usize {
        self.size.dim
    }

    #[getter]
    fn arms(&self) -> usize {
        self.size.arms
    }

    #[getter]
    fn rounds(&self) -> Option<usize> {
        self.size.rounds
    }

    #[getter]
    fn sigma(&self) -> f64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).world.sigma()
    }

    #[getter]
    fn thetas<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArrayDyn<f64>>>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let thetas = state.world.truth().map(|truth| truth.thetas.to_vec());
        // Where users have no vector, the ground truth is their clusters alone.
        let thetas = thetas.filter(|thetas| thetas.len() == self.size.users * self.size.dim);
        thetas.map(|thetas| shaped(py, thetas, &[self.size.users, self.size.dim])).transpose()
    }

    #[getter]
    fn clusters<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<i64>>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.world.truth().map(|truth| counts(py, truth.clusters.to_vec()))
    }

    fn contexts<'py>(&self, py: Python<'py>, t: usize) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let state = self.at(t)?;
        let contexts = state.world.contexts();
        let values = contexts.iter().flatten().copied().collect();
        shaped(py, values, &[contexts.arms(), contexts.dim()])
    }

    fn rewards<'py>(
        &self,
        py: Python<'py>,
        t: usize,
        arms: Counts<'py>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        Ok(self.outcomes(t, &arms)?.0.into_pyarray(py))
    }

    fn regrets<'py>(
        &self,
        py: Python<'py>,
        t: usize,
        arms: Counts<'py>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        Ok(self.outcomes(t, &arms)?.1.into_pyarray(py))
    }
}

impl World {
    /// The rewards and regrets of all users.
    fn outcomes(&self, t: usize, arms: &Counts<'_>) -> PyResult<(Vec<f64>, Vec<f64>)> {
        expect_shape("arms", arms.shape(), &[("users", Some(self.size.users))])?;
        let state = self.at(t)?;
        let arms = on_offer(slice("arms", arms)?, state.world.contexts().arms())?;
        let mut outcomes = (vec![0.0; arms.len()], vec![0.0; arms.len()]);
        state.world.play_all(&arms, &mut outcomes.0, &mut outcomes.1);
        Ok(outcomes)
    }
}
