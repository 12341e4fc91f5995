//! What the description of the interface says beyond the types: limits, and whether keys are needed.
//!
//! Limits are those of the running service. What depends on an app (how many features, which of them are in the
//! catalogue, which parameters its policy has) cannot be said here; requests that get it wrong are
//! answered with 422 and a sentence.

use serde_json::{Value, json};
use utoipa::openapi::OpenApi;

use crate::auth::Scopes;
use crate::config::Config;
use crate::settings::{MAX_FEATURE, MAX_REWARD, MAX_WINDOW_MS};

/// What is asked of a property of a body.
type Limit = (&'static str, &'static str, Value);

fn limits(config: &Config) -> Vec<Limit> {
    // Ids are counted in bytes there, in characters here: one of other alphabets may be too long all the same.
    let id = json!({
        "minLength": 1,
        "maxLength": config.max_id_bytes,
        "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]+$",
    });
    let share = json!({"minimum": 0, "maximum": 1});
    let reward = json!({"minimum": -MAX_REWARD, "maximum": MAX_REWARD});
    let window = json!({"minimum": 1, "maximum": MAX_WINDOW_MS});
    let many = |most: usize| json!({"minItems": 1, "maxItems": most.max(1)});
    let features = json!({
        "minItems": 1,
        "maxItems": config.max_dim,
        "items": {"type": "number", "minimum": -MAX_FEATURE, "maximum": MAX_FEATURE},
    });
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
        ("RewardBody", "reward", reward),
        ("RewardsBody", "rewards", many(config.max_batch)),
        ("PutItems", "items", many(config.max_items)),
        ("PutItem", "id", id.clone()),
        ("PutItem", "features", features.clone()),
        ("Candidate", "id", id.clone()),
        ("Candidate", "features", features),
        ("DecideBody", "user", id.clone()),
        ("DecideBody", "decision_id", id.clone()),
        ("DecideBody", "items", many(config.max_candidates)),
        ("DecideBatchBody", "users", many(config.max_batch)),
        ("DecideBatchBody", "items", many(config.max_candidates)),
        ("BatchUser", "user", id.clone()),
        ("BatchUser", "decision_id", id),
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
        assert!(text.contains("\"maxItems\": 77") && described["security"].is_array());
        let open = finish(&api, &Config::default());
        assert!(!open.contains("\"security\":"), "where no key is set none is needed");
    }
}
