//! Experiments as TOML files.

use std::path::Path;

use cohort::nearest;
use cohort::params::Value;

use super::{Draft, PolicyDraft, RUN_PARAMS};
use crate::Error;

impl Draft {
    /// Reads a TOML file and checks all that it says.
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
