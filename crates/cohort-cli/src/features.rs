//! `cohort features`: how JSON features are encoded, before anything is sent.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use clap::Args;
use cohort_features::{
    ContextFeatures, Encoder, EncoderSettings, Features, Given, ItemFeatures, Kind, Offer,
    UserFeatures,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::failure::{Done, Failure, print};

const EXAMPLES: &str = "\
Examples:
  cohort features items.jsonl
      which features the items have, their coordinates, and which would share one
  cohort features items.jsonl --dim 256
      the same with more room
  cohort features requests.jsonl --json
      lines as the service takes them: {\"items\": [{\"id\", \"features\"}], \"context\", \"user_features\"}";

/// Show how JSON features are encoded, before anything is sent
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ShowFeatures {
    /// One object per line: the features of an item, an item with `id` and `features`, or a request
    /// with `items`, `context`, `user_features`
    #[arg(value_name = "FILE.jsonl")]
    file: PathBuf,
    /// The number of coordinates
    #[arg(long, value_name = "D", default_value_t = 32)]
    dim: usize,
    /// Print the result as JSON, and nothing else
    #[arg(long)]
    json: bool,
}

/// A line that is a request; any other object is the features of an item.
#[derive(Deserialize)]
struct RequestLine {
    items: Vec<RequestItem>,
    context: Option<ContextFeatures>,
    user_features: Option<UserFeatures>,
}

#[derive(Deserialize)]
struct RequestItem {
    features: Option<ItemFeatures>,
}

impl ShowFeatures {
    /// Reads, encodes, prints.
    pub fn run(self) -> Result<Done, Failure> {
        if self.dim == 0 {
            return Err(Failure::bad_input("--dim 0: expected 1 or more"));
        }
        let mut encoder = Encoder::new(self.dim, EncoderSettings::default());
        let path = self.file.display().to_string();
        let cannot = |why: &dyn std::fmt::Display| Failure::bad_input(format!("{path}: {why}"));
        let file = std::fs::File::open(&self.file).map_err(|why| cannot(&why))?;
        let (mut lines, mut vectors, mut rows) = (0, 0, Vec::new());
        for (number, line) in BufReader::new(file).lines().enumerate() {
            let line = line.map_err(|why| cannot(&why))?;
            if line.trim().is_empty() {
                continue;
            }
            let at = |why: &dyn std::fmt::Display| cannot(&format!("line {}: {why}", number + 1));
            let (items, context, user) = read(&line).map_err(|why| at(&why))?;
            vectors += items.iter().filter(|given| matches!(given, Given::Vector(_))).count();
            let offer = Offer {
                items: items
                    .iter()
                    .filter_map(|given| match given {
                        Given::Json(features) => Some(features),
                        Given::Vector(_) => None,
                    })
                    .collect(),
                context: context.as_ref(),
                user: user.as_ref(),
            };
            encoder.encode_seen(&offer, &mut rows).map_err(|why| at(&why))?;
            lines += 1;
        }
        print(&if self.json {
            as_json(&encoder, lines)
        } else {
            as_text(&encoder, lines, vectors)
        })?;
        Ok(Done::Complete)
    }
}

type Read = (Vec<Given>, Option<Features>, Option<Features>);

fn read(line: &str) -> Result<Read, serde_json::Error> {
    let value: Value = serde_json::from_str(line)?;
    let is_request = value.get("items").is_some_and(|items| {
        items.as_array().is_some_and(|items| items.iter().all(Value::is_object))
    });
    if is_item(&value) {
        let item: RequestItem = serde_json::from_str(line)?;
        return Ok((item.features.into_iter().map(|given| given.0).collect(), None, None));
    }
    if !is_request {
        return Ok((vec![serde_json::from_str::<ItemFeatures>(line)?.0], None, None));
    }
    let request: RequestLine = serde_json::from_str(line)?;
    let items = request.items.into_iter().filter_map(|item| item.features).map(|given| given.0);
    Ok((items.collect(), request.context.map(|one| one.0), request.user_features.map(|one| one.0)))
}

/// Whether a line is an item as the catalogue takes it: an id, features, perhaps attributes, and nothing else.
fn is_item(line: &Value) -> bool {
    let Some(fields) = line.as_object() else { return false };
    let has_features = |features: &Value| features.is_object() || features.is_array();
    fields.get("id").is_some_and(Value::is_string)
        && fields.get("features").is_some_and(has_features)
        && fields.keys().all(|name| ["id", "features", "attributes"].contains(&name.as_str()))
}

/// The names of every coordinate that has more than one.
fn shared(encoder: &Encoder) -> BTreeMap<usize, Vec<&str>> {
    let mut names: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for named in encoder.names().filter(|named| named.place < encoder.dim()) {
        names.entry(named.place).or_default().push(&named.name);
    }
    names.retain(|_, names| names.len() > 1);
    names
}

fn as_json(encoder: &Encoder, lines: usize) -> String {
    let features: Vec<_> = encoder
        .names()
        .map(|named| {
            let coordinate = (named.place < encoder.dim()).then_some(named.place);
            let is_measured = matches!(named.kind, Kind::Number | Kind::List);
            json!({"name": &*named.name, "kind": named.kind.name(), "coordinate": coordinate,
                "sign": named.sign, "mean": is_measured.then_some(named.moments.mean),
                "deviation": is_measured.then(|| named.moments.deviation())})
        })
        .collect();
    format!(
        "{}\n",
        json!({"lines": lines, "dim": encoder.dim(), "features": features, "shared": shared(encoder)})
    )
}

fn as_text(encoder: &Encoder, lines: usize, vectors: usize) -> String {
    let names = encoder.names().count();
    let shared = shared(encoder);
    let colliding: usize = shared.values().map(Vec::len).sum();
    let mut text = format!(
        "{lines} lines, {names} features in {} coordinates, {colliding} share one\n\n",
        encoder.dim()
    );
    if vectors > 0 {
        text += &format!("{vectors} items are vectors already, and taken as they are\n\n");
    }
    let width = encoder.names().map(|named| named.name.chars().count()).max().unwrap_or(0).min(60);
    for named in encoder.names() {
        let coded = named.place < encoder.dim();
        let place = if coded { format!("{:>5}", named.place) } else { "    -".to_owned() };
        text += &format!("{:width$}  {:8}  {place}", named.name, named.kind.name());
        if matches!(named.kind, Kind::Number | Kind::List) {
            text += &format!("  {:.4} ± {:.4}", named.moments.mean, named.moments.deviation());
        }
        text.push('\n');
    }
    for (place, names) in shared {
        text += &format!("coordinate {place} is shared by {}\n", names.join(", "));
    }
    if colliding > 0 {
        text += &format!(
            "\nMore features than coordinates: a larger --dim (dim of the app) keeps them apart; {} would.\n",
            1 + names
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_features_or_an_item_or_a_request() {
        let names = |line: &str| {
            let (items, context, _) = read(line).unwrap();
            let json = items.iter().filter_map(|given| match given {
                Given::Json(features) => Some(features),
                Given::Vector(_) => None,
            });
            let all = json.chain(&context).flat_map(|one| {
                one.atoms().iter().map(|atom| one.name(atom).to_owned()).collect::<Vec<_>>()
            });
            all.collect::<Vec<_>>()
        };
        assert_eq!(names(r#"{"a": 1}"#), ["item.a"]);
        assert_eq!(names(r#"{"id": "x", "features": {"a": 1}}"#), ["item.a"]);
        let item = r#"{"id": "x", "features": {"a": 1}, "attributes": {"b": 2}}"#;
        assert_eq!(names(item), ["item.a"], "attributes are no features");
        assert_eq!(names(r#"{"id": "x", "a": 1}"#), ["item.id=x", "item.a"]);
        let request = r#"{"items": [{"id": "x", "features": {"a": 1}}], "context": {"b": 2}}"#;
        assert_eq!(names(request), ["item.a", "context.b"]);
        assert!(
            read(r#"{"id": "x", "features": [0.5]}"#).unwrap().0[0] == Given::Vector(vec![0.5])
        );
    }
}
