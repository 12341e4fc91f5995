//! The participants: every policy of the registry with its published parameters and those it is
//! tuned over (`experiments/arena/policies.toml`), and guests.

use std::collections::BTreeMap;
use std::sync::Arc;

use cohort::params::Value;
use cohort::registry::{self, POLICIES, PolicyInfo};
use cohort::{Policy, Problem};
use serde::Deserialize;

use super::Request;
use crate::Error;
use crate::reproduce::job::describe;
use crate::runner::{Contender, Player};

const FILE: &str = include_str!("../../../../experiments/arena/policies.toml");

/// What every policy that has it may choose its exploration from, besides the published one.
const EXPLORATIONS: [f64; 4] = [0.03, 0.1, 0.3, 3.0];
/// How many values besides the published one are tuned among: the common budget.
pub const VALUES: usize = EXPLORATIONS.len();
/// The same in a quick run.
pub const QUICK_VALUES: usize = 2;

/// A participant.
pub struct Entry {
    /// Its name.
    pub name: String,
    /// With its published parameters.
    pub published: Variant,
    /// The other candidates of tuning: the parameters, and the policy with them.
    pub others: Vec<(String, Variant)>,
    /// Whether it is given the truth of the environment: shown, not ranked.
    pub oracle: bool,
}

/// A participant with one set of parameters.
pub struct Variant {
    /// The policy.
    pub player: Arc<dyn Player>,
    /// What determines its results besides its code; `None` for guest policies, whose runs are not
    /// stored.
    pub identity: Option<String>,
    /// The fingerprint of its code.
    pub code: String,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct EntryFile {
    #[serde(default)]
    published: BTreeMap<String, EntryParam>,
    #[serde(default)]
    tune: BTreeMap<String, Vec<EntryParam>>,
}

#[derive(Deserialize, Clone)]
#[serde(untagged)]
enum EntryParam {
    Number(f64),
    Word(String),
}

impl From<&EntryParam> for Value {
    fn from(given: &EntryParam) -> Self {
        match given {
            EntryParam::Number(number) => Value::Real(*number),
            EntryParam::Word(word) => Value::Text(word.clone()),
        }
    }
}

/// All requested participants.
pub fn entries(request: &Request) -> Result<Vec<Entry>, Error> {
    let written: BTreeMap<String, EntryFile> = toml::from_str(FILE).map_err(|why| {
        let found = why.message().to_owned();
        Error::unexpected("experiments/arena/policies.toml", found, "a table for each policy")
    })?;
    for name in written.keys().chain(&request.policies) {
        registry::info(name)?;
    }
    let asked = |info: &&PolicyInfo| {
        request.policies.is_empty() || request.policies.contains(&info.name.to_owned())
    };
    let mut entries = Vec::new();
    for info in POLICIES.iter().filter(asked) {
        entries.push(entry(info, written.get(info.name), request.values())?);
    }
    for guest in &request.guests {
        let name = guest.label().to_owned();
        let published = Variant { player: guest.clone(), identity: None, code: String::new() };
        entries.push(Entry { name, published, others: Vec::new(), oracle: false });
    }
    Ok(entries)
}

fn entry(
    info: &'static PolicyInfo,
    written: Option<&EntryFile>,
    values: usize,
) -> Result<Entry, Error> {
    let none = EntryFile::default();
    let written = written.unwrap_or(&none);
    let own = if info.name == "cohort" { env!("COHORT_POLICY_CODE") } else { "" };
    let seat = |params: BTreeMap<String, Value>| -> Result<Variant, Error> {
        let settings = info.check(params)?;
        let identity = Some(format!("{}|{}", info.name, describe(&settings)));
        let player = Arc::new(Contender { label: info.name.to_owned(), policy: info, settings });
        Ok(Variant { player, identity, code: format!("{}{own}", env!("COHORT_CODE")) })
    };
    let published: BTreeMap<String, Value> =
        written.published.iter().map(|(name, value)| (name.clone(), value.into())).collect();
    let explores = info.params.iter().copied().flatten().any(|param| param.name == "exploration");
    let grid: Vec<(String, Value)> = match written.tune.iter().next() {
        Some((name, values)) => values.iter().map(|value| (name.clone(), value.into())).collect(),
        None if explores => {
            EXPLORATIONS.iter().map(|value| ("exploration".to_owned(), (*value).into())).collect()
        }
        None => Vec::new(),
    };
    let mut others = Vec::new();
    // Of four values, two are the second and the last.
    let step = grid.len().div_ceil(values.max(1)).max(1);
    for (name, value) in grid.into_iter().skip(step - 1).step_by(step).take(values) {
        let set = format!("{name} = {value}");
        let mut params = published.clone();
        params.insert(name, value);
        others.push((set, seat(params)?));
    }
    // Policies that need the truth are given it.
    let blind = Problem { rounds: Some(1), ..Problem::new(2, 2) };
    let settings = info.check(published.clone())?;
    let oracle = info.make(&blind, &settings).map(|_: Box<dyn Policy>| ()).is_err();
    Ok(Entry { name: info.name.to_owned(), published: seat(published)?, others, oracle })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(quick: bool) -> Vec<Entry> {
        entries(&super::super::tests::request(quick)).unwrap()
    }

    #[test]
    fn every_policy_takes_part_and_none_has_a_larger_budget() {
        let entries = all(false);
        assert_eq!(entries.len(), POLICIES.len());
        assert!(entries.iter().all(|entry| entry.others.len() <= EXPLORATIONS.len()));
        assert!(all(true).iter().all(|entry| entry.others.len() <= QUICK_VALUES));
        let others = |name: &str| {
            let entry = entries.iter().find(|entry| entry.name == name).unwrap();
            entry.others.iter().map(|(set, _)| set.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(others("linucb-ind")[0], "exploration = 0.03");
        assert!(others("random").is_empty());
    }

    #[test]
    fn oracles_are_those_that_must_be_told_the_truth() {
        let told: Vec<String> =
            all(false).into_iter().filter(|entry| entry.oracle).map(|entry| entry.name).collect();
        for name in ["oracle", "oracle-centres", "oracle-individual"] {
            assert!(told.iter().any(|told| told == name), "{told:?}");
        }
        assert!(!told.iter().any(|told| told == "cohort" || told == "linucb-ind"), "{told:?}");
    }
}
