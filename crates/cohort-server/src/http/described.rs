//! What the description of the interface says beyond the types: limits, and whether keys are needed.
//!
//! Limits are those of the running service. What depends on an app (how many features, which of them are in the
//! catalogue, which parameters its policy has) cannot be said here; requests that get it wrong are
//! answered with 422 and a sentence.

use serde_json::{Value, json};
use utoipa::openapi::OpenApi;

use super::history::MOST_CHOICES;
use super::slate::MOST_SLOTS;
use crate::auth::Scopes;
use crate::config::Config;
use crate::settings::{MAX_FEATURE, MAX_REWARD, MAX_WINDOW_MS};

/// As long as ids of decisions that the service makes may be, whatever those of clients may be.
const MADE_ID: usize = 64;

/// What is asked of a property of a body.
type Limit = (&'static str, &'static str, Value);

fn limits(config: &Config) -> Vec<Limit> {
    // Ids are counted in bytes there, in characters here: one of other alphabets may be too long all the same.
    let id_of = |most: usize| {
        json!({
            "minLength": 1,
            "maxLength": most.max(1),
            "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]+$",
        })
    };
    let id = id_of(config.max_id_bytes);
    // Decisions are also called by ids that the service made.
    let made = id_of(config.max_id_bytes.max(MADE_ID));
    // A decision of a slate is called `SLATE_ID/SLOT`, and that is an id.
    let part = id_of(config.max_id_bytes.saturating_sub(2));
    let share = json!({"minimum": 0, "maximum": 1});
    let reward = json!({"minimum": -MAX_REWARD, "maximum": MAX_REWARD});
    let window = json!({"minimum": 1, "maximum": MAX_WINDOW_MS});
    let many = |most: usize| json!({"minItems": 1, "maxItems": most.max(1)});
    let features = json!({
        "minItems": 1,
        "maxItems": config.max_dim,
        "items": {"type": "number", "minimum": -MAX_FEATURE, "maximum": MAX_FEATURE},
    });
    let best = json!({"minimum": 1, "maximum": config.max_candidates});
    let excluded = json!({"maxItems": config.max_items.max(config.max_candidates)});
    let probability = json!({"exclusiveMinimum": 0, "maximum": 1});
    let scopes = json!({"minItems": 1, "items": {"type": "string", "enum": Scopes::NAMES.map(|(name, _)| name)}});
    vec![
        ("NewApp", "name", json!({"pattern": "^[a-z0-9_-][a-z0-9_.-]{0,63}$"})),
        ("NewApp", "dim", json!({"minimum": 1, "maximum": config.max_dim})),
        ("NewApp", "epsilon", share.clone()),
        ("NewApp", "control", share.clone()),
        ("NewApp", "window_ms", window.clone()),
        ("NewApp", "default_reward", reward.clone()),
        ("AppChange", "epsilon", share.clone()),
        ("AppChange", "control", share),
        ("AppChange", "window_ms", window),
        ("AppChange", "default_reward", reward.clone()),
        ("KeyTerms", "scopes", scopes),
        ("RewardBody", "decision_id", made.clone()),
        ("RewardBody", "reward", reward.clone()),
        ("RewardsBody", "rewards", many(config.max_batch)),
        ("PutItems", "items", many(config.max_items)),
        ("PutItem", "id", id.clone()),
        ("PutItem", "features", features.clone()),
        ("Candidate", "id", id.clone()),
        ("Candidate", "features", features.clone()),
        ("DecideBody", "user", id.clone()),
        ("DecideBody", "decision_id", id.clone()),
        ("DecideBody", "items", many(config.max_candidates)),
        ("DecideBody", "exclude", excluded.clone()),
        ("DecideBody", "k", best.clone()),
        ("DecideBatchBody", "users", many(config.max_batch)),
        ("DecideBatchBody", "items", many(config.max_candidates)),
        ("DecideBatchBody", "exclude", excluded.clone()),
        ("DecideBatchBody", "k", best.clone()),
        ("BatchUser", "user", id.clone()),
        ("BatchUser", "decision_id", id.clone()),
        ("ActivateBody", "decision_id", made),
        ("SlateBody", "user", id.clone()),
        ("SlateBody", "slate_id", part.clone()),
        ("SlateBody", "slots", many(MOST_SLOTS)),
        ("SlateBody", "items", many(config.max_candidates)),
        ("SlateBody", "exclude", excluded.clone()),
        ("SlateBody", "k", best),
        ("SlotBody", "id", part.clone()),
        ("SlotBody", "items", many(config.max_candidates)),
        ("SlotBody", "exclude", excluded),
        ("SlateRewards", "slate_id", part.clone()),
        ("SlateRewards", "rewards", many(MOST_SLOTS)),
        ("SlotReward", "slot", part),
        ("SlotReward", "reward", reward.clone()),
        ("HistoryBody", "decisions", many(config.max_batch)),
        ("PastBody", "user", id.clone()),
        ("PastBody", "item", id.clone()),
        ("PastBody", "features", features),
        ("PastBody", "reward", reward),
        ("PastBody", "candidates", many(config.max_candidates)),
        ("PastBody", "among", json!({"minimum": 1, "maximum": MOST_CHOICES})),
        ("PastBody", "probability", probability),
        ("PastBody", "decision_id", id),
    ]
}

