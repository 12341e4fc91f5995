//! An experiment as described by a user: unchecked while being set, checked before use.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cohort::params::{Param, Settings, Value};
use cohort::registry;

use super::{DEFAULT_POLICIES, DEFAULT_ROUNDS, Experiment, RUN_PARAMS};
use crate::Error;
use crate::environment::{Environment, EnvironmentInfo};
use crate::environments::{self, ENVIRONMENTS};
use crate::runner::{Contender, Plan};

/// An experiment as described by a user. What is not set has its default.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// Some of [`RUN_PARAMS`].
    pub run: BTreeMap<String, Value>,
    /// The name of the environment.
    pub environment: Option<String>,
    /// Some of the environment's options.
    pub options: BTreeMap<String, Value>,
    /// The policies.
    pub policies: Vec<PolicyDraft>,
    /// Whether to record the arms that were played.
    pub keep_arms: bool,
}

/// A policy as described by a user.
#[derive(Clone, Debug, Default)]
pub struct PolicyDraft {
    /// Its name in the registry.
    pub name: String,
    /// Its name in results, if another.
    pub label: Option<String>,
    /// Some of its parameters.
    pub params: BTreeMap<String, Value>,
}

impl PolicyDraft {
    /// Its name in results.
    pub fn label(&self) -> &str {
        self.label.as_ref().unwrap_or(&self.name)
    }
}

impl Draft {
    /// Sets another environment. Options that it does not have are dropped.
    pub fn set_environment(&mut self, name: &str) -> Result<(), Error> {
        let info = environments::info(name)?;
        self.options.retain(|name, _| info.options().any(|option| option.name == name));
        self.environment = Some(name.to_owned());
        Ok(())
    }

    /// Sets the policies: `NAME` or `LABEL=NAME`, separated by commas. Policies already in the
    /// draft under that label keep their parameters.
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

    /// Sets a parameter of one policy by `POLICY.PARAM=VALUE`; POLICY is a label, or a name that
    /// stands for all policies of that name.
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

    /// Checks everything except files named by options.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.run_settings()?;
        self.environment_info()?.check(self.options.clone())?;
        self.contenders()?;
        Ok(())
    }

    /// Checks everything and fills in the defaults.
    pub fn resolve(self) -> Result<Experiment, Error> {
        let info = self.environment_info()?;
        let options = info.check(self.options.clone())?;
        self.check()?;
        let environment = (info.build)(&options)?;
        self.resolve_in(info, options, environment)
    }

    /// The same in an environment made by the caller; that of the draft is ignored.
    pub fn resolve_in(
        mut self,
        info: &'static EnvironmentInfo,
        options: Settings,
        environment: Box<dyn Environment>,
    ) -> Result<Experiment, Error> {
        self.fill_in_policies();
        let run = self.run_settings()?;
        let contenders = self.contenders()?;

        let limit = environment.size().rounds;
        let count = |name| run.optional(name).map(|count| count as usize);
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
                guests: Vec::new(),
                keep_arms: self.keep_arms,
            },
            environment: info,
            options,
            out: run.text("out").map(PathBuf::from),
        })
    }

    fn run_settings(&self) -> Result<Settings, Error> {
        const GROUPS: &[&[Param]] = &[RUN_PARAMS];
        Settings::check("experiment", GROUPS, self.run.clone())
            .map_err(|error| Error::of("an experiment", error))
    }

    fn environment_info(&self) -> Result<&'static EnvironmentInfo, Error> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(draft: Draft) -> String {
        match draft.resolve() {
            Ok(_) => panic!("nothing was refused"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_policy_may_play_under_several_labels() {
        let mut draft = Draft::default();
        draft.set_policies("linucb-ind, narrow=linucb-ind");
        draft.set_param("narrow.exploration=0.1").unwrap();
        let contenders = draft.resolve().unwrap().plan.contenders;
        let widths: Vec<(&str, f64)> = (contenders.iter())
            .map(|contender| (contender.label.as_str(), contender.settings.real("exploration")))
            .collect();
        assert_eq!(widths, [("linucb-ind", 1.0), ("narrow", 0.1)]);
    }

    #[test]
    fn a_name_that_is_no_label_means_all_policies_of_that_name() {
        let mut draft = Draft::default();
        draft.set_policies("a=linucb-ind,b=linucb-ind,random");
        draft.set_param("linucb-ind.delta = 0.2").unwrap();
        let contenders = draft.resolve().unwrap().plan.contenders;
        assert_eq!(contenders[0].settings.real("delta"), 0.2);
        assert_eq!(contenders[1].settings.real("delta"), 0.2);
    }

    #[test]
    fn what_is_wrong_is_refused_by_name() {
        let with = |change: &dyn Fn(&mut Draft)| {
            let mut draft = Draft::default();
            change(&mut draft);
            refusal(draft)
        };
        let refused = with(&|draft| draft.set_policies("random,random"));
        assert!(refused.contains("`random` twice"), "{refused}");
        let refused = with(&|draft| draft.set_policies("linucb"));
        assert!(refused.contains("did you mean `linucb-ind`?"), "{refused}");
        let refused = with(&|draft| {
            draft.set_policies("linucb-ind");
            draft.set_param("linucb-ind.delta=1").unwrap();
        });
        assert_eq!(refused, "linucb-ind.delta = 1: expected a number in (0, 1)");
        let refused = with(&|draft| {
            draft.run.insert("rounds".into(), Value::Real(0.0));
        });
        assert_eq!(refused, "experiment.rounds = 0: expected a whole number, 1 or more");

        let mut draft = Draft::default();
        draft.set_policies("random");
        let refused = draft.set_param("linucb-ind.delta=0.1").unwrap_err().to_string();
        assert!(refused.contains("one of the policies that play: random"), "{refused}");
        assert!(draft.set_param("delta=0.1").unwrap_err().to_string().contains("POLICY.PARAM="));
    }

    #[test]
    fn another_environment_keeps_the_options_that_it_has() {
        let mut draft = Draft::parse("[env]\nname = 'clustered'\nusers = 7\nclusters = 2").unwrap();
        draft.set_environment("gaussian").unwrap();
        let experiment = draft.resolve().unwrap();
        assert_eq!(experiment.plan.environment.size().users, 7);
    }

    #[test]
    fn flags_that_name_policies_keep_what_the_file_says_of_them() {
        let mut draft = Draft::parse("[[policy]]\nname = 'linucb-ind'\ndelta = 0.25").unwrap();
        draft.set_policies("random,linucb-ind");
        let contenders = draft.resolve().unwrap().plan.contenders;
        assert_eq!(contenders.len(), 2);
        assert_eq!(contenders[1].settings.real("delta"), 0.25);
    }
}
