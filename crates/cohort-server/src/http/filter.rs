//! Filters as they are sent.
//!
//! ```text
//! {"genre": "drama"}                              has the word
//! {"genre": ["drama", "war"]}                     has one of them
//! {"year": 1999}   {"new": true}   {"sold": null} is that
//! {"year": {"at_least": 1990, "below": 2000}}     is within (also `above`, `at_most`)
//! {"genre": {"not": "war"}}                       has it not, whether it has others or none
//! {"genre": {"exists": true}}                     has an attribute of that name
//! {"any_of": [{…}, {…}]}  {"all_of": […]}  {"none_of": […]}
//! ```
//!
//! Everything that an object names must hold. Names of attributes inside objects have dots: `film.year`.

use serde_json::{Map, Value};

use super::error::ApiError;
use super::strict::Strict;
use crate::state::Filter;

/// Conditions of one filter.
const MOST_TERMS: usize = 256;

/// Reads a filter.
pub fn filter_of(sent: &Strict) -> Result<Filter, ApiError> {
    let bad = |sentence: String| ApiError::new(422, "bad_filter", sentence);
    let filter = object(&sent.0).map_err(bad)?;
    match filter.len() > MOST_TERMS {
        true => Err(bad(format!("filter: more than {MOST_TERMS} conditions"))),
        false => Ok(filter),
    }
}

fn object(value: &Value) -> Result<Filter, String> {
    let Value::Object(fields) = value else {
        return Err(format!(
            "filter: expected an object of names and conditions, not {}",
            kind(value)
        ));
    };
    let parts = fields.iter().map(|(name, value)| {
        let several = || match value {
            Value::Array(list) => list.iter().map(object).collect::<Result<Vec<_>, _>>(),
            other => Err(format!("filter: `{name}` is a list of filters, not {}", kind(other))),
        };
        match name.as_str() {
            "any_of" => several().map(Filter::Any),
            "all_of" => several().map(Filter::All),
            "none_of" => several().map(|list| Filter::Not(Box::new(Filter::Any(list)))),
            name => condition(name, value),
        }
    });
    parts.collect::<Result<Vec<_>, _>>().map(Filter::All)
}

fn condition(name: &str, value: &Value) -> Result<Filter, String> {
    match value {
        Value::String(word) => Ok(Filter::word(name, word)),
        Value::Bool(flag) => Ok(Filter::flag(name, *flag)),
        Value::Null => Ok(Filter::null(name)),
        Value::Number(_) => {
            let number = number(name, "", value)?;
            Ok(Filter::within(name, (number, false), (number, false)))
        }
        Value::Array(list) => {
            let any = list.iter().map(|one| match one {
                Value::Array(_) | Value::Object(_) => Err(format!(
                    "filter: `{name}` is a list of words, numbers, true, false or null"
                )),
                one => condition(name, one),
            });
            any.collect::<Result<Vec<_>, _>>().map(Filter::Any)
        }
        Value::Object(fields) => conditions(name, fields),
    }
}

fn conditions(name: &str, fields: &Map<String, Value>) -> Result<Filter, String> {
    let (mut from, mut to) = ((f64::NEG_INFINITY, false), (f64::INFINITY, false));
    let (mut all, mut has_range) = (Vec::new(), false);
    for (what, value) in fields {
        match what.as_str() {
            "at_least" | "above" if from.0 != f64::NEG_INFINITY => {
                return Err(format!("filter: `{name}` has both `at_least` and `above`"));
            }
            "at_most" | "below" if to.0 != f64::INFINITY => {
                return Err(format!("filter: `{name}` has both `at_most` and `below`"));
            }
            "at_least" | "above" => from = (number(name, what, value)?, what == "above"),
            "at_most" | "below" => to = (number(name, what, value)?, what == "below"),
            "not" => all.push(Filter::Not(Box::new(condition(name, value)?))),
            "exists" => match value {
                Value::Bool(true) => all.push(Filter::named(name)),
                Value::Bool(false) => all.push(Filter::Not(Box::new(Filter::named(name)))),
                other => {
                    return Err(format!(
                        "filter: `{name}.exists` is true or false, not {}",
                        kind(other)
                    ));
                }
            },
            other => {
                return Err(format!(
                    "filter: `{name}` has the condition `{other}`; there are at_least, above, at_most, below, \
                     not and exists (an attribute inside an object is named with a dot)"
                ));
            }
        }
        has_range |= !matches!(what.as_str(), "not" | "exists");
    }
    if has_range {
        all.push(Filter::within(name, from, to));
    }
    Ok(Filter::All(all))
}

fn number(name: &str, what: &str, value: &Value) -> Result<f64, String> {
    let dot = if what.is_empty() { "" } else { "." };
    let number = value.as_f64().filter(|number| number.is_finite());
    number.ok_or_else(|| format!("filter: `{name}{dot}{what}` is a number, not {}", kind(value)))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a word",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
