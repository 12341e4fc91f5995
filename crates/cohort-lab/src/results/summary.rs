//! The summary of an experiment: one line per policy, and the same as JSON.

use cohort::params::{Kind, Param, Value};
use serde::Serialize;

use super::half_width_95;
use crate::experiment::Experiment;
use crate::runner::{Checkpoint, Player, Run, Runs};

/// The summary of an experiment. Its JSON is a contract: other programs read it.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The environment: its name and its options.
    pub env: serde_json::Map<String, serde_json::Value>,
    /// T.
    pub rounds: usize,
    /// N.
    pub users: usize,
    /// The number of complete repetitions.
    pub reps: usize,
    /// The seed of all randomness.
    pub seed: u64,
    /// One summary per policy.
    pub policies: Vec<PolicySummary>,
}

/// The summary of one policy.
#[derive(Clone, Debug, Serialize)]
pub struct PolicySummary {
    /// Its label.
    pub name: String,
    /// Regret over all rounds, mean over users and repetitions.
    pub regret_mean: f64,
    /// Half the width of its 95 % interval (Student's t over repetitions).
    pub regret_ci95: Option<f64>,
    /// The regret of every repetition, mean over users.
    pub regret_per_rep: Vec<f64>,
    /// Learning time, summed over repetitions.
    pub seconds: f64,
    /// Decisions learned from per second of learning time.
    pub user_rounds_per_second: f64,
    /// The number of clusters at the end, per repetition.
    pub clusters: Vec<Option<usize>>,
    /// The adjusted Rand index with the true clusters at the end, per repetition.
    pub adjusted_rand: Vec<Option<f64>>,
}

impl Summary {
    /// Summarises the complete repetitions, of which there must be at least one.
    pub fn new(experiment: &Experiment, runs: &Runs) -> Self {
        let plan = &experiment.plan;
        let size = plan.environment.size();
        let mut env: serde_json::Map<_, _> =
            experiment.options.resolved().filter_map(json_entry).collect();
        env.insert("name".into(), experiment.environment.name.into());
        for (name, count) in [("users", size.users), ("dim", size.dim), ("arms", size.arms)] {
            env.insert(name.into(), count.into());
        }
        let of_player = |(at, player): (usize, &dyn Player)| {
            let runs: Vec<&Run> = runs.repetitions.iter().map(|rep| &rep.runs[at]).collect();
            PolicySummary::new(player.label(), &runs, size.users * plan.rounds)
        };
        Self {
            env,
            rounds: plan.rounds,
            users: size.users,
            reps: runs.repetitions.len(),
            seed: plan.seed,
            policies: plan.players().enumerate().map(of_player).collect(),
        }
    }

    /// As JSON.
    pub fn to_json(&self) -> String {
        let json = serde_json::to_string_pretty(self);
        json.expect("numbers, words and lists always have a JSON form") + "\n"
    }
}

impl PolicySummary {
    fn new(label: &str, runs: &[&Run], user_rounds: usize) -> Self {
        let regrets: Vec<f64> = runs.iter().map(|run| run.total_regret()).collect();
        let seconds: f64 = runs.iter().map(|run| run.learning.as_secs_f64()).sum();
        let last = |run: &&Run| run.checkpoints.last().copied();
        let in_the_end: Vec<Checkpoint> = runs.iter().filter_map(last).collect();
        Self {
            name: label.to_owned(),
            regret_mean: regrets.iter().sum::<f64>() / regrets.len() as f64,
            regret_ci95: half_width_95(&regrets),
            seconds,
            user_rounds_per_second: rate(user_rounds * runs.len(), seconds),
            clusters: in_the_end.iter().map(|end| end.clusters).collect(),
            adjusted_rand: in_the_end.iter().map(|end| end.adjusted_rand).collect(),
            regret_per_rep: regrets,
        }
    }
}

/// The rate; a clock that has not moved counts as a nanosecond.
pub(super) fn rate(count: usize, seconds: f64) -> f64 {
    count as f64 / seconds.max(1e-9)
}

fn json_entry((param, value): (&Param, Option<Value>)) -> Option<(String, serde_json::Value)> {
    let value = match (&param.kind, value?) {
        (Kind::Count(_), Value::Real(number)) => (number as u64).into(),
        (_, Value::Real(number)) => number.into(),
        (kind, Value::Text(word)) if kind.is_flag() => (word == "true").into(),
        (_, Value::Text(text)) => text.into(),
    };
    Some((param.name.to_owned(), value))
}
