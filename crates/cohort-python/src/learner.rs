//! A policy, driven from a Python loop.
//!
//! The policy is behind a lock that is taken without the interpreter's, so several Python threads
//! may use one learner; each call is atomic.

use std::sync::{Mutex, PoisonError};

use cohort::policies::cohort::{Cohort, INFO as COHORT};
use cohort::population::Explanation;
use cohort::registry;
use cohort::{Arm, Contexts, OnlinePolicy, Policy, Problem, Saved, Score, Truth};
use cohort_server::settings::online_policies;
use numpy::{IntoPyArray, PyArray1, PyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::arrays::{Counts, Numbers, arms as on_offer, bounded_contexts, bounded_rewards};
use crate::arrays::{contexts, counts, expect_shape, shaped, slice};
use crate::errors::{BadInput, refused, unexpected};
use crate::pool::on_pool;
use crate::values::values;

/// The largest gap in user numbers: a typing error must not ask for more memory than there is.
const MOST_NEW_USERS: usize = 1 << 20;

/// A policy and the sizes that its calls are checked against.
#[pyclass(frozen, module = "cohort._engine")]
pub struct Learner {
    /// The policy's name.
    pub name: &'static str,
    /// d.
    pub dim: usize,
    state: Mutex<State>,
}

struct State {
    engine: Engine,
    users: usize,
    /// Whether arms were chosen and not yet learned from.
    in_round: bool,
}

/// The policy; `cohort` has more to ask.
enum Engine {
    Any(Box<dyn Policy>),
    Cohort(Box<Cohort>),
}

impl Engine {
    fn policy(&mut self) -> &mut dyn Policy {
        match self {
            Engine::Any(policy) => policy.as_mut(),
            Engine::Cohort(cohort) => cohort.as_mut(),
        }
    }
}

impl Learner {
    /// Runs `work` on the policy without the interpreter lock.
    fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut State) -> T + Send) -> T {
        py.detach(|| {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            on_pool(|| work(&mut state))
        })
    }

    /// Runs `work` on the online form, where there is one; grows to hold `users`.
    fn with_online<T: Send>(
        &self,
        py: Python<'_>,
        users: &[i64],
        work: impl FnOnce(&mut dyn OnlinePolicy) -> T + Send,
    ) -> PyResult<T> {
        let result = self.with(py, |state| -> Result<T, String> {
            let most = state.users.saturating_add(MOST_NEW_USERS);
            let fits = |user: &i64| usize::try_from(*user).is_ok_and(|user| user < most);
            if let Some(user) = users.iter().find(|user| !fits(user)) {
                return Err(format!(
                    "user: found {user}, expected a number from 0 to {}",
                    most - 1
                ));
            }
            let Some(online) = state.engine.policy().online() else {
                return Err(format!(
                    "policy `{}` works in rounds: use choose and learn with all users; these work \
                     one user at a time: {}",
                    self.name,
                    online_policies().join(", ")
                ));
            };
            let result = work(online);
            let last = users.iter().max().map_or(0, |user| *user as usize + 1);
            state.users = state.users.max(last);
            Ok(result)
        });
        result.map_err(BadInput::new_err)
    }

    /// The same for policies that can be saved.
    fn with_saved<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut dyn Saved) -> T + Send,
    ) -> PyResult<T> {
        let result = self.with(py, |state| state.engine.policy().saved().map(work));
        result.ok_or_else(|| {
            BadInput::new_err(format!("what policy `{}` learns cannot be kept", self.name))
        })
    }

    /// Runs `work` on the policy `cohort`, after any refit that is due.
    fn with_cohort<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Cohort, usize) -> T + Send,
    ) -> PyResult<T> {
        let result = self.with(py, |state| match &mut state.engine {
            Engine::Any(_) => None,
            Engine::Cohort(cohort) => {
                cohort.catch_up();
                Some(work(cohort, state.users))
            }
        });
        let needs = || format!("policy `{}` has no cohorts; policy `cohort` has", self.name);
        result.ok_or_else(|| BadInput::new_err(needs()))
    }

    /// The learned state as bytes.
    pub fn learned(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        let mut bytes = Vec::new();
        let saved = self.with_saved(py, |saved| saved.save(&mut bytes))?;
        saved.map_err(|error| BadInput::new_err(error.to_string()))?;
        Ok(bytes)
    }

    /// Contexts of several users, (rows, arms, dim) or the same (arms, dim) for all.
    fn offers<'a>(&self, array: &'a Numbers<'_>, rows: usize) -> PyResult<Vec<Contexts<'a>>> {
        if array.shape().len() == 2 {
            return Ok(vec![contexts(array, self.dim)?; rows]);
        }
        let axes = [("rows", Some(rows)), ("arms", None), ("dim", Some(self.dim))];
        expect_shape("contexts", array.shape(), &axes)?;
        let (arms, values) = (array.shape()[1], slice("contexts", array)?);
        if arms == 0 {
            return Err(unexpected("contexts", "no arms", "one or more"));
        }
        let offer = |values| bounded_contexts(values, self.dim);
        values.chunks_exact(arms * self.dim).map(offer).collect()
    }
}

