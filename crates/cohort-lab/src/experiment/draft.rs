//! An experiment as somebody describes it: unchecked while being set, checked before use.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cohort::params::{Param, Settings, Value};
use cohort::registry;

use super::{DEFAULT_POLICIES, DEFAULT_ROUNDS, Experiment, RUN_PARAMS};
use crate::Error;
use crate::environments::{self, ENVIRONMENTS};
use crate::runner::{Contender, Plan};

/// An experiment as somebody describes it. What is not set has its default.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// Some of [`RUN_PARAMS`].
    pub run: BTreeMap<String, Value>,
    /// The name of the environment.
    pub environment: Option<String>,
    /// Some of the environment's options.
    pub options: BTreeMap<String, Value>,
    /// Who plays.
    pub policies: Vec<PolicyDraft>,
    /// Whether to keep the arms that were played.
    pub keep_arms: bool,
}

/// A policy as somebody describes it.
#[derive(Clone, Debug, Default)]
pub struct PolicyDraft {
    /// Which.
    pub name: String,
    /// What it is called in results, if not by its name.
    pub label: Option<String>,
    /// Some of its parameters.
    pub params: BTreeMap<String, Value>,
}

impl PolicyDraft {
    /// What it is called in results.
    pub fn label(&self) -> &str {
        self.label.as_ref().unwrap_or(&self.name)
    }
}

impl Draft {
    /// Takes another environment. Options that it does not have are forgotten.
    pub fn set_environment(&mut self, name: &str) -> Result<(), Error> {
        let info = environments::info(name)?;
        self.options.retain(|name, _| info.options().any(|option| option.name == name));
        self.environment = Some(name.to_owned());
        Ok(())
    }

    /// Who plays: `NAME` or `LABEL=NAME`, with commas between. Policies that were in the draft
    /// under that label keep their parameters.
    pub fn set_policies(&mut self, list: &str) {
        let before = std::mem::take(&mut self.policies);
        for entry in list.split(',').map(str::trim) {
            let (label, name) = match entry.split_once('=') {
                Some((label, name)) => (Some(label.to_owned()), name),
                None => (None, entry),
            };
            let new = PolicyDraft { name: name.to_owned(), label, params: BTreeMap::new() };
            let known = before.iter().find(|old| match &new.label {
                Some(label) => old.label() == label && old.name == name,
                None => old.label() == name,
            });
            self.policies.push(known.cloned().unwrap_or(new));
        }
    }

    /// A parameter of one policy, as `POLICY.PARAM=VALUE`; POLICY is a label, or a name and then
    /// meant for all policies of that name.
    pub fn set_param(&mut self, assignment: &str) -> Result<(), Error> {
        let parts = assignment.split_once('=').and_then(|(key, value)| {
            let (policy, param) = key.rsplit_once('.')?;
            Some((policy.trim(), param.trim(), value.trim()))
        });
        let Some((policy, param, value)) = parts else {
            let expected = "POLICY.PARAM=VALUE, for example linucb-ind.exploration=0.1";
            return Err(Error::unexpected("--set", format!("`{assignment}`"), expected));
        };
        self.fill_in_policies();
        let labelled = self.policies.iter().any(|entry| entry.label() == policy);
        let mut meant = (self.policies.iter_mut())
            .filter(|entry| if labelled { entry.label() == policy } else { entry.name == policy })
            .peekable();
        if meant.peek().is_none() {
            registry::info(policy)?;
            let playing: Vec<&str> = self.policies.iter().map(PolicyDraft::label).collect();
            let expected = format!("one of the policies that play: {}", playing.join(", "));
            return Err(Error::unexpected(format!("--set {assignment}"), policy, expected));
        }
        for entry in meant {
            entry.params.insert(param.to_owned(), Value::from(value));
        }
        Ok(())
    }

    fn fill_in_policies(&mut self) {
        if self.policies.is_empty() {
            self.set_policies(&DEFAULT_POLICIES.join(","));
        }
    }

    /// Checks everything but files that options name.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.run_settings()?;
        self.environment_info()?.check(self.options.clone())?;
        self.contenders()?;
        Ok(())
    }

    /// Checks everything and fills in the defaults.
    pub fn resolve(mut self) -> Result<Experiment, Error> {
        self.fill_in_policies();
        let run = self.run_settings()?;
        let info = self.environment_info()?;
        let options = info.check(self.options.clone())?;
        let contenders = self.contenders()?;
        let environment = (info.build)(&options)?;

        let limit = environment.size().rounds;
        let count = |name| run.given(name).map(|_| run.derived(name, || 0.0) as usize);
        let rounds = count("rounds").or(limit).unwrap_or(DEFAULT_ROUNDS);
        if let Some(limit) = limit.filter(|limit| rounds > *limit) {
            let expected = format!("at most {limit}, all that the environment has");
            return Err(Error::unexpected("rounds", rounds.to_string(), expected));
        }
        let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
        Ok(Experiment {
            plan: Plan {
                environment,
                rounds,
                repetitions: run.count("reps"),
                seed: run.count("seed") as u64,
                threads: count("threads").unwrap_or_else(cores),
                contenders,
                keep_arms: self.keep_arms,
            },
            environment: info,
            options,
            out: match run.given("out") {
                Some(Value::Text(folder)) => Some(PathBuf::from(folder)),
                _ => None,
            },
        })
    }

    fn run_settings(&self) -> Result<Settings, Error> {
        const GROUPS: &[&[Param]] = &[RUN_PARAMS];
        Settings::check("experiment", GROUPS, self.run.clone())
            .map_err(|error| Error::of("an experiment", error))
    }

    fn environment_info(&self) -> Result<&'static crate::environment::EnvironmentInfo, Error> {
        environments::info(self.environment.as_deref().unwrap_or(ENVIRONMENTS[0].name))
    }

    fn contenders(&self) -> Result<Vec<Contender>, Error> {
        let mut contenders: Vec<Contender> = Vec::new();
        for entry in &self.policies {
            let policy = registry::info(&entry.name)?;
            let settings = policy.check(entry.params.clone())?;
            let label = entry.label().to_owned();
            if contenders.iter().any(|other| other.label == label) {
                let expected = "each only once; the same policy twice needs labels, as in \
                                `narrow=linucb-ind` or label = \"narrow\"";
                return Err(Error::unexpected("policies", format!("`{label}` twice"), expected));
            }
            contenders.push(Contender { label, policy, settings });
        }
        Ok(contenders)
    }
}
