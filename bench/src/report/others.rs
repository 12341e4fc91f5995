//! Measurements of other programs of the repository, left in the same folder as JSON: the service
//! under load, the cost of live pages, the Python package, stores for the journal.

use serde_json::Value;

use super::markdown::Table;
use crate::store::Store;

/// File, heading and the command that makes it.
const FILES: [(&str, &str, &str); 6] = [
    ("service", "8. The service", "cargo run --release -p cohort-server --example load"),
    (
        "live",
        "9. Pages that watch the service",
        "cargo run --release -p cohort-server --example live",
    ),
    ("python", "10. Through Python", "python bench/python_speed.py"),
    (
        "journals",
        "11. Stores for the journal",
        "cargo run --release --manifest-path bench/peers/journals/Cargo.toml",
    ),
    (
        "cluster",
        "12. The service on several machines",
        "cargo run --release -p cohort-server --example cluster",
    ),
    (
        "features",
        "13. JSON features beside Vowpal Wabbit, and learning from a log",
        "bench/json-features --keep` and `bench/warm-start --keep",
    ),
];

/// A section for each that was measured.
pub fn sections(store: &Store) -> anyhow::Result<String> {
    let mut page = String::new();
    for (name, title, command) in FILES {
        page.push_str(&format!("## {title}\n\nMade by `{command}`.\n\n"));
        match store.raw(name)? {
            None => page.push_str("Not measured yet.\n\n"),
            Some(value) => {
                let mut table = Table::new(&["figure", "measured"]);
                flatten("", &value, &mut |figure, measured| table.row(&[figure, measured]));
                page.push_str(&table.finish());
                page.push('\n');
            }
        }
    }
    Ok(page)
}

/// Every number of a JSON tree, by its path.
fn flatten(path: &str, value: &Value, row: &mut impl FnMut(String, String)) {
    let below = |key: &str| {
        let key = key.replace('_', " ");
        if path.is_empty() { key } else { format!("{path}: {key}") }
    };
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| flatten(&below(key), value, row));
        }
        Value::Array(values) => {
            let named = values.iter().enumerate().map(|(at, value)| {
                let name = ["name", "policy"].iter().find_map(|key| value[*key].as_str());
                (name.map_or((at + 1).to_string(), str::to_owned), value)
            });
            named.for_each(|(key, value)| flatten(&below(&key), value, row));
        }
        Value::Number(number) => row(path.to_owned(), short(number.as_f64().unwrap_or(f64::NAN))),
        Value::String(text) => row(path.to_owned(), text.clone()),
        Value::Bool(_) | Value::Null => {}
    }
}

fn short(number: f64) -> String {
    match number.abs() {
        n if n >= 1000.0 || n.fract() == 0.0 => super::markdown::whole(number as usize),
        n if n >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_row() {
        let value = serde_json::json!({
            "decide": { "per_second": 12345.6, "p99_ms": 1.25 },
            "policies": [{ "name": "cohort", "ratio": 0.9 }],
        });
        let mut rows = Vec::new();
        flatten("", &value, &mut |figure, measured| rows.push(format!("{figure} = {measured}")));
        assert_eq!(
            rows,
            [
                "decide: p99 ms = 1.250",
                "decide: per second = 12,345",
                "policies: cohort: name = cohort",
                "policies: cohort: ratio = 0.900",
            ]
        );
    }
}
