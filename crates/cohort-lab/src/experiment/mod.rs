//! Experiments as data: from a TOML file, from flags, or both.
//!
//! A [`Draft`] takes anything; [`Draft::resolve`] checks all of it and gives an [`Experiment`],
//! every default filled in.

mod draft;
mod example;
mod file;

pub use draft::{Draft, PolicyDraft};
pub use example::{example, example_file};

use std::path::PathBuf;

use cohort::params::{Kind, Param, Settings, Value};

use crate::environment::EnvironmentInfo;
use crate::runner::Plan;

/// The parameters of a run besides environment and policies.
pub const RUN_PARAMS: &[Param] = &[
    Param::derived(
        "rounds",
        Kind::Count(1),
        "1000, or all that the environment has",
        "T, how many rounds are played",
    ),
    Param::count("reps", 1, 4, "how many repetitions, each in a world of its own"),
    Param::count("seed", 0, 7, "all randomness follows from it"),
    Param::derived(
        "threads",
        Kind::Count(1),
        "all cores",
        "how many threads; results are the same on any number",
    ),
    Param::text("out", "a folder", "nothing is written", "where all results are written"),
];

/// T where neither the experiment nor the environment sets it.
pub const DEFAULT_ROUNDS: usize = 1000;

/// The policies where none is named.
pub const DEFAULT_POLICIES: &[&str] = &["random", "linucb-ind", "cmlb", "sclb-warm", "oracle"];

/// An experiment, checked and complete.
pub struct Experiment {
    /// The plan of the runner.
    pub plan: Plan,
    /// The environment.
    pub environment: &'static EnvironmentInfo,
    /// Its options.
    pub options: Settings,
    /// The folder for results, if any.
    pub out: Option<PathBuf>,
}

impl Experiment {
    /// The experiment as a TOML file that gives the same numbers again, defaults written out.
    pub fn to_toml(&self) -> String {
        let mut policies = Vec::new();
        for contender in &self.plan.contenders {
            let mut table = toml_table(&contender.settings);
            table.insert("name".into(), contender.policy.name.into());
            if contender.label != contender.policy.name {
                table.insert("label".into(), contender.label.as_str().into());
            }
            policies.push(toml::Value::Table(table));
        }
        let mut env = toml_table(&self.options);
        env.insert("name".into(), self.environment.name.into());

        let count = |count: usize| toml::Value::Integer(count as i64);
        let mut table = toml::Table::new();
        table.insert("rounds".into(), count(self.plan.rounds));
        table.insert("reps".into(), count(self.plan.repetitions));
        table.insert("seed".into(), toml::Value::Integer(self.plan.seed as i64));
        table.insert("env".into(), toml::Value::Table(env));
        table.insert("policy".into(), toml::Value::Array(policies));
        table.to_string()
    }
}

fn toml_table(settings: &Settings) -> toml::Table {
    let entry = |(param, value): (&Param, Option<Value>)| {
        let value = match (&param.kind, value?) {
            (Kind::Count(_), Value::Real(number)) => toml::Value::Integer(number as i64),
            (_, Value::Real(number)) => toml::Value::Float(number),
            (kind, Value::Text(word)) if kind.is_flag() => toml::Value::Boolean(word == "true"),
            (_, Value::Text(text)) => toml::Value::String(text),
        };
        Some((param.name.to_owned(), value))
    };
    settings.resolved().filter_map(entry).collect()
}
