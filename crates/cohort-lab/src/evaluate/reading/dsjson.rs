//! Logs of Vowpal Wabbit and of Azure Personalizer: one decision a line, as JSON.
//!
//! ```text
//! {"_label_cost": -1, "_label_probability": 0.8, "EventId": "e1", "a": [2, 1], "p": [0.8, 0.2],
//!  "c": {"device": "phone", "_user": "ann", "_multi": [{"_tag": "tea", "price": 3}, {"_tag": "milk", "price": 2}]}}
//! ```
//!
//! `a` are the actions by rank, counted from 1, the one that was shown first; costs are rewards with a minus. Decisions for several slots
//! (`_outcomes`) are one decision each, among the actions that were left. An action is known by `_tag`, `_id`,
//! `i.id` or `id`, else by what it is. The user is `_user` or `_cohort.user` of the context; else everybody is one user. Names that
//! begin with `_` are no features. A list of objects is all of them together. Azure Personalizer puts the features of a rank's context into
//! `FromUrl` and those of an action into `j`, beside `i` with its id: names of features are those of the rank, without these.

use std::collections::HashMap;
use std::io::BufRead;

use cohort_features::{Encoder, EncoderSettings, Features, Offer, Side};
use serde_json::{Map, Value};

use crate::Error;
use crate::evaluate::log::{Log, Row};

/// Numbers that features become, as in an app that takes JSON.
const DIM: usize = 32;

/// Who is meant where nobody is named.
const EVERYBODY: &str = "everybody";

/// One decision of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct Interaction {
    /// Where it stands in its file.
    pub line: usize,
    /// Its id.
    pub event: String,
    /// The user.
    pub user: String,
    /// The situation.
    pub context: Value,
    /// What could be shown: ids and features.
    pub actions: Vec<(String, Value)>,
    /// Which of them was.
    pub chosen: usize,
    /// With what probability, if the log says so.
    pub probability: Option<f64>,
    /// What came of it, if that is known.
    pub reward: Option<f64>,
}

/// Reads every decision of a log, in its order.
pub fn read_each(
    from: impl BufRead,
    mut each: impl FnMut(Interaction) -> Result<(), Error>,
) -> Result<(), Error> {
    // Rewards that stand on lines of their own, for decisions before them, are not joined: whoever wrote them did not.
    for (at, line) in from.lines().enumerate() {
        let place = format!("line {}", at + 1);
        let line = line.map_err(|why| Error::unexpected(&place, why.to_string(), "text"))?;
        if line.trim().is_empty() {
            continue;
        }
        let expected = "one decision as JSON (the format .dsjson)";
        let decision: Value = serde_json::from_str(&line)
            .map_err(|why| Error::unexpected(&place, why.to_string(), expected))?;
        let skipped = decision["_skipLearn"] == Value::Bool(true);
        if skipped || (decision["c"].is_null() && !decision["RewardValue"].is_null()) {
            continue;
        }
        for interaction in of_line(at + 1, &decision)? {
            each(interaction)?;
        }
    }
    Ok(())
}

