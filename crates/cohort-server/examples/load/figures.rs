//! Where figures go: a table on standard output, and `bench/results/service.json`, one flat object
//! a section, from which the table of all results is made.

use std::path::Path;

use serde_json::{Map, Value, json};

/// One figure: its name, its value, and what it is held to, if anything.
pub type Figure = (&'static str, f64, &'static str);

/// Shows the figures of a section and keeps them, in place of those of an earlier run.
#[allow(dead_code)]
pub fn keep(section: &str, figures: &[Figure]) {
    keep_in("service", section, figures);
}

/// The same in another file beside it.
pub fn keep_in(file: &str, section: &str, figures: &[Figure]) {
    println!("\n| {section} | measured | held to |\n| --- | --- | --- |");
    for (name, value, bound) in figures {
        println!("| {} | {} | {bound} |", name.replace('_', " "), shown(*value));
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/results");
    let path = folder.join(format!("{file}.json"));
    let kept = std::fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok());
    let mut sections: Map<String, Value> = kept.unwrap_or_default();
    let values = figures.iter().map(|(name, value, _)| ((*name).to_owned(), json!(value)));
    sections.insert(section.to_owned(), Value::Object(values.collect()));
    let text = serde_json::to_string_pretty(&sections).expect("figures are JSON");
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text + "\n"));
    if let Err(why) = written {
        eprintln!("{} is not written: {why}", path.display());
    }
}

fn shown(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}
