//! `cohort policies`: lists the policies and their parameters.

use clap::Args;
use cohort::params::{DefaultValue, Param};
use cohort::registry::{self, POLICIES, PolicyInfo};
use cohort_lab::text::wrapped;
use cohort_server::settings::online_policies;
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
    /// Looks up and prints.
    pub fn run(self) -> Result<Done, Failure> {
        let chosen: Vec<&PolicyInfo> = match &self.name {
            Some(name) => vec![registry::info(name)?],
            None => POLICIES.iter().collect(),
        };
        let for_apps = online_policies();
        let is_for_apps = |info: &PolicyInfo| for_apps.contains(&info.name);
        let text = if self.json {
            let list: Vec<_> =
                chosen.into_iter().map(|info| as_json(info, is_for_apps(info))).collect();
            format!("{:#}\n", json!(list))
        } else {
            let list: Vec<_> =
                chosen.into_iter().map(|info| as_text(info, is_for_apps(info))).collect();
            format!("{}\nSet one with --set NAME.PARAM=VALUE, or in TOML.\n", list.join("\n"))
        };
        print(&text)?;
        Ok(Done::Complete)
    }
}

fn params(info: &PolicyInfo) -> impl Iterator<Item = &'static Param> {
    info.params.iter().copied().flatten()
}

fn as_json(info: &PolicyInfo, is_for_apps: bool) -> serde_json::Value {
    let param = |param: &Param| {
        json!({
            "name": param.name,
            "default": match param.default {
                DefaultValue::Real(number) => json!(number),
                DefaultValue::Choice(text) | DefaultValue::Derived(text) => json!(text),
            },
            "range": param.kind.to_string(),
            "meaning": param.meaning,
        })
    };
    json!({
        "name": info.name,
        "summary": info.summary,
        "reference": info.reference,
        "for_apps": is_for_apps,
        "parameters": params(info).map(param).collect::<Vec<_>>(),
    })
}

/// The name, the summary, whether an app of the service can use it, and one line per parameter:
/// name, default, range, meaning.
fn as_text(info: &PolicyInfo, is_for_apps: bool) -> String {
    let mut text = format!("{}: {}\n  [{}]\n", info.name, info.summary, info.reference);
    if is_for_apps {
        text += "  works one user at a time: also for apps of `cohort serve`\n";
    }
    let name_width = widest(|param| param.name.to_owned());
    let default_width = widest(default);
    let range_width = widest(range);
    for param in params(info) {
        let first = format!(
            "  {:<name_width$}  {:<default_width$}  {:<range_width$}  ",
            param.name,
            default(param),
            range(param),
        );
        let rule = match param.default {
            DefaultValue::Derived(rule) => format!("; by default {rule}"),
            _ => String::new(),
        };
        text += &hanging_indent(&first, &format!("{}{rule}", param.meaning));
    }
    text
}

fn default(param: &Param) -> String {
    match param.default {
        // √2 and the like: four digits are enough here; the JSON has them all.
        DefaultValue::Real(number) if number.to_string().len() > 8 => format!("{number:.4}"),
        DefaultValue::Real(number) => number.to_string(),
        DefaultValue::Choice(word) => word.to_owned(),
        DefaultValue::Derived(_) => "derived".to_owned(),
    }
}

fn range(param: &Param) -> String {
    let range = param.kind.to_string();
    range.strip_prefix("a number in ").unwrap_or(&range).to_owned()
}

/// The width of a column over all policies.
fn widest(cell: impl Fn(&Param) -> String) -> usize {
    let width = |param: &Param| cell(param).chars().count();
    POLICIES.iter().flat_map(params).map(width).max().unwrap_or(0)
}

/// `text` after `first`, wrapped at 100 characters with a hanging indent.
fn hanging_indent(first: &str, text: &str) -> String {
    let indent = first.chars().count();
    let lines = wrapped(text, 100 - indent.min(60));
    format!("{first}{}\n", lines.join(&format!("\n{:indent$}", "")))
}