fn of_line(line: usize, decision: &Value) -> Result<Vec<Interaction>, Error> {
    let place = format!("line {line}");
    let odd = |found: &str, expected: &str| Error::unexpected(place.clone(), found, expected);
    let context = &decision["c"];
    let Some(actions) = context["_multi"].as_array().filter(|actions| !actions.is_empty()) else {
        return Err(odd("no `c._multi`", "the actions that could be shown, in `c._multi`"));
    };
    let event = decision["EventId"].as_str().map_or_else(|| format!("line-{line}"), str::to_owned);
    let known: Vec<(String, Value)> =
        actions.iter().map(|action| (id_of(action), as_ranked(action, "j", Some("i")))).collect();
    let user = user_in(context).unwrap_or_else(|| EVERYBODY.to_owned());
    let make = |event: String, label: &Value, shown: &[usize], probability: Option<f64>| {
        let probability = label["_label_probability"].as_f64().or(probability);
        if let Some(found) = probability.filter(|p| !(*p > 0.0 && *p <= 1.0)) {
            let expected = "a probability above 0, at most 1";
            return Err(odd(&found.to_string(), expected));
        }
        let cost = label["_label_cost"].as_f64();
        Ok(Interaction {
            line,
            event,
            user: user.clone(),
            context: as_ranked(context, "FromUrl", None),
            actions: shown.iter().map(|at| known[*at].clone()).collect(),
            chosen: 0,
            probability,
            reward: cost.map(|cost| 0.0 - cost),
        })
    };
    let numbers = |value: &Value, from: usize| -> Result<Vec<usize>, Error> {
        let list = value.as_array().map_or(&[][..], |list| list.as_slice());
        let read = |one: &Value| {
            let at = one.as_u64().and_then(|number| (number as usize).checked_sub(from));
            at.filter(|at| *at < known.len())
                .ok_or_else(|| odd(&one.to_string(), "the number of an action"))
        };
        list.iter().map(read).collect()
    };
    if let Some(outcomes) = decision["_outcomes"].as_array() {
        let of_slot = |(at, outcome): (usize, &Value)| {
            let shown = numbers(&outcome["_a"], 0)?;
            if shown.is_empty() {
                return Err(odd("an outcome without `_a`", "the actions of a slot by rank"));
            }
            let slot = outcome["_id"].as_str().map_or_else(|| at.to_string(), str::to_owned);
            make(format!("{event}/{slot}"), outcome, &shown, outcome["_p"][0].as_f64())
        };
        return outcomes.iter().enumerate().map(of_slot).collect();
    }
    let mut shown = numbers(&decision["a"], 1)?;
    if shown.is_empty() {
        let chosen = numbers(&Value::Array(vec![decision["_label_Action"].clone()]), 1)?;
        shown =
            chosen.iter().copied().chain((0..known.len()).filter(|at| *at != chosen[0])).collect();
    }
    Ok(vec![make(event, decision, &shown, decision["p"][0].as_f64())?])
}

/// By what an action is known.
fn id_of(action: &Value) -> String {
    let named = [&action["_tag"], &action["_id"], &action["i"]["id"], &action["id"]];
    let word = |value: &&Value| match value {
        Value::String(word) => Some(word.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    named.iter().find_map(word).unwrap_or_else(|| {
        let hash = cohort_features::bytes::name_hash(&action.to_string());
        format!("action-{hash:016x}")
    })
}

fn user_in(context: &Value) -> Option<String> {
    let own = context.get("_user").or_else(|| context.get("_cohort")?.get("user"));
    match own {
        Some(Value::String(user)) => return Some(user.clone()),
        Some(Value::Number(user)) => return Some(user.to_string()),
        _ => {}
    }
    match context {
        Value::Object(fields) => {
            fields.iter().filter(|(name, _)| *name != "_multi").find_map(|(_, one)| user_in(one))
        }
        Value::Array(list) => list.iter().find_map(user_in),
        _ => None,
    }
}

/// What was sent to a rank: without the object that Azure Personalizer puts it `inside` of, and the one that it puts `beside` it.
fn as_ranked(logged: &Value, inside: &str, beside: Option<&str>) -> Value {
    let Value::Object(fields) = logged else { return flat(logged) };
    let holds_objects = |value: &Value| match value {
        Value::Object(_) => true,
        Value::Array(list) => list.iter().any(Value::is_object),
        _ => false,
    };
    // It holds the id and a constant; one that holds anything else is a namespace of the caller's.
    let is_bookkeeping = |name: &str, value: &Value| {
        let of_azure = |fields: &Map<String, Value>| {
            !fields.is_empty()
                && fields.keys().all(|name| ["id", "constant"].contains(&name.as_str()))
        };
        Some(name) == beside && value.as_object().is_some_and(of_azure)
    };
    let mut parts: Vec<Value> = Vec::new();
    for (name, value) in fields {
        if is_bookkeeping(name, value) {
            continue;
        }
        if !holds_objects(value) || name != inside {
            parts.push(serde_json::json!({ name: value }));
        } else {
            parts.extend(match value {
                Value::Array(list) => list.clone(),
                object => vec![object.clone()],
            });
        }
    }
    match parts.is_empty() {
        true => Map::new().into(),
        false => flat(&Value::Array(parts)),
    }
}

/// Lists of objects as one object, without what is no feature.
fn flat(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(name, _)| !name.starts_with('_'));
            fields.map(|(name, value)| (name.clone(), flat(value))).collect::<Map<_, _>>().into()
        }
        Value::Array(list) if list.iter().any(Value::is_object) => {
            let mut all = Map::new();
            for (at, object) in list.iter().enumerate() {
                let Value::Object(fields) = flat(object) else { continue };
                for (name, value) in fields {
                    let name = if all.contains_key(&name) { format!("{name}.{at}") } else { name };
                    all.insert(name, value);
                }
            }
            all.into()
        }
        other => other.clone(),
    }
}

