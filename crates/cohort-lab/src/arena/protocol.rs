//! A protocol: an ordinary experiment file without policies, which `cohort simulate` runs, too. Its
//! first comment is its title, the others say where its parameters come from. Comments that begin
//! with `#quick` are what a quick run changes: `#quick rounds = 10`.

use std::path::Path;

use cohort::params::Value;

use super::entry::Entry;
use crate::Error;
use crate::environment::Environment;
use crate::experiment::{DEFAULT_ROUNDS, Draft, RUN_PARAMS};
use crate::reproduce::job::fnv;

/// Every protocol's name and file, in the order of the page.
pub const FILES: &[(&str, &str)] = &[
    ("sclub-synthetic", include_str!("../../../../experiments/arena/sclub-synthetic.toml")),
    ("fclub-movielens", include_str!("../../../../experiments/arena/fclub-movielens.toml")),
    ("fclub-yelp", include_str!("../../../../experiments/arena/fclub-yelp.toml")),
    ("fclub-yelp-skewed", include_str!("../../../../experiments/arena/fclub-yelp-skewed.toml")),
    ("rclumb", include_str!("../../../../experiments/arena/rclumb.toml")),
    ("locb-yelp", include_str!("../../../../experiments/arena/locb-yelp.toml")),
    ("hetrec-lastfm", include_str!("../../../../experiments/arena/hetrec-lastfm.toml")),
    ("clusters", include_str!("../../../../experiments/arena/clusters.toml")),
    ("mixture", include_str!("../../../../experiments/arena/mixture.toml")),
    ("alike", include_str!("../../../../experiments/arena/alike.toml")),
    ("subspace", include_str!("../../../../experiments/arena/subspace.toml")),
    ("levels", include_str!("../../../../experiments/arena/levels.toml")),
    ("drift", include_str!("../../../../experiments/arena/drift.toml")),
    ("million-users", include_str!("../../../../experiments/arena/million-users.toml")),
];

/// One protocol.
#[derive(Clone, Debug)]
pub struct Protocol {
    /// Its name, that of its file.
    pub name: String,
    /// What it is, in a few words.
    pub title: String,
    /// Where its parameters come from.
    pub about: String,
    /// The environment and its options.
    pub draft: Draft,
    /// T.
    pub rounds: usize,
    /// How many repetitions.
    pub reps: usize,
    /// The seed of all of them.
    pub seed: u64,
    /// Whether it runs only where it is named.
    pub only_when_asked: bool,
    /// Every parameter of the file: name, value, and where that comes from.
    pub sources: Vec<[String; 3]>,
}

const QUICK: &str = "#quick ";
const ASKED: &str = "#asked";

/// Parameters with the comments behind them, as a quick run has them.
fn sources(text: &str, quick: bool) -> Vec<[String; 3]> {
    let set = |line: &str| -> Option<[String; 3]> {
        let (name, rest) = line.split_once('=').filter(|_| !line.starts_with(['#', '[']))?;
        let (value, source) = rest.split_once(" #").unwrap_or((rest, ""));
        let [name, value, source] = [name, value, source].map(|part| part.trim().to_owned());
        let mut changed = text.lines().filter_map(|line| line.strip_prefix(QUICK)?.split_once('='));
        match changed.find(|(changed, _)| quick && changed.trim() == name) {
            Some((_, quick)) => {
                let source = format!("quick; in full {value}: {source}");
                Some([name, quick.trim().to_owned(), source])
            }
            None => Some([name, value, source]),
        }
    };
    text.lines().filter_map(set).collect()
}

impl Protocol {
    /// From its file.
    pub fn parse(name: &str, text: &str, quick: bool) -> Result<Self, Error> {
        let at = |error: Error| error.at(Path::new(&format!("experiments/arena/{name}.toml")));
        let mut draft = Draft::parse(text).map_err(at)?;
        if quick {
            for change in text.lines().filter_map(|line| line.strip_prefix(QUICK)) {
                let Some((key, value)) = change.split_once('=') else {
                    let expected = "#quick NAME = VALUE";
                    return Err(at(Error::unexpected("a line", format!("`{change}`"), expected)));
                };
                let (key, value) = (key.trim().to_owned(), Value::from(value.trim()));
                let is_run = RUN_PARAMS.iter().any(|param| param.name == key);
                if is_run { &mut draft.run } else { &mut draft.options }.insert(key, value);
            }
        }
        let mut words = text.lines().filter_map(|line| line.strip_prefix("# "));
        let count = |name: &str, default: f64| match draft.run.get(name) {
            Some(Value::Real(number)) => *number as usize,
            _ => default as usize,
        };
        Ok(Self {
            name: name.to_owned(),
            title: words.next().unwrap_or(name).to_owned(),
            about: words.collect::<Vec<_>>().join(" "),
            rounds: count("rounds", DEFAULT_ROUNDS as f64),
            reps: count("reps", 4.0),
            seed: count("seed", 7.0) as u64,
            only_when_asked: text.lines().any(|line| line.trim() == ASKED),
            sources: sources(text, quick),
            draft,
        })
    }

    /// Its environment, data sets from this folder.
    pub fn environment(&self, data: &Path) -> Result<Box<dyn Environment>, Error> {
        let mut draft = self.draft.clone();
        draft.set_policies("random");
        let name = draft.environment.clone().unwrap_or_default();
        let info = crate::environments::info(&name)?;
        if info.options().any(|option| option.name == "data") && !draft.options.contains_key("data")
        {
            draft.options.insert("data".into(), Value::Text(data.display().to_string()));
        }
        Ok(draft.resolve()?.plan.environment)
    }

    /// A name for everything that determines a run of it, code aside.
    pub(super) fn key(&self, who: &str, repetition: usize) -> String {
        let mut text = format!("{}|", self.draft.environment.clone().unwrap_or_default());
        for (name, value) in &self.draft.options {
            text.push_str(&format!("{name}={value};"));
        }
        text.push_str(&format!("|{}|{}/{repetition}|{who}", self.rounds, self.seed));
        format!("{:032x}", fnv(text.as_bytes()))
    }

    /// How many runs it has, at the most.
    pub(super) fn work(&self, entries: &[Entry]) -> u64 {
        entries.iter().map(|entry| (entry.others.len() + 1 + 2 * self.reps) as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protocol_can_be_read_and_says_where_it_comes_from() {
        for (name, text) in FILES {
            for quick in [false, true] {
                let protocol = Protocol::parse(name, text, quick).unwrap();
                assert!(protocol.about.len() > 60 && protocol.title.len() > 8, "{name}");
                assert!(protocol.draft.policies.is_empty(), "{name}");
                assert!(!quick || protocol.reps == 1 && protocol.rounds <= 300, "{name}");
                assert!(protocol.sources.len() >= 6, "{name}: {:?}", protocol.sources);
                for [param, value, source] in &protocol.sources {
                    assert!(source.len() > 3, "{name}: where does {param} = {value} come from?");
                }
                let info = crate::environments::info(&protocol.draft.environment.unwrap()).unwrap();
                info.check(protocol.draft.options).unwrap();
            }
        }
    }

    #[test]
    fn every_file_of_the_folder_is_a_protocol() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/arena");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        let mut known: Vec<String> = FILES.iter().map(|(name, _)| format!("{name}.toml")).collect();
        known.push("policies.toml".to_owned());
        files.sort();
        known.sort();
        assert_eq!(files, known);
    }
}
