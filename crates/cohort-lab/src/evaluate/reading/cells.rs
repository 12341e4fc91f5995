//! A cell of a table: a word, a number, a list of either, or missing.

use parquet::record::Field;

use crate::Error;

/// A cell of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Cell {
    /// Missing.
    #[default]
    Missing,
    /// A word; in CSV any field.
    Text(String),
    /// A number.
    Number(f64),
    /// Words.
    Words(Vec<String>),
    /// Numbers.
    Numbers(Vec<f64>),
}

impl Cell {
    /// From a field of a CSV file.
    pub fn from_csv(field: &str) -> Self {
        if field.is_empty() { Self::Missing } else { Self::Text(field.to_owned()) }
    }

    /// From a field of a Parquet file.
    pub fn from_parquet(field: Field) -> Self {
        match field {
            Field::Null => Self::Missing,
            Field::Str(text) => Self::Text(text),
            Field::Bool(yes) => Self::Number(yes.into()),
            Field::Int(number) => Self::Number(number.into()),
            Field::UInt(number) => Self::Number(number.into()),
            Field::Long(number) => Self::Number(number as f64),
            Field::ULong(number) => Self::Number(number as f64),
            Field::Float(number) => Self::Number(number.into()),
            Field::Double(number) => Self::Number(number),
            Field::ListInternal(list) => {
                let cells = list.elements().iter().cloned().map(Self::from_parquet);
                let cells: Vec<Self> = cells.collect();
                if cells.iter().all(|cell| matches!(cell, Self::Number(_))) {
                    Self::Numbers(cells.iter().filter_map(Self::as_number).collect())
                } else {
                    Self::Words(cells.into_iter().filter_map(Self::into_word).collect())
                }
            }
            other => Self::Text(other.to_string()),
        }
    }

    fn as_number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
        .filter(|number| number.is_finite())
    }

    fn into_word(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text),
            Self::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    /// The cell as a word.
    pub fn word(self, place: &str) -> Result<Option<String>, Error> {
        match self {
            Self::Missing => Ok(None),
            other => {
                other.clone().into_word().map(Some).ok_or_else(|| odd(place, &other, "a word"))
            }
        }
    }

    /// The cell as a number.
    pub fn number(self, place: &str) -> Result<Option<f64>, Error> {
        match self {
            Self::Missing => Ok(None),
            other => other.as_number().map(Some).ok_or_else(|| odd(place, &other, "a number")),
        }
    }

    /// The cell as a list of words; in CSV as JSON.
    pub fn words(self, place: &str) -> Result<Option<Vec<String>>, Error> {
        match self {
            Self::Missing => Ok(None),
            Self::Words(words) => Ok(Some(words)),
            Self::Numbers(numbers) => Ok(Some(numbers.iter().map(f64::to_string).collect())),
            Self::Text(text) => serde_json::from_str(&text)
                .map(Some)
                .map_err(|_| odd(place, &Self::Text(text), r#"a list of ids, as ["tea","milk"]"#)),
            other => Err(odd(place, &other, "a list of ids")),
        }
    }

    /// The cell as a list of numbers; in CSV as JSON.
    pub fn numbers(self, place: &str) -> Result<Option<Vec<f64>>, Error> {
        let expected = "a list of numbers, as [0.5,0.1]";
        let numbers = match self {
            Self::Missing => return Ok(None),
            Self::Numbers(numbers) => numbers,
            Self::Text(text) => serde_json::from_str::<Vec<f64>>(&text)
                .map_err(|_| odd(place, &Self::Text(text), expected))?,
            other => return Err(odd(place, &other, expected)),
        };
        match numbers.iter().find(|number| !number.is_finite()) {
            Some(number) => Err(odd(place, &Self::Number(*number), expected)),
            None => Ok(Some(numbers)),
        }
    }
}

fn odd(place: &str, found: &Cell, expected: &str) -> Error {
    let found = match found {
        Cell::Missing => "nothing".to_owned(),
        Cell::Text(text) => format!("`{}`", text.chars().take(40).collect::<String>()),
        Cell::Number(number) => number.to_string(),
        Cell::Words(words) => format!("a list of {} words", words.len()),
        Cell::Numbers(numbers) => format!("a list of {} numbers", numbers.len()),
    };
    Error::unexpected(place, found, expected)
}
