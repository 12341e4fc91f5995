//! `cohort.simulate`: the lab, called from Python.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cohort::params::{Settings, Value};
use cohort_lab::environment::{Environment, EnvironmentInfo};
use cohort_lab::environments;
use cohort_lab::experiment::{Draft, Experiment, PolicyDraft};
use cohort_lab::figures::svg;
use cohort_lab::npy::Array;
use cohort_lab::results::{self, Folder, Summary};
use cohort_lab::runner::{self, Checkpoint, Run, Runs};
use numpy::{Element, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{Counts, Numbers, shaped, slice};
use crate::errors::{of_lab, unexpected};
use crate::guests::{GuestEnvironment, GuestPlayer, PYTHON};
use crate::values::values;
use crate::watch::{Halt, ProgressCounter, watched};

/// The number of cores.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
}

/// The environment, as given from Python.
#[derive(FromPyObject)]
pub enum EnvironmentSpec<'py> {
    /// An environment of the registry.
    Named(String),
    /// The arrays of the environment `table`.
    Tables(Tables<'py>),
    /// A Python object with `contexts` and `rewards`, and its number of users.
    Guest(Py<PyAny>, usize),
}

/// The arrays of the environment `table`.
#[derive(FromPyObject)]
pub struct Tables<'py> {
    #[pyo3(item)]
    contexts: Numbers<'py>,
    #[pyo3(item)]
    thetas: Numbers<'py>,
    #[pyo3(item)]
    noise_table: Numbers<'py>,
    #[pyo3(item)]
    clusters_table: Option<Counts<'py>>,
}

/// A policy, as given from Python.
#[derive(FromPyObject)]
pub enum PolicySpec<'py> {
    /// A policy of the registry: label, name, parameters.
    Registered(Option<String>, String, Bound<'py, PyDict>),
    /// A Python object with `choose` and `learn`, or a callable that makes one.
    Guest(String, Py<PyAny>),
}

/// Runs policies in an environment; everything else overrides what a file says.
#[pyfunction]
#[pyo3(signature = (file, place, options, seats, run, keep_arms, progress))]
#[expect(clippy::too_many_arguments, reason = "one for each part of an experiment")]
pub fn simulate<'py>(
    py: Python<'py>,
    file: Option<PathBuf>,
    place: Option<EnvironmentSpec<'py>>,
    options: &Bound<'py, PyDict>,
    seats: Vec<PolicySpec<'py>>,
    run: &Bound<'py, PyDict>,
    keep_arms: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let mut draft = match file {
        Some(path) => Draft::read(&path).map_err(of_lab)?,
        None => Draft::default(),
    };
    draft.keep_arms = keep_arms;
    draft.run.extend(values(run)?);
    let halt = Arc::new(Halt::default());
    let guests = add_policies(&mut draft, seats, &halt)?;
    let experiment = resolve(py, draft, place, values(options)?, guests, &halt)?;
    let folder = experiment.out.as_deref().map(Folder::new).transpose().map_err(of_lab)?;

    let plan = &experiment.plan;
    let rounds = plan.rounds.saturating_mul(plan.repetitions) as u64;
    let progress_counter =
        ProgressCounter::new(rounds.saturating_mul(plan.players().count() as u64));
    let work = || runner::run(plan, &progress_counter, &halt.stop);
    let runs = watched(py, &halt, &progress_counter, progress.as_ref(), work)?.map_err(of_lab)?;

    let summary = Summary::new(&experiment, &runs);
    if let Some(folder) = folder {
        results::write(&folder, &experiment, &runs, &summary).map_err(of_lab)?;
    }
    to_python(py, &experiment, &runs, &summary)
}

/// Adds the policies to the draft; returns those written in Python.
fn add_policies(
    draft: &mut Draft,
    seats: Vec<PolicySpec<'_>>,
    halt: &Arc<Halt>,
) -> PyResult<Vec<GuestPlayer>> {
    let mut guests = Vec::new();
    if !seats.is_empty() {
        draft.policies.clear();
    }
    for seat in seats {
        match seat {
            PolicySpec::Registered(label, name, params) => {
                draft.policies.push(PolicyDraft { name, label, params: values(&params)? });
            }
            PolicySpec::Guest(label, object) => {
                let taken = guests.iter().any(|other: &GuestPlayer| other.label == label)
                    || draft.policies.iter().any(|other| other.label() == label);
                if taken {
                    let expected = "each only once; give one of them another label";
                    return Err(unexpected("policies", format!("`{label}` twice"), expected));
                }
                guests.push(GuestPlayer { label, object, halt: Arc::clone(halt) });
            }
        }
    }
    Ok(guests)
}