/// Reads a log to judge policies by: features become vectors as in an app that takes JSON.
pub(super) fn read(from: impl BufRead) -> Result<Log, Error> {
    let mut log = Log { dim: DIM, ..Log::default() };
    let mut encoder = Encoder::new(DIM, EncoderSettings::default());
    let mut parsed: HashMap<String, Features> = HashMap::new();
    read_each(from, |decision| {
        let Some(reward) = decision.reward else {
            log.unrewarded += 1;
            return Ok(());
        };
        let place = format!("line {}", decision.line);
        let features = |side, value: &Value| {
            Features::parse(side, &value.to_string())
                .map_err(|why| Error::unexpected(&place, why.to_string(), "features"))
        };
        let context = features(Side::Context, &decision.context)?;
        let texts: Vec<String> = decision.actions.iter().map(|(_, one)| one.to_string()).collect();
        for (text, (_, value)) in texts.iter().zip(&decision.actions) {
            if !parsed.contains_key(text) {
                parsed.insert(text.clone(), features(Side::Item, value)?);
            }
        }
        let items = texts.iter().map(|text| &parsed[text]).collect();
        let offer = Offer { items, context: Some(&context), user: None };
        let mut rows = Vec::new();
        encoder
            .encode_seen(&offer, &mut rows)
            .map_err(|why| Error::unexpected(&place, why.to_string(), "fewer features"))?;
        let items = decision.actions.iter().map(|(id, _)| log.items.number(id) as u32);
        log.rows.push(Row {
            line: decision.line,
            user: log.users.number(&decision.user),
            candidates: items.collect(),
            chosen: decision.chosen,
            propensity: decision.probability,
            reward,
            features: rows.into(),
            ..Row::default()
        });
        Ok(())
    })?;
    Ok(log)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = r#"
{"_label_cost":-1,"_label_probability":0.8,"_label_Action":2,"_labelIndex":1,"EventId":"e1","a":[2,1],"p":[0.8,0.2],"c":{"FromUrl":[{"device":"phone"},{"_user":"ann"}],"_multi":[{"_tag":"tea","j":[{"price":3}]},{"_tag":"milk","price":2}]}}
{"EventId":"e2","a":[1,2],"p":[0.9,0.1],"c":{"_multi":[{"id":"tea"},{"id":"milk"}]}}
{"RewardValue":1.0,"EventId":"e2"}
{"_skipLearn":true,"EventId":"e3","c":{"_multi":[{}]}}
{"EventId":"e4","c":{"_user":7,"_multi":[{"x":1},{"x":2},{"x":3}],"_slots":[{},{}]},"_outcomes":[{"_label_cost":0,"_a":[2,0,1],"_p":[0.5,0.3,0.2]},{"_id":"side","_label_cost":0.5,"_a":[0,1],"_p":[0.6,0.4]}]}
"#;

    fn all(text: &str) -> Result<Vec<Interaction>, Error> {
        let mut found = Vec::new();
        read_each(text.as_bytes(), |one| {
            found.push(one);
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn decisions_are_read() {
        let found = all(LOG).unwrap();
        assert_eq!(found.len(), 4);
        let first = &found[0];
        assert_eq!((first.user.as_str(), first.event.as_str()), ("ann", "e1"));
        assert_eq!((first.actions[0].0.as_str(), first.actions[1].0.as_str()), ("milk", "tea"));
        assert_eq!((first.probability, first.reward), (Some(0.8), Some(1.0)));
        assert_eq!(first.context, serde_json::json!({"device": "phone"}));
        assert_eq!(first.actions[1].1, serde_json::json!({"price": 3}));
        assert_eq!((found[1].reward, found[1].user.as_str()), (None, EVERYBODY));
        assert_eq!((found[2].event.as_str(), found[3].event.as_str()), ("e4/0", "e4/side"));
        assert_eq!((found[3].actions.len(), found[3].reward), (2, Some(-0.5)));
        assert_eq!(found[3].user, "7");
        let log = read(LOG.as_bytes()).unwrap();
        assert_eq!((log.rows.len(), log.unrewarded, log.dim), (3, 1, DIM));
        assert_eq!(log.rows[0].features.len(), 2 * DIM);
    }

    /// Features have the names that they have in a rank, also where Azure put them into objects of its own.
    #[test]
    fn features_are_called_as_in_a_rank() {
        let line = r#"{"_label_cost":-1,"_label_probability":0.8,"EventId":"e1","a":[1,2],"p":[0.8,0.2],"c":{"FromUrl":[{"tod":"night"},{"device":{"os":"ios"}}],
            "_multi":[{"_tag":"tea","i":{"constant":1,"id":"tea"},"j":[{"taste":"sour"},{"of":{"price":3}}]},{"i":{"id":"milk"},"j":{"taste":"mild"},"size":2}]}}"#;
        let found = all(&line.replace('\n', "")).unwrap().remove(0);
        let names = |side: Side, json: &Value| {
            let features = Features::of(side, json).unwrap();
            let names = features.atoms().iter().map(|atom| features.name(atom).to_owned());
            names.collect::<std::collections::BTreeSet<_>>()
        };
        let sent = serde_json::json!([{"tod": "night"}, {"device": {"os": "ios"}}]);
        assert_eq!(names(Side::Context, &found.context), names(Side::Context, &sent));
        let sent = serde_json::json!([{"taste": "sour"}, {"of": {"price": 3}}]);
        assert_eq!(names(Side::Item, &found.actions[0].1), names(Side::Item, &sent));
        let sent = serde_json::json!([{"taste": "mild"}, {"size": 2}]);
        assert_eq!(names(Side::Item, &found.actions[1].1), names(Side::Item, &sent));
        assert_eq!((found.actions[0].0.as_str(), found.actions[1].0.as_str()), ("tea", "milk"));
        // What is called so and is no object is a feature like others.
        let line = r#"{"_label_cost":0,"a":[1],"c":{"FromUrl":"x","_multi":[{"i":1,"j":"y"}]}}"#;
        let found = all(line).unwrap().remove(0);
        assert_eq!(found.context, serde_json::json!({"FromUrl": "x"}));
        assert_eq!(found.actions[0].1, serde_json::json!({"i": 1, "j": "y"}));
        // A namespace of the caller's that has the name of Azure's.
        let line =
            r#"{"_label_cost":0,"a":[1],"c":{"_multi":[{"_tag":"a0","i":{"cat":"c0","id":"x"}}]}}"#;
        let found = all(line).unwrap().remove(0);
        assert_eq!(found.actions[0].1, serde_json::json!({"i": {"cat": "c0", "id": "x"}}));
    }

    #[test]
    fn what_is_no_decision_is_told_with_its_line() {
        for (text, part) in [
            ("{", "line 1"),
            ("\n{\"a\": [1]}", "line 2"),
            (r#"{"a": [3], "c": {"_multi": [{}]}}"#, "3"),
            (r#"{"a": [1], "_label_probability": 0, "c": {"_multi": [{}]}}"#, "probability"),
            (r#"{"_label_cost": 1, "a": [1], "c": {"x": "nan", "_multi": [{}]}}"#, "x"),
        ] {
            let why = read(text.as_bytes()).unwrap_err().to_string();
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
