//! Features as numbers, where the app takes vectors: signed hashing of names and words, and of their products with the
//! context.

use cohort_features::is_no_number;
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

/// Objects inside objects.
const MOST_DEPTH: usize = 16;
/// Features of one action or of the context.
const MOST_FEATURES: usize = 4096;
/// Products of features of one action and of its context: as many as in an app that takes JSON.
const MOST_PAIRS: usize = 16_384;

/// Features of an object: hashes of what they are called, and how much there is of each.
pub struct Encoded(Vec<(u64, f64)>);

impl Encoded {
    /// Of objects, or lists of objects.
    pub fn of(what: &str, objects: &[Value]) -> Result<Self, String> {
        let mut encoded = Self(Vec::new());
        for object in objects {
            encoded.read(what, object, 0)?;
        }
        Ok(encoded)
    }

    fn read(&mut self, name: &str, value: &Value, depth: usize) -> Result<(), String> {
        if depth > MOST_DEPTH {
            return Err(format!("features: {MOST_DEPTH} objects inside objects are read at most"));
        }
        match value {
            Value::Null => self.add(&format!("{name}=null"), 1.0),
            Value::Bool(yes) => self.add(name, f64::from(u8::from(*yes))),
            Value::String(word) if is_no_number(word) => {
                return Err(format!(
                    "`{name}` is the word \"{word}\": null says that a number is missing"
                ));
            }
            Value::String(word) => self.add(&format!("{name}={word}"), 1.0),
            // Magnitudes of any size, kept in their order.
            Value::Number(number) => {
                self.add(name, number.as_f64().unwrap_or_default().asinh());
            }
            Value::Array(list) => {
                let numbers = list.iter().filter(|one| one.is_number()).count();
                if numbers > 0 && numbers < list.len() {
                    return Err(format!("`{name}`: a list has words only, or numbers only"));
                }
                for (at, one) in list.iter().enumerate() {
                    match one {
                        Value::Number(_) => self.read(&format!("{name}[{at}]"), one, depth + 1)?,
                        one => self.read(name, one, depth + 1)?,
                    }
                }
            }
            Value::Object(fields) => {
                for (field, one) in fields.iter().filter(|(field, _)| !field.starts_with('_')) {
                    self.read(&format!("{name}.{field}"), one, depth + 1)?;
                }
            }
        }
        match self.0.len() > MOST_FEATURES {
            true => Err(too_many()),
            false => Ok(()),
        }
    }

    fn add(&mut self, name: &str, amount: f64) {
        self.0.push((xxh3_64(name.as_bytes()), amount));
    }

    /// These and others.
    pub fn joined(&self, other: &Self) -> Result<Self, String> {
        let both: Vec<_> = self.0.iter().chain(&other.0).copied().collect();
        match both.len() > MOST_FEATURES {
            true => Err(too_many()),
            false => Ok(Self(both)),
        }
    }

    /// How many products a vector of these in a context is made of.
    pub fn pairs(&self, context: &Self) -> Result<usize, String> {
        match self.0.len().saturating_mul(context.0.len()) {
            pairs if pairs > MOST_PAIRS => Err(format!(
                "features: {pairs} products of the features of one action and of its context, and {MOST_PAIRS} are \
                 worked out: send fewer features of either"
            )),
            pairs => Ok(pairs),
        }
    }

    /// The vector of an action in a context: a constant, its features, and their products with those of
    /// the context.
    pub fn vector(&self, context: &Self, dim: usize) -> Vec<f64> {
        let mut vector = vec![0.0; dim];
        vector[0] = 1.0;
        let places = dim.saturating_sub(1);
        if places == 0 {
            return vector;
        }
        let mut add = |hash: u64, amount: f64| {
            let sign = if hash >> 63 == 0 { 1.0 } else { -1.0 };
            vector[1 + (hash % places as u64) as usize] += sign * amount;
        };
        let of_item = 1.0 / (self.0.len().max(1) as f64).sqrt();
        let of_pairs = of_item / (context.0.len().max(1) as f64).sqrt();
        for (hash, amount) in &self.0 {
            add(*hash, amount * of_item);
            for (other, times) in &context.0 {
                let both = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ other.rotate_left(31);
                add(both.wrapping_mul(0xd6e8_feb8_6659_fd93), amount * times * of_pairs);
            }
        }
        vector
    }
}

fn too_many() -> String {
    format!("features: more than {MOST_FEATURES} in one object")
}