#[pymethods]
impl Learner {
    #[new]
    #[pyo3(signature = (name, users, dim, rounds, seed, params, thetas, clusters))]
    #[expect(clippy::too_many_arguments, reason = "all that a policy is told")]
    fn new(
        name: &str,
        users: usize,
        dim: usize,
        rounds: Option<usize>,
        seed: u64,
        params: &Bound<'_, PyDict>,
        thetas: Option<Numbers<'_>>,
        clusters: Option<Vec<usize>>,
    ) -> PyResult<Self> {
        let info = registry::info(name).map_err(refused)?;
        let settings = info.check(values(params)?).map_err(refused)?;
        for (what, count) in [("dim", Some(dim)), ("rounds", rounds)] {
            if count == Some(0) {
                return Err(unexpected(what, "0", "1 or more"));
            }
        }
        if clusters.is_some() && thetas.is_none() {
            let expected = "both: oracles are told all of the truth";
            return Err(unexpected("clusters", "no thetas beside them", expected));
        }
        let labels = clusters.unwrap_or_else(|| vec![0; users]);
        expect_shape("clusters", &[labels.len()], &[("users", Some(users))])?;
        let thetas = thetas.as_ref();
        if let Some(thetas) = thetas {
            let axes = [("users", Some(users)), ("dim", Some(dim))];
            expect_shape("thetas", thetas.shape(), &axes)?;
        }
        let thetas = thetas.map(|thetas| slice("thetas", thetas)).transpose()?;
        let truth = thetas.map(|thetas| Truth::new(thetas, &labels));
        let problem = Problem { rounds, seed, truth, ..Problem::new(users, dim) };
        let engine = if info.name == COHORT.name {
            Engine::Cohort(Box::new(Cohort::new(&problem, &settings).map_err(refused)?))
        } else {
            Engine::Any(info.make(&problem, &settings).map_err(refused)?)
        };
        let state = Mutex::new(State { engine, users, in_round: false });
        Ok(Self { name: info.name, dim, state })
    }

    #[getter]
    fn users(&self, py: Python<'_>) -> usize {
        self.with(py, |state| state.users)
    }

    #[getter]
    fn works_one_at_a_time(&self, py: Python<'_>) -> bool {
        self.with(py, |state| state.engine.policy().online().is_some())
    }

