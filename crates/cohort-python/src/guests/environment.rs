//! A Python object with `contexts(t)` and `rewards(t, arms)` as an environment of the lab.

use std::sync::{Arc, OnceLock};

use cohort::{Arm, Contexts, Truth};
use cohort_lab::Error;
use cohort_lab::environment::{Environment, EnvironmentInfo, Feedback, Size, World};
use cohort_lab::seed::Seed;
use numpy::{IntoPyArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::arrays::{Counts, Numbers, expect_shape, finite, slice};
use crate::errors::unexpected;
use crate::watch::Halt;

/// Static metadata; the environment itself is made by [`GuestEnvironment::new`].
pub const PYTHON: EnvironmentInfo = EnvironmentInfo {
    name: "python",
    summary: "an object with contexts(t) and rewards(t, arms)",
    params: &[],
    build: |_| {
        Err(Error::Unexpected {
            what: "environment `python`".to_owned(),
            found: "only its name".to_owned(),
            expected: "an object, given from Python".to_owned(),
        })
    },
};

/// The noise scale that policies are given where the object has no `sigma`.
const DEFAULT_SIGMA: f64 = 1.0;

/// The object and its sizes.
pub struct GuestEnvironment {
    object: Py<PyAny>,
    size: Size,
    /// Whether every user has contexts of its own.
    own_offers: bool,
    halt: Arc<Halt>,
}

impl GuestEnvironment {
    /// Asks the object for the sizes of its worlds.
    pub fn new(py: Python<'_>, object: Py<PyAny>, users: usize, halt: Arc<Halt>) -> PyResult<Self> {
        if users == 0 {
            return Err(unexpected("users", "0", "1 or more"));
        }
        let first = offer(object.bind(py), 0)?;
        let shape = first.shape().to_vec();
        let (own_offers, arms, dim) = match shape[..] {
            [arms, dim] => (false, arms, dim),
            [_, arms, dim] => (true, arms, dim),
            _ => return Err(not_an_offer(&shape)),
        };
        if arms == 0 || dim == 0 {
            return Err(not_an_offer(&shape));
        }
        let rounds = optional(object.bind(py), "rounds")?;
        let size = Size { users, dim, arms, rounds };
        Ok(Self { object, size, own_offers, halt })
    }
}

impl Environment for GuestEnvironment {
    fn size(&self) -> Size {
        self.size
    }

    fn world(&self, seed: Seed) -> Result<Box<dyn World>, Error> {
        let made = Python::attach(|py| GuestWorld::new(py, self, seed));
        match made {
            Ok(world) => Ok(Box::new(world)),
            Err(error) => {
                let what = format!("environment in Python: {error}");
                self.halt.because_of(error);
                let (found, expected) = ("an exception".to_owned(), "a world".to_owned());
                Err(Error::Unexpected { what, found, expected })
            }
        }
    }
}

/// The object's world in one repetition.
struct GuestWorld {
    object: Py<PyAny>,
    size: Size,
    own_offers: bool,
    sigma: f64,
    truth: Option<(Vec<f64>, Vec<usize>)>,
    halt: Arc<Halt>,
    round: usize,
    contexts: Vec<f64>,
    /// The expected reward of every arm, for all users or for each.
    expected: Option<Vec<f64>>,
    /// All users' rewards of each arm, where users are asked one at a time.
    answers: Vec<OnceLock<Vec<f64>>>,
}

impl GuestWorld {
    fn new(py: Python<'_>, from: &GuestEnvironment, seed: Seed) -> PyResult<Self> {
        let object = from.object.bind(py);
        let object = match object.getattr_opt("repetition")? {
            Some(repetition) => repetition.call1((seed.repetition,))?,
            None => object.clone(),
        };
        let sigma = optional(&object, "sigma")?.unwrap_or(DEFAULT_SIGMA);
        Ok(Self {
            truth: truth(&object, from.size)?,
            object: object.unbind(),
            size: from.size,
            own_offers: from.own_offers,
            sigma,
            halt: Arc::clone(&from.halt),
            round: 0,
            contexts: vec![0.0; from.size.dim],
            expected: None,
            answers: Vec::new(),
        })
    }

    /// Asks for the contexts of a round and their expected rewards.
    fn ask_for_round(&mut self, py: Python<'_>, round: usize) -> PyResult<()> {
        let object = self.object.bind(py);
        let contexts = offer(object, round)?;
        let shape = contexts.shape();
        let Size { users, dim, .. } = self.size;
        let arms = match (shape, self.own_offers) {
            ([arms, found], false) if *found == dim && *arms > 0 => *arms,
            ([served, arms, found], true) if (*served, *found) == (users, dim) && *arms > 0 => {
                *arms
            }
            _ => return Err(not_an_offer(shape)),
        };
        let values = slice("contexts", &contexts)?;
        finite("contexts", values)?;
        self.contexts.clear();
        self.contexts.extend_from_slice(values);
        self.answers = (0..arms).map(|_| OnceLock::new()).collect();
        self.expected = match object.getattr_opt("expected")? {
            None => None,
            Some(expected) => {
                let expected = numbers(&expected.call1((round,))?)?;
                if expected.shape() != [arms] {
                    let axes = [("users", Some(users)), ("arms", Some(arms))];
                    expect_shape("expected", expected.shape(), &axes)?;
                }
                let expected = slice("expected", &expected)?;
                finite("expected", expected)?;
                Some(expected.to_vec())
            }
        };
        Ok(())
    }

    /// Asks for the rewards of all users.
    fn ask(&self, arms: Vec<i64>) -> PyResult<Vec<f64>> {
        Python::attach(|py| {
            let rewards = self.object.bind(py).getattr("rewards")?;
            let rewards = numbers(&rewards.call1((self.round, arms.into_pyarray(py)))?)?;
            expect_shape("rewards", rewards.shape(), &[("users", Some(self.size.users))])?;
            let rewards = slice("rewards", &rewards)?;
            finite("rewards", rewards)?;
            Ok(rewards.to_vec())
        })
    }

    fn ask_or_halt(&self, arms: Vec<i64>) -> Vec<f64> {
        self.ask(arms).unwrap_or_else(|error| {
            self.halt.because_of(error);
            vec![0.0; self.size.users]
        })
    }

    /// The regret of an arm; NaN where the object has no expected rewards.
    fn regret(&self, user: usize, arm: Arm) -> f64 {
        let Some(expected) = &self.expected else { return f64::NAN };
        let arms = self.answers.len();
        let row = if expected.len() == arms { 0 } else { user };
        let expected = &expected[row * arms..(row + 1) * arms];
        expected.iter().copied().fold(f64::NEG_INFINITY, f64::max) - expected[arm]
    }
}

impl World for GuestWorld {
    fn sigma(&self) -> f64 {
        self.sigma
    }

    fn truth(&self) -> Option<Truth<'_>> {
        self.truth.as_ref().map(|(thetas, clusters)| Truth::new(thetas, clusters))
    }

    fn start_round(&mut self, round: usize) {
        self.round = round;
        if let Err(error) = Python::attach(|py| self.ask_for_round(py, round)) {
            self.halt.because_of(error);
            // An offer of one arm, so that the round can end.
            let offers = if self.own_offers { self.size.users } else { 1 };
            self.contexts = vec![0.0; offers * self.size.dim];
            self.expected = None;
            self.answers = vec![OnceLock::new()];
        }
    }

    fn contexts(&self) -> Contexts<'_> {
        self.contexts_for(0)
    }

    fn contexts_for(&self, user: usize) -> Contexts<'_> {
        let offer = self.answers.len() * self.size.dim;
        let start = if self.own_offers { user * offer } else { 0 };
        let values = self.contexts.get(start..start + offer).unwrap_or(&self.contexts);
        Contexts::new(values, self.size.dim).expect("an offer was checked when it came")
    }

    fn own_offers(&self) -> bool {
        self.own_offers
    }

    fn play(&self, user: usize, arm: Arm) -> Feedback {
        let ask_all = || self.ask_or_halt(vec![arm as i64; self.size.users]);
        let reward = self.answers[arm].get_or_init(ask_all)[user];
        Feedback { reward, regret: self.regret(user, arm) }
    }

    fn play_all(&self, arms: &[Arm], rewards: &mut [f64], regrets: &mut [f64]) {
        rewards.copy_from_slice(&self.ask_or_halt(arms.iter().map(|arm| *arm as i64).collect()));
        for (user, (arm, regret)) in arms.iter().zip(regrets).enumerate() {
            *regret = self.regret(user, *arm);
        }
    }
}

