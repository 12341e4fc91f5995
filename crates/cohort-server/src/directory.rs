//! Which apps are there, for those who only need to look: a copy that is replaced when apps
//! change, so that checking a key asks nobody.

use std::collections::HashMap;

use crate::auth::KeyHash;
use crate::event::Key;
use crate::state::State;

/// All apps.
#[derive(Debug, Default)]
pub struct Directory {
    apps: HashMap<String, Listed>,
}

/// What is listed of an app.
#[derive(Debug)]
pub struct Listed {
    /// Its keys.
    pub keys: Vec<Key>,
    /// How many features its items have.
    pub dim: usize,
    /// Whether features are JSON.
    pub takes_json: bool,
    /// Whether clients of another dialect want reasons with every decision.
    pub explains: bool,
}

/// Of what clients of another dialect have set, whether they want reasons.
fn explains(dialect: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Set {
        is_inference_explainability_enabled: Option<bool>,
    }
    let set = (!dialect.is_empty()).then(|| serde_json::from_str::<Set>(dialect).ok()).flatten();
    set.and_then(|set| set.is_inference_explainability_enabled).unwrap_or(false)
}

impl Directory {
    /// Of a state.
    pub fn of(state: &State) -> Self {
        let list = |(name, app): (&String, &crate::state::App)| {
            let (dim, takes_json) = (app.settings().dim, app.encoder().is_some());
            let explains = explains(&app.learning().dialect);
            (name.clone(), Listed { keys: app.keys().to_vec(), dim, takes_json, explains })
        };
        Self { apps: state.apps().iter().map(list).collect() }
    }

    /// The app that has this key, if one has.
    pub fn app_of(&self, key: &KeyHash) -> Option<&str> {
        let mut apps = self.apps.iter();
        apps.find(|(_, listed)| listed.find(key).is_some()).map(|(name, _)| name.as_str())
    }

    /// The only app, where there is but one.
    pub fn only_app(&self) -> Option<&str> {
        let mut names = self.apps.keys();
        names.next().filter(|_| names.next().is_none()).map(String::as_str)
    }

    /// The names of all apps.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.apps.keys().map(String::as_str)
    }

    /// One app.
    pub fn app(&self, name: &str) -> Option<&Listed> {
        self.apps.get(name)
    }
}

impl Listed {
    /// The app's key that this is, if it is one. All are compared, so that the time taken does not tell
    /// which.
    pub fn find(&self, key: &KeyHash) -> Option<&Key> {
        self.keys.iter().fold(None, |found, known| match known.hash.matches(key) {
            true => Some(known),
            false => found,
        })
    }
}