/// The description as JSON.
pub(super) fn finish(api: &OpenApi, config: &Config) -> String {
    let mut api = serde_json::to_value(api).unwrap_or_default();
    for (schema, property, limit) in limits(config) {
        let path = format!("/components/schemas/{schema}/properties/{property}");
        if let (Some(Value::Object(of)), Value::Object(limit)) = (api.pointer_mut(&path), limit) {
            of.extend(limit);
        }
    }
    // A new key needs no body; one that is there is an object, not null.
    if let Some(body) = api.pointer_mut("/paths/~1v1~1apps~1{app}~1keys/post/requestBody") {
        body["required"] = json!(false);
    }
    if !config.needs_keys() {
        forget_keys(&mut api);
    }
    serde_json::to_string_pretty(&api).unwrap_or_default()
}

/// Without an admin key nobody needs one.
fn forget_keys(api: &mut Value) {
    let Some(api) = api.as_object_mut() else { return };
    api.remove("security");
    for path in api.get_mut("paths").and_then(Value::as_object_mut).into_iter().flatten() {
        for (_, operation) in path.1.as_object_mut().into_iter().flatten() {
            if let Some(operation) = operation.as_object_mut() {
                operation.remove("security");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::described_routes;
    use super::*;

    #[test]
    fn every_limit_is_of_something_that_is_there() {
        let (_, api) = described_routes().split_for_parts();
        let config = Config { max_batch: 77, admin_key: "k".to_owned(), ..Config::default() };
        let text = finish(&api, &config);
        let described: Value = serde_json::from_str(&text).unwrap();
        for (schema, property, limit) in limits(&config) {
            let path = format!("/components/schemas/{schema}/properties/{property}");
            let found = described.pointer(&path).unwrap_or_else(|| panic!("{path}"));
            for (name, value) in limit.as_object().unwrap() {
                assert_eq!(&found[name], value, "{path} {name}");
            }
        }
        // Lists and ids of every body have limits.
        for schema in [
            "SlateBody",
            "SlotBody",
            "SlateRewards",
            "HistoryBody",
            "PastBody",
            "DecideBody",
            "RewardsBody",
        ] {
            let properties = &described["components"]["schemas"][schema]["properties"];
            for (name, property) in properties.as_object().unwrap() {
                let is = |kind: &str| match &property["type"] {
                    Value::Array(kinds) => kinds.contains(&json!(kind)),
                    one => *one == json!(kind),
                };
                assert!(!is("array") || property["maxItems"].is_number(), "{schema}.{name}");
                assert!(!is("string") || property["maxLength"].is_number(), "{schema}.{name}");
                assert!(
                    !is("number") && !is("integer") || property["maximum"].is_number(),
                    "{schema}.{name}"
                );
            }
        }
        let keys = &described["paths"]["/v1/apps/{app}/keys"]["post"]["requestBody"];
        assert_eq!(keys["required"], json!(false));
        assert!(text.contains("\"maxItems\": 77") && described["security"].is_array());
        let open = finish(&api, &Config::default());
        assert!(!open.contains("\"security\":"), "where no key is set none is needed");
    }
}