/// Any array-like as float64 in C order.
fn numbers<'py>(object: &Bound<'py, PyAny>) -> PyResult<Numbers<'py>> {
    let numpy = object.py().import("numpy")?;
    numpy.call_method1("ascontiguousarray", (object, "float64"))?.extract()
}

fn offer<'py>(object: &Bound<'py, PyAny>, round: usize) -> PyResult<Numbers<'py>> {
    numbers(&object.call_method1("contexts", (round,))?)
}

fn not_an_offer(shape: &[usize]) -> PyErr {
    let found = format!("shape {}", crate::arrays::shape_text(shape));
    let expected = "(arms, dim), or (users, arms, dim) where every user has an offer of its own; \
                    the same dim in every round";
    unexpected("contexts", found, expected)
}

/// An attribute, if it exists.
fn optional<'py, T>(object: &Bound<'py, PyAny>, name: &str) -> PyResult<Option<T>>
where
    T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>,
{
    match object.getattr_opt(name)?.filter(|value| !value.is_none()) {
        None => Ok(None),
        Some(value) => Ok(Some(value.extract::<T>().map_err(Into::into)?)),
    }
}

/// The ground truth for oracles: `thetas` (users, dim), and `clusters` (users,) or one for all.
fn truth(object: &Bound<'_, PyAny>, size: Size) -> PyResult<Option<(Vec<f64>, Vec<usize>)>> {
    let Some(thetas) = object.getattr_opt("thetas")?.filter(|thetas| !thetas.is_none()) else {
        return Ok(None);
    };
    let thetas = numbers(&thetas)?;
    let axes = [("users", Some(size.users)), ("dim", Some(size.dim))];
    expect_shape("thetas", thetas.shape(), &axes)?;
    let thetas = slice("thetas", &thetas)?.to_vec();
    finite("thetas", &thetas)?;
    let mut clusters = match object.getattr_opt("clusters")?.filter(|labels| !labels.is_none()) {
        None => vec![0; size.users],
        Some(labels) => super::policy::labels("clusters", &labels, size.users)?,
    };
    cohort::cluster::partition::number_by_smallest_member(&mut clusters);
    Ok(Some((thetas, clusters)))
}

/// Whole numbers as int64 in C order.
pub fn whole<'py>(object: &Bound<'py, PyAny>) -> PyResult<Counts<'py>> {
    let numpy = object.py().import("numpy")?;
    numpy.call_method1("ascontiguousarray", (object, "int64"))?.extract()
}
