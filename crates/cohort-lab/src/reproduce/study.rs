//! A study: an experiment file, every combination of its facets, and what is tuned before.
//!
//! The files in `experiments/` are inside the program, so that it runs from any folder. They have
//! the keys of an ordinary experiment and some more:
//!
//! ```toml
//! title = "…"          # over its figures
//! kind = "curves"      # how it is drawn: curves, ratio, scaling, runtime, choices, probe
//! probe = "oful"       # which probe is run, for the kind `probe`
//! [[facet]]            # every combination of facets is a setting
//! key = "noise"
//! values = [0.1, 0.5, 1.0]
//! quick = [0.1, 1.0]   # fewer with --quick
//! [tuning]             # the first rounds of other repetitions decide
//! rounds = 500
//! reps = 5
//! widths = [0.1, 1.0]  # the exploration scales that every policy may choose from
//! [[reading]]          # every policy that has one of these parameters plays once more with them
//! name = "ball"
//! params = { confidence = "ball" }
//! [quick]              # what --quick changes of `reps`, `rounds` and `tuning_reps`; it also takes
//!                      # only every fifth candidate of what is tuned
//! reps = 3
//! [[policy]]
//! name = "club"
//! tune = { exploration = [0.1, 1.0], alpha2 = [1.0, 2.0] }  # as the paper tunes it; {}: not at all
//! ```

use std::collections::BTreeMap;

use cohort::params::Value;
use serde::Deserialize;

use super::probes::{Probe, probe};
use crate::Error;
use crate::experiment::{Draft, PolicyDraft};

/// Every study's name and file, in the order of the report.
pub const FILES: &[(&str, &str)] = &[
    ("fig1", include_str!("../../../../experiments/fig1.toml")),
    ("fig2", include_str!("../../../../experiments/fig2.toml")),
    ("fig3", include_str!("../../../../experiments/fig3.toml")),
    ("fig3-choices", include_str!("../../../../experiments/fig3-choices.toml")),
    ("scaling-users", include_str!("../../../../experiments/scaling-users.toml")),
    ("scaling-rounds", include_str!("../../../../experiments/scaling-rounds.toml")),
    ("scaling-separation", include_str!("../../../../experiments/scaling-separation.toml")),
    ("scaling-heterogeneity", include_str!("../../../../experiments/scaling-heterogeneity.toml")),
    ("scaling-personal", include_str!("../../../../experiments/scaling-personal.toml")),
    ("personal-users", include_str!("../../../../experiments/personal-users.toml")),
    ("personal-identical", include_str!("../../../../experiments/personal-identical.toml")),
    ("probe-shifted", include_str!("../../../../experiments/probe-shifted.toml")),
    ("probe-oful", include_str!("../../../../experiments/probe-oful.toml")),
    ("probe-average", include_str!("../../../../experiments/probe-average.toml")),
    ("probe-norm", include_str!("../../../../experiments/probe-norm.toml")),
    ("probe-personal", include_str!("../../../../experiments/probe-personal.toml")),
    ("theory-separable-users", include_str!("../../../../experiments/theory-separable-users.toml")),
    (
        "theory-separable-rounds",
        include_str!("../../../../experiments/theory-separable-rounds.toml"),
    ),
    (
        "theory-inseparable-users",
        include_str!("../../../../experiments/theory-inseparable-users.toml"),
    ),
    (
        "theory-inseparable-rounds",
        include_str!("../../../../experiments/theory-inseparable-rounds.toml"),
    ),
    ("theory-close", include_str!("../../../../experiments/theory-close.toml")),
    ("theory-shares", include_str!("../../../../experiments/theory-shares.toml")),
    ("theory-gap", include_str!("../../../../experiments/theory-gap.toml")),
    ("readings-clustering", include_str!("../../../../experiments/readings-clustering.toml")),
    ("readings-personal", include_str!("../../../../experiments/readings-personal.toml")),
    ("readings-clusters", include_str!("../../../../experiments/readings-clusters.toml")),
    ("readings-lastfm", include_str!("../../../../experiments/readings-lastfm.toml")),
    ("runtime", include_str!("../../../../experiments/runtime.toml")),
    ("cohort-clusters", include_str!("../../../../experiments/cohort-clusters.toml")),
    ("cohort-mixture", include_str!("../../../../experiments/cohort-mixture.toml")),
    ("cohort-ablations", include_str!("../../../../experiments/cohort-ablations.toml")),
    ("cohort-lastfm", include_str!("../../../../experiments/cohort-lastfm.toml")),
    ("cohort-movielens", include_str!("../../../../experiments/cohort-movielens.toml")),
];

