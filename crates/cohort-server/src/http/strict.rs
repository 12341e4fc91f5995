//! JSON of any form, read strictly: a name twice in one object is refused, and so is what is very deep.

use std::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Objects and lists inside each other.
const MOST_DEPTH: usize = 16;

/// Any JSON without a name twice in one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Strict(pub Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Depth(0).deserialize(from).map(Self)
    }
}

#[derive(Clone, Copy)]
struct Depth(usize);

impl Depth {
    fn inside<E: de::Error>(self) -> Result<Self, E> {
        match self.0 < MOST_DEPTH {
            true => Ok(Self(self.0 + 1)),
            false => {
                Err(E::custom(format!("more than {MOST_DEPTH} objects or lists inside each other")))
            }
        }
    }
}

impl<'de> DeserializeSeed<'de> for Depth {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Depth {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value);
        number.map(Value::Number).ok_or_else(|| E::custom(format!("{value} is no number")))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let (inside, mut found) = (self.inside()?, Vec::new());
        while let Some(value) = list.next_element_seed(inside)? {
            found.push(value);
        }
        Ok(found.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let (inside, mut found) = (self.inside()?, Map::new());
        while let Some(name) = map.next_key::<String>()? {
            if found.contains_key(&name) {
                return Err(de::Error::custom(format!(
                    "`{name}` is there twice in one object; which one is meant?"
                )));
            }
            let value = map.next_value_seed(inside)?;
            found.insert(name, value);
        }
        Ok(found.into())
    }
}
