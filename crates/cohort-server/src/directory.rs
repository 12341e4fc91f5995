//! Which apps are there, for those who only need to look: a copy that is replaced when apps
//! change, so that checking a key asks nobody.

use std::collections::HashMap;

use crate::auth::KeyHash;
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
    pub keys: Vec<KeyHash>,
}

impl Directory {
    /// Of a state.
    pub fn of(state: &State) -> Self {
        let list = |(name, app): (&String, &crate::state::App)| {
            let keys = app.keys().iter().map(|key| key.hash).collect();
            (name.clone(), Listed { keys })
        };
        Self { apps: state.apps().iter().map(list).collect() }
    }

    /// One app.
    pub fn app(&self, name: &str) -> Option<&Listed> {
        self.apps.get(name)
    }
}

impl Listed {
    /// Whether the key is one of the app's. All are compared, so that the time taken does not tell
    /// which.
    pub fn knows(&self, key: &KeyHash) -> bool {
        self.keys.iter().fold(false, |known, other| known | other.matches(key))
    }
}