/// Whether a study needs a data set.
pub fn reads_data(name: &str) -> bool {
    let text = FILES.iter().find(|(file, _)| *file == name).map_or("", |(_, text)| text);
    let study = Study::parse(name, text, false);
    let environment = study.ok().and_then(|study| study.draft.environment);
    matches!(environment.as_deref(), Some("lastfm" | "movielens"))
}

/// How a study is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Regret against rounds.
    Curves,
    /// The same, as a ratio to what `random` has.
    Ratio,
    /// Regret at the end against the last facet, log–log, with a fitted slope.
    Scaling,
    /// Seconds against the last facet, log–log.
    Runtime,
    /// A table of ratios to `random`, a line a setting.
    Choices,
    /// A table of what a probe answered, a line a setting.
    Probe,
}

/// One experiment file.
#[derive(Clone, Debug)]
pub struct Study {
    /// Its name: `fig1`.
    pub name: String,
    /// Over its figures.
    pub title: String,
    /// What it is, in a few sentences.
    pub about: String,
    /// How it is drawn.
    pub kind: Kind,
    /// What varies; the first facet makes pages, the others rows and columns.
    pub facets: Vec<Facet>,
    /// What is chosen before, if anything is.
    pub tuning: Option<Tuning>,
    /// What is tuned of which policy, by label: parameter and candidates.
    pub tuned: BTreeMap<String, Vec<(String, Vec<f64>)>>,
    /// What the theorem says of the slope: the exponent, and where it is said.
    pub theorem: Option<Theorem>,
    /// What is asked instead of letting policies play.
    pub probe: Option<&'static Probe>,
    /// Names of the other readings of the paper that policies play under.
    pub readings: Vec<String>,
    /// Only every so many of the candidates are tried when tuning.
    pub thinned: usize,
    /// Whether it was made smaller.
    pub quick: bool,
    /// Everything that does not vary.
    pub draft: Draft,
}

/// Something that varies.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facet {
    /// The option or run parameter.
    pub key: String,
    /// What it is called at an axis, with its unit.
    #[serde(default)]
    pub label: String,
    /// The values it takes.
    values: Vec<toml::Value>,
    /// The values it takes with `--quick`.
    quick: Option<Vec<toml::Value>>,
}

/// How parameters are chosen before.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuning {
    /// How many of the first rounds decide.
    pub rounds: usize,
    /// On how many repetitions, none of them those of the figures.
    pub reps: usize,
    /// The exploration scales that every policy may choose from.
    pub widths: Vec<f64>,
}

/// What a theorem says of a slope.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Theorem {
    /// The exponent of the bound.
    pub exponent: f64,
    /// Where it is.
    pub place: String,
}

/// The keys that ordinary experiments do not have.
#[derive(Deserialize)]
struct Head {
    title: String,
    about: String,
    kind: Kind,
    #[serde(default)]
    facet: Vec<Facet>,
    tuning: Option<Tuning>,
    theorem: Option<Theorem>,
    probe: Option<String>,
    #[serde(default)]
    reading: Vec<Reading>,
    #[serde(default)]
    quick: Quick,
}

/// Another reading of the paper.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reading {
    name: String,
    params: BTreeMap<String, toml::Value>,
}

/// Between the label of a policy and the reading it plays under.
pub const UNDER: &str = " @ ";

/// The label of a policy under a reading.
pub fn label_under(label: &str, reading: &str) -> String {
    format!("{label}{UNDER}{reading}")
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Quick {
    reps: Option<i64>,
    rounds: Option<i64>,
    tuning_reps: Option<usize>,
}

/// One combination of facets.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The value of every facet, in the study's order.
    pub values: Vec<(String, Value)>,
}

impl Setting {
    /// The value of a facet as a number.
    pub fn number(&self, key: &str) -> Option<f64> {
        self.values.iter().find(|(name, _)| name == key).and_then(|(_, value)| match value {
            Value::Real(number) => Some(*number),
            Value::Text(_) => None,
        })
    }