    /// Chooses one arm for every user; all see the same contexts.
    fn choose<'py>(
        &self,
        py: Python<'py>,
        offer: Numbers<'py>,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let offer = contexts(&offer, self.dim)?;
        let arms = self.with(py, |state| {
            let mut arms = vec![0; state.users];
            if !arms.is_empty() {
                state.engine.policy().choose(&offer, &mut arms);
            }
            state.in_round = true;
            arms
        });
        if arms.is_empty() {
            let expected = "1 or more: give users= when making the policy";
            return Err(unexpected("users", "0", expected));
        }
        Ok(counts(py, arms))
    }

    /// Learns one reward for every user.
    fn learn(
        &self,
        py: Python<'_>,
        offer: Numbers<'_>,
        arms: Counts<'_>,
        rewards: Numbers<'_>,
    ) -> PyResult<()> {
        let offer = contexts(&offer, self.dim)?;
        let users = self.users(py);
        expect_shape("arms", arms.shape(), &[("users", Some(users))])?;
        expect_shape("rewards", rewards.shape(), &[("users", Some(users))])?;
        let arms = on_offer(slice("arms", &arms)?, offer.arms())?;
        let rewards = slice("rewards", &rewards)?;
        bounded_rewards(rewards)?;
        self.with(py, |state| {
            let policy = state.engine.policy();
            // Phases begin where arms are chosen, also for a round that was not chosen here.
            if !state.in_round && !arms.is_empty() {
                policy.choose(&offer, &mut vec![0; arms.len()]);
            }
            policy.learn(&offer, &arms, rewards);
            state.in_round = false;
        });
        Ok(())
    }

    /// Chooses an arm for each of these users, one after the other.
    fn decide<'py>(
        &self,
        py: Python<'py>,
        users: Counts<'py>,
        offer: Numbers<'py>,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let users = slice("users", &users)?;
        let offers = self.offers(&offer, users.len())?;
        let arms: Vec<Arm> = self.with_online(py, users, |online| {
            let decide = |(user, offer): (&i64, &Contexts)| online.decide(*user as usize, offer);
            users.iter().zip(&offers).map(decide).collect()
        })?;
        Ok(counts(py, arms))
    }

    /// Scores every arm for each of these users: expected reward and bonus.
    #[expect(clippy::type_complexity, reason = "two arrays")]
    fn judge<'py>(
        &self,
        py: Python<'py>,
        users: Counts<'py>,
        offer: Numbers<'py>,
    ) -> PyResult<(Bound<'py, PyArrayDyn<f64>>, Bound<'py, PyArrayDyn<f64>>)> {
        let users = slice("users", &users)?;
        let offers = self.offers(&offer, users.len())?;
        let arms = offer.shape()[offer.shape().len() - 2];
        let mut scored = vec![Score::default(); users.len() * arms];
        self.with(py, |state| state.engine.policy().catch_up());
        // A user that is only scored stays unknown.
        self.with_online(py, &[], |online| {
            for ((user, offer), row) in users.iter().zip(&offers).zip(scored.chunks_mut(arms)) {
                online.score(usize::try_from(*user).unwrap_or(usize::MAX / 2), offer, row);
            }
        })?;
        let shape = [users.len(), arms];
        let expected = scored.iter().map(|score| score.expected).collect();
        let bonus = scored.iter().map(|score| score.bonus).collect();
        Ok((shaped(py, expected, &shape)?, shaped(py, bonus, &shape)?))
    }

    /// Scores the arms for one user, with their propensities where the policy samples its arms;
    /// `None` for a policy that plays the arm with the largest score.
    #[expect(clippy::type_complexity, reason = "three arrays")]
    fn appraise<'py>(
        &self,
        py: Python<'py>,
        user: i64,
        offer: Numbers<'py>,
        seed: u64,
    ) -> PyResult<(
        Bound<'py, PyArray1<f64>>,
        Bound<'py, PyArray1<f64>>,
        Option<Bound<'py, PyArray1<f64>>>,
    )> {
        let offer = contexts(&offer, self.dim)?;
        let mut scored = vec![Score::default(); offer.arms()];
        let mut chances = vec![0.0; offer.arms()];
        self.with(py, |state| state.engine.policy().catch_up());
        let draws = self.with_online(py, &[user], |online| {
            online.score(user as usize, &offer, &mut scored);
            online.chances(user as usize, &offer, seed, &mut chances)
        })?;
        let expected: Vec<f64> = scored.iter().map(|score| score.expected).collect();
        let bonus: Vec<f64> = scored.iter().map(|score| score.bonus).collect();
        let chances = draws.then(|| chances.into_pyarray(py));
        Ok((expected.into_pyarray(py), bonus.into_pyarray(py), chances))
    }

    /// The estimates of these users' vectors, with one standard deviation of each coordinate; NaN
    /// for an unknown user. `None` for a policy without estimates.
    #[expect(clippy::type_complexity, reason = "two arrays")]
    fn coefficients<'py>(
        &self,
        py: Python<'py>,
        users: Counts<'py>,
    ) -> PyResult<Option<(Bound<'py, PyArrayDyn<f64>>, Bound<'py, PyArrayDyn<f64>>)>> {
        let users = slice("users", &users)?;
        let dim = self.dim;
        let found = self.with(py, |state| {
            let policy = state.engine.policy();
            policy.catch_up();
            let insight = policy.insight()?;
            let mut means = vec![f64::NAN; users.len() * dim];
            let mut deviations = means.clone();
            for (row, user) in users.iter().enumerate() {
                let user_summary =
                    usize::try_from(*user).ok().and_then(|user| insight.user_summary(user));
                let Some(user_summary) = user_summary else { continue };
                means[row * dim..][..dim].copy_from_slice(&user_summary.estimate[..dim]);
                deviations[row * dim..][..dim].copy_from_slice(&user_summary.deviations[..dim]);
            }
            Some((means, deviations))
        });
        let shape = [users.len(), dim];
        let arrays = found.map(|(means, deviations)| {
            Ok((shaped(py, means, &shape)?, shaped(py, deviations, &shape)?))
        });
        arrays.transpose()
    }

    /// Learns one reward for one context of each of these users, one after the other.
    fn learn_one(
        &self,
        py: Python<'_>,
        users: Counts<'_>,
        played: Numbers<'_>,
        rewards: Numbers<'_>,
    ) -> PyResult<()> {
        let users = slice("users", &users)?;
        let axes = [("rows", Some(users.len())), ("dim", Some(self.dim))];
        expect_shape("contexts", played.shape(), &axes)?;
        expect_shape("rewards", rewards.shape(), &axes[..1])?;
        if users.is_empty() {
            return Ok(());
        }
        let played = contexts(&played, self.dim)?;
        let rewards = slice("rewards", &rewards)?;
        bounded_rewards(rewards)?;
        self.with_online(py, users, |online| {
            for ((user, x), reward) in users.iter().zip(played.iter()).zip(rewards) {
                online.learn_one(*user as usize, x, *reward);
            }
        })
    }

    /// The cluster of every user, numbered by smallest member.
    fn clusters<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<i64>>> {
        let found = self.with(py, |state| state.engine.policy().clusters());
        found.map(|labels| counts(py, labels))
    }

    /// The learned state as bytes, and the number of users.
    fn save<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, usize)> {
        Ok((PyBytes::new(py, &self.learned(py)?), self.users(py)))
    }

    /// Restores a saved state.
    fn load(&self, py: Python<'_>, learned: &[u8], users: usize) -> PyResult<()> {
        self.with_saved(py, |saved| saved.load(&mut &learned[..]))?.map_err(refused)?;
        self.with(py, |state| state.users = state.users.max(users));
        Ok(())
    }

    /// Explains the arm played for a user; `None` while there is nothing to explain.
    fn explain<'py>(
        &self,
        py: Python<'py>,
        user: usize,
        offer: Numbers<'py>,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let offer = contexts(&offer, self.dim)?;
        let why = self.with_cohort(py, |cohort, _| cohort.explain(user, &offer))?;
        why.map(|why| explanation(py, &why)).transpose()
    }

    /// The components of the population model: the population at large first, then the cohorts.
    fn cohorts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let found = self.with_cohort(py, |cohort, _| {
            let components = |population: &cohort::population::Population| {
                (population.components.iter().enumerate())
                    .map(|(c, one)| (one.weight, population.centre(c), population.spread(c)))
                    .collect::<Vec<_>>()
            };
            cohort.population().map_or(Vec::new(), components)
        })?;
        let list = PyList::empty(py);
        for (share, centre, spread) in found {
            let entry = PyDict::new(py);
            entry.set_item("share", share)?;
            entry.set_item("centre", centre.into_pyarray(py))?;
            entry.set_item("spread", spread)?;
            list.append(entry)?;
        }
        Ok(list)
    }

    /// σ and the level of rewards as fitted; `None` before the first fit.
    fn noise(&self, py: Python<'_>) -> PyResult<Option<(f64, f64)>> {
        self.with_cohort(py, |cohort, _| {
            cohort.population().map(|population| (population.noise.sqrt(), population.mean_level()))
        })
    }

    /// For every user: number of rewards, most probable component, its probability.
    #[expect(clippy::type_complexity, reason = "three arrays")]
    fn members<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<f64>>)>
    {
        let nothing = vec![0.0; self.dim];
        let offer = Contexts::new(&nothing, self.dim).map_err(refused)?;
        let (rewards, memberships) = self.with_cohort(py, |cohort, users| {
            let seen = cohort.ledger();
            let rewards: Vec<f64> = (0..users).map(|user| seen.rewards_of(user)).collect();
            let likeliest = |user| cohort.explain(user, &offer)?.memberships.first().copied();
            let memberships: Vec<_> = (0..users).map(likeliest).collect();
            (rewards, memberships)
        })?;
        let component = |of: &Option<cohort::population::Membership>| {
            of.map_or(-1, |membership| membership.component as i64)
        };
        let components: Vec<i64> = memberships.iter().map(component).collect();
        let share = |of: &Option<cohort::population::Membership>| {
            of.map_or(f64::NAN, |membership| membership.share)
        };
        let shares: Vec<f64> = memberships.iter().map(share).collect();
        Ok((rewards.into_pyarray(py), components.into_pyarray(py), shares.into_pyarray(py)))
    }
}

fn explanation<'py>(py: Python<'py>, why: &Explanation) -> PyResult<Bound<'py, PyDict>> {
    let entry = PyDict::new(py);
    let memberships: Vec<(usize, f64)> =
        why.memberships.iter().map(|of| (of.component, of.share)).collect();
    entry.set_item("memberships", memberships)?;
    entry.set_item("best", why.best)?;
    entry.set_item("runner_up", why.runner_up)?;
    entry.set_item("margin", why.margin)?;
    let column = |name: &str, of: fn(&cohort::population::ArmReport) -> f64| {
        let numbers: Vec<f64> = why.arms.iter().map(of).collect();
        entry.set_item(name, numbers.into_pyarray(py))
    };
    column("mean", |arm| arm.mean)?;
    column("own", |arm| arm.own)?;
    column("cohort", |arm| arm.cohort)?;
    column("population", |arm| arm.population)?;
    column("deviation", |arm| arm.deviation)?;
    column("width", |arm| arm.width)?;
    column("score", |arm| arm.score)?;
    Ok(entry)
}
