//! Parameters of policies and environments: declared with range, default and meaning; checked
//! before use.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;

use crate::Error;
use crate::error::nearest;

/// A declared parameter.
#[derive(Debug)]
pub struct Param {
    /// Its name on the command line and in TOML.
    pub name: &'static str,
    /// The values it takes.
    pub kind: Kind,
    /// Its default.
    pub default: DefaultValue,
    /// Its meaning, in one line.
    pub meaning: &'static str,
}

/// The values a parameter takes.
#[derive(Debug)]
pub enum Kind {
    /// A real number between two bounds.
    Real(Bound<f64>, Bound<f64>),
    /// A real number between two bounds, or one of these words.
    RealOr(Bound<f64>, Bound<f64>, &'static [&'static str]),
    /// A whole number, at least this.
    Count(usize),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any text; here a short description of it.
    Text(&'static str),
}

/// The default of a parameter.
#[derive(Debug)]
pub enum DefaultValue {
    /// This number.
    Real(f64),
    /// This word.
    Choice(&'static str),
    /// A value that follows from the problem, by the rule described here.
    Derived(&'static str),
}

/// A value as given by a caller.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number.
    Real(f64),
    /// A word.
    Text(String),
}

/// The words of a [`Param::flag`].
const FLAG: &[&str] = &["false", "true"];
/// Beyond 2⁵³ not every whole number is an f64.
const LARGEST_COUNT: f64 = 9_007_199_254_740_992.0;

/// `[0, ∞)`
pub const NOT_NEGATIVE: Kind = Kind::Real(Bound::Included(0.0), Bound::Unbounded);
/// `(0, ∞)`
pub const POSITIVE: Kind = Kind::Real(Bound::Excluded(0.0), Bound::Unbounded);
/// `(0, 1)`
pub const PROBABILITY: Kind = Kind::Real(Bound::Excluded(0.0), Bound::Excluded(1.0));
/// `[0, 1]`
pub const SHARE: Kind = Kind::Real(Bound::Included(0.0), Bound::Included(1.0));

impl Param {
    /// A number with a fixed default.
    pub const fn real(name: &'static str, kind: Kind, default: f64, meaning: &'static str) -> Self {
        let default = DefaultValue::Real(default);
        Self { name, kind, default, meaning }
    }

    /// A number that follows from the problem unless it is set.
    pub const fn derived(
        name: &'static str,
        kind: Kind,
        default: &'static str,
        meaning: &'static str,
    ) -> Self {
        let default = DefaultValue::Derived(default);
        Self { name, kind, default, meaning }
    }

    /// A number, or a word that is the default.
    pub const fn real_or(
        name: &'static str,
        kind: Kind,
        default: &'static str,
        meaning: &'static str,
    ) -> Self {
        let default = DefaultValue::Choice(default);
        Self { name, kind, default, meaning }
    }

    /// A whole number with a fixed default.
    pub const fn count(
        name: &'static str,
        least: usize,
        default: usize,
        meaning: &'static str,
    ) -> Self {
        let (kind, default) = (Kind::Count(least), DefaultValue::Real(default as f64));
        Self { name, kind, default, meaning }
    }

    /// A flag; false by default.
    pub const fn flag(name: &'static str, meaning: &'static str) -> Self {
        Self::choice(name, FLAG, meaning)
    }

    /// A text, say the name of a file; `default` describes what applies without it.
    pub const fn text(
        name: &'static str,
        what: &'static str,
        default: &'static str,
        meaning: &'static str,
    ) -> Self {
        Self { name, kind: Kind::Text(what), default: DefaultValue::Derived(default), meaning }
    }

    /// Parses text as this parameter's kind of value.
    pub fn parse(&self, text: &str) -> Value {
        match self.kind {
            Kind::Text(_) => Value::Text(text.to_owned()),
            _ => Value::from(text),
        }
    }

    /// One of several words; the first is the default.
    pub const fn choice(
        name: &'static str,
        words: &'static [&'static str],
        meaning: &'static str,
    ) -> Self {
        let (kind, default) = (Kind::Choice(words), DefaultValue::Choice(words[0]));
        Self { name, kind, default, meaning }
    }
}

impl Kind {
    /// Whether this is the kind of a [`Param::flag`].
    pub fn is_flag(&self) -> bool {
        matches!(self, Kind::Choice(words) if *words == FLAG)
    }

    fn accepts(&self, value: &Value) -> bool {
        match (self, value) {
            (Kind::Count(least), Value::Real(number)) => {
                number.fract() == 0.0 && (*least as f64..=LARGEST_COUNT).contains(number)
            }
            (Kind::Text(_), Value::Text(text)) => !text.is_empty(),
            (Kind::RealOr(_, _, words), Value::Text(word)) => words.contains(&word.as_str()),
            (Kind::Real(low, high) | Kind::RealOr(low, high, _), Value::Real(number)) => {
                number.is_finite() && (*low, *high).contains(number)
            }
            (Kind::Choice(words), Value::Text(word)) => words.contains(&word.as_str()),
            _ => false,
        }
    }
}

