//! Experiments as TOML files.

use std::path::Path;

use cohort::nearest;
use cohort::params::Value;

use super::{Draft, PolicyDraft, RUN_PARAMS};
use crate::Error;

impl Draft {
    /// Reads and checks a TOML file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::Read { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|error| error.at(path))
    }

    /// An experiment from the text of a TOML file, checked.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let table: toml::Table = text.parse().map_err(|error| not_toml(text, &error))?;
        let mut draft = Draft::default();
        for (key, value) in table {
            match key.as_str() {
                "env" => read_environment(&mut draft, value)?,
                "policy" => read_policies(&mut draft, value)?,
                name if RUN_PARAMS.iter().any(|param| param.name == name) => {
                    let value = scalar(&key, value)?;
                    draft.run.insert(key, value);
                }
                _ => return Err(unknown(key)),
            }
        }
        draft.check()?;
        Ok(draft)
    }
}

fn read_environment(draft: &mut Draft, value: toml::Value) -> Result<(), Error> {
    let toml::Value::Table(table) = value else {
        return Err(Error::unexpected("env", value.type_str(), "a table: [env]"));
    };
    for (key, value) in table {
        let value = scalar(&format!("env.{key}"), value)?;
        match (key.as_str(), value) {
            ("name", name) => draft.environment = Some(word("env.name", name)?),
            (_, value) => {
                draft.options.insert(key, value);
            }
        }
    }
    Ok(())
}

fn read_policies(draft: &mut Draft, value: toml::Value) -> Result<(), Error> {
    let tables = match value {
        toml::Value::Array(tables) => tables,
        other => return Err(Error::unexpected("policy", other.type_str(), "tables: [[policy]]")),
    };
    for entry in tables {
        let toml::Value::Table(table) = entry else {
            return Err(Error::unexpected("policy", entry.type_str(), "a table: [[policy]]"));
        };
        let mut policy = PolicyDraft::default();
        for (key, value) in table {
            let value = scalar(&format!("policy.{key}"), value)?;
            match key.as_str() {
                "name" => policy.name = word("policy.name", value)?,
                "label" => policy.label = Some(word("policy.label", value)?),
                _ => {
                    policy.params.insert(key, value);
                }
            }
        }
        if policy.name.is_empty() {
            let expected = "a name; `cohort policies` lists them";
            return Err(Error::unexpected("[[policy]]", "no name", expected));
        }
        draft.policies.push(policy);
    }
    Ok(())
}

fn scalar(key: &str, value: toml::Value) -> Result<Value, Error> {
    match value {
        toml::Value::Integer(number) => Ok(Value::Real(number as f64)),
        toml::Value::Float(number) => Ok(Value::Real(number)),
        toml::Value::Boolean(flag) => Ok(Value::Text(flag.to_string())),
        toml::Value::String(text) => Ok(Value::Text(text)),
        other => Err(Error::unexpected(key, other.type_str(), "a number, a word, true or false")),
    }
}

fn word(key: &str, value: Value) -> Result<String, Error> {
    match value {
        Value::Text(word) if !word.is_empty() => Ok(word),
        other => Err(Error::unexpected(key, other.to_string(), "a word in quotes")),
    }
}

fn unknown(name: String) -> Error {
    let known = || RUN_PARAMS.iter().map(|param| param.name).chain(["env", "policy"]);
    Error::UnknownKey {
        of: "an experiment".into(),
        nearest: nearest(&name, known()),
        known: known().collect::<Vec<_>>().join(", "),
        name,
    }
}

fn not_toml(text: &str, error: &toml::de::Error) -> Error {
    let at = error.span().map_or(0, |span| span.start.min(text.len()));
    let line = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
    let message = error.message().lines().collect::<Vec<_>>().join(", ");
    Error::Toml { line, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resolved_experiment_is_a_file_that_gives_itself() {
        let text = "
            rounds = 20
            seed = 3
            [env]
            name = 'gaussian'
            unit_ball = true
            spread = 1
            [[policy]]
            name = 'linucb-ind'
            [[policy]]
            name = 'linucb-ind'
            label = 'narrow'
            exploration = 0.1
            confidence = 'ball'
        ";
        let once = Draft::parse(text).unwrap().resolve().unwrap().to_toml();
        let twice = Draft::parse(&once).unwrap().resolve().unwrap().to_toml();
        assert_eq!(once, twice);
        for line in ["rounds = 20", "unit_ball = true", "label = \"narrow\"", "users = 100"] {
            assert!(once.contains(line), "{line} is missing in\n{once}");
        }
    }

    #[test]
    fn what_a_file_should_not_say_is_refused_with_its_place() {
        let cases = [
            ("round = 5", "no key `round` (did you mean `rounds`?)"),
            ("rounds = 0", "rounds = 0: expected a whole number, 1 or more"),
            ("rounds = 2.5", "rounds = 2.5: expected a whole number"),
            ("rounds = 'many'", "rounds = \"many\": expected a whole number"),
            ("rounds = [1]", "rounds: found array"),
            ("seed = -1", "seed = -1: expected a whole number, 0 or more"),
            ("out = 5", "out = 5: expected a folder"),
            ("env = 'clustered'", "env: found string, expected a table: [env]"),
            ("[env]\nname = 'clusterd'", "did you mean `clustered`?"),
            (
                "[env]\nusrs = 5",
                "environment `clustered` has no key `usrs` (did you mean `users`?)",
            ),
            ("[env]\nnoise = nan", "clustered.noise = NaN: expected a number in [0, ∞)"),
            ("[policy]\nname = 'random'", "policy: found table, expected tables: [[policy]]"),
            ("[[policy]]\ndelta = 0.1", "[[policy]]: found no name"),
            ("[[policy]]\nname = 'linucb-ind'\ndelt = 1", "did you mean `delta`?"),
            ("[[policy]]\nname = 'linucb-ind'\ndelta = 1", "expected a number in (0, 1)"),
            ("[[policy]]\nname = 'cmbl'", "did you mean `cmlb`?"),
            ("rounds = 5\nrounds = 6", "line 2: duplicate key"),
            ("rounds 5", "line 1: "),
        ];
        for (text, expected) in cases {
            let error = Draft::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error} does not say {expected}");
            assert!(!error.contains('\n'), "{error} is more than one line");
        }
    }

    #[test]
    fn errors_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.toml");
        std::fs::write(&path, "reps = 0").unwrap();
        let error = Draft::read(&path).unwrap_err().to_string();
        assert!(error.contains("mine.toml: experiment.reps = 0"), "{error}");
        let error = Draft::read(&folder.path().join("none.toml")).unwrap_err().to_string();
        assert!(error.contains("none.toml: cannot be read"), "{error}");
    }
}
