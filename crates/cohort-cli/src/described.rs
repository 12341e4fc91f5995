//! Flags generated from the declarations of the lab, so that a new option of an environment needs
//! no line here.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, ArgMatches, Command, Error, FromArgMatches};
use cohort::params::{DefaultValue, Kind, Param, Value};
use cohort_lab::environments::ENVIRONMENTS;
use cohort_lab::experiment::RUN_PARAMS;
use cohort_lab::theory;

/// The flags of every experiment: rounds, repetitions, seed and the like.
pub struct RunFlags {
    /// The flags that were given.
    pub given: BTreeMap<String, Value>,
}

/// The inputs of the paper's statements.
pub struct TheoryFlags {
    /// The flags that were given.
    pub given: BTreeMap<String, Value>,
}

/// The flags of all environments.
pub struct EnvironmentFlags {
    /// The name of the environment, if given.
    pub name: Option<String>,
    /// The flags that were given.
    pub given: BTreeMap<String, Value>,
}

impl clap::Args for RunFlags {
    fn augment_args(command: Command) -> Command {
        command.next_help_heading("Run").args(RUN_PARAMS.iter().map(|param| flag(param, "")))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for RunFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self { given: given(matches, RUN_PARAMS) })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for TheoryFlags {
    fn augment_args(command: Command) -> Command {
        command.args(theory::PARAMS.iter().map(|param| flag(param, "")))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for TheoryFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self { given: given(matches, theory::PARAMS) })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for EnvironmentFlags {
    fn augment_args(command: Command) -> Command {
        let listed: Vec<String> =
            ENVIRONMENTS.iter().map(|info| format!("{}: {}", info.name, info.summary)).collect();
        let env = Arg::new("env").long("env").value_name("NAME").help(format!(
            "Where they play [default: {}]\n{}",
            ENVIRONMENTS[0].name,
            listed.join("\n")
        ));
        let flags = all_options().map(|option| flag(option, &note(option.name)));
        command.next_help_heading("Environment").arg(env).args(flags)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for EnvironmentFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self {
            name: matches.get_one::<String>("env").cloned(),
            given: given(matches, all_options()),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The options of all environments, each name once.
fn all_options() -> impl Iterator<Item = &'static Param> {
    let before = |at: usize| ENVIRONMENTS[..at].iter().flat_map(|info| info.options());
    ENVIRONMENTS.iter().enumerate().flat_map(move |(at, info)| {
        info.options().filter(move |option| before(at).all(|other| other.name != option.name))
    })
}

/// Which environments have an option, where not all do.
fn note(option: &str) -> String {
    let has = |info: &&_| {
        let info: &cohort_lab::environment::EnvironmentInfo = info;
        info.options().any(|other| other.name == option)
    };
    let names: Vec<&str> = ENVIRONMENTS.iter().filter(has).map(|info| info.name).collect();
    if names.len() == ENVIRONMENTS.len() {
        String::new()
    } else {
        format!(" [{}]", names.join(", "))
    }
}

fn flag(param: &Param, note: &str) -> Arg {
    let default = match param.default {
        _ if param.kind.is_flag() => String::new(),
        DefaultValue::Real(number) => format!(" [default: {number}]"),
        DefaultValue::Choice(word) => format!(" [default: {word}]"),
        DefaultValue::Derived(rule) => format!(" [default: {rule}]"),
    };
    let arg = Arg::new(param.name)
        .long(param.name.replace('_', "-"))
        .help(format!("{}{note}{default}", capitalised(param.meaning)));
    match param.kind {
        _ if param.kind.is_flag() => arg.action(ArgAction::SetTrue),
        Kind::Count(_) => arg.value_name("N").allow_hyphen_values(true),
        Kind::Real(..) | Kind::RealOr(..) => arg.value_name("X").allow_hyphen_values(true),
        Kind::Choice(words) => arg.value_name(words.join("|")),
        Kind::Text(_) => arg.value_name("PATH"),
    }
}

/// Capitalises the first word, unless it is a symbol like σ or d.
fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    if text.chars().nth(1).is_none_or(|second| !second.is_alphabetic()) {
        return text.to_owned();
    }
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn given<'a>(
    matches: &ArgMatches,
    params: impl IntoIterator<Item = &'a Param>,
) -> BTreeMap<String, Value> {
    let value = |param: &Param| {
        if param.kind.is_flag() {
            return matches.get_flag(param.name).then(|| Value::Text("true".into()));
        }
        matches.get_one::<String>(param.name).map(|text| param.parse(text))
    };
    let entry = |param: &Param| Some((param.name.to_owned(), value(param)?));
    params.into_iter().filter_map(entry).collect()
}
