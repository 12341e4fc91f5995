//! The commented example file: every key with its default, generated from the declarations.

use cohort::params::{DefaultValue, Param};
use cohort::registry::{POLICIES, PolicyInfo};

use super::{DEFAULT_POLICIES, RUN_PARAMS};
use crate::environments::ENVIRONMENTS;
use crate::text::wrapped;

const HEAD: &str = "\
# An experiment, and every key that one can have. Run it from the folder of the repository:
#
#   cohort simulate experiments/example.toml
#
# What is written here are the defaults, so an empty file does the same. Keys behind a # follow
# from others, or belong to environments and policies that do not take part here. Flags on the
# command line override the file: --rounds 5000, --env gaussian, --set cmlb.alpha=0.3. Paths are
# as on the command line.

";

const POLICIES_HEAD: &str = "
# Who plays. The same policy may play several times, under several labels: a label is what it is
# called in results (default: its name).
# label = …
";

const PRINTED_HEAD: &str =
    "# All policies. `experiments/example.toml` has those that play by default.\n\n";

const FILE_HEAD: &str = "\
# Of the policies only those are here that play by default: `cohort simulate --example` prints this
# file with all of them, `cohort policies` lists them.

";

/// A TOML file that documents every key with its default; equivalent to an empty file.
pub fn example() -> String {
    with_policies(PRINTED_HEAD, |_| true)
}

/// The same with the default policies only: the file in the repository, which does not change when
/// a policy is added.
pub fn example_file() -> String {
    with_policies(FILE_HEAD, |info| DEFAULT_POLICIES.contains(&info.name))
}

fn with_policies(second_head: &str, documented: impl Fn(&PolicyInfo) -> bool) -> String {
    let mut text = HEAD.to_owned() + second_head;
    text.extend(RUN_PARAMS.iter().map(|param| entry(param, true)));

    let mut told = Vec::new();
    for (at, info) in ENVIRONMENTS.iter().enumerate() {
        let on = at == 0;
        text += &block(info.summary, "[env]", info.name, on);
        text += &entries(info.params, on, &mut told);
    }

    text += POLICIES_HEAD;
    let mut told = Vec::new();
    let named = |name: &&str| POLICIES.iter().find(|info| info.name == *name);
    let plays = |info: &PolicyInfo| DEFAULT_POLICIES.contains(&info.name);
    let playing = DEFAULT_POLICIES.iter().filter_map(named);
    for info in playing.chain(POLICIES.iter().filter(|info| !plays(info) && documented(info))) {
        text += &block(info.summary, "[[policy]]", info.name, plays(info));
        text += &entries(info.params, plays(info), &mut told);
    }
    text
}

fn block(summary: &str, table: &str, name: &str, on: bool) -> String {
    let off = if on { "" } else { "#" };
    format!("\n{}{off}{table}\n{off}name = \"{name}\"\n", comment(summary))
}

fn comment(text: &str) -> String {
    wrapped(text, 98).into_iter().map(|line| format!("# {line}\n")).collect()
}

/// Documents the parameters not yet documented, each with its meaning, and names the others.
fn entries(
    groups: &'static [&'static [Param]],
    on: bool,
    told: &mut Vec<&'static Param>,
) -> String {
    let is_told = |told: &[&Param], param: &Param| {
        let same = |other: &Param| {
            (other.name, other.meaning, other.default.to_string())
                == (param.name, param.meaning, param.default.to_string())
        };
        told.iter().any(|other| same(other))
    };
    let (old, new): (Vec<&Param>, Vec<&Param>) =
        groups.iter().copied().flatten().partition(|param| is_told(told, param));
    let mut text = String::new();
    if !old.is_empty() {
        let names: Vec<&str> = old.iter().map(|param| param.name).collect();
        text += &comment(&format!("as above: {}", names.join(", ")));
    }
    for param in new {
        text += &entry(param, on);
        told.push(param);
    }
    text
}

/// A parameter's meaning, range and default.
fn entry(param: &Param, on: bool) -> String {
    let Param { name, kind, default, meaning } = param;
    let off = if on { "" } else { "#" };
    match default {
        DefaultValue::Derived(rule) => {
            comment(&format!("{meaning} [{kind}; default: {rule}]")) + &format!("# {name} = …\n")
        }
        DefaultValue::Choice(word) if !kind.is_flag() => {
            comment(&format!("{meaning} [{kind}]")) + &format!("{off}{name} = \"{word}\"\n")
        }
        fixed => comment(&format!("{meaning} [{kind}]")) + &format!("{off}{name} = {fixed}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Draft;

    #[test]
    fn the_example_says_what_an_empty_file_says() {
        let resolved = |text: &str| Draft::parse(text).unwrap().resolve().unwrap().to_toml();
        assert_eq!(resolved(&example()), resolved(""));
        assert_eq!(resolved(&example_file()), resolved(""));
    }

    #[test]
    fn every_key_that_the_code_knows_is_in_the_example() {
        let text = example();
        let params = RUN_PARAMS
            .iter()
            .chain(ENVIRONMENTS.iter().flat_map(|info| info.options()))
            .chain(POLICIES.iter().flat_map(|info| info.params.iter().copied().flatten()));
        for param in params {
            let is_entry = |line: &str| {
                let key = line.trim_start_matches(['#', ' ']).split(" = ").next();
                line.contains(" = ") && key == Some(param.name)
            };
            assert!(text.lines().any(is_entry), "{} is missing", param.name);
        }
    }

    /// Commented-out lines are valid, too: each policy and environment can be enabled.
    #[test]
    fn what_is_switched_off_can_be_switched_on() {
        let on = |line: &str| match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with(' ') => rest.to_owned(),
            _ => line.to_owned(),
        };
        let text: Vec<String> = example().lines().map(on).collect();
        for block in text.join("\n").split("\n\n").filter(|block| block.contains("\n[")) {
            // `table` needs files; the checks that need none run.
            Draft::parse(block).unwrap_or_else(|error| panic!("{error}:\n{block}"));
        }
    }

    #[test]
    fn the_file_in_the_repository_is_the_example() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/example.toml");
        if std::env::var_os("EXAMPLE").is_some_and(|wish| wish == "write") {
            std::fs::write(path, example_file()).unwrap();
        }
        let file = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            file == example_file(),
            "EXAMPLE=write cargo test -p cohort-lab example brings it up to date"
        );
    }
}