    /// The value of a facet as text.
    pub fn text(&self, key: &str) -> Option<String> {
        self.values.iter().find(|(name, _)| name == key).map(|(_, value)| plain(value))
    }
}

/// A value without quotes.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Real(number) => number.to_string(),
        Value::Text(text) => text.clone(),
    }
}

impl Study {
    /// From the text of an experiment file. `quick` makes it smaller.
    pub fn parse(name: &str, text: &str, quick: bool) -> Result<Self, Error> {
        Self::parse_table(name, text, quick)
            .map_err(|error| error.at(format!("experiments/{name}.toml").as_ref()))
    }

    fn parse_table(name: &str, text: &str, quick: bool) -> Result<Self, Error> {
        let bad = |error: toml::de::Error| {
            Error::unexpected("experiment", error.message().to_owned(), "a study")
        };
        let mut head: Head = toml::from_str(text).map_err(bad)?;
        let mut table: toml::Table = toml::from_str(text).map_err(bad)?;
        let own =
            ["title", "about", "kind", "facet", "tuning", "theorem", "probe", "reading", "quick"];
        for key in own {
            table.remove(key);
        }
        let mut tuned = take_tuned(&mut table)?;
        if quick {
            for (key, value) in [("reps", head.quick.reps), ("rounds", head.quick.rounds)] {
                if let Some(value) = value {
                    table.insert(key.into(), value.into());
                }
            }
            for facet in &mut head.facet {
                facet.values = facet.quick.take().unwrap_or(std::mem::take(&mut facet.values));
            }
            if let Some(tuning) = &mut head.tuning {
                tuning.reps = head.quick.tuning_reps.unwrap_or(tuning.reps);
            }
        }
        let mut draft = Draft::parse(&table.to_string())?;
        for reading in &head.reading {
            for (base, policy) in reading.policies(&draft.policies)? {
                // Tuned as the policy is: under every reading, or under none.
                if let Some(grid) = tuned.get(&base).cloned() {
                    tuned.insert(policy.label().to_owned(), grid);
                }
                draft.policies.push(policy);
            }
        }
        Ok(Self {
            name: name.to_owned(),
            title: head.title,
            about: head.about.split_whitespace().collect::<Vec<_>>().join(" "),
            kind: head.kind,
            facets: head.facet,
            tuning: head.tuning,
            tuned,
            theorem: head.theorem,
            probe: head.probe.as_deref().map(probe).transpose()?,
            readings: head.reading.into_iter().map(|reading| reading.name).collect(),
            thinned: if quick { QUICK_CANDIDATES } else { 1 },
            quick,
            draft,
        })
    }

    /// Every combination of facets, the last varying fastest.
    pub fn settings(&self) -> Vec<Setting> {
        let mut settings = vec![Setting { values: Vec::new() }];
        for facet in &self.facets {
            settings = (settings.iter())
                .flat_map(|setting| {
                    facet.values().into_iter().map(|value| {
                        let mut setting = setting.clone();
                        setting.values.push((facet.key.clone(), value));
                        setting
                    })
                })
                .collect();
        }
        settings
    }

    /// The experiment of one setting.
    pub fn draft_of(&self, setting: &Setting) -> Draft {
        let mut draft = self.draft.clone();
        for (key, value) in &setting.values {
            let run = crate::experiment::RUN_PARAMS.iter().any(|param| param.name == key);
            let values = if run { &mut draft.run } else { &mut draft.options };
            values.insert(key.clone(), value.clone());
        }
        draft
    }

    /// How many repetitions it asks for.
    pub fn repetitions(&self) -> usize {
        match self.draft.run.get("reps") {
            Some(Value::Real(reps)) => *reps as usize,
            _ => 1,
        }
    }

    /// The facet that is the horizontal axis of scaling figures.
    pub fn axis(&self) -> Option<&Facet> {
        self.facets.last()
    }
}

impl Facet {
    /// The values it takes.
    pub fn values(&self) -> Vec<Value> {
        self.values.iter().map(value_of).collect()
    }
}

/// With `--quick` one of so many candidates is tried: of four by four the diagonal.
const QUICK_CANDIDATES: usize = 5;