use std::ops::RangeBounds;

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Kind::Choice(words) => write!(f, "{}", words.join(" or ")),
            Kind::Count(least) => write!(f, "a whole number, {least} or more"),
            Kind::Text(what) => write!(f, "{what}"),
            Kind::RealOr(low, high, words) => {
                write!(f, "{}, or {}", Kind::Real(*low, *high), words.join(" or "))
            }
            Kind::Real(low, high) => {
                match low {
                    Bound::Included(low) => write!(f, "a number in [{low}, ")?,
                    Bound::Excluded(low) => write!(f, "a number in ({low}, ")?,
                    Bound::Unbounded => write!(f, "a number in (−∞, ")?,
                }
                match high {
                    Bound::Included(high) => write!(f, "{high}]"),
                    Bound::Excluded(high) => write!(f, "{high})"),
                    Bound::Unbounded => write!(f, "∞)"),
                }
            }
        }
    }
}

impl fmt::Display for DefaultValue {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            DefaultValue::Real(number) => write!(f, "{number}"),
            DefaultValue::Choice(word) => write!(f, "{word}"),
            DefaultValue::Derived(rule) => write!(f, "{rule}"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Value::Real(number) => write!(f, "{number}"),
            Value::Text(word) => write!(f, "\"{word}\""),
        }
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Value::Real(number)
    }
}

impl From<&str> for Value {
    /// A number where the text reads as one, else a word.
    fn from(text: &str) -> Self {
        text.parse().map_or_else(|_| Value::Text(text.to_owned()), Value::Real)
    }
}

/// The parameters of one policy, each known and within its range.
#[derive(Debug)]
pub struct Settings {
    policy: &'static str,
    params: &'static [&'static [Param]],
    set: BTreeMap<&'static str, Value>,
}

impl Settings {
    /// Checks given values against the declared parameters of a policy (or of whatever has these
    /// parameters).
    pub fn check(
        policy: &'static str,
        params: &'static [&'static [Param]],
        given: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<Self, Error> {
        let known = || params.iter().copied().flatten();
        let mut set = BTreeMap::new();
        for (name, value) in given {
            let Some(param) = known().find(|param| param.name == name) else {
                return Err(Error::UnknownParam {
                    policy,
                    nearest: nearest(&name, known().map(|param| param.name)),
                    known: known().map(|param| param.name).collect::<Vec<_>>().join(", "),
                    name,
                });
            };
            if !param.kind.accepts(&value) {
                return Err(Error::Param {
                    policy,
                    param: param.name,
                    found: value.to_string(),
                    expected: param.kind.to_string(),
                });
            }
            set.insert(param.name, value);
        }
        Ok(Self { policy, params, set })
    }

    /// The name of the policy.
    pub fn policy(&self) -> &'static str {
        self.policy
    }

    /// The number that was set, or its fixed default.
    ///
    /// # Panics
    /// If the policy has not declared a number of that name: a mistake in the policy's own file.
    pub fn real(&self, name: &str) -> f64 {
        match (self.set.get(name), &self.param(name).default) {
            (Some(Value::Real(number)), _) | (None, DefaultValue::Real(number)) => *number,
            _ => panic!("{}.{name} has no fixed default", self.policy),
        }
    }

    /// The number that was set, or `rule()`.
    pub fn derived(&self, name: &str, rule: impl FnOnce() -> f64) -> f64 {
        match self.set.get(name) {
            Some(Value::Real(number)) => *number,
            _ => rule(),
        }
    }

    /// The word that was set, or the default.
    ///
    /// # Panics
    /// If the policy has not declared a choice of that name: a mistake in the policy's own file.
    pub fn choice(&self, name: &str) -> &str {
        match (self.set.get(name), &self.param(name).default) {
            (Some(Value::Text(word)), _) => word,
            (None, DefaultValue::Choice(word)) => word,
            _ => panic!("{}.{name} is not a choice", self.policy),
        }
    }

    /// The whole number that was set, or its fixed default.
    ///
    /// # Panics
    /// If no number of that name was declared: a mistake in the declaring file.
    pub fn count(&self, name: &str) -> usize {
        self.real(name) as usize
    }

    /// Whether a flag was set.
    ///
    /// # Panics
    /// If no flag of that name was declared: a mistake in the declaring file.
    pub fn flag(&self, name: &str) -> bool {
        self.choice(name) == FLAG[1]
    }

    /// The number that was set, if any.
    pub fn optional(&self, name: &str) -> Option<f64> {
        match self.set.get(name) {
            Some(Value::Real(number)) => Some(*number),
            _ => None,
        }
    }

    /// The text that was set, if any.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.set.get(name) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Every parameter with its value: as set, or its fixed default; `None` where it follows from
    /// the problem.
    pub fn resolved(&self) -> impl Iterator<Item = (&'static Param, Option<Value>)> {
        (self.params.iter().copied().flatten()).map(|param| {
            let default = || match param.default {
                DefaultValue::Real(number) => Some(Value::Real(number)),
                DefaultValue::Choice(word) => Some(Value::Text(word.to_owned())),
                DefaultValue::Derived(_) => None,
            };
            (param, self.set.get(param.name).cloned().or_else(default))
        })
    }

    fn param(&self, name: &str) -> &'static Param {
        (self.params.iter().copied().flatten())
            .find(|param| param.name == name)
            .unwrap_or_else(|| panic!("{} has not declared {name}", self.policy))
    }
}
