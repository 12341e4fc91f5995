//! What an app has learned, as something that goes from one app to another, or is given up.

use super::{App, State};
use crate::settings::AppSettings;

/// Why a model cannot be taken over, as a sentence.
pub type Unusable = String;

impl App {
    /// The app of a model that [`App::freeze_model`] gave, if it fits an app of these settings.
    pub fn of_model(mut bytes: &[u8], settings: &AppSettings) -> Result<Self, Unusable> {
        let state = State::load(&mut bytes).map_err(|why| format!("this is no model: {why}"))?;
        let mut apps = state.apps.into_values();
        let (Some(app), None) = (apps.next(), apps.next()) else {
            return Err("this is no model of one app".to_owned());
        };
        let (found, expected) = (app.settings(), settings);
        if found.policy != expected.policy || found.dim != expected.dim {
            return Err(format!(
                "this is a model of policy `{}` with {} features; this app has policy `{}` with {}",
                found.policy, found.dim, expected.policy, expected.dim
            ));
        }
        Ok(app)
    }

    /// Gives up all that was learned, or takes over what another app has learned. Decisions that wait
    /// go on waiting.
    pub(super) fn replace_model(&mut self, model: Option<&[u8]>) -> Result<(), String> {
        let Some(bytes) = model else {
            self.policy = self.settings.build().map_err(|why| why.to_string())?;
            self.effects = Default::default();
            self.imitator = Default::default();
            return Ok(());
        };
        let mut other = Self::of_model(bytes, &self.settings)?;
        let made = other.policy_for(&self.settings).map_err(|why| why.to_string())?;
        self.policy = made.unwrap_or(other.policy);
        self.users = other.users;
        self.seen = other.seen;
        self.imitator = other.imitator;
        // What was learned is about these vectors.
        if self.encoder.is_some() && other.encoder.is_some() {
            self.settings.features = other.settings.features;
            self.encoder = other.encoder;
            self.effects = other.effects;
            self.catalogue.forget_index();
        }
        let (users, seen, now_ms) = (&mut self.users, &mut self.seen, self.now_ms);
        let mut full = false;
        self.decisions.renumber(|user| {
            let number = users.find_or_add(user);
            full |= number.is_none();
            let number = number.unwrap_or_default();
            seen.touch(number, now_ms);
            number as u32
        });
        if full { Err("there are 2^32 users".to_owned()) } else { Ok(()) }
    }
}
