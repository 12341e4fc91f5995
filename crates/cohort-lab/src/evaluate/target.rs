//! The evaluated policies, and the probability with which each chooses each item.
//!
//! | as written | the policy |
//! | --- | --- |
//! | `logged` | the one that made the log |
//! | `random` | uniform over the candidates |
//! | `item=ID` | always that item, where it is offered |
//! | `file=P.npy` | your own probabilities: (rows of the log, candidates) |
//! | `linucb-ind`, `cohort`, … | a learning policy, as `cohort policies` lists them |
//!
//! A learning policy sees the rows in order: it decides before a row and learns the row's item and
//! reward after it, so the policy is evaluated while it learns from this log.

use std::path::PathBuf;

use cohort::params::Value;
use cohort::registry::{self, PolicyInfo};
use cohort::{Contexts, OnlinePolicy, Policy, Problem, Score};

use super::estimators::WeightedRow;
use super::log::{Log, Row};
use super::reward_model::RewardModel;
use crate::{Error, npy};

/// A policy that is evaluated by a log.
pub trait Target {
    /// Its name, as given.
    fn name(&self) -> &str;

    /// The probability of each candidate of a row.
    fn probabilities(
        &mut self,
        log: &Log,
        row: usize,
        probabilities: &mut Vec<f64>,
    ) -> Result<(), Error>;

    /// Learns a row of the log.
    fn learn(&mut self, _log: &Log, _row: usize) {}

    /// Resets what was learned, before another pass over the log.
    fn forget(&mut self, _log: &Log) -> Result<(), Error> {
        Ok(())
    }
}

/// Runs a policy over every row, and lets it learn every row.
pub(super) fn follow(
    log: &Log,
    target: &mut dyn Target,
    model: Option<&RewardModel>,
) -> Result<Vec<WeightedRow>, Error> {
    target.forget(log)?;
    let (mut probabilities, mut weighted) = (Vec::new(), Vec::with_capacity(log.rows.len()));
    for (at, row) in log.rows.iter().enumerate() {
        target.probabilities(log, at, &mut probabilities)?;
        let weight = probabilities[row.chosen]
            / row.propensity.expect("rows without propensity were refused");
        let mut one = WeightedRow { weight, reward: row.reward, ..WeightedRow::default() };
        if let Some(model) = model {
            one.model_of_chosen = model.predict(log, at, row.chosen);
            // Most policies choose one item: the others need no prediction.
            one.model_of_policy = (probabilities.iter().enumerate())
                .filter(|(_, probability)| **probability > 0.0)
                .map(|(which, probability)| probability * model.predict(log, at, which))
                .sum();
        }
        weighted.push(one);
        target.learn(log, at);
    }
    Ok(weighted)
}

/// A policy as named by the caller, before the log is read.
pub enum TargetSpec {
    /// `logged`
    Logged,
    /// `random`
    Random,
    /// `item=ID`
    Item(String),
    /// `file=P.npy`
    File(PathBuf),
    /// A learning policy, with its parameters.
    Learner(&'static PolicyInfo, Vec<(String, Value)>),
}

impl TargetSpec {
    /// Parses the name.
    pub fn parse(text: &str) -> Result<Self, Error> {
        Ok(match text.split_once('=') {
            Some(("item", id)) => Self::Item(id.to_owned()),
            Some(("file", path)) => Self::File(path.into()),
            _ if text == "logged" => Self::Logged,
            _ if text == "random" => Self::Random,
            _ => Self::Learner(registry::info(text)?, Vec::new()),
        })
    }

    /// Makes the policy for a log.
    pub fn build(self, log: &Log) -> Result<Box<dyn Target>, Error> {
        Ok(match self {
            Self::Logged => Box::new(Fixed { name: "logged".to_owned(), rule: logged }),
            Self::Random => Box::new(Fixed { name: "random".to_owned(), rule: uniform }),
            Self::Item(id) => {
                let Some(item) = log.items.find(&id) else {
                    let known: Vec<&str> = log.items.iter().take(8).collect();
                    let expected = format!("an item of the log, such as {}", known.join(", "));
                    return Err(Error::unexpected("item", format!("`{id}`"), expected));
                };
                Box::new(Fixed { name: format!("item={id}"), rule: always(item as u32) })
            }
            Self::File(path) => Box::new(File::read(path, log)?),
            Self::Learner(info, params) => Box::new(Learner::new(info, params, log)?),
        })
    }
}

/// A policy that does not learn: a rule for the probabilities of a row's candidates.
struct Fixed<F> {
    name: String,
    rule: F,
}

impl<F: Fn(&Row) -> Vec<f64>> Target for Fixed<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn probabilities(
        &mut self,
        log: &Log,
        row: usize,
        probabilities: &mut Vec<f64>,
    ) -> Result<(), Error> {
        *probabilities = (self.rule)(&log.rows[row]);
        Ok(())
    }
}

/// The logging policy, so that every row has weight 1. Only the probability of the chosen item is
/// known; the rest is divided among the others.
fn logged(row: &Row) -> Vec<f64> {
    let chosen = row.propensity.unwrap_or(1.0);
    let others = (row.choices() - 1).max(1) as f64;
    let mut probabilities = vec![(1.0 - chosen).max(0.0) / others; row.candidates.len()];
    probabilities[row.chosen] = chosen;
    probabilities
}

