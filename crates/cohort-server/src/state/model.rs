//! What an app has learned, as something that goes from one app to another, or is given up.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use super::saved::FrozenState;
use super::{App, State};
use crate::settings::AppSettings;

/// Why a model cannot be taken over, as a sentence.
pub type Unusable = String;

/// A model as bytes, and what was read of them by whoever has time for that.
pub struct Model {
    /// As they are written down.
    bytes: Vec<u8>,
    read: Result<Box<App>, Unusable>,
}

impl Model {
    /// Reads what [`App::freeze_model`] gave: as long as that takes nobody should wait.
    pub fn read(bytes: Vec<u8>) -> Self {
        let read = App::read_model(&bytes).map(Box::new);
        Self { bytes, read }
    }

    /// How long it is.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Its bytes, and what they are, if it fits an app of these settings.
    pub fn that_fits(self, settings: &AppSettings) -> Result<(Vec<u8>, Box<App>), Unusable> {
        let read = self.read?;
        read.expect_fits(settings)?;
        Ok((self.bytes, read))
    }
}

impl App {
    /// What it has learned, to be written later and elsewhere: nothing of its keys, of decisions that wait and of its
    /// catalogue, which nobody takes over from it.
    pub fn freeze_model(&mut self, name: &str) -> io::Result<FrozenState> {
        let mut app = self.freeze()?;
        app.keys.clear();
        app.decisions.clear();
        app.items = Arc::default();
        app.described = Arc::default();
        app.attributes = Arc::default();
        app.learning.dialect.clear();
        let apps = vec![(name.to_owned(), app)];
        Ok(FrozenState { last_event: 0, deleted: BTreeSet::new(), apps })
    }

    fn read_model(mut bytes: &[u8]) -> Result<Self, Unusable> {
        let state = State::load(&mut bytes).map_err(|why| format!("this is no model: {why}"))?;
        let mut apps = state.apps.into_values();
        match (apps.next(), apps.next()) {
            (Some(app), None) => Ok(app),
            _ => Err("this is no model of one app".to_owned()),
        }
    }

    fn expect_fits(&self, expected: &AppSettings) -> Result<(), Unusable> {
        let found = self.settings();
        if found.policy != expected.policy || found.dim != expected.dim {
            return Err(format!(
                "this is a model of policy `{}` with {} features; this app has policy `{}` with {}",
                found.policy, found.dim, expected.policy, expected.dim
            ));
        }
        Ok(())
    }

    /// What the bytes of the model are that comes next: it need not be read again.
    pub(crate) fn expect_model(&mut self, model: Box<App>) {
        self.next_model = Some(model);
    }

    /// What was given up for a model that was [expected](App::expect_model), to be freed where nobody waits.
    pub(crate) fn take_replaced(&mut self) -> Option<Box<App>> {
        self.next_model.take()
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
        let next = self.next_model.take();
        let was_read = next.is_some();
        let mut other = match next {
            Some(read) => read,
            None => Box::new(Self::read_model(bytes)?),
        };
        other.expect_fits(&self.settings)?;
        let made = other.policy_for(&self.settings).map_err(|why| why.to_string())?;
        std::mem::swap(&mut self.policy, &mut other.policy);
        if let Some(mut made) = made {
            std::mem::swap(&mut self.policy, &mut made);
        }
        std::mem::swap(&mut self.users, &mut other.users);
        std::mem::swap(&mut self.seen, &mut other.seen);
        std::mem::swap(&mut self.imitator, &mut other.imitator);
        // What was learned is about these vectors.
        if self.encoder.is_some() && other.encoder.is_some() {
            std::mem::swap(&mut self.settings.features, &mut other.settings.features);
            std::mem::swap(&mut self.encoder, &mut other.encoder);
            std::mem::swap(&mut self.effects, &mut other.effects);
            self.catalogue.give_index(&mut other.catalogue);
        }
        if was_read {
            self.next_model = Some(other);
        }
        let (users, mut full) = (&mut self.users, false);
        let those = self.decisions.renumber(|user| {
            let number = users.find_or_add(user);
            full |= number.is_none();
            number.unwrap_or_default() as u32
        });
        for user in those {
            self.seen.touch(user as usize, self.now_ms);
        }
        if full { Err("there are 2^32 users".to_owned()) } else { Ok(()) }
    }
}