impl Reading {
    /// Every policy that has one of the parameters, once more, with the label it had.
    fn policies(&self, policies: &[PolicyDraft]) -> Result<Vec<(String, PolicyDraft)>, Error> {
        let mut more = Vec::new();
        for policy in policies.iter().filter(|policy| !policy.label().contains(UNDER)) {
            let info = cohort::registry::info(&policy.name)?;
            let mut params = policy.params.clone();
            let mut changed = false;
            for (name, value) in &self.params {
                if info.params.iter().copied().flatten().any(|param| param.name == name) {
                    params.insert(name.clone(), value_of(value));
                    changed = true;
                }
            }
            if changed {
                let (base, name) = (policy.label().to_owned(), policy.name.clone());
                let label = Some(label_under(&base, &self.name));
                more.push((base, PolicyDraft { name, label, params }));
            }
        }
        Ok(more)
    }
}

fn value_of(value: &toml::Value) -> Value {
    match value {
        toml::Value::Integer(number) => Value::Real(*number as f64),
        toml::Value::Float(number) => Value::Real(*number),
        toml::Value::String(text) => Value::Text(text.clone()),
        other => Value::Text(other.to_string()),
    }
}

/// The parameters to tune and their grids, by the policy's label.
type Tuned = BTreeMap<String, Vec<(String, Vec<f64>)>>;

/// Takes `tune` out of every policy, so that the rest is an ordinary experiment.
fn take_tuned(table: &mut toml::Table) -> Result<Tuned, Error> {
    let mut tuned = BTreeMap::new();
    let Some(toml::Value::Array(policies)) = table.get_mut("policy") else { return Ok(tuned) };
    for policy in policies.iter_mut().filter_map(toml::Value::as_table_mut) {
        let Some(tune) = policy.remove("tune") else { continue };
        let grid: BTreeMap<String, Vec<f64>> = tune.try_into().map_err(|_| {
            Error::unexpected("tune", "something else", "parameters with lists of numbers")
        })?;
        let label = policy.get("label").or(policy.get("name")).and_then(toml::Value::as_str);
        tuned.insert(label.unwrap_or_default().to_owned(), grid.into_iter().collect());
    }
    Ok(tuned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_study_of_policies_that_exist() {
        for (name, text) in FILES {
            for quick in [false, true] {
                let study = Study::parse(name, text, quick).unwrap();
                assert_eq!(study.draft.policies.is_empty(), study.probe.is_some(), "{name}");
                // Equal budgets: whatever is tuned has as many candidates.
                for grid in study.tuned.values().filter(|grid| !grid.is_empty()) {
                    let candidates: usize = grid.iter().map(|(_, values)| values.len()).product();
                    assert_eq!(candidates, study.tuning.as_ref().unwrap().widths.len(), "{name}");
                }
                if study.probe.is_some() {
                    continue;
                }
                let environment = study.draft.environment.as_deref().unwrap();
                let info = crate::environments::info(environment).unwrap();
                for setting in study.settings() {
                    info.check(study.draft_of(&setting).options).unwrap();
                }
            }
        }
    }

    #[test]
    fn studies_of_real_users_need_their_data() {
        let needing: Vec<&str> =
            FILES.iter().map(|(name, _)| *name).filter(|name| reads_data(name)).collect();
        let expected =
            ["fig3", "fig3-choices", "readings-lastfm", "cohort-lastfm", "cohort-movielens"];
        assert_eq!(needing, expected);
    }

    #[test]
    fn settings_are_all_combinations() {
        let text = "title = 't'\nabout = 'a'\nkind = 'curves'\n\
            [[facet]]\nkey = 'noise'\nvalues = [0.1, 1]\nquick = [1]\n\
            [[facet]]\nkey = 'users'\nvalues = [5, 6, 7]\n[env]\nname = 'clustered'\n\
            [[policy]]\nname = 'linucb-ind'\ntune = { exploration = [0.1, 1.0] }";
        let study = Study::parse("x", text, false).unwrap();
        let settings = study.settings();
        assert_eq!(settings.len(), 6);
        assert_eq!(settings[1].number("users"), Some(6.0));
        assert_eq!(settings[5].text("noise").as_deref(), Some("1"));
        assert_eq!(study.tuned["linucb-ind"], [("exploration".to_owned(), vec![0.1, 1.0])]);
        assert_eq!(Study::parse("x", text, true).unwrap().settings().len(), 3);
    }
}
