//! `cohort policies`: which there are, and what can be set.

use clap::Args;
use cohort::params::{Default, Param};
use cohort::registry::{self, POLICIES, PolicyInfo};
use serde_json::json;

use crate::failure::{Done, Failure, print};

/// List the policies and their parameters
#[derive(Args)]
pub struct Policies {
    /// Only this one
    name: Option<String>,
    /// Print the list as JSON
    #[arg(long)]
    json: bool,
}

impl Policies {
    /// Look up and print.
    pub fn run(self) -> Result<Done, Failure> {
        let chosen: Vec<&PolicyInfo> = match &self.name {
            Some(name) => vec![registry::info(name)?],
            None => POLICIES.iter().collect(),
        };
        let text = if self.json {
            let list: Vec<_> = chosen.into_iter().map(as_json).collect();
            format!("{:#}\n", json!(list))
        } else {
            let list: Vec<_> = chosen.into_iter().map(as_text).collect();
            format!("{}\nSet one with --set NAME.PARAM=VALUE, or in TOML.\n", list.join("\n"))
        };
        print(&text)?;
        Ok(Done::Complete)
    }
}

fn params(info: &PolicyInfo) -> impl Iterator<Item = &'static Param> {
    info.params.iter().copied().flatten()
}

fn as_json(info: &PolicyInfo) -> serde_json::Value {
    let param = |param: &Param| {
        json!({
            "name": param.name,
            "default": match param.default {
                Default::Real(number) => json!(number),
                Default::Choice(text) | Default::Derived(text) => json!(text),
            },
            "range": param.kind.to_string(),
            "meaning": param.meaning,
        })
    };
    json!({
        "name": info.name,
        "summary": info.summary,
        "reference": info.reference,
        "parameters": params(info).map(param).collect::<Vec<_>>(),
    })
}

/// Its name, one line, and one line a parameter: name, default, range, meaning.
fn as_text(info: &PolicyInfo) -> String {
    let mut text = format!("{}: {}\n  [{}]\n", info.name, info.summary, info.reference);
    for param in params(info) {
        let (default, rule) = match param.default {
            Default::Derived(rule) => ("derived".to_owned(), format!("; by default {rule}")),
            ref fixed => (fixed.to_string(), String::new()),
        };
        let range = param.kind.to_string();
        let range = range.strip_prefix("a number in ").unwrap_or(&range);
        let first = format!("  {:<13} {default:<10} {range:<19} ", param.name);
        text += &wrapped(&first, &format!("{}{rule}", param.meaning));
    }
    text
}

/// `text` after `first`, on lines of up to 100 characters that begin below each other.
fn wrapped(first: &str, text: &str) -> String {
    let indent = first.chars().count();
    let mut lines = first.to_owned();
    let mut length = indent;
    for (at, word) in text.split(' ').enumerate() {
        let word_length = word.chars().count();
        if at > 0 && length + 1 + word_length > 100 {
            lines += &format!("\n{:indent$}", "");
            length = indent;
        } else if at > 0 {
            lines.push(' ');
            length += 1;
        }
        lines += word;
        length += word_length;
    }
    lines.push('\n');
    lines
}
