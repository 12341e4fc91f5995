//! The same encoding, written as plainly as possible: strings, lists that are searched, all numbers kept.

use std::collections::BTreeMap;

use serde_json::Value;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Names and values of an object: (name, is it a number, value).
pub fn atoms(side: &str, json: &Value) -> Vec<(String, bool, f64)> {
    let mut found = Vec::new();
    walk(side, json, &mut found);
    found
}

fn walk(path: &str, value: &Value, found: &mut Vec<(String, bool, f64)>) {
    let mut add = |name: String, is_number, value| {
        if !found.iter().any(|(known, ..)| *known == name) {
            found.push((name, is_number, value));
        }
    };
    match value {
        Value::Null => add(format!("{path}=null"), false, 1.0),
        Value::Bool(yes) => add(path.to_owned(), false, if *yes { 1.0 } else { -1.0 }),
        Value::Number(number) => add(path.to_owned(), true, number.as_f64().unwrap()),
        Value::String(word) => add(format!("{path}={word}"), false, 1.0),
        Value::Array(words) => {
            words
                .iter()
                .for_each(|word| add(format!("{path}={}", word.as_str().unwrap()), false, 1.0));
        }
        Value::Object(inside) => {
            for (name, value) in inside.iter().filter(|(name, _)| !name.starts_with('_')) {
                walk(&format!("{path}.{name}"), value, found);
            }
        }
    }
}

/// An encoder of items alone and item × context, with a constant.
pub struct Plain {
    pub dim: usize,
    pub seed: u64,
    /// Name, whether it is an interaction, coordinate, sign; in the order in which they were seen.
    pub places: Vec<(String, bool, usize, f64)>,
    /// All values of every number, as of when they had last doubled, and since.
    pub numbers: BTreeMap<String, (Vec<f64>, Vec<f64>)>,
}

impl Plain {
    pub fn encode(&mut self, items: &[Value], context: &Value) -> Vec<Vec<f64>> {
        let items: Vec<_> = items.iter().map(|item| atoms("item", item)).collect();
        let context = atoms("context", context);
        let mut met: Vec<String> = Vec::new();
        for (name, is_number, value) in items.iter().flatten().chain(&context) {
            self.place(name, false, hash(name));
            if *is_number {
                self.numbers.entry(name.clone()).or_default().1.push(*value);
                met.push(name.clone());
            }
        }
        for name in met {
            let (known, since) = self.numbers.get_mut(&name).unwrap();
            if since.len() >= known.len() {
                known.append(since);
            }
        }
        let mut rows = Vec::new();
        for item in &items {
            let mut row = vec![0.0; self.dim];
            row[0] = 1.0;
            for (name, is_number, value) in item.iter().chain(&context) {
                let (place, sign) = self.place(name, false, hash(name));
                row[place] += 0.5 * sign * self.value(name, *is_number, *value);
            }
            for (one, one_number, one_value) in item {
                for (other, other_number, other_value) in &context {
                    let hash = mix(hash(one).rotate_left(23) ^ mix(hash(other)));
                    let (place, sign) = self.place(&format!("{one}^{other}"), true, hash);
                    let (one, other) = (
                        self.value(one, *one_number, *one_value),
                        self.value(other, *other_number, *other_value),
                    );
                    row[place] += 0.5 * sign * one * other;
                }
            }
            rows.push(row);
        }
        rows
    }

    fn value(&self, name: &str, is_number: bool, value: f64) -> f64 {
        if !is_number {
            return value;
        }
        let known = &self.numbers[name].0;
        let count = known.len() as f64;
        let mean = known.iter().sum::<f64>() / count;
        let variance = known.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
        if known.len() < 2 || variance.sqrt() <= 1e-9 * mean.abs() {
            return 0.0;
        }
        ((value - mean) / variance.sqrt()).clamp(-4.0, 4.0)
    }

    fn place(&mut self, name: &str, crossed: bool, hash: u64) -> (usize, f64) {
        if let Some((.., place, sign)) = self.places.iter().find(|(known, ..)| known == name) {
            return (*place, *sign);
        }
        let hash = xxh3_64_with_seed(&hash.to_le_bytes(), self.seed);
        let sign = if hash & 1 == 0 { 1.0 } else { -1.0 };
        let count = self.dim - 1;
        let start = (hash >> 8) as usize;
        let taken = |place: usize| self.places.iter().any(|(.., known, _)| *known == place);
        let free = (0..count).map(|step| 1 + (start % count + step) % count).find(|at| !taken(*at));
        // Coordinates that an interaction was the first to have.
        let mut firsts: Vec<(usize, bool)> = Vec::new();
        for (_, crossed, place, _) in &self.places {
            if !firsts.iter().any(|(known, _)| known == place) {
                firsts.push((*place, *crossed));
            }
        }
        let of_pairs: Vec<usize> =
            firsts.iter().filter(|(_, crossed)| *crossed).map(|(place, _)| *place).collect();
        let place = match free {
            Some(free) if !crossed || of_pairs.len() < count / 2 => free,
            _ if crossed && !of_pairs.is_empty() => of_pairs[start % of_pairs.len()],
            _ => 1 + start % count,
        };
        self.places.push((name.to_owned(), crossed, place, sign));
        (place, sign)
    }
}

fn hash(name: &str) -> u64 {
    xxh3_64(name.as_bytes())
}

fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    bits ^ (bits >> 33)
}
