//! Which policy is judged, and how likely would it have chosen each item?
//!
//! | as written | the policy |
//! | --- | --- |
//! | `logged` | the one that made the log |
//! | `random` | all candidates alike |
//! | `item=ID` | always that item, where it is offered |
//! | `file=P.npy` | probabilities of your own: (rows of the log, candidates) |
//! | `linucb-ind`, `cohort`, … | a policy that learns, as `cohort policies` lists them |
//!
//! A policy that learns meets the rows in their order: before a row it is asked, after it it is
//! told the row's item and reward, so what is judged is the policy while it learns from this log.

use std::path::PathBuf;

use cohort::params::Value;
use cohort::registry::{self, PolicyInfo};
use cohort::{Contexts, OnlinePolicy, Policy, Problem, Score};

use super::estimators::WeightedRow;
use super::log::Log;
use super::reward_model::RewardModel;
use crate::{Error, npy};

/// A policy that is judged by a log.
pub trait Target {
    /// As it was named.
    fn name(&self) -> &str;

    /// How likely it is to choose each candidate of a row.
    fn probabilities(
        &mut self,
        log: &Log,
        row: usize,
        probabilities: &mut Vec<f64>,
    ) -> Result<(), Error>;

    /// Is told what the log says of a row.
    fn learn(&mut self, _log: &Log, _row: usize) {}

    /// Forgets all it learned, to meet the log anew.
    fn forget(&mut self, _log: &Log) -> Result<(), Error> {
        Ok(())
    }
}

/// Asks a policy about every row, and tells it every row.
pub(super) fn follow(
    log: &Log,
    target: &mut dyn Target,
    model: Option<&RewardModel>,
) -> Result<Vec<WeightedRow>, Error> {
    target.forget(log)?;
    let (mut probabilities, mut weighted) = (Vec::new(), Vec::with_capacity(log.rows.len()));
    for (at, row) in log.rows.iter().enumerate() {
        target.probabilities(log, at, &mut probabilities)?;
        let weight = probabilities[row.chosen] / row.propensity.unwrap_or(f64::NAN);
        let mut one = WeightedRow { weight, reward: row.reward, ..WeightedRow::default() };
        if let Some(model) = model {
            one.model_of_chosen = model.predict(log, at, row.chosen);
            // Most policies have one item in mind: the others need no prediction.
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

/// What is asked for, before the log is there.
pub enum Wanted {
    /// `logged`
    Logged,
    /// `random`
    Random,
    /// `item=ID`
    Item(String),
    /// `file=P.npy`
    File(PathBuf),
    /// A policy that learns, with its parameters.
    Learner(&'static PolicyInfo, Vec<(String, Value)>),
}

impl Wanted {
    /// From the way it is written.
    pub fn parse(text: &str) -> Result<Self, Error> {
        Ok(match text.split_once('=') {
            Some(("item", id)) => Self::Item(id.to_owned()),
            Some(("file", path)) => Self::File(path.into()),
            _ if text == "logged" => Self::Logged,
            _ if text == "random" => Self::Random,
            _ => Self::Learner(registry::info(text)?, Vec::new()),
        })
    }

    /// The policy, ready for a log.
    pub fn build(self, log: &Log) -> Result<Box<dyn Target>, Error> {
        Ok(match self {
            Self::Logged => Box::new(Logged),
            Self::Random => Box::new(Random),
            Self::Item(id) => {
                let Some(item) = log.items.find(&id) else {
                    let known: Vec<&str> = log.items.iter().take(8).collect();
                    let expected = format!("an item of the log, such as {}", known.join(", "));
                    return Err(Error::unexpected("item", format!("`{id}`"), expected));
                };
                Box::new(Item { name: format!("item={id}"), item: item as u32 })
            }
            Self::File(path) => Box::new(File::read(path, log)?),
            Self::Learner(info, params) => Box::new(Learner::new(info, params, log)?),
        })
    }
}

/// The policy that made the log: every row has the weight 1.
struct Logged;

impl Target for Logged {
    fn name(&self) -> &str {
        "logged"
    }

    /// Only of the item that was chosen is the probability known; the rest is shared by the others.
    fn probabilities(
        &mut self,
        log: &Log,
        row: usize,
        probabilities: &mut Vec<f64>,
    ) -> Result<(), Error> {
        let row = &log.rows[row];
        let chosen = row.propensity.unwrap_or(1.0);
        let others = (row.candidates.len() - 1).max(1) as f64;
        probabilities.clear();
        probabilities.resize(row.candidates.len(), (1.0 - chosen).max(0.0) / others);
        probabilities[row.chosen] = chosen;
        Ok(())
    }
}

/// All candidates alike.
struct Random;

impl Target for Random {
    fn name(&self) -> &str {
        "random"
    }

    fn probabilities(
        &mut self,
        log: &Log,
        row: usize,
        probabilities: &mut Vec<f64>,
    ) -> Result<(), Error> {
        let candidates = log.rows[row].candidates.len();
        probabilities.clear();
        probabilities.resize(candidates, 1.0 / candidates as f64);
        Ok(())
    }
}

/// Always the same item; where it is not offered, nothing that is.
struct Item {
    name: String,
    item: u32,
}

impl Target for Item {
    fn name(&self) -> &str {
        &self.name
    }

    fn probabilities(
        &mut self,
        log: &Log,
        row: usize,
        probabilities: &mut Vec<f64>,
    ) -> Result<(), Error> {
        probabilities.clear();
        let of = |item: &u32| f64::from(*item == self.item);
        probabilities.extend(log.rows[row].candidates.iter().map(of));
        Ok(())
    }
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

/// A policy that learns as it goes. The best candidates are equally likely, the others are not
/// chosen: as the service chooses.
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
        let online = self.online();
        online.catch_up();
        online.score(row.user, &contexts, &mut scores);
        let best = scores.iter().map(Score::total).fold(f64::NEG_INFINITY, f64::max);
        let bests = scores.iter().filter(|one| one.total() >= best).count();
        probabilities.clear();
        probabilities.extend(scores.iter().map(|one| match one.total() >= best {
            true => 1.0 / bests as f64,
            false => 0.0,
        }));
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
