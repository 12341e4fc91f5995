//! `cohort features`: how JSON features are encoded, before anything is sent.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use clap::Args;
use cohort_features::{
    ContextFeatures, Encoder, EncoderSettings, Features, Given, ItemFeatures, Kind, Offer,
    TooManyPairs, UserFeatures,
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
  cohort features items.jsonl --vectors
      and the vector of every item
  cohort features requests.jsonl --interactions item:context,item:device
      with the interactions of an app: by names of sides or namespaces
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
    /// What is multiplied by each other, by names of sides (`item`, `context`, `user`) or namespaces;
    /// `none` for nothing
    #[arg(long, value_name = "A:B,C:D", default_value = "item:context,item:user")]
    interactions: String,
    /// The seed of the hashes. An app has one of its own, which decides only which coordinates features have
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Print the vector of every item as well, as it is once the whole file was seen
    #[arg(long)]
    vectors: bool,
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
        let interactions = interactions_of(&self.interactions)?;
        let settings = EncoderSettings { seed: self.seed, interactions, ..Default::default() };
        let mut encoder = Encoder::new(self.dim, settings);
        let (mut lines, mut vectors, mut rows) = (0, 0, Vec::new());
        self.each_line(|_, (items, context, user)| {
            lines += 1;
            vectors += items.iter().filter(|given| matches!(given, Given::Vector(_))).count();
            encoder.encode_seen(&offer_of(items, context, user), &mut rows)
        })?;
        let mut told = Vec::new();
        if self.vectors {
            self.each_line(|line, (items, context, user)| {
                let offer = offer_of(items, context, user);
                encoder.encode(&offer, &mut rows);
                let rows = rows.chunks(self.dim).map(<[f64]>::to_vec).collect();
                told.push(Encoded { line, rows });
                Ok(())
            })?;
        }
        let vectors_are_wanted = self.vectors.then_some(&told[..]);
        print(&if self.json {
            as_json(&encoder, lines, vectors_are_wanted)
        } else {
            as_text(&encoder, lines, vectors, &told)
        })?;
        Ok(Done::Complete)
    }

    /// Every line that is not empty, by its number from 1.
    fn each_line(
        &self,
        mut each: impl FnMut(usize, &Read) -> Result<(), TooManyPairs>,
    ) -> Result<(), Failure> {
        let path = self.file.display();
        let cannot = |why: &dyn std::fmt::Display| Failure::bad_input(format!("{path}: {why}"));
        let file = std::fs::File::open(&self.file).map_err(|why| cannot(&why))?;
        for (number, line) in BufReader::new(file).lines().enumerate() {
            let line = line.map_err(|why| cannot(&why))?;
            if line.trim().is_empty() {
                continue;
            }
            let at = |why: &dyn std::fmt::Display| cannot(&format!("line {}: {why}", number + 1));
            let read = read(&line).map_err(|why| at(&why))?;
            each(number + 1, &read).map_err(|why| at(&why))?;
        }
        Ok(())
    }
}

/// The vectors of a line's items.
struct Encoded {
    line: usize,
    rows: Vec<Vec<f64>>,
}

fn offer_of<'a>(
    items: &'a [Given],
    context: &'a Option<Features>,
    user: &'a Option<Features>,
) -> Offer<'a> {
    let json = items.iter().filter_map(|given| match given {
        Given::Json(features) => Some(features),
        Given::Vector(_) => None,
    });
    Offer { items: json.collect(), context: context.as_ref(), user: user.as_ref() }
}

fn interactions_of(text: &str) -> Result<Vec<(String, String)>, Failure> {
    if text == "none" {
        return Ok(Vec::new());
    }
    let pair = |pair: &str| match pair.split_once(':') {
        Some((a, b)) if !a.is_empty() && !b.is_empty() => Ok((a.to_owned(), b.to_owned())),
        _ => Err(Failure::bad_input(format!(
            "--interactions {pair}: expected two names with a colon, as in item:context"
        ))),
    };
    text.split(',').map(pair).collect()
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

fn as_json(encoder: &Encoder, lines: usize, vectors: Option<&[Encoded]>) -> String {
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
    let mut told = json!({"lines": lines, "dim": encoder.dim(), "features": features, "shared": shared(encoder)});
    if let Some(vectors) = vectors {
        let of_line = |one: &Encoded| json!({"line": one.line, "items": one.rows});
        told["vectors"] = vectors.iter().map(of_line).collect();
    }
    format!("{told}\n")
}

fn as_text(encoder: &Encoder, lines: usize, vectors: usize, told: &[Encoded]) -> String {
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
    for Encoded { line, rows } in told {
        for (item, row) in rows.iter().enumerate() {
            let row: Vec<String> = row.iter().map(|x| format!("{x:.4}")).collect();
            text += &format!("\nline {line}, item {}: {}", item + 1, row.join(" "));
        }
    }
    if !told.is_empty() {
        text.push('\n');
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