fn resolve(
    py: Python<'_>,
    mut draft: Draft,
    place: Option<EnvironmentSpec<'_>>,
    options: BTreeMap<String, Value>,
    guests: Vec<GuestPlayer>,
    halt: &Arc<Halt>,
) -> PyResult<Experiment> {
    let only_guests = draft.policies.is_empty() && !guests.is_empty();
    // A world or policy in Python runs on one thread by default.
    let in_python = !guests.is_empty() || matches!(place, Some(EnvironmentSpec::Guest(..)));
    if in_python {
        draft.run.entry("threads".to_owned()).or_insert(Value::Real(1.0));
    }
    let mut experiment = match place {
        None => {
            draft.options.extend(options);
            draft.resolve().map_err(of_lab)?
        }
        Some(EnvironmentSpec::Named(name)) => {
            draft.set_environment(&name).map_err(of_lab)?;
            draft.options.extend(options);
            draft.resolve().map_err(of_lab)?
        }
        Some(EnvironmentSpec::Tables(tables)) => {
            let info = environments::info("table").map_err(of_lab)?;
            let options = info.check(options).map_err(of_lab)?;
            let environment = tables.environment(&options)?;
            resolve_in(draft, info, options, environment)?
        }
        Some(EnvironmentSpec::Guest(object, users)) => {
            let options = PYTHON.check(options).map_err(of_lab)?;
            let environment = GuestEnvironment::new(py, object, users, Arc::clone(halt))?;
            resolve_in(draft, &PYTHON, options, Box::new(environment))?
        }
    };
    if only_guests {
        experiment.plan.contenders.clear();
    }
    for guest in guests {
        experiment.plan.guests.push(Box::new(guest));
    }
    Ok(experiment)
}

fn resolve_in(
    draft: Draft,
    info: &'static EnvironmentInfo,
    options: Settings,
    environment: Box<dyn Environment>,
) -> PyResult<Experiment> {
    draft.resolve_in(info, options, environment).map_err(of_lab)
}

impl Tables<'_> {
    /// The environment of these arrays.
    pub fn environment(&self, options: &Settings) -> PyResult<Box<dyn Environment>> {
        fn array<T: Element + Copy>(
            what: &str,
            array: &numpy::PyReadonlyArrayDyn<'_, T>,
        ) -> PyResult<Array<T>> {
            Ok(Array { shape: array.shape().to_vec(), values: slice(what, array)?.to_vec() })
        }
        let clusters = self.clusters_table.as_ref();
        environments::table(
            options,
            array("contexts", &self.contexts)?,
            array("thetas", &self.thetas)?,
            array("noise_table", &self.noise_table)?,
            clusters.map(|clusters| array("clusters_table", clusters)).transpose()?,
        )
        .map_err(of_lab)
    }
}

/// The results as arrays: policies first, then repetitions.
fn to_python<'py>(
    py: Python<'py>,
    experiment: &Experiment,
    runs: &Runs,
    summary: &Summary,
) -> PyResult<Bound<'py, PyDict>> {
    let plan = &experiment.plan;
    let (players, reps) = (plan.players().count(), runs.repetitions.len());
    let all: Vec<&Run> = (0..players)
        .flat_map(|player| runs.repetitions.iter().map(move |rep| &rep.runs[player]))
        .collect();
    let curves = |of: fn(&Run) -> &[f64]| {
        let numbers = all.iter().flat_map(|run| of(run).iter().copied()).collect();
        shaped(py, numbers, &[players, reps, plan.rounds])
    };
    let points = all.first().map_or(0, |run| run.checkpoints.len());
    let found = |of: fn(&Checkpoint) -> Option<f64>| {
        let of = |point: &Checkpoint| of(point).unwrap_or(f64::NAN);
        let numbers = all.iter().flat_map(|run| run.checkpoints.iter().map(of)).collect();
        shaped(py, numbers, &[players, reps, points])
    };
    let result = PyDict::new(py);
    result.set_item("labels", plan.players().map(|player| player.label()).collect::<Vec<_>>())?;
    result.set_item("summary", summary.to_json())?;
    result.set_item("regret", curves(|run| &run.regret)?)?;
    result.set_item("reward", curves(|run| &run.reward)?)?;
    let checkpoints = all.first().map_or(Vec::new(), |run| {
        run.checkpoints.iter().map(|point| point.rounds as i64).collect::<Vec<_>>()
    });
    result.set_item("checkpoints", shaped(py, checkpoints, &[points])?)?;
    result.set_item("clusters", found(|point| point.clusters.map(|count| count as f64))?)?;
    result.set_item("adjusted_rand", found(|point| point.adjusted_rand)?)?;
    if plan.keep_arms {
        let users = plan.environment.size().users;
        let arms = all.iter().flat_map(|run| run.arms.iter().map(|arm| *arm as i64)).collect();
        result.set_item("arms", shaped(py, arms, &[players, reps, plan.rounds, users])?)?;
    } else {
        result.set_item("arms", py.None())?;
    }
    result.set_item("experiment", experiment.to_toml())?;
    result.set_item("svg", svg::write(&results::chart(experiment, runs).draw().0))?;
    Ok(result)
}