/// Uniform over all that could have been chosen; those that are not in the log have what is left.
fn uniform(row: &Row) -> Vec<f64> {
    vec![1.0 / row.choices() as f64; row.candidates.len()]
}

/// Always the same item; where it is not offered, none.
fn always(item: u32) -> impl Fn(&Row) -> Vec<f64> {
    move |row| row.candidates.iter().map(|other| f64::from(*other == item)).collect()
}

/// Probabilities from a file.
struct File {
    name: String,
    candidates: usize,
    values: Vec<f64>,
}

impl File {
    fn read(path: PathBuf, log: &Log) -> Result<Self, Error> {
        let array = npy::read::<f64>(&path, &["rows", "candidates"])?;
        let (rows, candidates) = (array.shape[0], array.shape[1]);
        let wrong = |what: String, found: String, expected: String| {
            Error::unexpected(what, found, expected).at(&path)
        };
        if rows != log.rows.len() {
            let expected = format!("{}, the decisions of the log with a reward", log.rows.len());
            return Err(wrong("rows".to_owned(), rows.to_string(), expected));
        }
        for (at, (row, values)) in
            log.rows.iter().zip(array.values.chunks(candidates.max(1))).enumerate()
        {
            let offered = row.candidates.len();
            if offered > candidates {
                let found = format!("{candidates} candidates");
                return Err(wrong(format!("row {at}"), found, format!("{offered}, as offered")));
            }
            let sum: f64 = values[..offered].iter().sum();
            if (sum - 1.0).abs() > 1e-6 || values.iter().any(|value| *value < 0.0) {
                let expected = "probabilities of the candidates, which add up to 1".to_owned();
                return Err(wrong(format!("row {at}"), format!("a sum of {sum}"), expected));
            }
        }
        let name = format!("file={}", path.display());
        Ok(Self { name, candidates, values: array.values })
    }
}

impl Target for File {
    fn name(&self) -> &str {
        &self.name
    }

    fn probabilities(
        &mut self,
        log: &Log,
        row: usize,
        probabilities: &mut Vec<f64>,
    ) -> Result<(), Error> {
        let offered = log.rows[row].candidates.len();
        probabilities.clear();
        probabilities.extend_from_slice(&self.values[row * self.candidates..][..offered]);
        Ok(())
    }
}

/// A learning policy. The best candidates are equally likely and the others are not chosen, as in
/// the service.
struct Learner {
    info: &'static PolicyInfo,
    params: Vec<(String, Value)>,
    policy: Box<dyn Policy>,
    scores: Vec<Score>,
}

impl Learner {
    fn new(
        info: &'static PolicyInfo,
        params: Vec<(String, Value)>,
        log: &Log,
    ) -> Result<Self, Error> {
        if log.dim == 0 {
            let expected = "the features of all candidates, which a policy that learns looks at; \
                            an app with log_candidates writes them down";
            return Err(Error::unexpected("the log", "no features", expected));
        }
        let policy = build(info, &params, log)?;
        Ok(Self { info, params, policy, scores: Vec::new() })
    }

    fn online(&mut self) -> &mut dyn OnlinePolicy {
        self.policy.online().expect("checked when it was built")
    }
}

fn build(
    info: &'static PolicyInfo,
    params: &[(String, Value)],
    log: &Log,
) -> Result<Box<dyn Policy>, Error> {
    let problem = Problem::new(0, log.dim);
    let mut policy = registry::build(info.name, &problem, params.iter().cloned())?;
    match policy.online() {
        Some(_) => Ok(policy),
        None => {
            let expected = "a policy that works one user at a time, as a log is made";
            Err(Error::unexpected("policy", format!("`{}`", info.name), expected))
        }
    }
}

impl Target for Learner {
    fn name(&self) -> &str {
        self.info.name
    }

    fn probabilities(
        &mut self,
        log: &Log,
        row: usize,
        probabilities: &mut Vec<f64>,
    ) -> Result<(), Error> {
        let row = &log.rows[row];
        let contexts = Contexts::new(&row.features, log.dim)?;
        let mut scores = std::mem::take(&mut self.scores);
        scores.clear();
        scores.resize(row.candidates.len(), Score::default());
        self.policy.catch_up();
        self.online().score(row.user, &contexts, &mut scores);
        let best = scores.iter().map(Score::total).fold(f64::NEG_INFINITY, f64::max);
        let bests = scores.iter().filter(|one| one.total() >= best).count();
        probabilities.clear();
        probabilities.extend(
            scores.iter().map(|one| if one.total() >= best { 1.0 / bests as f64 } else { 0.0 }),
        );
        self.scores = scores;
        Ok(())
    }

    fn learn(&mut self, log: &Log, row: usize) {
        let row = &log.rows[row];
        let context = row.candidate(row.chosen, log.dim);
        self.online().learn_one(row.user, context, row.reward);
    }

    fn forget(&mut self, log: &Log) -> Result<(), Error> {
        self.policy = build(self.info, &self.params, log)?;
        Ok(())
    }
}
